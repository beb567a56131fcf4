//! Starting children, watching them, and adding up what they tell.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::child::{BEGINS, PEAK, SUM, Task, VARIABLE, WRONG};

/// Children that work at once.
const CHILDREN: u64 = 2;
/// How many seconds one image may take. It takes some milliseconds, and a store that waits for another handle, of which
/// there is none, gives up much earlier; but the machine may be busy.
const PATIENCE: u32 = 120;
/// They are counted one by one: when a whole machine stands still for a while, it counts as one.
const SECOND: Duration = Duration::from_secs(1);

/// What children tell when all is well.
#[derive(Debug, Default)]
struct Told {
    sums: BTreeMap<String, u64>,
    peak: u64,
}

/// Shares a task among children; fails with the first image that is treated wrongly.
pub fn share(task: Task) {
    let begun = Instant::now();
    let shares = (0..CHILDREN).map(|child| Task {
        first: task.first + child * task.step,
        step: task.step * CHILDREN,
        ..task
    });
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(move || run(share)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    let mut all = Told::default();
    for outcome in outcomes {
        let told =
            outcome.unwrap_or_else(|wrong| panic!("EVERSEEN_SEED={}, image {wrong}", task.seed));
        for (what, count) in told.sums {
            *all.sums.entry(what).or_default() += count;
        }
        all.peak = all.peak.max(told.peak);
    }
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    println!(
        "{:>12} bytes of memory at most, the rig's own among them",
        all.peak
    );
    for (what, count) in all.sums {
        println!("{count:>12} {what}");
    }
}

/// Runs one child to its end, or to the first image that it does not survive.
fn run(task: Task) -> Result<Told, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "damage::child::work", "--ignored", "--nocapture"])
        .env(VARIABLE, task.encode())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut told = Told::default();
    let mut current = "none".to_owned();
    let mut wrong = None;
    let mut quiet = 0;
    loop {
        let line = match receiver.recv_timeout(SECOND) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if quiet < PATIENCE => {
                quiet += 1;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                let threads = threads_of(child.id());
                child.kill().unwrap();
                child.wait().unwrap();
                return Err(format!("{current}: hangs; its threads: {threads}"));
            }
        };
        quiet = 0;
        if let Some(number) = line.strip_prefix(BEGINS) {
            current = number.to_owned();
        } else if let Some(text) = line.strip_prefix(WRONG) {
            wrong.get_or_insert(text.to_owned());
        } else if let Some(peak) = line.strip_prefix(PEAK) {
            told.peak = peak.parse().unwrap();
        } else if let Some(sum) = line.strip_prefix(SUM) {
            let (count, what) = sum.split_once(' ').unwrap();
            told.sums.insert(what.to_owned(), count.parse().unwrap());
        }
    }
    let status = child.wait().unwrap();
    match wrong {
        Some(wrong) => Err(wrong),
        None if status.success() => Ok(told),
        None => Err(format!("{current}: the child ended with {status}")),
    }
}

/// What each thread of a process waits for, if the system tells.
fn threads_of(process: u32) -> String {
    let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return "unknown".to_owned();
    };
    let describe = |path: &Path| {
        let state = read(path, "stat")
            .rsplit(") ")
            .next()
            .map(|rest| rest.chars().take(1).collect());
        let state: String = state.unwrap_or_default();
        format!("{state} {}", read(path, "wchan"))
    };
    let threads: Vec<_> = threads
        .flatten()
        .map(|thread| describe(&thread.path()))
        .collect();
    threads.join(", ")
}
