use std::fmt::Write;

use fastrand::Rng;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::*;

fn pointer(path: &str) -> Pointer {
    Pointer::parse(path).expect("a path")
}

pub(super) fn finder(paths: &[&str]) -> Finder {
    let pointers: Vec<_> = paths.iter().map(|path| pointer(path)).collect();
    Finder::new(&pointers).expect("they go together")
}

#[track_caller]
fn key(path: &str, record: &str) -> Result<String, JsonError> {
    let mut finder = finder(&[path]);
    let key = finder.find(record.as_bytes())?;
    Ok(String::from_utf8(key.to_vec()).expect("keys are text"))
}

fn missing(name: &str) -> Result<String, JsonError> {
    Err(JsonError::Missing { name: name.into() })
}

#[test]
fn paths_and_pointers_lead_to_values() {
    let record =
        r#"{"a":{"b":["x",{"c":"y"}],"":"e"},"a.b":"dot","/":"slash","~":"t","é":"u","0":"zero"}"#;
    for (path, expected) in [
        ("a.b.0", "x"),
        ("/a/b/0", "x"),
        (".a.b.1.c", "y"),
        ("/a/b/1/c", "y"),
        ("/a/", "e"),
        ("/a.b", "dot"),
        ("/~1", "slash"),
        ("/~0", "t"),
        ("é", "u"),
        ("0", "zero"),
    ] {
        assert_eq!(key(path, record), Ok(expected.to_owned()), "{path}");
    }
    for (path, name) in [
        ("b", "/b"),
        ("a.x", "/a/x"),
        ("a.b.2", "/a/b/2"),
        ("a.b.00", "/a/b/00"),
        ("a.b.+0", "/a/b/+0"),
        ("0.0", "/0/0"),
        ("a.b.1.c.d", "/a/b/1/c/d"),
    ] {
        assert_eq!(key(path, record), missing(name), "{path}");
    }
}

#[test]
fn paths_that_name_nothing_are_refused() {
    let refused = |path: &str| Pointer::parse(path).expect_err("no path");
    let path = |path: &str| path.to_owned();
    assert_eq!(refused(""), PointerError::Empty);
    assert_eq!(refused("."), PointerError::Empty);
    for empty in ["a..b", "a.", "..a"] {
        let expected = PointerError::EmptyName { path: path(empty) };
        assert_eq!(refused(empty), expected);
    }
    for tilde in ["/a~", "/~2", "/a~/b"] {
        let expected = PointerError::Tilde { path: path(tilde) };
        assert_eq!(refused(tilde), expected);
    }
    assert_eq!(refused(&"a".repeat(1025)), PointerError::TooLong);
    assert_eq!(refused(&"/~0".repeat(101)), PointerError::TooLong);
    let both = |paths: &[&str]| {
        let pointers: Vec<_> = paths.iter().map(|path| pointer(path)).collect();
        Finder::new(&pointers).expect_err("they don't go together")
    };
    let within = |path: &str, other: &str| PointerError::Within {
        path: path.to_owned(),
        other: other.to_owned(),
    };
    assert_eq!(both(&[]), PointerError::Empty);
    assert_eq!(
        both(&["a.b", "/a/b"]),
        PointerError::Twice { path: path("/a/b") }
    );
    assert_eq!(both(&["a", "x", "a.b.c"]), within("/a/b/c", "/a"));
    assert_eq!(both(&["a.b.c", "x", "a"]), within("/a/b/c", "/a"));
}

#[test]
fn values_have_these_keys() {
    for (value, expected) in [
        (r#""a\u0062""#, "ab"),
        (r#""""#, ""),
        (r#""\"\\\/\n\u00e9\ud83d\ude00""#, "\"\\/\n\u{e9}\u{1f600}"),
        (r#""1""#, "1"),
        ("1", "1"),
        ("-0", "0"),
        ("0.0", "0"),
        ("-0e99999999999999999999", "0"),
        ("1.0", "1"),
        ("10e-1", "1"),
        ("-12.50", "-12.5"),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("12E-8", "1.2e-7"),
        ("1e39", "1000000000000000000000000000000000000000"),
        ("1e40", "1e+40"),
        ("9007199254740993", "9007199254740993"),
        (
            "340282366920938463463374607431768211456",
            "340282366920938463463374607431768211456",
        ),
        (
            "0.1000000000000000055511151231257827",
            "0.1000000000000000055511151231257827",
        ),
        ("true", "true"),
        ("false", "false"),
        ("[ ]", "[]"),
        ("{ }", "{}"),
        (
            r#" { "b" : [ 1.0 , "\u0041\u0001\/" , null , { } ] , "a" : true , "b\u0000":2, "a": -0 } "#,
            r#"{"a":0,"b":[1,"A\u0001/",null,{}],"b\u0000":2}"#,
        ),
    ] {
        let record = format!(r#" {{"other":[{{"k":1}}], "k" : {value} , "z":0}} "#);
        assert_eq!(key("k", &record), Ok(expected.to_owned()), "{value}");
    }
}

#[test]
fn records_without_a_key_say_why() {
    let name = || "/k".into();
    for (record, expected) in [
        ("", JsonError::CutShort),
        (" ", JsonError::CutShort),
        (r#"{"k":"a","#, JsonError::CutShort),
        (r#"{"k":"a","x":[1"#, JsonError::CutShort),
        ("{}", JsonError::Missing { name: name() }),
        ("[1]", JsonError::Missing { name: name() }),
        ("7", JsonError::Missing { name: name() }),
        ("\"k\"", JsonError::Missing { name: name() }),
        (r#"{"k":null}"#, JsonError::Null { name: name() }),
        (
            r#"{"k":"\ud83d"}"#,
            JsonError::LoneSurrogate { name: name() },
        ),
        (
            r#"{"k":["\ude00"]}"#,
            JsonError::LoneSurrogate { name: name() },
        ),
        (
            r#"{"k":1e99999999999999999999}"#,
            JsonError::ExponentTooLarge { name: name() },
        ),
        (
            r#"{"k":0.1e-9223372036854775808}"#,
            JsonError::ExponentTooLarge { name: name() },
        ),
    ] {
        assert_eq!(key("k", record), Err(expected), "{record}");
    }
    for (record, column) in [
        ("no JSON", 2),
        (r#"{"k":"a"} {"k":"a"}"#, 11),
        (r#"{"k":"a",}"#, 10),
        (r#"{"k":01}"#, 7),
        (r#"{"k":"a","x":nul}"#, 17),
        ("{\"k\":\"a\tb\"}", 7),
    ] {
        let Err(JsonError::NotJson { column: got, what }) = key("k", record) else {
            panic!("{record} has a key");
        };
        assert_eq!(got, column, "{record}: {what}");
        assert!(!what.contains("line"), "{what}");
    }
    let mut finder = finder(&["k"]);
    for record in [&b"{\"k\":\"\xff\"}"[..], b"{\"\xff\":1,\"k\":2}", b"\xff"] {
        let found = finder.find(record);
        assert!(matches!(found, Err(JsonError::NotJson { .. })), "{found:?}");
    }
    // What is skipped is not looked at so closely.
    assert_eq!(
        finder.find(b"{\"k\":1,\"x\":\"\xff\\ud800\"}"),
        Ok(&b"1"[..])
    );
}

#[test]
fn the_last_of_two_members_counts() {
    let record = r#"{"a":{"k":1},"k":1,"a":{"k":2},"k":"x","k":"y"}"#;
    assert_eq!(key("k", record), Ok("y".to_owned()));
    assert_eq!(key("a.k", record), Ok("2".to_owned()));
    for last in ["{}", "1", "[2]", "null"] {
        let record = format!(r#"{{"a":{{"k":1}},"a":{last}}}"#);
        assert_eq!(key("a.k", &record), missing("/a/k"), "{last}");
    }
}

#[test]
fn several_values_make_one_key_that_no_others_make() {
    let mut both = finder(&["b", "a"]);
    let mut of = |record: &str| both.find(record.as_bytes()).map(<[u8]>::to_vec);
    assert_eq!(of(r#"{"a":"bc","b":"a"}"#), Ok(b"1:a,2:bc,".to_vec()));
    assert_eq!(of(r#"{"a":"c","b":"\u0061b"}"#), Ok(b"2:ab,1:c,".to_vec()));
    assert_eq!(of(r#"{"a":"","b":[1, 2]}"#), Ok(b"5:[1,2],0:,".to_vec()));
    assert_eq!(
        of(r#"{"b":1}"#),
        Err(JsonError::Missing { name: "/a".into() })
    );
    assert_eq!(
        of(r#"{"b":null,"a":1}"#),
        Err(JsonError::Null { name: "/b".into() })
    );
}

#[test]
fn deep_and_large_values_end_in_an_error() {
    let deep = "[".repeat(1_000_000);
    let closed = "]".repeat(1_000_000);
    // Where it is skipped, it is whole.
    assert_eq!(
        key("k", &format!(r#"{{"x":{deep}{closed},"k":1}}"#)),
        Ok("1".to_owned())
    );
    assert_eq!(
        key("k", &format!(r#"{{"k":1,"x":{deep}"#)),
        Err(JsonError::CutShort)
    );
    let name = || "/k".into();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| {
            let (open, close) = (open.repeat(levels), close.repeat(levels));
            key("k", &format!(r#"{{"k":{open}[]{close}}}"#)).map(|key| key.len())
        };
        assert_eq!(nested(99), Ok(99 * (open.len() + 1) + 2));
        assert_eq!(nested(100), Err(JsonError::TooDeep { name: name() }));
    }
    let zeros = |count: usize| key("k", &format!(r#"{{"k":[{}0]}}"#, "0,".repeat(count)));
    assert_eq!(
        zeros(LONGEST_CONTAINER / 2 - 2).map(|key| key.len()),
        Ok(LONGEST_CONTAINER - 1)
    );
    let got = LONGEST_CONTAINER + 1;
    assert_eq!(
        zeros(LONGEST_CONTAINER / 2 - 1),
        Err(JsonError::TooLong { name: name(), got })
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_record() {
    assert_eq!(key("k", "\u{feff}{\"k\":\"a\"}"), Ok("a".to_owned()));
}

/// A value with few names, so that members repeat, and without what the parser rounds.
pub(super) fn value(random: &mut Rng, levels: u32) -> Value {
    match random.u8(..if levels == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => random.bool().into(),
        2 => random.i64(..).into(),
        3 => random.i64(-3..3).into(),
        4 => text(random).into(),
        5 => (0..random.usize(..4))
            .map(|_| value(random, levels - 1))
            .collect(),
        _ => {
            let members = (0..random.usize(..5)).map(|_| (text(random), value(random, levels - 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

pub(super) fn text(random: &mut Rng) -> String {
    const SOME: [char; 10] = ['a', 'b', '"', '\\', '/', '\n', '\0', 'é', '\u{1f600}', '~'];
    (0..random.usize(..3))
        .map(|_| SOME[random.usize(..SOME.len())])
        .collect()
}

/// Writes a value with spaces, escapes and the order of members as chance has it.
pub(super) fn written(value: &Value, random: &mut Rng, json: &mut String) {
    let space = |random: &mut Rng, json: &mut String| {
        json.push_str(["", "", " ", "\t\r\n "][random.usize(..4)]);
    };
    space(random, json);
    match value {
        Value::String(text) => quoted(text, random, json),
        Value::Array(items) => {
            json.push('[');
            for (number, item) in items.iter().enumerate() {
                json.push_str(if number > 0 { "," } else { "" });
                written(item, random, json);
            }
            json.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            random.shuffle(&mut members);
            json.push('{');
            for (number, (name, member)) in members.into_iter().enumerate() {
                json.push_str(if number > 0 { "," } else { "" });
                if random.u8(..4) == 0 {
                    // One that doesn't count.
                    quoted(name, random, json);
                    json.push_str(":[0],");
                }
                space(random, json);
                quoted(name, random, json);
                space(random, json);
                json.push(':');
                written(member, random, json);
            }
            json.push('}');
        }
        other => json.push_str(&other.to_string()),
    }
    space(random, json);
}

pub(super) fn quoted(text: &str, random: &mut Rng, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        if random.bool() || character < ' ' || "\"\\".contains(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(json, "\\u{unit:04x}");
            }
        } else {
            json.push(character);
        }
    }
    json.push('"');
}

/// The pointer to one of the values, if chance finds one.
fn chosen(value: &Value, random: &mut Rng) -> Option<String> {
    let (name, behind) = match value {
        Value::Array(items) => {
            let at = random.usize(..items.len().max(1));
            (at.to_string(), items.get(at)?)
        }
        Value::Object(members) => {
            let at = random.usize(..members.len().max(1));
            let (name, behind) = members.iter().nth(at)?;
            (name.replace('~', "~0").replace('/', "~1"), behind)
        }
        _ => return None,
    };
    let deeper = chosen(behind, random).filter(|_| random.bool());
    Some(format!("/{name}{}", deeper.unwrap_or_default()))
}

/// What the finder should find, by a parser that keeps everything.
fn expected(record: &[u8], path: &Pointer) -> Option<String> {
    let value: Value = serde_json::from_slice(record).ok()?;
    match value.pointer(&path.text())? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        // Its members are sorted.
        other => Some(other.to_string()),
    }
}

#[test]
fn finds_what_a_whole_parser_finds() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let (mut found, mut broken) = (0, 0);
    for round in 0..30_000 {
        let value = value(&mut random, 4);
        let mut record = String::new();
        written(&value, &mut random, &mut record);
        let mut record = record.into_bytes();
        if random.u8(..4) == 0 && !record.is_empty() {
            // Cut short, or with another byte.
            let at = random.usize(..record.len());
            match random.bool() {
                true => record.truncate(at),
                false => {
                    record[at] = *b"{}[]\",:x\\ "[random.usize(..10)..]
                        .first()
                        .unwrap_or(&b' ')
                }
            }
        }
        let path = chosen(&value, &mut random).unwrap_or_else(|| {
            (0..random.usize(1..4)).fold(String::new(), |path, _| {
                let name = match random.u8(..3) {
                    0 => random.usize(..3).to_string(),
                    _ => text(&mut random).replace('~', "~0").replace('/', "~1"),
                };
                path + "/" + &name
            })
        });
        let path = Pointer::parse(&path).expect("a pointer");
        let mut finder = Finder::new(std::slice::from_ref(&path)).expect("one");
        let got = finder.find(&record).ok().map(|key| key.to_vec());
        let is_whole = serde_json::from_slice::<Value>(&record).is_ok();
        if !is_whole && serde_json::from_slice::<IgnoredAny>(&record).is_ok() {
            // Not text, in a place that is skipped or not.
            continue;
        }
        let expected = expected(&record, &path).map(String::into_bytes);
        let shown = record.escape_ascii();
        assert_eq!(got, expected, "round {round}: {path} of {shown}");
        found += usize::from(got.is_some());
        broken += usize::from(!is_whole);
    }
    assert!(
        found > 1_000 && broken > 1_000,
        "{found} found, {broken} broken"
    );
}

#[test]
fn equal_numbers_have_one_key_and_others_another() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let of = |text: &str| key("k", &format!("{{\"k\":{text}}}")).expect("a number");
    for _ in 0..20_000 {
        let (digits, exponent) = (random.u64(1..) >> random.u32(..64), random.i32(-60..60));
        if digits == 0 {
            continue;
        }
        let mut spellings = vec![
            format!("{digits}e{exponent}"),
            format!("{digits}0E{}", exponent - 1),
        ];
        spellings.push(format!("{digits}.00e{exponent:+}"));
        let text = digits.to_string();
        spellings.push(format!("0.{text}e{}", exponent + text.len() as i32));
        spellings.push(format!(
            "{}.{}e{}",
            &text[..1],
            text[1..].to_owned() + "0",
            exponent + text.len() as i32 - 1
        ));
        let keys: Vec<_> = spellings.iter().map(|text| of(text)).collect();
        assert!(
            keys.iter().all(|key| *key == keys[0]),
            "{spellings:?}: {keys:?}"
        );
        assert_eq!(of(&keys[0]), keys[0]);
        assert_eq!(of(&format!("-{}", spellings[0])), format!("-{}", keys[0]));
        assert_ne!(of(&format!("{digits}e{}", exponent + 1)), keys[0]);
        assert_ne!(
            of(&format!("{}e{exponent}", u128::from(digits) + 1)),
            keys[0]
        );
    }
    // As JavaScript writes them.
    for _ in 0..20_000 {
        let number = f64::from_bits(random.u64(..));
        if (1e-6..1e21).contains(&number.abs()) {
            assert_eq!(of(&format!("{number:e}")), number.to_string());
        }
    }
}
