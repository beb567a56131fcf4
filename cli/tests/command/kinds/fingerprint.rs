//! Stores of kind fingerprint: created, filled, shown, emptied, planned; and what makes no sense with them.

use crate::support::{Lab, Ran, distinct_lines, json};

/// A command line, with spaces between its words.
fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

fn text(ran: Ran) -> String {
    String::from_utf8(ran.expect(0)).expect("text")
}

/// Of a store that nobody described.
#[test]
fn what_was_printed_once_is_printed_again_when_it_was_removed() {
    let lab = Lab::new();
    let lines = distinct_lines(20_000);
    let dedup = ["dedup", "store"];
    assert!(lab.run_on(&dedup, &lines).expect(0) == lines);
    assert_eq!(lab.run_on(&dedup, &lines).expect(0), b"");
    let info = json(&run(&lab, "info --json store").expect(0));
    assert_eq!(info["kind"], "fingerprint");

    let some = distinct_lines(5_000);
    let ran = lab.run_on(&["remove", "store"], &some);
    assert_eq!(ran.err, "5,000 lines, 5,000 removed, 0 absent\n");
    let ran = lab.run_on(&["remove", "store"], &some);
    assert_eq!(ran.err, "5,000 lines, 0 removed, 5,000 absent\n");
    assert_eq!(lab.run_on(&["check", "store"], &some).expect(1), b"");
    assert!(lab.run_on(&["check", "store"], &lines).expect(0) == lines[some.len()..]);
    assert!(lab.run_on(&["dedup", "store"], &lines).expect(0) == some);
    assert_eq!(text(run(&lab, "verify store")).lines().count(), 1);
}

/// As many lines as a transaction has no room for.
#[test]
fn more_lines_are_removed_than_one_transaction_holds() {
    let lab = Lab::new();
    let lines = distinct_lines(100_000);
    let args = [
        "dedup",
        "--kind",
        "fingerprint",
        "--buffer",
        "1M",
        "-q",
        "store",
    ];
    assert!(lab.run_on(&args, &lines).expect(0) == lines);
    let ran = lab.run_on(&["remove", "--buffer", "1M", "store"], &lines);
    assert_eq!(ran.err, "100,000 lines, 100,000 removed, 0 absent\n");
    assert_eq!(lab.run_on(&["check", "store"], &lines).expect(1), b"");
}

/// It is a set, unlike a counting store.
#[test]
fn a_line_that_was_added_twice_is_removed_once() {
    let lab = Lab::new();
    run(&lab, "create store").expect(0);
    lab.run_on(&["add", "store"], b"a\na\nb\n").expect(0);
    let ran = lab.run_on(&["remove", "store"], b"a\na\nnever\n");
    assert_eq!(ran.err, "3 lines, 1 removed, 2 absent\n");
    assert_eq!(lab.run_on(&["check", "store"], b"a\nb\n").expect(0), b"b\n");
}

#[test]
fn info_tells_of_a_limit_and_of_no_layers() {
    let lab = Lab::new();
    let ran = run(
        &lab,
        "create store --kind fingerprint --grows-to 100k --fpr 1e-4",
    );
    let created = "created store: fingerprint, transactional, grows to 100,000 keys, false-positive rate 1e-4,";
    assert!(ran.err.starts_with(created), "{}", ran.err);
    lab.run_on(&["add", "store"], &distinct_lines(10_000))
        .expect(0);
    run(&lab, "checkpoint store").expect(0);

    let info = json(&run(&lab, "info --json --pages store").expect(0));
    assert_eq!(info["kind"], "fingerprint");
    assert_eq!(info["capacity"], 100_000);
    assert_eq!(info["layers"].as_array().map(Vec::len), Some(0));
    assert_eq!(info["damage"]["pages"], 0);
    // A tenth of the keys, a tenth of the rate.
    let rate = info["fpr_now"].as_f64().expect("a number");
    assert!((0.99e-5..=1e-5).contains(&rate), "{rate}");
    assert_eq!(info["estimate"]["keys"], info["keys"]);

    let shown = text(run(&lab, "info --pages store"));
    for line in [
        "capacity    grows to 100,000 keys\n",
        "kind        fingerprint, transactional\n",
        " keys in pages, fpr ",
        " without free pages)\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("layer"), "{shown}");
    let report = text(run(&lab, "report store"));
    assert!(report.contains("grows to 100,000"));
    for absent in ["Layers", "Map of pages", "Fill of pages"] {
        assert!(!report.contains(absent), "{absent}");
    }
}

#[test]
fn few_new_lines_are_a_run_that_a_full_checkpoint_merges() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], &distinct_lines(20_000))
        .expect(0);
    assert!(text(run(&lab, "info store")).contains("runs        1\n"));
    lab.run_on(&["dedup", "store"], b"new\nnewer\n").expect(0);
    lab.run_on(&["remove", "store"], &distinct_lines(1))
        .expect(0);
    let shown = text(run(&lab, "info store"));
    let row = "runs        2, with 3 changes since the oldest (checkpoint --full makes them one)\n";
    assert!(shown.contains(row), "{shown}");
    let info = json(&run(&lab, "info --json store").expect(0));
    assert_eq!(info["keys"], 20_001);
    let young = &info["runs"][1];
    assert_eq!((&young["added"], &young["removed"]), (&2.into(), &1.into()));
    assert_eq!(info["runs"][0]["added"], 20_000);
    run(&lab, "checkpoint --full store").expect(0);
    let info = json(&run(&lab, "info --json store").expect(0));
    assert_eq!(info["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(info["runs"][0]["added"], 20_001);
}

/// A limit says that the store grows, so nobody has to name the kind.
#[test]
fn a_limit_needs_no_kind() {
    let lab = Lab::new();
    let ran = run(&lab, "create store --grows-to 1e9");
    let created = "created store: fingerprint, transactional, grows to 1,000,000,000 keys,";
    assert!(ran.err.starts_with(created), "{}", ran.err);
    run(&lab, "dedup other --grows-to 100k /dev/null").expect(0);
    for (store, limit) in [("store", 1_000_000_000), ("other", 100_000)] {
        let info = json(&run(&lab, &format!("info --json {store}")).expect(0));
        assert_eq!(info["kind"], "fingerprint");
        assert_eq!(info["capacity"], limit);
    }
}

#[test]
fn damage_is_told_by_page_not_by_layer() {
    let lab = Lab::new();
    let args = ["dedup", "--kind", "fingerprint", "store"];
    lab.run_on(&args, &distinct_lines(100_000)).expect(0);
    run(&lab, "checkpoint store").expect(0);
    let mut bytes = std::fs::read(lab.path("store")).expect("a store");
    bytes[131_072 + 4096 + 2000] ^= 1;
    lab.write("store", &bytes);
    let told = String::from_utf8(run(&lab, "verify store").expect(1)).expect("text");
    assert!(told.contains(", 1 damaged:\n  page "), "{told}");
    assert!(told.contains(": about "), "{told}");
    assert!(!told.contains("layer"), "{told}");
    let report = json(&run(&lab, "verify --json store").expect(1));
    assert_eq!(report["segments"].as_array().map(Vec::len), Some(1));
    assert!(report["segments"][0]["keys"].as_u64() > Some(0), "{report}");
    let info = json(&run(&lab, "info --json --pages store").expect(0));
    assert_eq!(info["damage"]["pages"], 1);
}

#[test]
fn it_takes_as_many_keys_as_its_limit() {
    let lab = Lab::new();
    for (store, option) in [("fixed", "--capacity"), ("growing", "--grows-to")] {
        run(
            &lab,
            &format!("create {store} --kind fingerprint {option} 100"),
        )
        .expect(0);
        let ran = lab.run_on(&["add", "-q", store], &distinct_lines(200));
        ran.expect_error("is full: it was created for 100 keys");
        let info = json(&lab.run(&["info", "--json", store]).expect(0));
        assert_eq!(info["keys"], 100);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let lab = Lab::new();
    for (line, said) in [
        (
            "create new --kind scalable --grows-to 5",
            "--grows-to is for --kind fingerprint",
        ),
        (
            "create new --kind bloom --grows-to 5",
            "--grows-to is for --kind fingerprint",
        ),
        (
            "dedup new --kind scalable --grows-to 5",
            "--grows-to is for --kind fingerprint",
        ),
        (
            "create new --foldable 2",
            "--foldable: got 2, expected none for kind fingerprint",
        ),
        (
            "create new --bits-per-key 20",
            "--bits-per-key: got 20, expected a rate for kind fingerprint",
        ),
        (
            "create new --kind fingerprint --foldable 2",
            "--foldable: got 2, expected none for kind fingerprint",
        ),
        (
            "create new --kind fingerprint --bits-per-key 20",
            "--bits-per-key: got 20, expected a rate for kind fingerprint",
        ),
        (
            "create new --kind fingerprint --grows-to 1e18 --fpr 1e-9",
            "is out of reach with 1000000000000000000 keys",
        ),
        (
            "plan --kind bloom --grows-to 5",
            "--grows-to is for --kind fingerprint",
        ),
        (
            "plan --kind fingerprint --size 1G",
            "--size follows from the keys",
        ),
        (
            "plan --kind fingerprint --bits-per-key 20",
            "--bits-per-key changes with the keys",
        ),
        (
            "plan --kind fingerprint --foldable 1",
            "--foldable is for stores of fixed size",
        ),
    ] {
        run(&lab, line).expect_error(said);
    }
    let both = "create new --kind fingerprint --grows-to 5 --capacity 5";
    assert_eq!(run(&lab, both).code, Some(2));
    assert!(!lab.path("new").exists());

    // What exists is told from what is asked for.
    run(&lab, "create prints --kind fingerprint --grows-to 500").expect(0);
    run(&lab, "create bits --capacity 500").expect(0);
    let said = "already exists and is for 500 keys; leave out --grows-to 501,";
    run(&lab, "dedup prints --grows-to 501").expect_error(said);
    let said = "already exists and is of kind bloom; leave out --grows-to 500,";
    run(&lab, "dedup bits --grows-to 500").expect_error(said);
    let ran = run(&lab, "dedup prints --grows-to 50");
    assert_eq!(
        ran.err,
        "everseen: warning: prints was created to grow to 500 keys; --grows-to 50 has no effect\n"
    );
    for word in ["--grows-to", "--capacity"] {
        let ran = run(&lab, &format!("dedup prints {word} 500"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_plan_shows_the_way_to_the_limit() {
    let lab = Lab::new();
    let plan = json(&run(&lab, "plan --json --kind fingerprint --grows-to 50M").expect(0));
    let fills = plan["fills"].as_array().expect("a list");
    let keys: Vec<_> = fills.iter().map(|fill| fill["keys"].as_u64()).collect();
    assert_eq!(keys, [Some(1_000_000), Some(10_000_000), Some(50_000_000)]);
    let rates: Vec<_> = fills
        .iter()
        .filter_map(|fill| fill["fpr"].as_f64())
        .collect();
    assert!(rates.is_sorted() && rates[2] <= 1e-6, "{rates:?}");
    assert_eq!(fills[2]["bytes"], plan["bytes"]);
    let bits = plan["bits_per_key"].as_f64().expect("a number");
    assert!((21.0..23.0).contains(&bits), "{bits}");
    // Without a limit, that of a store without one.
    let shown = text(run(&lab, "plan --kind fingerprint"));
    assert!(
        shown.contains("capacity      68,719,476,736 keys"),
        "{shown}"
    );
    assert_eq!(
        text(run(&lab, "plan --kind fingerprint --capacity 5"))
            .lines()
            .count(),
        6
    );
}
