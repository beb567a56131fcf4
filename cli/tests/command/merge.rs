//! `union`, `fold` and the options of `create` and `plan` that make stores fit each other.

use std::fs;

use crate::support::{Lab, assert_fields, json};

/// Lines `from..to`.
fn lines(from: u32, to: u32) -> Vec<u8> {
    (from..to)
        .flat_map(|number| format!("https://example.org/{number}\n").into_bytes())
        .collect()
}

/// What of the lab's files begins so, locks aside.
fn names(lab: &Lab, start: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(lab.path("."))
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(start))
        .collect();
    names.sort();
    names
}

#[test]
fn the_union_of_two_stores_holds_what_both_hold() {
    let lab = Lab::new();
    let size = ["--capacity", "20k", "--fpr", "1e-9"];
    lab.run(&[&["create", "mon"], &size[..]].concat()).expect(0);
    lab.run(&["create", "tue", "--like", "mon"]).expect(0);
    lab.run(&["create", "wed", "--like", "mon", "--times", "4"])
        .expect(0);
    for (store, from) in [("mon", 0), ("tue", 5000), ("wed", 10_000)] {
        lab.run_on(&["add", store], &lines(from, from + 5000))
            .expect(0);
    }
    let ran = lab.run(&["union", "week", "mon", "tue", "wed"]);
    assert!(ran.err.contains("created week: about 1"), "{}", ran.err);
    assert!(ran.expect(0).is_empty());
    let all = lines(0, 15_000);
    assert_eq!(lab.run_on(&["check", "week"], &all).expect(0), all);
    let none = lab.run_on(&["check", "week"], &lines(50_000, 51_000));
    assert_eq!(none.expect(1), b"");
    assert_eq!(names(&lab, "week"), ["week"]);
    lab.run(&["verify", "week"]).expect(0);
    // Of stores that grow in layers, too.
    for (store, from) in [("one", 0), ("two", 5000)] {
        lab.run(&["create", store, "--kind", "scalable"]).expect(0);
        lab.run_on(&["add", store], &lines(from, from + 10))
            .expect(0);
    }
    lab.run(&["union", "both", "one", "two"])
        .expect_error("its seed differs");
    lab.run(&["create", "three", "--like", "one", "--transactional"])
        .expect(0);
    lab.run_on(&["add", "three"], &lines(100, 110)).expect(0);
    let report = json(
        &lab.run(&["union", "--json", "both", "one", "three"])
            .expect(0),
    );
    let fields = [
        "keys",
        "fpr_now",
        "fpr_target",
        "capacity",
        "layers",
        "pages",
        "pages_read",
        "bytes",
    ];
    assert_fields(&report, &fields);
    assert_eq!(
        (&report["keys"], &report["layers"]),
        (&20.into(), &1.into())
    );
    let all = [lines(0, 10), lines(100, 110)].concat();
    assert_eq!(lab.run_on(&["check", "both"], &all).expect(0), all);
}

#[test]
fn a_store_like_another_is_as_transactional() {
    let lab = Lab::new();
    let transactional = |store: &str| {
        let info = json(&lab.run(&["info", "--json", store]).expect(0));
        (info["transactional"] == true, !info["measured"].is_null())
    };
    let create = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        lab.run(&[&["create"], &args[..]].concat()).expect(0);
    };
    for kind in ["scalable", "fingerprint"] {
        let [one, two, three] = ["one", "two", "three"].map(|name| format!("{name}-{kind}"));
        create(&format!("{one} --kind {kind} --transactional --no-sample"));
        create(&format!("{two} --like {one}"));
        assert_eq!(transactional(&two), (true, false));
        create(&format!("{three} --like {one} --transactional=no"));
        assert_eq!(transactional(&three), (false, false));
    }
    create("four --transactional=yes");
    assert_eq!(transactional("four"), (true, true));
}

#[test]
fn a_store_that_was_made_too_large_is_folded() {
    let lab = Lab::new();
    let size = ["--capacity", "200k", "--fpr", "1e-3", "--foldable", "3"];
    lab.run(&[&["create", "large"], &size[..]].concat())
        .expect(0);
    lab.run_on(&["add", "large"], &lines(0, 20_000)).expect(0);
    let before = json(&lab.run(&["info", "--json", "large"]).expect(0));
    let pages = before["layers"][0]["pages"].as_u64().expect("a number");
    assert_eq!(pages % 8, 0);
    let fold = |out, by: &[&str]| lab.run(&[&["fold", "large", out, "--json"], by].concat());
    let report = json(&fold("eighth", &["--factor", "8"]).expect(0));
    assert_eq!(report["pages"], pages / 8);
    assert_eq!(
        (&report["keys"], &report["fpr_target"]),
        (&before["keys"], &1e-3.into())
    );
    let half = (pages / 2).to_string();
    let report = json(&fold("half", &["--pages", &half]).expect(0));
    assert_eq!(report["pages"], pages / 2);
    for store in ["eighth", "half"] {
        let all = lines(0, 20_000);
        assert_eq!(lab.run_on(&["check", store], &all).expect(0), all);
    }
    // Too small to keep the rate, unless that is allowed.
    let all_pages = pages.to_string();
    fold("one", &["--factor", &all_pages]).expect_error("would have a false positive rate of 9");
    assert_eq!(names(&lab, "one"), [""; 0]);
    let report = json(&fold("more", &["--factor", "8", "--fpr", "0.5"]).expect(0));
    assert_eq!(report["fpr_target"], 0.5);
    fold("no", &["--pages", "7"]).expect_error("7 does not divide 96, the number of pages");
    fold("no", &["--factor", "1"]).expect_error("--factor: got 1, expected 2 or more");
    fold("eighth", &["--factor", "2"]).expect_error("already exists");
    lab.run(&["fold", "none", "no", "--factor", "2"])
        .expect_error("no such store");
    assert_eq!(names(&lab, "no"), [""; 0]);
}

#[test]
fn what_does_not_go_together_is_said() {
    let lab = Lab::new();
    for args in [
        &["union", "out"][..],
        &["fold", "store", "out"],
        &["fold", "store", "out", "--factor", "2", "--pages", "3"],
        &["fold", "store", "out", "--factor", "0"],
        &["create", "store", "--like", "other", "--capacity", "5"],
        &["create", "store", "--like", "other", "--foldable", "5"],
        &["create", "store", "--times", "5"],
    ] {
        assert_eq!(lab.run(args).code, Some(2), "{args:?}");
    }
    lab.run(&["create", "store", "--like", "other"])
        .expect_error("other: no such store");
    lab.run(&["create", "store", "--capacity", "5", "--foldable", "21"])
        .expect_error("a store can be made foldable 0 to 20 times, not 21");
    lab.run(&["create", "store", "--kind", "scalable", "--foldable", "2"])
        .expect_error("none for kind scalable");
    lab.run(&["create", "store", "--foldable", "2"])
        .expect_error("none for kind fingerprint");
    assert_eq!(names(&lab, "store"), [""; 0]);
    lab.run(&["create", "store", "--capacity", "5k"]).expect(0);
    lab.run(&[
        "create",
        "large",
        "--capacity",
        "100k",
        "--seed",
        &"00".repeat(32),
    ])
    .expect(0);
    lab.run(&["union", "out", "store", "large"])
        .expect_error("large: can't be merged with store: its seed differs");
    lab.run(&["union", "store", "large"])
        .expect_error("store: already exists");
    lab.run(&["union", "out", "none"])
        .expect_error("none: no such store");
    assert_eq!(names(&lab, "out"), [""; 0]);
}

#[test]
fn a_plan_says_what_is_left_when_it_is_folded() {
    let lab = Lab::new();
    let args = [
        "plan",
        "--capacity",
        "1e6",
        "--fpr",
        "1e-3",
        "--foldable",
        "3",
    ];
    let plan = json(&lab.run(&[&args[..], &["--json"]].concat()).expect(0));
    let pages = plan["pages"].as_u64().expect("a number");
    assert_eq!(pages % 8, 0);
    let folds = plan["folds"].as_array().expect("an array");
    assert_eq!(folds.len(), 3);
    for (level, fold) in (1..).zip(folds) {
        assert_fields(fold, &["factor", "pages", "bytes", "capacity"]);
        assert_eq!(fold["factor"], 1 << level);
        assert_eq!(fold["pages"], pages >> level);
        let keys = fold["capacity"].as_f64().expect("a number");
        let share = keys * f64::from(1 << level) / 1e6;
        assert!((0.98..1.07).contains(&share), "{fold}");
    }
    let text = String::from_utf8(lab.run(&args).expect(0)).expect("text");
    assert_eq!(text.matches("folded by").count(), 3, "{text}");
    let plain = json(
        &lab.run(&["plan", "--json", "--capacity", "1e6", "--fpr", "1e-3"])
            .expect(0),
    );
    assert_eq!(plain["folds"], serde_json::json!([]));
}

/// A signal ends it, and the store that it was making is gone.
#[cfg(unix)]
#[test]
fn a_union_that_is_stopped_leaves_nothing() {
    use rustix::process::{Pid, Signal, kill_process};
    let lab = Lab::new();
    // Pages without keys take no room; to read them takes longer than a signal does.
    let size = ["--capacity", "20e9", "--fpr", "1e-6"];
    lab.run(&[&["create", "large"], &size[..]].concat())
        .expect(0);
    lab.run_on(&["add", "large"], b"one\n").expect(0);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = lab.start(&["union", "out", "large"]);
        while names(&lab, "out").is_empty() {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).expect("the process is there");
        let (status, err) = crate::support::wait(child);
        assert_eq!(status.code(), Some(code), "{err}");
        assert_eq!(err, "everseen: stopped; out was not created\n");
        assert_eq!(names(&lab, "out"), [""; 0]);
    }
    // Killed, it leaves what is plainly not a store, and the next one removes it.
    let mut child = lab.start(&["union", "out", "large"]);
    while names(&lab, "out").is_empty() {
        std::thread::yield_now();
    }
    child.kill().expect("the process is there");
    crate::support::wait(child);
    assert_eq!(names(&lab, "out"), ["out-new"]);
    lab.run(&["info", "out"]).expect_error("no such store");
    lab.run(&["create", "small", "--capacity", "10"]).expect(0);
    lab.run(&["union", "out", "small"]).expect(0);
    assert_eq!(names(&lab, "out"), ["out"]);
}
