//! `dedup -o FILE`: each line is in the file exactly once, however the runs ended.
//!
//! Ten kills by default. The long run, of 5,000: `EVERSEEN_KILLS=40000 cargo test --release -p everseen-cli --test command -- --nocapture sink::kill`.
#![cfg(unix)]

mod older_store;
mod placed;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::{Lab, distinct_lines, items, repetitive_lines, wait};

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("the variable is a number"))
}

fn read(lab: &Lab, name: &str) -> Vec<u8> {
    fs::read(lab.path(name)).expect("it was written")
}

fn append(lab: &Lab, name: &str, bytes: &[u8]) {
    let file = File::options().append(true).open(lab.path(name));
    let mut file = file.expect("it is there");
    file.write_all(bytes).expect("it can be appended to");
}

/// Waits until a file is as long as that.
fn await_length(lab: &Lab, name: &str, length: usize) {
    while fs::metadata(lab.path(name)).map_or(0, |file| file.len()) < length as u64 {
        thread::yield_now();
    }
}

/// A run that prints `committed`, commits it, prints `more`, and is killed.
fn cut_off(lab: &Lab, committed: &[u8], more: &[u8]) {
    let before = fs::metadata(lab.path("out")).map_or(0, |file| file.len() as usize);
    let every = items(b'\n', committed).len().to_string();
    let mut child = lab.start(&["dedup", "-o", "out", "--commit-every", &every, "store"]);
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin.write_all(committed).expect("it reads");
    // Before the first item more, it commits.
    await_length(lab, "out", before + committed.len());
    stdin.write_all(more).expect("it reads");
    await_length(lab, "out", before + committed.len() + more.len());
    child.kill().expect("it was started");
    assert_eq!(wait(child).0.signal(), Some(9));
}

#[test]
fn it_appends_each_line_once() {
    let lab = Lab::new();
    lab.write("out", b"of somebody\nand unfin");
    lab.write("input", b"a\nb\na\n");
    assert_eq!(
        lab.run(&["dedup", "-o", "out", "store", "input"]).expect(0),
        b""
    );
    assert_eq!(read(&lab, "out"), b"of somebody\nand unfin\na\nb\n");
    // What is appended between two runs is not theirs to cut.
    append(&lab, "out", b"of somebody else\n");
    lab.write("input", b"b\nc\n");
    lab.run(&["dedup", "--output", "out", "store", "input"])
        .expect(0);
    assert_eq!(
        read(&lab, "out"),
        b"of somebody\nand unfin\na\nb\nof somebody else\nc\n"
    );
    // Nor is a file missed that was taken away, or shortened, between them.
    lab.write("out", b"x");
    fs::rename(lab.path("out"), lab.path("old")).expect("it is there");
    lab.write("input", b"d\n");
    lab.run(&["dedup", "-o", "./out", "store", "input"])
        .expect(0);
    assert_eq!(read(&lab, "out"), b"d\n");
}

#[test]
fn a_run_that_was_cut_off_is_gone_on_with() {
    let lab = Lab::new();
    lab.write("out", b"of somebody\n");
    let input = distinct_lines(1_010);
    let end = distinct_lines(1_000).len();
    cut_off(&lab, &input[..end], &input[end..]);
    // By another name for the same file.
    std::os::unix::fs::symlink("out", lab.path("link")).expect("a new link");
    lab.write("input", &input);
    lab.run(&["dedup", "-o", "link", "store", "input"])
        .expect(0);
    assert!(read(&lab, "out") == [b"of somebody\n", &input[..]].concat());
}

#[test]
fn a_signal_or_an_error_is_an_end_too() {
    let lab = Lab::new();
    let create = "create store --capacity 1000 --transactional";
    lab.run(&create.split(' ').collect::<Vec<_>>()).expect(0);
    let input = distinct_lines(2_000);
    lab.write("input", &input);
    let dedup = ["dedup", "-o", "out", "store", "input"];
    lab.run(&dedup).expect_error("1,000 keys");
    append(&lab, "out", b"of somebody\n");
    lab.run(&dedup).expect_error("1,000 keys");
    let out = read(&lab, "out");
    assert!(out.ends_with(b"\nof somebody\n"));
    assert!(input.starts_with(&out[..out.len() - b"of somebody\n".len()]));
}

#[test]
fn a_file_that_is_not_the_one_before_is_refused_and_left_alone() {
    let lab = Lab::new();
    let input = distinct_lines(1_010);
    let end = distinct_lines(1_000).len();
    cut_off(&lab, &input[..end], &input[end..]);
    let whole = read(&lab, "out");
    lab.write("input", &input);
    let dedup = |out: &str| lab.run(&["dedup", "-o", out, "store", "input"]);
    let refused = |part: &str| {
        let before = fs::read(lab.path("out")).ok();
        let ran = dedup("out");
        ran.expect_error(part);
        ran.expect_error("restore the file, or name another");
        assert!(fs::read(lab.path("out")).ok() == before);
    };

    fs::rename(lab.path("out"), lab.path("kept")).expect("it is there");
    refused("it is gone");
    dedup("kept").expect_error("wrote to it under another name, out");
    fs::copy(lab.path("kept"), lab.path("other")).expect("a copy");
    dedup("other").expect_error("it is a copy of out, whose last lines");
    fs::copy(lab.path("kept"), lab.path("out")).expect("a copy");
    dedup("out")
        .expect_error("it is another file, which may have been restored from a copy; keep all");
    lab.write("out", &vec![b'x'; whole.len()]);
    refused("it is another file");
    lab.write("out", b"");
    refused("it has 0 bytes, where");
    fs::remove_file(lab.path("out")).expect("it is there");
    fs::hard_link(lab.path("kept"), lab.path("out")).expect("a link");
    refused("it has several names");
    fs::remove_file(lab.path("kept")).expect("it is there");
    lab.write("out", &vec![b'x'; whole.len()]);
    refused("what was committed of it has changed");
    lab.write("out", &whole[..100]);
    refused("it has 100 bytes, where");
    // The same file as it was.
    lab.write("out", &whole);
    dedup("out").expect(0);
    assert!(read(&lab, "out") == input);
}

/// Lines of a run that was killed before it committed them are free, and another run may print them at the beginning of its
/// own file. Then the two begin alike, and neither is a copy of the other.
#[test]
fn what_is_cut_off_may_be_what_another_run_has_printed_since() {
    let lab = Lab::new();
    let killed = |out: &str, every: &str| {
        let mut child = lab.start(&["dedup", "-o", out, "--commit-every", every, "store"]);
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        for (line, length) in [(b"a\n", 2), (b"b\n", 4)] {
            stdin.write_all(line).expect("it reads");
            // Before the next line, it commits if it shall.
            await_length(&lab, out, length);
        }
        child.kill().expect("it was started");
        assert_eq!(wait(child).0.signal(), Some(9));
        assert_eq!(read(&lab, out), b"a\nb\n");
    };
    killed("one", "1M");
    killed("two", "1");
    lab.write("input", b"a\nb\nc\n");
    for (out, expected) in [("one", &b"b\nc\n"[..]), ("two", b"a\n")] {
        lab.run(&["dedup", "-o", out, "store", "input"]).expect(0);
        assert_eq!(read(&lab, out), expected);
    }
}

/// Their lines would be cut off.
#[cfg(target_os = "linux")]
#[test]
fn lines_of_another_store_are_not_cut_off() {
    let lab = Lab::new();
    let input = distinct_lines(1_010);
    let end = distinct_lines(1_000).len();
    cut_off(&lab, &input[..end], &input[end..]);
    lab.write("input", b"of another\n");
    let keep = ["--output-longer", "keep"];
    lab.run(&[&["dedup", "-o", "out", "other", "input"][..], &keep].concat())
        .expect(0);
    let out = read(&lab, "out");
    let keeps = rustix::fs::getxattr(lab.path("out"), "user.everseen.writer", &mut [0; 64][..]);
    if keeps == Err(rustix::io::Errno::NOTSUP) {
        eprintln!("not tested: the file system keeps no attributes");
        return;
    }
    lab.run(&["dedup", "-o", "out", "store", "input"])
        .expect_error("another store, or another copy of it, wrote to it since");
    assert!(read(&lab, "out") == out);
    // The other one goes on.
    lab.write("input", b"more\n");
    lab.run(&["dedup", "-o", "out", "other", "input"]).expect(0);
    assert!(read(&lab, "out") == [&out[..], b"more\n"].concat());
}

#[test]
fn what_can_not_be_an_output_is_refused() {
    let lab = Lab::new();
    lab.write("input", b"a\n");
    lab.run(&[
        "create",
        "plain",
        "--capacity",
        "1000",
        "--no-transactional",
    ])
    .expect(0);
    lab.run(&["dedup", "-o", "out", "plain", "input"])
        .expect_error("plain: is not transactional, and only a transactional store");
    assert!(!lab.path("out").exists());
    let refused = |out: &str, part: &str| {
        lab.run(&["dedup", "-o", out, "store", "input"])
            .expect_error(part);
    };
    refused("input", "input: is also the output");
    refused("store", "is the store itself");
    refused("/dev/null", "is not a regular file");
    refused("none/out", "none: no such folder; create it first");
    refused(".", "is a folder; name a file");
    std::os::unix::fs::symlink("nothing", lab.path("link")).expect("a new link");
    refused(
        "link",
        "link: is a link that leads nowhere; remove it, or choose another name",
    );
    let made = std::process::Command::new("mkfifo")
        .arg(lab.path("fifo"))
        .status();
    assert!(made.expect("mkfifo is there").success());
    refused("fifo", "is not a regular file");
    assert_eq!(lab.run(&["dedup", "store", "input"]).expect(0), b"a\n");
}

#[test]
fn two_runs_do_not_share_a_file() {
    let lab = Lab::new();
    let mut child = lab.start(&["dedup", "-o", "out", "store"]);
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin.write_all(b"a\n").expect("it reads");
    await_length(&lab, "out", 2);
    for store in ["store", "other"] {
        lab.run(&["dedup", "-o", "out", store])
            .expect_error("another run is writing to it");
    }
    drop(stdin);
    assert!(wait(child).0.success());
    assert_eq!(read(&lab, "out"), b"a\n");
}

/// Waits until a run sleeps, which it does for nothing but a lock.
fn await_sleep(child: &mut Child) {
    let threads = format!("/proc/{}/task", child.id());
    let sleeps = || {
        let mut threads = fs::read_dir(&threads).into_iter().flatten().flatten();
        threads.any(|thread| {
            let place = fs::read_to_string(thread.path().join("wchan"));
            place.is_ok_and(|place| place.contains("nanosleep"))
        })
    };
    while !sleeps() {
        let ended = child.try_wait().expect("the binary was started");
        assert_eq!(ended, None, "it didn't wait");
        thread::yield_now();
    }
}

/// A run that was killed holds its lock for as long as the system takes to end it.
#[test]
fn a_lock_that_another_run_gives_up_is_waited_for() {
    let lab = Lab::new();
    lab.write("input", b"a\n");
    let held = File::create(lab.path("out")).expect("a new file");
    held.lock().expect("nothing else locks it");
    let mut child = lab.start(&["dedup", "-o", "out", "store", "input"]);
    await_sleep(&mut child);
    drop(held);
    assert!(wait(child).0.success());
    assert_eq!(read(&lab, "out"), b"a\n");
}

/// What the other run has committed meanwhile counts, though it ended after this one had begun.
#[test]
fn lines_that_another_run_commits_while_its_lock_is_waited_for_stay() {
    for longer in [&[][..], &["--output-longer", "cut"]] {
        // The second run waits for two seconds; a busy disk may take longer to end the first one.
        let is_waited_for = |_| first_is_waited_for(longer);
        assert!((0..10).any(is_waited_for), "{longer:?}: never long enough");
    }
}

fn first_is_waited_for(longer: &[&str]) -> bool {
    let lab = Lab::new();
    lab.write("input", b"a\nb\n");
    let args = [&["dedup"], longer, &["-o", "out", "store"]].concat();
    let mut first = lab.start(&args);
    let mut stdin = first.stdin.take().expect("standard input is a pipe");
    stdin.write_all(b"a\n").expect("it reads");
    await_length(&lab, "out", 2);
    let mut second = lab.start(&[&args[..], &["input"]].concat());
    await_sleep(&mut second);
    stdin.write_all(b"c\n").expect("it reads");
    drop(stdin);
    assert!(wait(first).0.success());
    let (status, said) = wait(second);
    if said.contains("another run is writing to it") {
        return false;
    }
    assert!(status.success(), "{said}");
    assert_eq!(read(&lab, "out"), b"a\nc\nb\n", "{said}");
    true
}

/// One who feeds runs that write to a file of their own.
struct Job<'a> {
    lab: &'a Lab,
    random: fastrand::Rng,
    input: Vec<u8>,
    output: String,
}

impl Job<'_> {
    fn start(&mut self) -> Child {
        let every = self.random.choice(["100", "1000", "10k", "1M"]);
        let args = [
            &["dedup", "--buffer", "1M", "-o", &self.output][..],
            &["--commit-every", every.unwrap_or("1k"), "store"],
        ];
        self.lab
            .command(&args.concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    /// Runs it on all of its input; with `kill` it is killed somewhere. Answers whether that was so.
    fn run(&mut self, kill: bool) -> bool {
        let mut child = self.start();
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        // Some when they have read all of it: then it commits and ends.
        let most = self.input.len() + self.input.len() / 4;
        let fed = match kill {
            true => self.random.usize(..most),
            false => usize::MAX,
        };
        // Should it end before, it says why.
        let _ = stdin.write_all(&self.input[..fed.min(self.input.len())]);
        if fed >= self.input.len() {
            drop(stdin);
        }
        if kill {
            for _ in 0..self.random.u32(..3000) {
                thread::yield_now();
            }
            child.kill().expect("it was started");
        }
        let (status, err) = wait(child);
        let killed = status.signal().is_some();
        assert!(killed || status.success(), "{status}: {err}");
        assert!(kill || !killed, "{status}");
        killed
    }
}

#[test]
fn however_often_it_is_killed_each_line_is_there_once() {
    let goal = variable("EVERSEEN_KILLS").map_or(10, |all| all.div_ceil(8));
    let seed = variable("EVERSEEN_SEED").unwrap_or(31);
    let mut random = fastrand::Rng::with_seed(seed);
    let kills = AtomicU64::new(0);
    for round in 0.. {
        let begun = kills.load(Ordering::Relaxed);
        if begun >= goal {
            break;
        }
        println!("seed {seed}, round {round}, {begun} kills before");
        let lab = Lab::new();
        // Or one that dedup makes.
        if random.bool() {
            let create = ["create", "--kind", "scalable", "--transactional", "store"];
            lab.run(&create).expect(0);
        }
        let all = repetitive_lines(&mut random, 40_000);
        let mut jobs: Vec<Job<'_>> = (0..2)
            .map(|number| {
                // Most lines are in both.
                let own = items(b'\n', &all)
                    .into_iter()
                    .filter(|_| random.u8(..4) > 0);
                let lines: Vec<_> = own.flat_map(|line| [line, b"\n"].concat()).collect();
                Job {
                    lab: &lab,
                    random: random.fork(),
                    input: lines,
                    output: format!("output-{number}"),
                }
            })
            .collect();
        thread::scope(|scope| {
            for job in &mut jobs {
                scope.spawn(|| {
                    for _ in 0..8 {
                        if !job.run(true) {
                            break;
                        }
                        kills.fetch_add(1, Ordering::Relaxed);
                    }
                    job.run(false);
                });
            }
        });
        // One whose lines another had claimed, and then was killed, has not printed them.
        jobs.iter_mut().for_each(|job| assert!(!job.run(false)));

        let mut printed = HashSet::new();
        for job in &jobs {
            for line in items(b'\n', &read(&lab, &job.output)) {
                let twice = !printed.insert(line.to_vec());
                assert!(
                    !twice,
                    "{:?} is there twice",
                    line.escape_ascii().to_string()
                );
            }
        }
        let wanted: HashSet<Vec<u8>> = jobs
            .iter()
            .flat_map(|job| items(b'\n', &job.input))
            .map(<[u8]>::to_vec)
            .collect();
        assert_eq!(wanted.difference(&printed).count(), 0, "lines are lost");
        assert_eq!(printed.len(), wanted.len());
    }
    eprintln!("{} kills survived", kills.load(Ordering::Relaxed));
}
