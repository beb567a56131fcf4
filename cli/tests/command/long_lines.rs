//! `--max-line`: no line takes more memory than it may.

use std::fs::File;

use crate::support::Lab;

/// Lines that are too long by default, and the store they are for.
fn lab_with_a_long_line() -> Lab {
    let lab = Lab::new();
    let create = ["create", "store", "--kind", "counting", "--capacity", "1k"];
    lab.run(&create).expect(0);
    let long = File::create(lab.path("long")).expect("a new file");
    // A hole, which takes no room on the disk: one line of zeros.
    long.set_len((64 << 20) + 1).expect("a file may have holes");
    lab
}

#[test]
fn a_line_that_is_too_long_is_named_by_every_command_that_reads_lines() {
    let lab = lab_with_a_long_line();
    lab.write("short", b"one\ntwo\n");
    for command in ["dedup", "add", "check", "remove", "exempt"] {
        let ran = lab.run(&[command, "store", "short", "long"]);
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.err);
        ran.expect_error(
            "everseen: long:1: longer than 64.0 MiB; raise --max-line, or separate items by NUL bytes (-0)",
        );
    }
}

#[test]
fn the_longest_line_is_taken() {
    let lab = lab_with_a_long_line();
    lab.run(&["add", "--max-line", "67108865", "store", "long"])
        .expect(0);
    lab.run(&["add", "--max-line", "67108864", "store", "long"])
        .expect_error("long:1: longer than 64.0 MiB");
}

#[test]
fn what_came_before_a_long_line_is_done() {
    let lab = Lab::new();
    lab.write("input", b"one\nfour\nfive\nseventh\nfour\nsix\n");
    let ran = lab.run(&["dedup", "--max-line", "4", "store", "input"]);
    ran.expect_error("input:4: longer than 4 bytes");
    assert_eq!(ran.out, b"one\nfour\nfive\n");
    let ran = lab.run(&["dedup", "--max-line", "7", "store", "input"]);
    assert_eq!(ran.expect(0), b"seventh\nsix\n");
    // The last one need not be ended, and is counted in its own file.
    lab.write("more", b"a\nbcd");
    let ran = lab.run(&["dedup", "--max-line", "2", "store", "more"]);
    ran.expect_error("more:2: longer than 2 bytes");
    assert_eq!(ran.out, b"a\n");
}

#[test]
fn items_that_are_separated_another_way() {
    let lab = Lab::new();
    let ran = lab.run_on(&["dedup", "--max-line", "3", "store"], b"a\0b\0c\0d");
    ran.expect_error("standard input:1: longer than 3 bytes");
    let ran = lab.run_on(&["dedup", "-0", "--max-line", "3", "store"], b"a\0b\0c\0d");
    assert_eq!(ran.expect(0), b"a\0b\0c\0d\0");
}

#[test]
fn no_line_at_all_is_no_size() {
    let lab = Lab::new();
    let ran = lab.run(&["dedup", "--max-line", "0", "store"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("at least one byte"), "{}", ran.err);
}
