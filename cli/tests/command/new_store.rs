//! `dedup` creates the store that its options describe, and says so where there is another one already.

use crate::support::{Lab, distinct_lines, json};

#[test]
fn the_options_describe_the_store_that_dedup_creates() {
    for (options, kind, capacity, transactional) in [
        (&[][..], "fingerprint", Some(1 << 36), true),
        (&["--fpr", "1e-4"], "fingerprint", Some(1 << 36), true),
        (
            &["--grows-to", "1e9"],
            "fingerprint",
            Some(1_000_000_000),
            true,
        ),
        (&["--kind", "scalable"], "scalable", None, true),
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
        // The same words do no harm the next time, whether they were needed or not, and nobody complains of them.
        let again = lab.run_on(&args, &input);
        assert_eq!(again.err, "", "{options:?}");
        assert_eq!(again.expect(0), b"", "{options:?}");
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
    // What asks for less is told that it gets more.
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
    let ran = lab.run_on(&args, b"a\n");
    assert_eq!(
        ran.err,
        "everseen: warning: store was created with --capacity 5000; --capacity 10 has no effect\n\
         everseen: warning: store was created with --fpr 1e-4; --fpr 1e-3 has no effect\n"
    );
    assert_eq!(ran.expect(0), b"a\n");
    let quiet = lab.run_on(&[&args[..], &["-q"]].concat(), b"b\n");
    assert_eq!(quiet.err, "");
    assert_eq!(quiet.expect(0), b"b\n");
}

/// Elsewhere the dash is a stream; a file of that name would be taken for one.
#[test]
fn a_dash_names_no_store_and_no_output() {
    let lab = Lab::new();
    for (args, argument) in [
        (&["dedup", "-"][..], "<STORE>"),
        (&["create", "-"], "<STORE>"),
        (&["info", "-"], "<STORE>"),
        (&["union", "-", "store"], "<OUT>"),
        (&["union", "store", "-"], "[STORE]..."),
        (&["dedup", "-o", "-", "store"], "--output <FILE>"),
        (&["report", "-o", "-", "store"], "--output <FILE>"),
    ] {
        let ran = lab.run(args);
        assert_eq!(
            ran.err,
            format!(
                "everseen: invalid value '-' for '{argument}': `-` is standard input or output, and this must be a file; for \
                 a file of that name say ./-\n\nFor more information, try '--help'.\n"
            ),
            "{args:?}"
        );
        assert_eq!(ran.code, Some(2), "{args:?}");
    }
    lab.run(&["create", "./-"]).expect(0);
}

#[test]
fn a_capacity_has_no_effect_on_a_store_that_grows() {
    for (options, grows) in [
        (&[][..], "to grow to 68,719,476,736 keys"),
        (&["--kind", "scalable"], "to grow as needed"),
    ] {
        let lab = Lab::new();
        let create = [&["create", "store", "--transactional"], options].concat();
        lab.run(&create).expect(0);
        let ran = lab.run_on(&["dedup", "store", "--capacity", "5"], b"a\n");
        assert_eq!(
            ran.err,
            format!("everseen: warning: store was created {grows}; --capacity 5 has no effect\n")
        );
        assert_eq!(ran.expect(0), b"a\n");
    }
}

/// Wherever an error comes from, its first words are the same.
#[test]
fn errors_of_usage_begin_as_all_others_do() {
    let lab = Lab::new();
    for args in [
        &["--nothing"][..],
        &["nothing"],
        &["dedup"],
        &["dedup", "--fpr", "2", "store"],
        &["dedup", "--url", "--no-url", "store"],
        &["check", "none.ever"],
    ] {
        let ran = lab.run(args);
        assert!(ran.err.starts_with("everseen: "), "{args:?}: {}", ran.err);
        assert!(!ran.err.contains("error:"), "{args:?}: {}", ran.err);
        assert_eq!((ran.code, ran.out.len()), (Some(2), 0), "{args:?}");
    }
    let ran = lab.run(&["dedup", "--nothing", "store"]);
    let first = ran.err.lines().next();
    assert_eq!(
        first,
        Some("everseen: unexpected argument '--nothing' found")
    );
}
