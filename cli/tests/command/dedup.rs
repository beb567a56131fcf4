//! `dedup` prints what `awk '!seen[$0]++'` prints, and remembers it.

use std::fs::{self, OpenOptions};

use crate::support::{Lab, distinct_lines, first_occurrences, items, repetitive_lines};

#[test]
fn first_occurrences_in_order_and_nothing_the_second_time() {
    let mut random = fastrand::Rng::with_seed(1);
    for count in [1, 10, 1_000, 50_000] {
        let lab = Lab::new();
        let input = repetitive_lines(&mut random, count.max(2));
        let expected = first_occurrences(b'\n', &input);
        assert_eq!(
            lab.run_on(&["dedup", "store"], &input).expect(0),
            expected,
            "{count} lines"
        );
        assert_eq!(
            lab.run_on(&["dedup", "store"], &input).expect(0),
            b"",
            "{count} lines again"
        );
    }
}

#[test]
fn later_runs_print_only_what_is_new() {
    let lab = Lab::new();
    assert_eq!(
        lab.run_on(&["dedup", "store"], b"a\nb\na\n").expect(0),
        b"a\nb\n"
    );
    assert_eq!(
        lab.run_on(&["dedup", "store"], b"c\nb\nd\nc\n").expect(0),
        b"c\nd\n"
    );
}

#[test]
fn lines_are_bytes_and_only_the_line_end_is_taken_off() {
    for (input, expected) in [
        (&b""[..], &b""[..]),
        (b"\n", b"\n"),
        (b"\n\n\n", b"\n"),
        (b"a", b"a\n"),
        (b"a\na", b"a\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\r\na\na\r\n", b"a\r\na\n"),
        (b"a\n\nb\n\n", b"a\n\nb\n"),
        (b" a\na \na\n", b" a\na \na\n"),
        (b"\xff\xfe\n\xff\xfe\n\xff\n", b"\xff\xfe\n\xff\n"),
        (b"a\0b\na\0c\n", b"a\0b\na\0c\n"),
    ] {
        let lab = Lab::new();
        assert_eq!(
            lab.run_on(&["dedup", "store"], input).expect(0),
            expected,
            "{}",
            input.escape_ascii()
        );
    }
}

#[test]
fn nul_separated_items() {
    for option in ["-0", "--null"] {
        let lab = Lab::new();
        let input = b"a\nb\0c\0a\nb\0\0last";
        assert_eq!(
            lab.run_on(&["dedup", option, "store"], input).expect(0),
            b"a\nb\0c\0\0last\0"
        );
        assert_eq!(
            lab.run_on(&["dedup", option, "store"], input).expect(0),
            b""
        );
    }
}

#[test]
fn lines_longer_than_any_block() {
    let lab = Lab::new();
    let long = |last: u8| [vec![b'x'; 8 << 20], vec![last, b'\n']].concat();
    let input = [
        b"short\n".to_vec(),
        long(b'1'),
        long(b'2'),
        b"short\n".to_vec(),
        long(b'1'),
        b"end".to_vec(),
    ]
    .concat();
    assert!(lab.run_on(&["dedup", "store"], &input).expect(0) == first_occurrences(b'\n', &input));
    assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), b"");
}

#[test]
fn several_files_are_read_in_order_and_each_last_line_ends() {
    let lab = Lab::new();
    lab.write("one", b"a\nb");
    lab.write("two", b"b\nc");
    lab.write("empty", b"");
    let ran = lab.run_on(&["dedup", "store", "one", "-", "empty", "two"], b"x\na");
    assert_eq!(ran.expect(0), b"a\nb\nx\nc\n");
}

#[test]
fn more_files_than_may_be_open_at_once() {
    let lab = Lab::new();
    let names: Vec<String> = (0..3_000).map(|number| format!("file-{number}")).collect();
    names
        .iter()
        .for_each(|name| lab.write(name, name.as_bytes()));
    let args: Vec<&str> = ["dedup", "store"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    assert_eq!(
        lab.run(&args).expect(0),
        [names.join("\n"), "\n".to_owned()].concat().into_bytes()
    );
}

#[test]
fn an_input_that_cannot_be_opened_stops_all_before_it_starts() {
    let lab = Lab::new();
    lab.write("good", b"a\n");
    lab.run(&["dedup", "store", "good", "missing"])
        .expect_error("missing");
    lab.run(&["dedup", "store", "good", "."])
        .expect_error("folder");
    assert!(!lab.path("store").exists());
}

#[test]
fn an_input_that_is_the_output_is_refused() {
    let lab = Lab::new();
    lab.write("both", b"a\n");
    let output = OpenOptions::new()
        .append(true)
        .open(lab.path("both"))
        .expect("the file just written");
    let ran = lab
        .command(&["dedup", "store", "both"])
        .stdout(output)
        .output()
        .expect("the binary runs");
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(fs::read(lab.path("both")).expect("still there"), b"a\n");
}

#[test]
fn commits_on_the_way_change_nothing_that_is_printed() {
    let mut random = fastrand::Rng::with_seed(2);
    let input = repetitive_lines(&mut random, 2_000);
    let expected = first_occurrences(b'\n', &input);
    for every in ["1", "7", "1000", "1e9"] {
        let lab = Lab::new();
        let ran = lab.run_on(&["dedup", "--commit-every", every, "store"], &input);
        assert_eq!(ran.expect(0), expected, "every {every}");
    }
}

#[test]
fn more_new_lines_than_the_quota_of_a_small_buffer() {
    let lab = Lab::new();
    let input = distinct_lines(300_000);
    let ran = lab.run_on(
        &["dedup", "--buffer", "1M", "--commit-every", "1G", "store"],
        &input,
    );
    assert!(ran.expect(0) == input);
    assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), b"");
}

#[test]
fn a_store_that_is_not_transactional_is_used_as_it_is() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "10k", "--no-transactional"])
        .expect(0);
    let input = b"a\nb\na\n";
    assert_eq!(lab.run_on(&["dedup", "store"], input).expect(0), b"a\nb\n");
    assert_eq!(lab.run_on(&["dedup", "store"], input).expect(0), b"");
}

#[test]
fn statistics_add_up() {
    let lab = Lab::new();
    let input = b"a\nb\na\n\nb\n";
    let ran = lab.run_on(&["dedup", "--stats", "store"], input);
    assert!(
        ran.err.starts_with("5 lines, 3 new, 2 seen, "),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with(" lines/s\n"), "{}", ran.err);
    assert!(ran.err.contains("iB of buffers, "), "{}", ran.err);
    assert_eq!(lab.run_on(&["dedup", "store"], input).err, "");
}

#[test]
fn numbers_that_make_no_sense() {
    let lab = Lab::new();
    for args in [
        ["--commit-every", "0"],
        ["--commit-every", "x"],
        ["--buffer", "-1"],
        ["--buffer", "1Q"],
    ] {
        let ran = lab.run(&["dedup", args[0], args[1], "store"]);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(!lab.path("store").exists());
    }
}

#[test]
fn a_file_gets_what_a_pipe_gets() {
    let lab = Lab::new();
    let input = repetitive_lines(&mut fastrand::Rng::with_seed(3), 20_000);
    lab.write("input", &input);
    let output = fs::File::create(lab.path("output")).expect("a new file");
    let status = lab
        .command(&["dedup", "store", "input"])
        .stdout(output)
        .status()
        .expect("the binary runs");
    assert_eq!(status.code(), Some(0));
    let written = fs::read(lab.path("output")).expect("the output");
    assert_eq!(
        items(b'\n', &written),
        items(b'\n', &first_occurrences(b'\n', &input))
    );
}
