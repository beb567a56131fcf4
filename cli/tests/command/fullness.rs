//! How full a store is: `info` tells, and `dedup` and `add` warn in time.

use crate::support::{Lab, distinct_lines, items, json};

/// Some of many different lines.
fn lines(range: std::ops::Range<usize>) -> Vec<u8> {
    let all = distinct_lines(range.end);
    let part = items(b'\n', &all)[range].join(&b'\n');
    [&part[..], b"\n"].concat()
}

const WARNING: &str = "everseen: the store is 95 % full: 950 of 1,000 keys, room for 50 more; create a larger one in time, or \
                       one without a capacity, which grows\n";

#[test]
fn a_store_that_is_nearly_full_is_told_of_once_a_run() {
    for command in ["add", "dedup"] {
        let lab = Lab::new();
        lab.run(&["create", "store", "--capacity", "1000", "--fpr", "1e-8"])
            .expect(0);
        let ran = lab.run_on(&[command, "store"], &lines(0..899));
        assert_eq!(ran.err, "");
        // Several blocks of input, and one warning.
        lab.write("one", &lines(0..900));
        lab.write("two", &lines(899..950));
        let ran = lab.run(&[command, "store", "two", "one", "two", "one"]);
        assert_eq!(ran.err, WARNING);
        // The next run warns again, if anything is to be remembered, even if it isn't new.
        let ran = lab.run(&[command, "store", "one"]);
        assert_eq!(ran.err, WARNING);
        assert_eq!(lab.run_on(&[command, "store"], b"").err, "");
        // One that is full says so instead.
        let ran = lab.run_on(&[command, "store"], &lines(0..2_000));
        let told = "everseen: standard input:1001: the store store is full: it was created for 1,000 keys and has all \
                    lines before this one; create a larger one, or one without a capacity, which grows\n";
        let summary = match command {
            "add" => "1,000 lines, 50 new\n",
            _ => "",
        };
        assert_eq!(ran.err, format!("{summary}{told}"));
        let ran = lab.run_on(&[command, "store"], &lines(0..900));
        assert_eq!(ran.err, "");
    }
}

#[test]
fn info_tells_how_many_more_and_what_the_bits_say() {
    let lab = Lab::new();
    let create = ["create", "store", "--capacity", "20k", "--fpr", "0.001"];
    lab.run(&create).expect(0);
    lab.run_on(&["add", "store"], &lines(0..15_000)).expect(0);
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    let keys = info["keys"].as_u64().expect("a number");
    assert_eq!(
        (&info["key_limit"], &info["keys_left"]),
        (&20_000.into(), &(20_000 - keys).into())
    );
    assert!(info["estimate"].is_null());
    let text = String::from_utf8(lab.run(&["info", "store"]).expect(0)).expect("text");
    assert!(text.contains(", room for 5,0"), "{text}");
    assert!(!text.contains("estimate"), "{text}");

    let info = json(&lab.run(&["info", "--json", "--pages", "store"]).expect(0));
    let estimate = info["estimate"]["keys"].as_u64().expect("a number");
    assert!((14_800..15_200).contains(&estimate), "{estimate}");
    let rates = info["estimate"]["fpr"]
        .as_f64()
        .zip(info["fpr_now"].as_f64());
    let (by_bits, by_count) = rates.expect("numbers");
    assert!(
        (by_bits / by_count - 1.0).abs() < 0.3,
        "{by_bits} {by_count}"
    );
    let text = String::from_utf8(lab.run(&["info", "--pages", "store"]).expect(0)).expect("text");
    assert!(text.contains("estimate    1"), "{text}");
    assert!(text.contains(" by the bits set in pages\n"), "{text}");
}
