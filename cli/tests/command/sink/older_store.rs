//! A store that is older than the file: put back from a copy, or one of several. Good lines are not cut off, and the rest
//! of a killed run still is.
//!
//! The long run: `EVERSEEN_RESTORES=2000 cargo test --release -p everseen-cli --test command -- --nocapture older_store::any`.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use super::{append, await_length, cut_off, read, variable};
use crate::support::{Lab, distinct_lines, items, json, wait};

const LINES: usize = 200;
const COPIED_AT: usize = 110;

/// The bytes of the first lines.
fn first(lines: usize) -> Vec<u8> {
    distinct_lines(lines)
}

/// A run that ended well with all lines in the file, and a copy of the store from the middle of it.
fn lab_with_copy() -> Lab {
    let lab = Lab::new();
    let mut run = lab.start(&["dedup", "-o", "out", "--commit-every", "10", "store"]);
    let mut stdin = run.stdin.take().expect("standard input is a pipe");
    let (middle, more) = (first(COPIED_AT).len(), first(COPIED_AT + 1).len());
    let all = first(LINES);
    stdin.write_all(&all[..middle]).expect("it reads");
    await_length(&lab, "out", middle);
    // Before the next line is printed, those are committed.
    stdin.write_all(&all[middle..more]).expect("it reads");
    await_length(&lab, "out", more);
    lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
    stdin.write_all(&all[more..]).expect("it reads");
    drop(stdin);
    let (status, said) = wait(run);
    assert!(status.success(), "{said}");
    assert!(read(&lab, "out") == all);
    lab
}

/// Puts a copy back, over the bytes of the store or as another file, after what a killed run may have left beside it is
/// removed.
fn put_back(lab: &Lab, copy: &str, in_place: bool) {
    for log in 0..99 {
        let _ = fs::remove_file(lab.path(&format!("store-log.{log}")));
    }
    if !in_place {
        fs::remove_file(lab.path("store")).expect("it is there");
    }
    fs::copy(lab.path(copy), lab.path("store")).expect("put back");
}

#[test]
fn after_an_orderly_end_nothing_is_cut_without_being_told() {
    for in_place in [true, false] {
        let lab = lab_with_copy();
        put_back(&lab, "copy", in_place);
        let all = read(&lab, "out");
        lab.write("input", b"more\n");
        let dedup = ["dedup", "-o", "out", "store", "input"];
        let (has, known) = (all.len(), first(COPIED_AT).len());
        lab.run(&dedup).expect_error(&format!(
            "out: has {has} bytes, of which this store knows {known}: the file's last run is unknown to this store, which \
             may have been restored from a copy; keep all of them and append (--output-longer keep), or cut the file to \
             what the store knows (--output-longer cut)"
        ));
        assert!(read(&lab, "out") == all);
        assert_eq!(lab.run(&["check", "store", "input"]).code, Some(1));

        // Both ways out, and after either the file is the store's again.
        let both = ["keep", "cut"];
        let way = both[usize::from(in_place)];
        let args = [&dedup[..], &["--output-longer", way]].concat();
        let ran = lab.run(&args);
        let (said, kept) = match way {
            "keep" => (format!("out: kept all of its {has} bytes"), &all[..]),
            _ => (
                format!("out: cut from {has} to {known} bytes"),
                &all[..known],
            ),
        };
        assert!(ran.err.contains(&said), "{}", ran.err);
        ran.expect(0);
        assert!(read(&lab, "out") == [kept, b"more\n"].concat());
        lab.write("input", b"more\nagain\n");
        lab.run(&dedup).expect(0);
        assert!(read(&lab, "out") == [kept, b"more\nagain\n"].concat());
    }
}

#[test]
fn after_a_kill_later_commits_are_not_cut_off() {
    let lab = lab_with_copy();
    let all = read(&lab, "out");
    cut_off(&lab, b"of a later run\n", b"not committed\n");
    put_back(&lab, "copy", false);
    let whole = read(&lab, "out");
    lab.write("input", b"more\n");
    lab.run(&["dedup", "-o", "out", "store", "input"])
        .expect_error("unknown to this store");
    assert!(read(&lab, "out") == whole && whole.starts_with(&all));
}

#[test]
fn a_store_from_before_the_file_prints_nothing_twice_without_being_told() {
    let lab = Lab::new();
    lab.write("input", b"before\n");
    lab.run(&["dedup", "store", "input"]).expect(0);
    lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
    lab.write("input", b"a\nb\n");
    let dedup = ["dedup", "-o", "out", "store", "input"];
    lab.run(&dedup).expect(0);
    put_back(&lab, "copy", false);
    lab.run(&dedup).expect_error(
        "out: has 4 bytes, of which this store knows none: the file's last run is unknown",
    );
    let cut = [&dedup[..], &["--output-longer", "cut"]].concat();
    lab.run(&cut)
        .expect_error("this store knows nothing of it, so there is nothing to cut it to");
    assert_eq!(read(&lab, "out"), b"a\nb\n");
    // A file that was emptied has nothing that could be there twice.
    lab.write("out", b"");
    lab.run(&dedup).expect(0);
    put_back(&lab, "copy", false);
    let keep = [&dedup[..], &["--output-longer", "keep", "-q"]].concat();
    let ran = lab.run(&keep);
    assert_eq!(ran.err, "");
    ran.expect(0);
    assert_eq!(read(&lab, "out"), b"a\nb\na\nb\n");
    // A store of its own is no older one, once it is meant, and a renamed file no other one.
    let meant = [
        "dedup",
        "--output-longer",
        "keep",
        "-o",
        "out",
        "other",
        "input",
    ];
    lab.run(&meant).expect(0);
    lab.write("input", b"c\n");
    lab.run(&dedup).expect(0);
    fs::rename(lab.path("out"), lab.path("renamed")).expect("it is there");
    lab.write("input", b"d\n");
    lab.run(&["dedup", "-o", "renamed", "store", "input"])
        .expect(0);
    assert_eq!(read(&lab, "renamed"), b"a\nb\na\nb\na\nb\nc\nd\n");
}

#[test]
fn a_file_put_back_from_a_copy_is_noticed() {
    let lab = Lab::new();
    lab.write("input", b"a\nb\n");
    let dedup = ["dedup", "-o", "out", "store", "input"];
    lab.run(&dedup).expect(0);
    fs::copy(lab.path("out"), lab.path("copy")).expect("copied");
    lab.write("input", b"c\n");
    lab.run(&dedup).expect(0);
    fs::copy(lab.path("copy"), lab.path("out")).expect("put back");
    lab.write("input", b"d\n");
    let ran = lab.run(&dedup);
    assert!(
        ran.err
            .contains("out: has 4 bytes, where its last run left 6; if it was restored from a copy, the lines it lacks"),
        "{}",
        ran.err
    );
    ran.expect(0);
    assert_eq!(read(&lab, "out"), b"a\nb\nd\n");
    let ran = lab.run(&dedup);
    assert_eq!(ran.err, "");
    ran.expect(0);
}

/// After a disaster both are put back, from copies that were made in the middle of a run.
#[test]
fn a_store_and_a_file_put_back_together_go_on_when_told_so() {
    for (way, expected) in [("cut", &b"a\nb\nd\n"[..]), ("keep", b"a\nb\nc\nd\n")] {
        let lab = Lab::new();
        cut_off(&lab, b"a\nb\n", b"c\n");
        lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
        fs::copy(lab.path("out"), lab.path("copy-of-out")).expect("copied");
        put_back(&lab, "copy", false);
        fs::rename(lab.path("copy-of-out"), lab.path("out")).expect("put back");
        lab.write("input", b"d\n");
        let dedup = ["dedup", "-o", "out", "store", "input"];
        lab.run(&dedup)
            .expect_error("out: has 6 bytes, of which this store knows 4: it is another file, which may have been");
        assert_eq!(read(&lab, "out"), b"a\nb\nc\n");
        lab.run(&[&dedup[..], &["--output-longer", way]].concat())
            .expect(0);
        assert_eq!(read(&lab, "out"), expected);
        lab.write("input", b"e\n");
        lab.run(&dedup).expect(0);
        assert_eq!(read(&lab, "out"), [expected, b"e\n"].concat());
    }
}

/// A line that another program appended after an orderly end stays, though the copy that is put back is of a moment at
/// which nothing was missing.
#[test]
fn what_others_have_appended_stays() {
    let lab = Lab::new();
    cut_off(&lab, b"a\nb\n", b"c\n");
    lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
    lab.write("input", b"");
    let dedup = ["dedup", "-o", "out", "store", "input"];
    lab.run(&dedup).expect(0);
    assert_eq!(read(&lab, "out"), b"a\nb\n");
    append(&lab, "out", b"of somebody\n");
    put_back(&lab, "copy", false);
    lab.run(&dedup).expect_error("unknown to this store");
    assert_eq!(read(&lab, "out"), b"a\nb\nof somebody\n");
}

/// How long the file was at the last commit, as the store has it.
fn committed(lab: &Lab) -> usize {
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    let tags = info["commits"].as_array().expect("a list").iter();
    let tags: Vec<_> = tags.filter_map(|commit| commit["tag"].as_str()).collect();
    let words: Vec<_> = tags.iter().flat_map(|tag| tag.split(' ')).collect();
    words
        .get(6)
        .map_or(0, |length| length.parse().expect("a number"))
}

/// Kills, ends, copies and restores in any order. What any moment of the store has committed stays in the file, and a
/// question is asked only after a restore.
#[test]
fn any_order_of_kills_copies_and_restores_loses_no_committed_line() {
    let goal = variable("EVERSEEN_RESTORES").unwrap_or(12);
    let seed = variable("EVERSEEN_SEED").unwrap_or(40);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut restores, mut asked) = (0, 0);
    for round in 0.. {
        if restores >= goal && asked > 0 {
            break;
        }
        println!("seed {seed}, round {round}, {restores} restores before");
        let lab = Lab::new();
        lab.run(&["create", "store", "--transactional"]).expect(0);
        lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
        // What was committed of the file, and whether the store was put back since its last run.
        let (mut good, mut is_restored) = (Vec::new(), false);
        let mut next = 0;
        for _ in 0..12 {
            match random.u8(..5) {
                0 => {
                    fs::remove_file(lab.path("copy")).expect("it is there");
                    lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
                }
                1 => {
                    put_back(&lab, "copy", false);
                    (is_restored, restores) = (true, restores + 1);
                }
                _ => {
                    let lines = random.usize(..300);
                    let input: Vec<u8> = (next..next + lines)
                        .flat_map(|line| format!("line {line}\n").into_bytes())
                        .collect();
                    next += lines;
                    let every = *random.choice(&["1", "10", "100"]).expect("some");
                    let args = ["dedup", "-o", "out", "--commit-every", every, "store"];
                    let kill = random.bool();
                    let mut child = lab.start(&args);
                    let mut stdin = child.stdin.take().expect("standard input is a pipe");
                    // Should it end before, it says why.
                    let _ = stdin.write_all(&input);
                    drop(stdin);
                    if kill {
                        let length = || fs::metadata(lab.path("out")).map_or(0, |out| out.len());
                        let until = length() + random.u64(..=input.len() as u64);
                        // It may end before: where it asks, or has cut off more than it appends.
                        let ended =
                            |child: &mut Child| child.try_wait().expect("started").is_some();
                        while length() < until && !ended(&mut child) {
                            std::thread::yield_now();
                        }
                        child.kill().expect("it was started");
                    }
                    let (status, said) = wait(child);
                    // Copies of unfinished runs are those that a later run could mistake.
                    if status.signal().is_some() && random.bool() {
                        fs::remove_file(lab.path("copy")).expect("it is there");
                        lab.run(&["snapshot", "-q", "store", "copy"]).expect(0);
                    }
                    if said.contains("--output-longer") {
                        assert!(is_restored, "asked without a restore: {said}");
                        assert!(read(&lab, "out").starts_with(&good));
                        asked += 1;
                        let keep = [
                            "dedup",
                            "-q",
                            "-o",
                            "out",
                            "--output-longer",
                            "keep",
                            "store",
                        ];
                        lab.run(&keep).expect(0);
                    } else {
                        assert!(status.success() || status.signal() == Some(9), "{said}");
                    }
                    is_restored &= !status.success() && !said.contains("--output-longer");
                    let out = fs::read(lab.path("out")).unwrap_or_default();
                    assert!(out.starts_with(&good), "committed lines are gone");
                    let until = committed(&lab);
                    good = out[..until.max(good.len())].to_vec();
                }
            }
        }
        let lines = items(b'\n', &good).len();
        println!("{lines} lines");
    }
    eprintln!("{restores} restores survived, {asked} questions");
}
