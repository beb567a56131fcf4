//! `check` and `add`: what is known, and making it so.

mod beside_writers;

use crate::support::{Lab, distinct_lines, first_occurrences, items, repetitive_lines};

#[test]
fn check_prints_what_is_known_and_its_inverse_the_rest() {
    let lab = Lab::new();
    lab.run(&["create", "store"]).expect(0);
    let ran = lab.run_on(&["add", "--stats", "store"], b"a\nb\nb\n");
    assert_eq!(ran.err, "3 lines, 2 new\n");
    assert_eq!(ran.expect(0), b"");
    let input = b"a\nx\nb\nx\na\n\n";
    assert_eq!(
        lab.run_on(&["check", "store"], input).expect(0),
        b"a\nb\na\n"
    );
    assert_eq!(
        lab.run_on(&["check", "-v", "store"], input).expect(0),
        b"x\nx\n\n"
    );
    assert_eq!(
        lab.run_on(&["check", "--invert", "store"], input).expect(0),
        b"x\nx\n\n"
    );
    assert_eq!(
        lab.run_on(&["check", "-0", "store"], b"x\0a").expect(0),
        b"a\0"
    );
}

#[test]
fn check_exits_as_grep_does() {
    let lab = Lab::new();
    lab.run(&["create", "store"]).expect(0);
    lab.run_on(&["add", "store"], b"a\n").expect(0);
    for (args, input, code) in [
        (&["check", "store"][..], &b"a\n"[..], 0),
        (&["check", "store"], b"b\n", 1),
        (&["check", "store"], b"", 1),
        (&["check", "-v", "store"], b"b\n", 0),
        (&["check", "-v", "store"], b"a\n", 1),
    ] {
        lab.run_on(args, input).expect(code);
    }
}

#[test]
fn check_remembers_nothing() {
    let lab = Lab::new();
    lab.run(&["create", "store"]).expect(0);
    for _ in 0..2 {
        assert_eq!(lab.run_on(&["check", "store"], b"a\n").expect(1), b"");
    }
}

#[test]
fn what_dedup_printed_is_known_and_what_add_was_given_too() {
    let lab = Lab::new();
    let input = repetitive_lines(&mut fastrand::Rng::with_seed(5), 20_000);
    let fresh = lab.run_on(&["dedup", "store"], &input).expect(0);
    assert_eq!(lab.run_on(&["check", "store"], &input).expect(0), input);
    assert_eq!(lab.run_on(&["check", "-v", "store"], &input).expect(1), b"");

    lab.run(&["create", "other", "--transactional"]).expect(0);
    let ran = lab.run_on(&["add", "--stats", "other"], &input);
    // Some lines end with a carriage return, which is noticed.
    let summary = ran.err.lines().last().expect("a summary");
    let new = items(b'\n', &first_occurrences(b'\n', &input)).len();
    assert!(summary.starts_with("20,000 lines, "), "{summary}");
    let plain = summary.replace(',', "");
    assert_eq!(plain, format!("20000 lines {new} new"));
    assert_eq!(lab.run_on(&["check", "other"], &fresh).expect(0), fresh);
}

#[test]
fn add_and_check_want_a_store_that_exists() {
    let lab = Lab::new();
    for (command, advice) in [
        (
            "add",
            "none: no such store; create one with `everseen create none`",
        ),
        ("check", "none: no such store; check the name"),
    ] {
        lab.run(&[command, "none"]).expect_error(advice);
        assert!(!lab.path("none").exists());
    }
}

#[test]
fn a_full_store_says_so_and_knows_what_it_took() {
    for command in ["add", "dedup"] {
        for transactional in ["--transactional", "--no-transactional"] {
            let lab = Lab::new();
            lab.run(&["create", "store", "--capacity", "10", transactional])
                .expect(0);
            let input = distinct_lines(1_000);
            lab.write("input", &input);

            let ran = lab.run(&[command, "store", "input"]);
            // The summary of add comes first.
            let told = "everseen: input:11: the store store is full: it was created for 10 keys";
            assert!(ran.err.contains(told), "{}", ran.err);
            assert_eq!(ran.code, Some(2));
            let accepted = items(b'\n', &input)[..10].join(&b'\n');
            let accepted = [&accepted[..], b"\n"].concat();
            assert_eq!(
                lab.run_on(&["check", "store"], &accepted).expect(0),
                accepted
            );
            assert_eq!(lab.run_on(&["dedup", "store"], &accepted).expect(0), b"");
            if command == "dedup" {
                assert_eq!(ran.out, accepted);
            }
        }
    }
}

#[test]
fn lines_are_counted_or_only_answered_by_the_status() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\nb\n").expect(0);
    let input = b"a\nb\nc\na\n";
    for (options, printed, status) in [
        (&["-c"][..], "3\n", 0),
        (&["-c", "-v"], "1\n", 0),
        (&["-q"], "", 0),
        (&["-q", "-v"], "", 0),
    ] {
        let args = [&["check", "store"], options].concat();
        assert_eq!(
            lab.run_on(&args, input).expect(status),
            printed.as_bytes(),
            "{options:?}"
        );
    }
    assert_eq!(
        lab.run_on(&["check", "-c", "store"], b"x\n").expect(1),
        b"0\n"
    );
    assert_eq!(lab.run_on(&["check", "-q", "store"], b"x\n").expect(1), b"");
    assert_eq!(lab.run(&["check", "-q", "-c", "store"]).code, Some(2));
    // Nothing is printed, so what would be read without end otherwise may be read.
    let mut command = lab.command(&["check", "-q", "store", "list"]);
    lab.write("list", b"a\n");
    let list = std::fs::File::options()
        .append(true)
        .open(lab.path("list"))
        .expect("it is there");
    assert!(command.stdout(list).status().expect("it runs").success());
}
