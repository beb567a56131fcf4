use fastrand::Rng;

use super::super::tests::{finder, quoted, text, value, written};
use super::super::{BYTE_ORDER_MARK, Finder, JsonError, walk};
use super::*;

/// Finds the key of a record, and returns whether its shape was known.
fn find(finder: &mut Finder, record: &[u8]) -> (Result<Vec<u8>, JsonError>, bool) {
    let bare = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
    let mut places = vec![None; finder.names.len()];
    let is_known = finder.shapes.clone().find(&finder.root, bare, &mut places);
    if is_known {
        let mut walked = vec![None; finder.names.len()];
        let shown = record.escape_ascii();
        walk::find(&finder.root, bare, &mut walked).unwrap_or_else(|error| {
            panic!("{shown} was found, but {error}");
        });
        assert_eq!(places, walked, "{shown}");
    }
    (finder.find(record).map(<[u8]>::to_vec), is_known)
}

/// Finds the key as if no record came before.
fn alone(finder: &Finder, record: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut finder = finder.clone();
    finder.shapes = Shapes::default();
    finder.find(record).map(<[u8]>::to_vec)
}

/// Where records come from: which members they have, and how they are written.
struct Source {
    names: Vec<String>,
    comma: &'static str,
    colon: &'static str,
}

impl Source {
    fn new(random: &mut Rng) -> Self {
        let names = (0..random.usize(1..8)).map(|_| match random.u8(..4) {
            0 => text(random),
            1 => "k".to_owned(),
            2 => "m".to_owned(),
            _ => "a".to_owned(),
        });
        Source {
            names: names.collect(),
            comma: [",", ", ", " ,\t"][random.usize(..3)],
            colon: [":", ": ", " : "][random.usize(..3)],
        }
    }

    /// A record of this source, in which few things are out of the ordinary.
    fn record(&self, random: &mut Rng) -> Vec<u8> {
        let mut json = "{".to_owned();
        for name in &self.names {
            if random.u8(..20) == 0 {
                continue;
            }
            if json.len() > 1 {
                json.push_str(self.comma);
            }
            match random.u8(..40) {
                0 => quoted(name, random, &mut json),
                _ => json.push_str(&format!("{name:?}")),
            }
            json.push_str(self.colon);
            if name == "m" && random.u8(..10) > 0 {
                // One level deeper, often of the same shape.
                json.push_str(["{\"k\":", "{\"x\":1,\"k\":"][random.usize(..2)]);
                self.value(random, &mut json);
                json.push('}');
            } else {
                self.value(random, &mut json);
            }
        }
        json.push_str(["}", "}", "}", "} ", "}\r", " }"][random.usize(..6)]);
        let mut record = json.into_bytes();
        if random.u8(..8) == 0 {
            damage(&mut record, random);
        }
        record
    }

    fn value(&self, random: &mut Rng, json: &mut String) {
        match random.u8(..6) {
            0 | 1 => json.push_str(["true", "20", "200", "\"usual\""][random.usize(..4)]),
            2 => json.push_str(&format!("{:e}", random.f64() * 1e9)),
            3 => quoted(&text(random), random, json),
            4 => written(&value(random, 2), random, json),
            _ => json.push_str(&random.u32(..).to_string()),
        }
    }
}

/// Cuts a record, or changes, adds or removes a byte.
fn damage(record: &mut Vec<u8>, random: &mut Rng) {
    let at = random.usize(..record.len());
    let byte = b"{}[]\",:\\ \xff\x01\t0a-.e"[random.usize(..17)];
    match random.u8(..4) {
        0 => record.truncate(at),
        1 => record[at] = byte,
        2 => record.insert(at, byte),
        _ => drop(record.remove(at)),
    }
}

#[test]
fn finds_what_the_walk_finds() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let (mut known, mut broken, mut missing) = (0, 0, 0);
    let asked: [&[&str]; 5] = [&["k"], &["m.k"], &["k", "m.k"], &["a", "/"], &["m.k.0"]];
    for _ in 0..600 {
        let mut finder = finder(asked[random.usize(..asked.len())]);
        let sources = [Source::new(&mut random), Source::new(&mut random)];
        let one_in = random.usize(1..30);
        for round in 0..random.usize(1..150) {
            let source = &sources[usize::from(random.usize(..one_in) == 0)];
            let record = source.record(&mut random);
            let expected = alone(&finder, &record);
            let (found, is_known) = find(&mut finder, &record);
            let shown = record.escape_ascii();
            assert_eq!(found, expected, "round {round}: {shown}");
            known += usize::from(is_known);
            broken += usize::from(matches!(
                found,
                Err(JsonError::NotJson { .. } | JsonError::CutShort)
            ));
            missing += usize::from(matches!(found, Err(JsonError::Missing { .. })));
        }
    }
    assert!(
        known > 5_000 && broken > 1_000 && missing > 1_000,
        "{known} known, {broken} broken, {missing} missing"
    );
}

#[test]
fn what_the_parser_refuses_is_refused_in_a_known_shape() {
    let mut finder = finder(&["k"]);
    for record in [
        r#"{"a":20,"k":"x","n":null}"#,
        r#" {"a":20,"k":"x"}"#,
        r#"{"a":20, "k": "x" , "n" : null } "#,
    ] {
        let (found, is_known) = find(&mut finder, record.as_bytes());
        assert_eq!((found, is_known), (Ok(b"x".to_vec()), false));
        assert!(find(&mut finder, record.as_bytes()).1, "{record}");
    }
    for record in [
        r#"{"a":200,"k":"x","n":null}"#,
        r#"{"a":20,"k":"x"}"#,
        r#"{"k":"x"}"#,
        r#"{"a":[{"k":1}],"k":"x","n":{"a":20}}   "#,
        r#" {"a": 7 ,"k":"x","n":"\ud800"}"#,
        r#"{"a":20,"a":20,"k":"y","k":"x"}"#,
    ] {
        let (found, _) = find(&mut finder, record.as_bytes());
        assert_eq!(found, Ok(b"x".to_vec()), "{record}");
    }
    for record in [
        &br#"{"a":20 {"a":20,"k":"x"}"#[..],
        br#"{"a":20,"k":"x","n":null}}"#,
        br#"{"a":20,"k":"x","n":null} {"a":20,"k":"x"}"#,
        br#"{"a":20,"k":"x","n":nul}"#,
        br#"{"a":20,"k":"x","n":nulll}"#,
        br#"{"a":020,"k":"x","n":null}"#,
        br#"{"a":20.,"k":"x","n":null}"#,
        br#"{"a":,"k":"x","n":null}"#,
        br#"{"a":20,"k":"x","n":null"#,
        br#"{"a":20,"k":"x","n":null,}"#,
        br#"{,"k":"x","n":null}"#,
        b"{\"a\":20,\"k\":\"x\t\",\"n\":null}",
        b"{\"a\":20,\"k\":\"x\xff\",\"n\":null}",
        b"{\"a\":20,\"k\":\"x\",\"n\":null}\x0c",
        br#","k":"x","n":null}"#,
    ] {
        let shown = record.escape_ascii();
        let expected = alone(&finder, record);
        assert!(expected.is_err(), "{shown}");
        assert_eq!(find(&mut finder, record), (expected, false), "{shown}");
    }
    // As the walk, it doesn't ask whether what is skipped is text.
    let skipped = b"{\"a\":\"\xff\",\"k\":\"x\",\"n\":null}";
    assert_eq!(find(&mut finder, skipped), (Ok(b"x".to_vec()), true));
}

#[test]
fn an_object_that_comes_again_makes_its_values_forgotten() {
    let mut finder = finder(&["m.k"]);
    let twice = br#"{"m":{"k":1},"m":{"k":2}}"#;
    let other = br#"{"m":{"k":1},"m":{"x":2}}"#;
    for record in [&twice[..], other, twice, other] {
        let expected = alone(&finder, record);
        assert_eq!(find(&mut finder, record).0, expected);
    }
    assert!(find(&mut finder, other).1);
    assert!(alone(&finder, other).is_err());
}

#[test]
fn records_that_differ_are_not_tried_for_long() {
    let mut finder = finder(&["k"]);
    let plain = br#"{"k":"x"}"#;
    assert!(!find(&mut finder, plain).1);
    assert!(find(&mut finder, plain).1);
    for number in 0..2 * CREDIT {
        let record = format!(r#"{{"k":"x","{number}":[],"x{number}":0}}"#);
        assert_eq!(find(&mut finder, record.as_bytes()).0, Ok(b"x".to_vec()));
    }
    assert!(finder.shapes.pause > 0);
    assert!(finder.shapes.root.gaps.is_empty());
    let tried = |finder: &mut Finder| find(finder, plain).1;
    let until = (0..2 * PAUSE).find(|_| tried(&mut finder));
    assert!(until.is_some_and(|until| until > PAUSE / 2 && until <= PAUSE + 1));
}

#[test]
fn few_gaps_are_kept() {
    let mut nested = finder(&["m.k"]);
    for number in 0..2_000 {
        let members: String = (0..40).map(|at| format!(r#""{number}-{at}":0,"#)).collect();
        let spaces = " ".repeat(number % 300);
        let record = format!(r#"{{{spaces}"m":{{{members}"k":1}},{members}"a":2}}"#);
        assert_eq!(find(&mut nested, record.as_bytes()).0, Ok(b"1".to_vec()));
        // Most are of a shape that stays known.
        for _ in 0..4 {
            let usual = br#"{"m":{"k":1}}"#;
            assert_eq!(find(&mut nested, usual).0, Ok(b"1".to_vec()));
        }
        assert!(gaps(&nested.shapes.root) + nested.shapes.room <= MOST_GAPS);
    }
    assert_eq!(nested.shapes.room, 0);
    // Nor is any of an object with many members.
    let members = "\"x\":0,".repeat(MOST_GAPS);
    let mut finder = finder(&["k"]);
    for _ in 0..2 {
        let record = format!(r#"{{{members}"k":1}}"#);
        let found = find(&mut finder, record.as_bytes());
        assert_eq!(found, (Ok(b"1".to_vec()), false));
        assert_eq!(gaps(&finder.shapes.root), 0);
    }
}

/// How many gaps there are, in what is deeper too.
fn gaps(shape: &Shape) -> usize {
    let deeper = shape.gaps.iter().map(|gap| match &gap.then {
        Then::Object(_, shape) => gaps(shape),
        _ => 0,
    });
    shape.gaps.len() + deeper.sum::<usize>()
}

/// The slow twin is the parser.
#[test]
fn a_length_that_is_seen_at_once_is_that_of_the_parser() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut seen = 0;
    for _ in 0..200_000 {
        let mut json = String::new();
        match random.u8(..4) {
            0 => quoted(&text(&mut random), &mut random, &mut json),
            1 => json = format!("\"{}\"", "plain \u{e9}/".repeat(random.usize(..9))),
            2 => json = (f64::from(random.u32(..)) / 64.0).to_string(),
            _ => json = format!("{:e}", random.f64()),
        }
        let mut record = json.into_bytes();
        if random.u8(..4) == 0 {
            damage(&mut record, &mut random);
        }
        record.extend_from_slice([&b","[..], b"}", b" ", b", \"k\": 1}", b""][random.usize(..5)]);
        if let Some(length) = plain_length(&record) {
            seen += 1;
            // Behind a value that it takes for whole, the parser looks for white space or punctuation, as a gap begins with.
            let whole = &record[..length];
            assert_eq!(
                parsed_length(whole),
                Some(length),
                "{}",
                record.escape_ascii()
            );
            if matches!(record.get(length), Some(b',' | b'}' | b' ')) {
                assert_eq!(
                    parsed_length(&record),
                    Some(length),
                    "{}",
                    record.escape_ascii()
                );
            }
        }
    }
    assert!(seen > 50_000, "{seen}");
}

#[test]
fn these_lengths_are_seen_at_once() {
    for (text, length) in [
        (&b"\"a\",1"[..], Some(3)),
        (b"\"\"}", Some(2)),
        (b"\"\xff\" ", Some(3)),
        (b"\"a\\\"b\\\\\",", Some(8)),
        (b"\"\\u0061\",", None),
        (b"\"\\x\",", None),
        (b"\"a\\", None),
        (b"\"a\nb\",", None),
        (b"\"a", None),
        (b"\"", None),
        (b"120,", Some(3)),
        (b"0.50}", Some(4)),
        (b"0,", Some(1)),
        // The gap behind it is none, so the parser reads the record and refuses it.
        (b"01,", Some(1)),
        (b"1.,", None),
        (b"1.5e3,", None),
        (b"1E3,", None),
        (b"12", None),
        (b"-1,", None),
        (b" 1,", None),
        (b"", None),
    ] {
        assert_eq!(plain_length(text), length, "{}", text.escape_ascii());
    }
}
