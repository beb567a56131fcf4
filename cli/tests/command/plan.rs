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

/// The layers' sizes in a plan.
fn layers(plan: &serde_json::Value) -> Vec<u64> {
    let layers = plan["layers"].as_array().expect("a list").iter();
    layers
        .map(|layer| layer["capacity"].as_u64().expect("a number"))
        .collect()
}

fn planned(lab: &Lab, line: &str) -> serde_json::Value {
    let args: Vec<_> = ["plan", "--json", "--kind", "scalable"]
        .into_iter()
        .chain(line.split(' '))
        .collect();
    json(&lab.run(&args).expect(0))
}

#[test]
fn a_store_that_grows_is_planned_in_layers() {
    let lab = Lab::new();
    let first = 1 << 20;
    let plan = planned(&lab, "--capacity 7340032 --fpr 1e-6");
    assert_eq!(layers(&plan), [first, 2 * first, 4 * first]);
    assert!(plan["k"].is_null());
    let sum = |field: &str| -> u64 {
        let layers = plan["layers"].as_array().expect("a list").iter();
        layers
            .map(|layer| layer[field].as_u64().expect("a number"))
            .sum()
    };
    for field in ["pages", "bytes"] {
        assert_eq!(plan[field].as_u64(), Some(sum(field)), "{field}");
    }
    // One more key takes a layer more. So does a store.
    let plan = planned(&lab, "--capacity 7340033 --fpr 1e-6");
    assert_eq!(layers(&plan).len(), 4);
    let rate = plan["fpr"].as_f64().expect("a number");
    assert!(rate > 0.0 && rate < 1e-6, "{rate}");

    let text = lab.run(&[
        "plan",
        "--kind",
        "scalable",
        "--capacity",
        "1e9",
        "--fpr",
        "1e-6",
    ]);
    let text = String::from_utf8(text.expect(0)).expect("text");
    assert!(text.contains("layers        10, "), "{text}");
    assert!(text.contains(", 1e-6 at most\n"), "{text}");
    // The table has a line for each.
    assert_eq!(text.lines().skip_while(|line| !line.is_empty()).count(), 12);
}

#[test]
fn the_layers_of_a_plan_are_those_of_a_store() {
    let lab = Lab::new();
    let plan = planned(&lab, "--capacity 10 --fpr 1e-4");
    lab.run(&["create", "store", "--kind", "scalable", "--fpr", "1e-4"])
        .expect(0);
    lab.run_on(&["add", "store"], b"one\n").expect(0);
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    for field in ["capacity", "pages", "k"] {
        assert_eq!(
            info["layers"][0][field], plan["layers"][0][field],
            "{field}"
        );
    }
}

#[test]
fn any_two_of_three_plan_a_store_that_grows() {
    let lab = Lab::new();
    let asked = planned(&lab, "--capacity 3e6 --fpr 1e-5");
    let bytes = asked["bytes"].as_u64().expect("a number");
    // As exact as the size allows: not worse than what takes no more.
    let plan = planned(&lab, &format!("--capacity 3e6 --size {bytes}"));
    assert!(plan["bytes"].as_u64() <= Some(bytes), "{plan}");
    assert!(plan["fpr"].as_f64() <= asked["fpr"].as_f64(), "{plan}");
    // As many keys as fill the layers that fit.
    let plan = planned(&lab, &format!("--fpr 1e-5 --size {bytes}"));
    assert_eq!(plan["bytes"].as_u64(), Some(bytes));
    assert_eq!(plan["capacity"], 3 << 20);
    let plan = planned(&lab, &format!("--fpr 1e-5 --size {}", bytes - 1));
    assert_eq!(plan["capacity"], 1 << 20);

    let refused = |line: &str, said: &str| {
        let args: Vec<_> = ["plan", "--kind", "scalable"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        lab.run(&args).expect_error(said);
    };
    refused("--capacity 3e6", "give two of --capacity, --fpr and --size");
    refused(
        "--capacity 3e6 --bits-per-key 30",
        "--bits-per-key differs from layer to layer",
    );
    refused(
        "--capacity 3e6 --fpr 1e-5 --foldable 2",
        "--foldable is for stores of fixed size",
    );
    refused("--capacity 3e6 --size 4096", "4096 bytes are too few, ");
    refused("--fpr 1e-6 --size 4096", "4096 bytes are too few, ");
    refused("--capacity 1e18 --fpr 1e-6", "keeps its rate up to");
}

#[test]
fn a_store_that_forgets_is_planned_from_what_comes() {
    let lab = Lab::new();
    let planned = |line: &str| {
        let args: Vec<_> = ["plan", "--json"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        json(&lab.run(&args).expect(0))
    };
    let plan = planned("--forget-after 30d --keys-per-day 1M --grows-to 1e9 --fpr 1e-6");
    let forgets = &plan["forgetting"];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    assert_eq!(number(&forgets["after"]), 2_592_000.0);
    assert_eq!([&forgets["steps"], &forgets["age_bits"]], [15, 4]);
    assert_eq!(forgets["keys_in_window"], 30_000_000);
    // Two days more are in the file, of which one's keys are seen no longer.
    assert_eq!(forgets["steady"]["keys"], 36_000_000);
    assert_eq!(number(&forgets["steady"]["fpr"]), 32e6 / 1e15);
    let quarters = forgets["first_window"].as_array().expect("a list");
    let keys: Vec<_> = quarters.iter().map(|fill| &fill["keys"]).collect();
    assert_eq!(keys, [7_500_000, 15_000_000, 22_500_000, 30_000_000]);
    // Ages take four bits more than a store without them.
    let kept = planned("--kind fingerprint --grows-to 1e9 --fpr 1e-6");
    assert!(kept["forgetting"].is_null());
    for at in 0..4 {
        let (fill, other) = (&plan["fills"][at], &kept["fills"][at]);
        let more = number(&fill["bits_per_key"]) - number(&other["bits_per_key"]);
        assert_eq!(fill["keys"], other["keys"]);
        assert!((3.99..4.04).contains(&more), "{more}");
    }
    let hourly = planned("--forget-after 30d --keys-per-hour 1000 --forget-steps 16");
    assert_eq!(hourly["forgetting"]["keys_per_day"], 24_000);
    assert_eq!(hourly["forgetting"]["age_bits"], 5);
    // What `create` takes where no limit is given.
    assert_eq!(hourly["capacity"], 1_u64 << 36);

    let text = lab.run(&["plan", "--forget-after", "1h", "--keys-per-hour", "1e6"]);
    let text = String::from_utf8(text.expect(0)).expect("text");
    assert!(
        text.contains("forgets       keys 1h after they were added, or up to 4m later\n"),
        "{text}"
    );
    assert!(
        text.contains("1,000,000 come in that time; about 1,200,000 in the file, 20 % more\n"),
        "{text}"
    );
    assert_eq!(text.lines().skip_while(|line| !line.is_empty()).count(), 6);
}

#[test]
fn plans_of_stores_that_forget_need_what_comes() {
    let lab = Lab::new();
    let refused = |line: &str, said: &str| {
        let args: Vec<_> = ["plan"].into_iter().chain(line.split(' ')).collect();
        let ran = lab.run(&args);
        assert!(
            ran.code == Some(2) && ran.err.contains(said),
            "{line}: {}",
            ran.err
        );
    };
    refused(
        "--forget-after 30d",
        "needs --keys-per-day or --keys-per-hour",
    );
    refused("--keys-per-day 5", "--forget-after");
    refused("--forget-steps 5 --capacity 5 --fpr 0.1", "--forget-after");
    refused(
        "--forget-after 30d --keys-per-day 5 --keys-per-hour 5",
        "cannot be used with",
    );
    refused(
        "--forget-after 30d --keys-per-day 5 --forget-steps 256",
        "256",
    );
    refused(
        "--forget-after 30d --keys-per-day 5 --kind bloom",
        "only kind fingerprint forgets",
    );
    refused(
        "--forget-after 30d --keys-per-day 5 --size 5M",
        "--size follows from the keys",
    );
    refused(
        "--forget-after 30d --keys-per-day 1M --grows-to 33M",
        "more keys come in that time",
    );
    refused(
        "--forget-after 30d --keys-per-day 1e30",
        "whole number below 2^64",
    );
    refused(
        "--forget-after 30d --keys-per-day 5 --grows-to 1e12 --fpr 2e-7",
        "the ages leave too few bits",
    );
    // That limit is one that `create` takes, and refuses with ages.
    lab.run(&[
        "plan",
        "--kind",
        "fingerprint",
        "--grows-to",
        "1e12",
        "--fpr",
        "2e-7",
    ])
    .expect(0);
    let create = [
        "create",
        "s",
        "--forget-after",
        "30d",
        "--grows-to",
        "1e12",
        "--fpr",
        "2e-7",
    ];
    lab.run(&create).expect_error("");
}
