//! `plan` works sizes out, and wants just what it takes to.

use crate::support::{Lab, assert_fields, json};

#[test]
fn plan_from_any_two() {
    let lab = Lab::new();
    for args in [
        ["--capacity", "1e6", "--fpr", "1e-6"],
        ["--capacity", "1M", "--bits-per-key", "28.8"],
        ["--capacity", "1_000_000", "--size", "4MiB"],
        ["--fpr", "1e-4", "--size", "4M"],
        ["--bits-per-key", "16", "--size", "4M"],
    ] {
        let plan = json(
            &lab.run(&[&["plan", "--json"], &args[..]].concat())
                .expect(0),
        );
        let fields = [
            "capacity",
            "fpr",
            "bits",
            "bits_per_key",
            "k",
            "pages",
            "bytes",
            "ideal_bits_per_key",
        ];
        assert_fields(&plan, &fields);
        assert!(
            plan["fpr"]
                .as_f64()
                .is_some_and(|fpr| fpr > 0.0 && fpr < 1.0),
            "{plan}"
        );
        let text =
            String::from_utf8(lab.run(&[&["plan"], &args[..]].concat()).expect(0)).expect("text");
        assert!(text.contains("capacity"), "{text}");
    }
    let plan = json(
        &lab.run(&["plan", "--json", "--capacity", "1e6", "--fpr", "1e-6"])
            .expect(0),
    );
    assert_eq!(plan["capacity"], 1_000_000);
    assert!(
        plan["fpr"].as_f64().is_some_and(|fpr| fpr <= 1e-6),
        "{plan}"
    );
}

#[test]
fn plan_wants_two_no_more_no_less() {
    let lab = Lab::new();
    lab.run(&["plan"]).expect_error("give two of");
    lab.run(&["plan", "--capacity", "1M"])
        .expect_error("give two of");
    lab.run(&["plan", "--capacity", "1M", "--fpr", "0.1", "--size", "1G"])
        .expect_error("give two of");
    lab.run(&["plan", "--fpr", "0.1", "--bits-per-key", "8"])
        .expect_error("--capacity or --size");
    lab.run(&["plan", "--capacity", "1e19", "--fpr", "1e-9"])
        .expect_error("rate");
}
