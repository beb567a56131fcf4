//! What commands print as JSON is what docs/json.schema.json and docs/json.md say.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::documents::guides::page;
use crate::support::{Lab, Ran, distinct_lines, json};

fn schema() -> Value {
    json(page("docs/json.schema.json").as_bytes())
}

/// The rule that a rule refers to.
fn referred<'s>(schema: &'s Value, rule: &Value) -> Option<&'s Value> {
    let name = rule["$ref"].as_str()?.strip_prefix("#/$defs/");
    Some(&schema["$defs"][name.expect("a rule of this schema")])
}

/// The properties that a rule names, itself or through the rule that it refers to.
fn named<'s>(schema: &'s Value, rule: &'s Value) -> BTreeSet<&'s str> {
    let own = rule["properties"].as_object().into_iter().flatten();
    let own = own.map(|(name, _)| name.as_str());
    let further = referred(schema, rule).map(|rule| named(schema, rule));
    own.chain(further.into_iter().flatten()).collect()
}

/// What a value has that the schema does not allow. It knows the keywords that the schema uses, and no other.
fn complaints(schema: &Value, rule: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, said) in rule.as_object().expect("a rule is an object") {
        let is_met = match keyword.as_str() {
            "description" => true,
            "$ref" => {
                let further = referred(schema, rule).expect("a rule");
                found.extend(complaints(schema, further, value, at));
                true
            }
            "anyOf" => {
                let ways = said.as_array().expect("a list").iter();
                let all: Vec<_> = ways.map(|way| complaints(schema, way, value, at)).collect();
                if !all.iter().any(Vec::is_empty) {
                    found.extend(all.into_iter().flatten());
                }
                true
            }
            "type" => match said {
                Value::Array(types) => types.iter().any(|name| is_of_type(value, name)),
                name => is_of_type(value, name),
            },
            "const" => value == said,
            "enum" => said.as_array().is_some_and(|list| list.contains(value)),
            "minimum" => value.is_null() || value.as_f64() >= said.as_f64(),
            "required" => {
                let names = said.as_array().expect("a list").iter();
                let mut names = names.filter_map(Value::as_str);
                value.is_null() || names.all(|name| value.get(name).is_some())
            }
            "additionalProperties" | "unevaluatedProperties" => {
                // The first one doesn't see what another rule names.
                let sees_all = keyword == "unevaluatedProperties" || rule["$ref"].is_null();
                assert!(sees_all && *said == Value::Bool(false), "{at}: {keyword}");
                let known = named(schema, rule);
                let mut has = value.as_object().into_iter().flatten();
                has.all(|(name, _)| known.contains(name.as_str()))
            }
            "properties" => {
                for (name, rule) in said.as_object().expect("an object") {
                    if let Some(value) = value.get(name) {
                        found.extend(complaints(schema, rule, value, &format!("{at}.{name}")));
                    }
                }
                true
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(complaints(schema, said, value, &format!("{at}[{number}]")));
                }
                true
            }
            other => panic!("{at}: this test does not know the keyword {other}"),
        };
        if !is_met {
            found.push(format!("{at}: not {keyword} {said}: {value}"));
        }
    }
    found
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("no type: {other:?}"),
    }
}

#[track_caller]
fn assert_fits(name: &str, value: &Value) {
    let schema = schema();
    let rule = &schema["$defs"][name];
    assert!(rule.is_object(), "no rule for {name}");
    assert_eq!(complaints(&schema, rule, value, name), [""; 0]);
}

/// The one line of JSON on standard error.
#[track_caller]
fn summary(ran: &Ran) -> Value {
    let lines: Vec<_> = ran
        .err
        .lines()
        .filter(|line| line.starts_with('{'))
        .collect();
    assert_eq!(lines.len(), 1, "{}", ran.err);
    json(lines[0].as_bytes())
}

#[test]
fn each_command_prints_what_the_schema_says() {
    let lab = Lab::new();
    lab.write("urls", &distinct_lines(1000));
    lab.write(
        "few",
        b"https://example.org/page/1\nhttp://example.com/\nno url\n",
    );
    lab.run(&[
        "create",
        "counts",
        "--kind",
        "counting",
        "--capacity",
        "2000",
        "--url",
    ])
    .expect(0);
    let args = "create fold --foldable 2 --capacity 100000 --no-sample";
    lab.run(&args.split(' ').collect::<Vec<_>>()).expect(0);
    let args = ["create", "small", "--capacity", "50", "--transactional"];
    lab.run(&args).expect(0);

    lab.run(&["create", "prints", "--kind", "fingerprint"])
        .expect(0);

    let expect = |name: &str, line: &str, code, fields: &[(&str, Value)]| {
        let ran = lab.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
        let value = match ran.out.first() {
            Some(b'{') => json(&ran.out),
            _ => summary(&ran),
        };
        assert_fits(name, &value);
        for (field, expected) in fields {
            assert_eq!(value[field], *expected, "{line}: {field}");
        }
    };
    let is = |number: u64| Value::from(number);
    let done = ("ending", Value::from("done"));
    let new = [
        ("lines", is(1000)),
        ("new", is(1000)),
        ("seen", is(0)),
        done.clone(),
    ];
    let dedup = "dedup --json --kind scalable --url store urls";
    expect("dedup", dedup, 0, &new);
    let seen = [
        ("lines", is(3)),
        ("new", is(2)),
        ("seen", is(1)),
        ("not_urls", is(1)),
    ];
    expect("dedup", "dedup --json --url store few", 0, &seen);
    let full = [
        ("lines", is(50)),
        ("new", is(50)),
        ("ending", Value::from("full")),
    ];
    expect("dedup", "dedup --json small urls", 2, &full);
    let dropped = [("new", is(2)), ("dropped", is(1)), ("not_urls", is(1))];
    expect(
        "add",
        "add --json --url --not-url drop counts few",
        0,
        &dropped,
    );
    let keyless = [("new", is(0)), ("dropped", is(3)), ("no_key", is(3))];
    let records = "dedup --json --json-key url --no-key drop records few";
    expect("dedup", records, 0, &keyless);
    expect("info", "info --json records", 0, &[]);
    let matched = [
        ("matched", is(1000)),
        ("inverted", Value::from(false)),
        done,
    ];
    expect("check", "check --json store urls", 0, &matched);
    let inverted = [("matched", is(0)), ("inverted", Value::from(true))];
    expect("check", "check --json -c -v store urls", 1, &inverted);
    let removed = [("removed", is(2)), ("absent", is(1))];
    expect("remove", "remove --json counts few", 0, &removed);
    expect(
        "exempt",
        "exempt --json fold few",
        0,
        &[("exempted", is(3))],
    );
    let copy = [("path", Value::from("copy")), ("from", Value::Null)];
    expect("snapshot", "snapshot --json store copy", 0, &copy);
    lab.run(&["add", "store", "few"]).expect(0);
    let delta = [("keys", Value::Null), ("path", Value::from("delta"))];
    expect(
        "snapshot",
        "snapshot --json store delta --since copy",
        0,
        &delta,
    );
    lab.run(&["add", "prints", "few"]).expect(0);
    for store in ["store", "counts", "fold", "prints"] {
        expect("info", &format!("info --json {store}"), 0, &[]);
        expect("info", &format!("info --json --pages {store}"), 0, &[]);
        expect("verify", &format!("verify --json {store}"), 0, &[]);
    }
    let made = [("transactional", Value::from(true)), ("capacity", is(5000))];
    expect("create", "create --json --capacity 5k made", 0, &made);
    let made = [("capacity", Value::Null)];
    expect("create", "create --json --kind scalable layers", 0, &made);
    expect("fold", "fold --json fold half --factor 2", 0, &[]);
    expect("union", "union --json both fold fold", 0, &[]);
    let others = "create others --like prints";
    lab.run(&others.split(' ').collect::<Vec<_>>()).expect(0);
    let (common, rest) = ("intersect --json common", "difference --json rest");
    let none = [("keys", is(0))];
    expect("intersect", &format!("{common} prints others"), 0, &none);
    let all = [("keys", is(3))];
    expect("difference", &format!("{rest} prints others"), 0, &all);
    for (command, keys) in [("union", 3), ("intersect", 0), ("difference", 3)] {
        let line = format!("{command} --count --json prints others");
        expect("count", &line, 0, &[("keys", is(keys))]);
    }
    expect(
        "plan",
        "plan --json --capacity 1M --fpr 1e-6 --foldable 1",
        0,
        &[],
    );
    let plan = "plan --json --capacity 1M --fpr 1e-6 --kind scalable";
    expect("plan", plan, 0, &[("k", Value::Null)]);
    let plan = "plan --json --kind fingerprint --grows-to 1G";
    expect(
        "plan",
        plan,
        0,
        &[("k", Value::Null), ("capacity", is(1_000_000_000))],
    );
    expect("repair", "repair --json small", 0, &[]);
    // In the first page.
    let mut bytes = std::fs::read(lab.path("store")).expect("a store");
    bytes[131_072 + 2000] ^= 1;
    lab.write("store", &bytes);
    expect("verify", "verify --json store", 1, &[]);
    expect("repair", "repair --json store", 0, &[]);
}

/// The page has a row for each field, and no row more. Fields that commands share stand there once, as in the schema.
#[test]
fn the_page_says_what_the_schema_says() {
    fn names(rule: &Value, prefix: &str, found: &mut BTreeSet<String>) {
        for (name, rule) in rule["properties"].as_object().into_iter().flatten() {
            // Which command it is, a heading says.
            if rule["const"].is_string() && rule["description"].is_null() {
                continue;
            }
            found.insert(format!("{prefix}{name}"));
            let (inner, dot) = match (&rule["anyOf"][1], &rule["items"]) {
                (Value::Null, Value::Null) => (rule, "."),
                (Value::Null, items) => (items, "[]."),
                (object, _) => (object, "."),
            };
            if inner["properties"].is_object() {
                names(inner, &format!("{prefix}{name}{dot}"), found);
            }
        }
    }
    let schema = schema();
    let page = page("docs/json.md");
    let mut fields = 0;
    for (name, rule) in schema["$defs"].as_object().expect("an object") {
        let mut expected = BTreeSet::new();
        names(rule, "", &mut expected);
        if expected.is_empty() {
            assert!(referred(&schema, rule).is_some(), "{name} has no fields");
            assert!(page.contains(&format!("`{name}`")), "the page lacks {name}");
            continue;
        }
        fields += expected.len();
        let said = rule["description"].as_str().expect("text");
        let start = page.find(&format!("\n\n{said}.\n\n"));
        let rest = &page[start.unwrap_or_else(|| panic!("the page lacks {name}")) + 2..];
        let rows = rest.lines().take_while(|line| !line.starts_with('#'));
        let told: BTreeSet<String> = rows
            .filter_map(|row| row.strip_prefix("| `")?.split_once('`'))
            .map(|(field, _)| field.to_owned())
            .collect();
        assert_eq!(told, expected, "{name}");
    }
    assert!(fields > 120, "too few fields found: {fields}");
}

#[test]
fn a_value_that_does_not_fit_is_noticed() {
    let schema = schema();
    let good = json(
        br#"{"command":"check","ending":"done","lines":1,"no_key":0,"not_urls":0,"dropped":0,"too_long":0,"first_too_long":null,"matched":1,"inverted":false}"#,
    );
    let rule = &schema["$defs"]["check"];
    assert_eq!(complaints(&schema, rule, &good, ""), [""; 0]);
    for (field, value) in [
        ("command", Value::from("dedup")),
        ("ending", Value::from("over")),
        ("lines", Value::from(-1)),
        ("lines", Value::from(1.5)),
        ("inverted", Value::Null),
        ("more", Value::Null),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(!complaints(&schema, rule, &bad, "").is_empty(), "{field}");
    }
    for field in ["lines", "matched"] {
        let mut bad = good.clone();
        bad.as_object_mut().expect("an object").remove(field);
        assert!(!complaints(&schema, rule, &bad, "").is_empty(), "{field}");
    }
}
