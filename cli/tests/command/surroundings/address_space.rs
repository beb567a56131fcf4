//! A limit on the address space of the process (`ulimit -v`). Under any limit, a command does what it should, or ends with
//! exit status 2 and a message that names the limit. It never ends by a signal, and loses nothing.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::support::{Lab, distinct_lines, json};

/// Runs the binary under a limit in KiB.
fn run_within(lab: &Lab, limit: u64, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {limit}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_everseen")]);
    command.args(args);
    let ran = command.current_dir(lab.path(".")).stdin(Stdio::null());
    ran.output().expect("a shell")
}

/// Returns the least limit, in whole thousands, under which the system can load the binary at all.
fn least_limit(lab: &Lab) -> u64 {
    let starts = |limit: &u64| {
        let ran = run_within(lab, *limit, &["--version"]);
        ran.status.code() == Some(0)
    };
    let limits = (5..100).map(|thousands| thousands * 1000);
    limits.into_iter().find(starts).expect("it starts")
}

/// Returns whether a command did what it should. Otherwise it must have said why not.
#[track_caller]
fn is_done(limit: u64, args: &[&str], ran: &Output) -> bool {
    let said = String::from_utf8_lossy(&ran.stderr);
    match ran.status.code() {
        Some(0) => true,
        Some(2) => {
            assert!(said.starts_with("everseen: "), "{limit} {args:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{limit} {args:?}: {said}");
            let named = format!(
                "out of memory, since this process may map no more than {limit} KiB (`ulimit -v`); \
                 raise that limit, or grant less for buffers with `--buffer`"
            );
            assert!(said.contains(&named), "{limit} {args:?}: {said}");
            false
        }
        other => panic!("{limit} {args:?}: {other:?} {:?} {said}", ran.status),
    }
}

/// Returns the names in a folder.
fn names(lab: &Lab) -> Vec<String> {
    let entries = fs::read_dir(lab.path(".")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names = Vec::from_iter(names.map(|name| name.into_string().expect("text")));
    names.sort();
    names
}

/// Takes up what a run with too little memory left, without a limit: what it committed is there, and nothing else.
fn go_on(lab: &Lab, limit: u64, printed: &[u8], lines: &[u8]) {
    assert!(lines.starts_with(printed), "{limit}");
    assert!(printed.is_empty() || printed.ends_with(b"\n"), "{limit}");
    let mut committed = 0;
    if lab.path("new").exists() {
        lab.run(&["verify", "new"]).expect(0);
        lab.write("printed", printed);
        let known = lab.run(&["check", "new", "printed"]);
        assert!(known.code == Some(0) || known.out.is_empty(), "{limit}");
        assert!(printed.starts_with(&known.out), "{limit}");
        committed = known.out.len();
    }
    let rest = lab
        .run(&["dedup", "--fpr", "1e-12", "new", "lines"])
        .expect(0);
    assert!(rest == lines[committed..], "{limit}");
    assert!(
        !names(lab).iter().any(|name| name.starts_with("new-")),
        "{limit}"
    );
}

#[test]
fn dedup_ends_well_or_says_that_the_address_space_is_limited() {
    let lab = Lab::new();
    let lines = distinct_lines(300_000);
    lab.write("lines", &lines);
    let least = least_limit(&lab);
    let dedup = ["dedup", "--fpr", "1e-12", "new", "lines"];
    let mut done = Vec::new();
    for more in [0, 2, 5, 9, 13, 17, 21, 26, 31, 40, 60, 100] {
        let limit = least + more * 1000;
        let ran = run_within(&lab, limit, &dedup);
        done.push(is_done(limit, &dedup, &ran));
        match done.last() {
            Some(true) => assert!(ran.stdout == lines, "{limit}"),
            _ => {
                // So much is enough for a store of this size, if all that is mapped follows the limit.
                assert!(
                    more < 40,
                    "{limit}: {}",
                    String::from_utf8_lossy(&ran.stderr)
                );
                go_on(&lab, limit, &ran.stdout, &lines);
            }
        }
        lab.run(&["verify", "new"]).expect(0);
        fs::remove_file(lab.path("new")).expect("a store");
    }
    // Otherwise, nothing was tested.
    assert_eq!(
        (done.first(), done.last()),
        (Some(&false), Some(&true)),
        "{done:?}"
    );
    assert_eq!(names(&lab), ["lines", "printed"]);
}

/// With `-o`, each line is in the file exactly once, however often memory ran out.
#[test]
fn an_output_file_is_exact_whatever_the_address_space() {
    let lab = Lab::new();
    let lines = distinct_lines(200_000);
    lab.write("lines", &lines);
    let least = least_limit(&lab);
    let dedup = ["dedup", "--fpr", "1e-12", "-o", "out", "new", "lines"];
    let mut refused = 0;
    for more in (0..30).step_by(3) {
        let ran = run_within(&lab, least + more * 1000, &dedup);
        refused += u32::from(!is_done(least + more * 1000, &dedup, &ran));
    }
    assert!(refused > 0);
    lab.run(&dedup).expect(0);
    assert!(fs::read(lab.path("out")).expect("a file") == lines);
    assert_eq!(names(&lab), ["lines", "new", "out"]);
}

#[test]
fn what_only_reads_answers_exactly_or_says_that_the_address_space_is_limited() {
    let lab = Lab::new();
    let lines = distinct_lines(100_000);
    lab.write("lines", &lines);
    let [growing, fixed] = ["growing", "fixed"];
    lab.run(&["create", fixed, "--kind", "bloom", "--capacity", "1e6"])
        .expect(0);
    for store in [growing, fixed] {
        lab.run(&["dedup", "-q", store, "lines"]).expect(0);
    }
    let least = least_limit(&lab);
    let (mut done, mut refused) = (0, 0);
    for store in [growing, fixed] {
        for args in [
            &["check", "-c", store, "lines"][..],
            &["verify", "--json", store],
            &["info", "--json", store],
            &["snapshot", store, "copy"],
        ] {
            let whole = lab.run(args).expect(0);
            let _ = fs::remove_file(lab.path("copy"));
            for more in (0..24).step_by(2) {
                let limit = least + more * 1000;
                let ran = run_within(&lab, limit, args);
                if is_done(limit, args, &ran) {
                    done += 1;
                    assert!(ran.stdout == whole, "{limit} {args:?}");
                } else {
                    refused += 1;
                    assert!(!lab.path("copy").exists(), "{limit} {args:?}");
                }
                let _ = fs::remove_file(lab.path("copy"));
            }
        }
    }
    assert!(done > 0 && refused > 0, "{done} {refused}");
    let known = lab.run(&["info", "--json", growing]).expect(0);
    assert_eq!(json(&known)["keys"], 100_000);
}

/// A store that is larger than the limit can't be made; nothing of it stays.
#[test]
fn a_store_that_does_not_fit_is_not_made() {
    let lab = Lab::new();
    let least = least_limit(&lab);
    let create = ["create", "large", "--kind", "bloom", "--capacity", "3e7"];
    let limit = least + 60_000;
    let ran = run_within(&lab, limit, &create);
    assert!(!is_done(limit, &create, &ran));
    assert_eq!(names(&lab), [""; 0]);
    let limit = least + 160_000;
    assert!(is_done(limit, &create, &run_within(&lab, limit, &create)));
}
