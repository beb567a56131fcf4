//! `dedup` creates the store that its options describe, and says so where there is another one already.

use crate::support::{Lab, distinct_lines, json};

#[test]
fn the_options_describe_the_store_that_dedup_creates() {
    for (options, kind, capacity, transactional) in [
        (&[][..], "scalable", None, true),
        (&["--capacity", "5k"], "bloom", Some(5_000), true),
        (
            &["--kind", "scalable", "--capacity", "5k"],
            "scalable",
            None,
            true,
        ),
        (
            &["--kind", "counting", "--capacity", "5k"],
            "counting",
            Some(5_000),
            false,
        ),
        (
            &["--capacity", "5k", "--fpr", "1e-9"],
            "bloom",
            Some(5_000),
            true,
        ),
    ] {
        let lab = Lab::new();
        let input = distinct_lines(1_000);
        let args = [&["dedup", "store"], options].concat();
        assert!(lab.run_on(&args, &input).expect(0) == input, "{options:?}");
        let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
        assert_eq!(info["kind"], kind, "{options:?}");
        assert_eq!(info["capacity"].as_u64(), capacity, "{options:?}");
        assert_eq!(info["transactional"], transactional, "{options:?}");
        // The same words do no harm the next time, whether they were needed or not.
        assert_eq!(lab.run_on(&args, &input).expect(0), b"", "{options:?}");
    }
}

#[test]
fn a_store_that_is_less_than_was_asked_for_is_refused_and_left_alone() {
    let lab = Lab::new();
    let create = "create store --capacity 5000 --fpr 1e-4 --transactional";
    lab.run(&create.split(' ').collect::<Vec<_>>()).expect(0);
    for (options, has, asked) in [
        (["--capacity", "5001"], "for 5,000 keys", "--capacity 5001"),
        (["--fpr", "1e-5"], "of rate ", "--fpr 1e-5"),
        (["--kind", "scalable"], "of kind bloom", "--kind scalable"),
    ] {
        let args = [&["dedup", "store"][..], &options].concat();
        let ran = lab.run_on(&args, b"a\n");
        ran.expect_error(has);
        ran.expect_error(&format!("leave out {asked}, or name another store"));
        assert_eq!(ran.out, b"");
    }
    // What asks for less is content.
    let args = [
        "dedup",
        "store",
        "--capacity",
        "10",
        "--fpr",
        "1e-3",
        "--kind",
        "bloom",
    ];
    assert_eq!(lab.run_on(&args, b"a\n").expect(0), b"a\n");
}
