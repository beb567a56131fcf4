//! What `create` and the commands that make one store of several make: transactional stores where the kind can be, and
//! what it says of a rate or a size that can't be.

use std::io::{BufRead, BufReader, Write};

use crate::support::{Lab, Ran, json, wait};

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn assert_transactional(lab: &Lab, store: &str, expected: bool) {
    let info = json(&run(lab, &format!("info --json {store}")).expect(0));
    assert_eq!(info["transactional"], expected, "{store}");
}

#[test]
fn stores_are_transactional_where_the_kind_can_be() {
    for (options, expected) in [
        ("", true),
        ("--capacity 5k", true),
        ("--grows-to 5k", true),
        ("--kind scalable", true),
        ("--kind fingerprint --capacity 5k", true),
        ("--kind counting --capacity 5k", false),
        ("--kind counting --capacity 5k --no-transactional", false),
        ("--no-transactional", false),
        ("--capacity 5k --no-transactional", false),
        ("--transactional=no", false),
        ("--transactional", true),
    ] {
        let lab = Lab::new();
        let ran = run(&lab, format!("create store {options}").trim_end());
        assert_eq!(
            ran.err.contains(", transactional, "),
            expected,
            "{}",
            ran.err
        );
        ran.expect(0);
        assert_transactional(&lab, "store", expected);
    }
    let lab = Lab::new();
    let both = run(&lab, "create store --transactional --no-transactional");
    assert_eq!(both.code, Some(2), "{}", both.err);
    run(
        &lab,
        "create store --kind counting --capacity 5 --transactional",
    )
    .expect_error("one handle can't give up a key that two have counted");
    assert!(!lab.path("store").exists());
}

/// What a store that is not transactional refuses: a second run beside the first, and an output file.
#[test]
fn dedup_shares_a_store_of_create_and_writes_to_a_file() {
    let lab = Lab::new();
    run(&lab, "create store --capacity 5k").expect(0);
    let mut child = lab.start(&["dedup", "store"]);
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin.write_all(b"one\n").expect("it reads");
    let mut out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    let second = lab.run_on(&["dedup", "store"], b"two\n");
    assert_eq!(second.expect(0), b"two\n");
    drop(stdin);
    let (status, err) = wait(child);
    assert!(status.success(), "{err}");
    lab.write("input", b"two\nthree\n");
    run(&lab, "dedup -o out store input").expect(0);
    let written = std::fs::read(lab.path("out")).expect("the output");
    assert_eq!(written, b"three\n");
}

#[test]
fn what_is_made_of_transactional_stores_is_transactional() {
    let lab = Lab::new();
    for line in [
        "create mon --capacity 100k --foldable 1",
        "create tue --like mon",
        "create plain --like mon --no-transactional",
        "create also-plain --like plain",
        "create prints",
        "create more-prints --like prints",
    ] {
        run(&lab, line).expect(0);
    }
    assert_transactional(&lab, "tue", true);
    assert_transactional(&lab, "also-plain", false);
    for store in ["mon", "tue", "plain", "also-plain", "prints", "more-prints"] {
        lab.run_on(&["add", store], b"a\nb\n").expect(0);
    }
    for (line, expected) in [
        ("union OUT mon tue", true),
        ("union OUT mon plain", false),
        ("union OUT plain also-plain", false),
        ("union OUT plain also-plain --transactional", true),
        ("union OUT mon tue --no-transactional", false),
        ("fold mon OUT --factor 2", true),
        ("fold mon OUT --factor 2 --no-transactional", false),
        ("fold plain OUT --factor 2", false),
        ("fold plain OUT --factor 2 --transactional", true),
        ("union OUT prints more-prints", true),
        ("intersect OUT prints more-prints", true),
        ("difference OUT prints more-prints", true),
        ("intersect OUT prints more-prints --no-transactional", false),
    ] {
        let _ = std::fs::remove_file(lab.path("made"));
        run(&lab, &line.replace("OUT", "made")).expect(0);
        assert_transactional(&lab, "made", expected);
    }
}

#[test]
fn a_rate_that_no_store_keeps_is_refused_with_the_least() {
    let lab = Lab::new();
    for rate in ["1e-300", "1e-19"] {
        let expected = format!(
            "everseen: a rate of {rate} is out of reach with 1 key: a key is known by its 64-bit hash, and that alone is \
             wrong at a rate of 5.42e-20 when the filter is full; ask for at least twice that rate\n"
        );
        for line in ["create new", "dedup new", "plan --kind fingerprint"] {
            let ran = run(&lab, &format!("{line} --fpr {rate}"));
            assert_eq!((ran.code, &ran.err), (Some(2), &expected), "{line}");
        }
        assert!(!lab.path("new").exists());
    }
}

/// Not that of its first layer, which nobody has asked for.
#[test]
fn a_rate_that_no_growing_store_keeps_is_named_as_it_was_given() {
    let lab = Lab::new();
    let expected = "everseen: a rate of 1e-19 is out of reach for a store that grows from 1 key: a key is known by its 64-bit hash, \
         and that alone is wrong at a rate of 5.42e-20 when the first layer is full, which has a share of the rate; ask for at \
         least 7.23e-19\n";
    let ran = run(&lab, "create new --kind scalable --capacity 1 --fpr 1e-19");
    assert_eq!((ran.code, &*ran.err), (Some(2), expected));
    assert!(!lab.path("new").exists());
    run(
        &lab,
        "create new --kind scalable --capacity 1 --fpr 7.23e-19",
    )
    .expect(0);
    let planned = run(&lab, "plan --kind scalable --capacity 1000 --fpr 1e-300");
    planned
        .expect_error("a rate of 1e-300 is out of reach for a store that grows from 1048576 keys");
}

#[test]
fn a_rate_that_leaves_room_for_few_keys_is_told_of() {
    let lab = Lab::new();
    let warning = "everseen: warning: small: takes 9 keys at most, since a rate of 1e-18 leaves room for no more among 64-bit \
                   hashes; a higher --fpr does\n";
    let ran = run(&lab, "create small --fpr 1e-18");
    assert!(ran.err.ends_with(warning), "{}", ran.err);
    ran.expect(0);
    let ran = run(&lab, "dedup also --fpr 1e-18 /dev/null");
    assert_eq!(ran.err, warning.replace("small", "also"));
    // A limit that was asked for is no surprise.
    for line in ["create asked --grows-to 9 --fpr 1e-18", "create usual"] {
        let ran = run(&lab, line);
        assert!(!ran.err.contains("warning"), "{}", ran.err);
    }
}

#[test]
fn a_rate_below_one_is_not_shown_as_one() {
    let lab = Lab::new();
    let ran = run(&lab, "create store --capacity 1k --fpr 0.999999");
    assert!(ran.err.contains("rate 9.99999e-1, "), "{}", ran.err);
}

#[test]
fn json_tells_what_was_created() {
    let lab = Lab::new();
    let ran = run(
        &lab,
        "create store --capacity 1k --fpr 0.01 --hash xxh3 --json",
    );
    let made = json(&ran.expect(0));
    let length = std::fs::metadata(lab.path("store")).expect("a store").len();
    assert_eq!(made["path"], "store");
    assert_eq!(made["kind"], "bloom");
    assert_eq!(made["hash"], "xxh3");
    assert_eq!(made["transactional"], true);
    assert_eq!(made["capacity"], 1000);
    assert_eq!(made["fpr_target"], 0.01);
    assert_eq!(made["bytes"], length);
    #[cfg(unix)]
    assert!(
        made["disk_free"].as_u64().is_some_and(|free| free > 0),
        "{made}"
    );
}
