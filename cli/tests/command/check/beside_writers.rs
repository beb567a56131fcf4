//! `check` while other runs open, change and close the store, and while somebody replaces it.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Lab, distinct_lines, wait};

/// How stores are made, for each kind that remembers lines in its own way.
const STORES: [&[&str]; 4] = [
    &["--kind", "fingerprint"],
    &["--capacity", "100000"],
    &["--kind", "scalable"],
    &["--kind", "counting", "--capacity", "100000"],
];

/// A `check` that answers line by line.
struct Check {
    child: Child,
    lines: ChildStdin,
    out: ChildStdout,
}

impl Check {
    fn start(lab: &Lab) -> Self {
        let mut child = lab.start(&["check", "store"]);
        let lines = child.stdin.take().expect("a pipe");
        let out = child.stdout.take().expect("a pipe");
        Check { child, lines, out }
    }

    /// Asks for a line that is known, and waits for the answer.
    #[track_caller]
    fn expect_known(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.lines.write_all(line.as_bytes()).expect("it reads");
        let mut answer = vec![0; line.len()];
        let answered = self.out.read_exact(&mut answer);
        answered.expect("it prints the line");
        assert_eq!(String::from_utf8_lossy(&answer), line);
    }

    /// Ends the input, and returns the exit status and what was said.
    fn end(self) -> (Option<i32>, String) {
        drop(self.lines);
        let (status, said) = wait(self.child);
        (status.code(), said)
    }
}

/// A store of some sort with the line `first`.
fn store(options: &[&str]) -> Lab {
    let lab = Lab::new();
    lab.run(&[&["create", "store"], options].concat()).expect(0);
    lab.run_on(&["add", "store"], b"first\n").expect(0);
    lab
}

/// Begun while nobody else has the store open.
#[test]
fn a_check_sees_what_later_runs_add_and_outlasts_their_checkpoints() {
    for options in STORES {
        let lab = store(options);
        let mut check = Check::start(&lab);
        check.expect_known("first");
        for round in 0..6 {
            let mut lines = distinct_lines(2000 * (round + 1));
            lines.extend(format!("round {round}\n").bytes());
            lab.run_on(&["add", "store"], &lines).expect(0);
            // Where it has read on, room of the first pages is written again after two of them.
            if round % 3 > 0 {
                check.expect_known(&format!("round {round}"));
                check.expect_known("first");
            }
        }
        check.expect_known("https://example.org/page/11999");
        assert_eq!(check.end(), (Some(0), String::new()), "{options:?}");
    }
}

/// Twelve runs by default. With `EVERSEEN_ALL=1` there are 200 of each sort of store, in `.ci/run` 36.
#[test]
fn long_checks_outlast_all_short_runs_beside_them() {
    let is_set = |variable| std::env::var_os(variable).is_some();
    let runs = match (is_set("EVERSEEN_ALL"), is_set("EVERSEEN_SOME")) {
        (true, false) => 200,
        (true, true) => 36,
        (false, _) => 12,
    };
    for options in &STORES[..2] {
        let lab = store(options);
        let lines = distinct_lines(20_000);
        lab.write("lines", &lines);
        lab.run(&["add", "store", "lines"]).expect(0);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let adding = scope.spawn(|| {
                for run in 0..runs {
                    let line = format!("run {run}\n");
                    lab.run_on(&["add", "store"], line.as_bytes()).expect(0);
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut checks = 0;
            while !over.load(Ordering::Relaxed) && !adding.is_finished() {
                let checked = lab.run(&["check", "store", "lines"]).expect(0);
                assert!(checked == lines, "{options:?}: not all of them");
                checks += 1;
            }
            println!("{options:?}: {checks} checks beside {runs} runs");
            adding.join().expect("all runs end well");
        });
        let last = format!("run {}\n", runs - 1);
        let known = lab.run_on(&["check", "store"], last.as_bytes());
        assert_eq!(known.expect(0), last.as_bytes());
    }
}

fn placed(lab: &Lab) -> PathBuf {
    lab.path("store").canonicalize().expect("a store")
}

#[test]
fn a_check_whose_store_is_replaced_says_so() {
    for options in STORES {
        let lab = store(options);
        let path = placed(&lab);
        let mut check = Check::start(&lab);
        check.expect_known("first");
        fs::copy(&path, lab.path("new")).expect("a copy");
        fs::rename(lab.path("new"), &path).expect("it takes the name");
        let said = format!(
            "everseen: {}: was replaced by another file while it was read; what this run has printed comes from the old \
             one; run the command again\n",
            path.display()
        );
        assert_eq!(check.end(), (Some(2), said), "{options:?}");
    }
}

#[test]
fn a_check_whose_store_is_removed_says_so() {
    let lab = store(STORES[0]);
    let path = placed(&lab);
    let mut check = Check::start(&lab);
    check.expect_known("first");
    fs::remove_file(&path).expect("it is there");
    let said = format!(
        "everseen: {}: was removed, renamed or replaced while the store was open; put it back, or restore it from a copy\n",
        path.display()
    );
    assert_eq!(check.end(), (Some(2), said));
}
