//! Several runs on one store at the same time: each line comes once, and none is lost whoever is killed.
//!
//! Ten kills by default. The long run, of 5,000: `EVERSEEN_KILLS=40000 cargo test --release -p everseen-cli --test command -- --nocapture together::kill`.
//! A failure prints its seed; `EVERSEEN_SEED` sets it. Which instruction a kill meets is the machine's own choice, so
//! a seed makes a run alike, not equal.
#![cfg(unix)]

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::{Lab, distinct_lines, items, repetitive_lines, wait};

/// Runs `dedup` as often as there are orders, at the same time, each on all lines in an order of its own. Together they
/// must print each line once.
#[track_caller]
fn each_comes_once(lab: &Lab, orders: &[Vec<&[u8]>], options: &[&str]) {
    let children: Vec<Child> = (0..)
        .zip(orders)
        .map(|(number, lines)| {
            let name = format!("input-{number}");
            lab.write(&name, &joined(lines));
            let out = File::create(lab.path(&format!("output-{number}"))).expect("a new file");
            let args = [&["dedup"], options, &["store", &name]].concat();
            let mut command = lab.command(&args);
            let command = command.stdout(out).stderr(Stdio::piped());
            command.spawn().expect("the binary starts")
        })
        .collect();
    for child in children {
        let (status, err) = wait(child);
        assert!(status.success(), "{status}: {err}");
    }
    let mut printed = HashSet::new();
    for number in 0..orders.len() {
        let output = std::fs::read(lab.path(&format!("output-{number}"))).expect("it was written");
        for line in items(b'\n', &output) {
            assert!(
                printed.insert(line.to_vec()),
                "{:?} was printed twice",
                String::from_utf8_lossy(line)
            );
        }
    }
    let all: HashSet<&[u8]> = orders[0].iter().copied().collect();
    assert_eq!(printed.len(), all.len());
    assert!(printed.iter().all(|line| all.contains(&line[..])));
}

fn joined(lines: &[&[u8]]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| [*line, b"\n"].concat())
        .collect()
}

/// The lines forward, backward, and in orders of chance.
fn orders<'a>(input: &'a [u8], count: usize, random: &mut fastrand::Rng) -> Vec<Vec<&'a [u8]>> {
    let forward = items(b'\n', input);
    let mut orders = vec![forward.clone(), forward.iter().rev().copied().collect()];
    while orders.len() < count {
        let mut shuffled = forward.clone();
        random.shuffle(&mut shuffled);
        orders.push(shuffled);
    }
    orders
}

#[test]
fn of_many_runs_on_the_same_lines_one_prints_each() {
    let mut random = fastrand::Rng::with_seed(7);
    let input = repetitive_lines(&mut random, 200_000);
    for count in [2, 4] {
        let orders = orders(&input, count, &mut random);
        // A store that dedup makes, by whichever run comes first.
        each_comes_once(&Lab::new(), &orders, &[]);
        each_comes_once(&Lab::new(), &orders, &["--kind", "scalable"]);
        let create = ["create", "--capacity", "200k", "--fpr", "1e-9"];
        // A commit comes much later than the buffer is full.
        let lab = Lab::new();
        lab.run(&[&create[..], &["--transactional", "store"]].concat())
            .expect(0);
        each_comes_once(&lab, &orders, &["--buffer", "512k"]);
    }
}

/// Two have filled the buffer and wait for more to read; the third has to make them no trouble, nor they it.
#[test]
fn a_buffer_full_of_what_others_have_not_committed_ends_no_run() {
    for kind in ["fingerprint", "scalable"] {
        others_fill_the_buffer(&["dedup", "--buffer", "128k", "--kind", kind, "store"]);
    }
}

fn others_fill_the_buffer(dedup: &[&str]) {
    let lab = Lab::new();
    let others: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let mut child = lab.start(dedup);
            let lines = (0..1600).map(|number| format!("{name} {number}\n"));
            let lines: String = lines.collect();
            let mut stdin = child.stdin.take().expect("standard input is a pipe");
            stdin.write_all(lines.as_bytes()).expect("it reads");
            let mut out = child.stdout.take().expect("standard output is a pipe");
            let mut printed = vec![0; lines.len()];
            out.read_exact(&mut printed).expect("it prints them all");
            assert!(printed == lines.as_bytes());
            (child, stdin)
        })
        .collect();
    let input = distinct_lines(10_000);
    assert!(lab.run_on(dedup, &input).expect(0) == input);
    for (child, stdin) in others {
        drop(stdin);
        let (status, err) = wait(child);
        assert!(status.success(), "{status}: {err}");
    }
    assert_eq!(lab.run_on(dedup, b"a 0\nb 1599\n").expect(0), b"");
}

/// A number from the environment, for long runs and for failures.
fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("the variable is a number"))
}

/// A line that looks like an address; the same number is the same line.
fn line(number: u64) -> String {
    let noise = fastrand::Rng::with_seed(number).u64(..);
    let rest = &"/archive/of/pages/that/were/visited.html"[..(noise % 40) as usize];
    format!("https://example.org/{number}{rest}")
}

/// One who feeds a run on a store with lines of his own, until it is killed or done.
struct Job<'a> {
    lab: &'a Lab,
    random: fastrand::Rng,
    input: Vec<u8>,
    output: String,
}

impl Job<'_> {
    /// Starts it on all of its input; with `kill` it is killed somewhere. Answers whether that was so.
    fn run(&mut self, kill: bool) -> bool {
        let every = self.random.choice([100, 1000, 10_000, 1_000_000]);
        let every = every.unwrap_or(1000).to_string();
        let path = self.lab.path(&self.output);
        let output = File::options().create(true).append(true).open(path);
        let args = ["dedup", "--buffer", "1M", "--commit-every", &every, "store"];
        let mut child = self
            .lab
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(output.expect("it can be appended to"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        // Some when they have read all of it: then it commits and closes.
        let most = self.input.len() + self.input.len() / 4;
        let fed = if kill {
            self.random.usize(..most)
        } else {
            usize::MAX
        };
        let end = fed.min(self.input.len());
        // Should it end before, it says why.
        let _ = stdin.write_all(&self.input[..end]);
        if fed >= self.input.len() {
            drop(stdin);
        }
        if kill {
            for _ in 0..self.random.u32(..2000) {
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
fn whoever_is_killed_no_line_is_lost() {
    const JOBS: u64 = 3;
    let goal = variable("EVERSEEN_KILLS").map_or(10, |all| all.div_ceil(8));
    let seed = variable("EVERSEEN_SEED").unwrap_or(11);
    let mut random = fastrand::Rng::with_seed(seed);
    let kills = AtomicU64::new(0);
    for round in 0.. {
        if kills.load(Ordering::Relaxed) >= goal {
            break;
        }
        let begun = kills.load(Ordering::Relaxed);
        println!("seed {seed}, round {round}, {begun} kills before");
        let lab = Lab::new();
        // Or one that dedup makes.
        let create = match random.u8(..4) {
            0 => "create --kind scalable --transactional store",
            1 => "create --capacity 100k --fpr 1e-9 --transactional store",
            _ => "",
        };
        if !create.is_empty() {
            lab.run(&create.split(' ').collect::<Vec<_>>()).expect(0);
        }
        let mut jobs: Vec<Job<'_>> = (0..JOBS)
            .map(|number| {
                // Most lines are in more than one input.
                let lines: Vec<String> = (0..30_000).map(|_| line(random.u64(..40_000))).collect();
                Job {
                    lab: &lab,
                    random: random.fork(),
                    input: lines.join("\n").into_bytes(),
                    output: format!("output-{number}"),
                }
            })
            .collect();
        thread::scope(|scope| {
            for job in &mut jobs {
                scope.spawn(|| {
                    for _ in 0..10 {
                        if job.run(true) {
                            kills.fetch_add(1, Ordering::Relaxed);
                        } else {
                            break;
                        }
                    }
                    job.run(false);
                });
            }
        });
        let outputs: Vec<Vec<u8>> = jobs
            .iter()
            .map(|job| std::fs::read(lab.path(&job.output)).expect("it was written"))
            .collect();
        let printed = outputs.iter().flat_map(|output| items(b'\n', output));
        let printed: HashSet<&[u8]> = printed.collect();
        let all: BTreeSet<&[u8]> = jobs
            .iter()
            .flat_map(|job| items(b'\n', &job.input))
            .collect();
        let lost: Vec<_> = all
            .iter()
            .filter(|line| !printed.contains(**line))
            .collect();
        assert!(
            lost.is_empty(),
            "{} lines are lost, such as {:?}",
            lost.len(),
            String::from_utf8_lossy(lost[0])
        );
        // What else was printed is what a kill has left of a line.
        for line in printed.iter().filter(|line| !all.contains(**line)) {
            let next = all.range(*line..).next();
            assert!(
                next.is_some_and(|next| next.starts_with(line)),
                "{:?} is in no input",
                String::from_utf8_lossy(line)
            );
        }
        for job in &jobs {
            assert_eq!(lab.run_on(&["dedup", "store"], &job.input).expect(0), b"");
        }
    }
    eprintln!("{} kills survived", kills.load(Ordering::Relaxed));
}
