//! Something writes into the memory that the handles of an open store share: no panic, no signal, no hang; each call
//! is right or a typed error; and whoever opens the store afterwards finds every acknowledged key.
//!
//! Each trial is a child, this test binary started again, that works on a store with one handle or two, and between its
//! calls, or all the while, puts other words into `NAME-shm` and `NAME-shm.*`. Then it closes the store, or ends
//! without a word, and another child opens it and judges. What is acknowledged is what the first child was told.
//!
//! `EVERSEEN_MEMORY_TRIALS` sets how many trials, `EVERSEEN_SEED` which; a failure prints the seed of its trial, and
//! `EVERSEEN_MEMORY_TRIAL` repeats that one alone.
#![cfg(unix)]

mod judge;
mod ledger;
mod meanwhile;
mod named;
mod spoil;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use everseen::Kind;
use everseen::testing::{LEAST_BUFFER, Options};

use crate::support::numbers::Random;
use crate::support::unsynced::Unsynced;

/// The variable that tells a child what to do: its part, the seed and the store.
const TASK: &str = "EVERSEEN_MEMORY_TASK";

/// Far longer than any trial takes.
const PATIENCE: Duration = Duration::from_secs(240);

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What a trial is like.
#[derive(Debug, Clone)]
pub struct Trial {
    pub seed: u64,
    pub kind: Kind,
    pub transactional: bool,
    /// In a year: what is inserted here is remembered, whatever time the memory tells.
    pub forgets: bool,
    pub background: bool,
    /// Buffers grow with the filter.
    pub follows: bool,
    pub handles: usize,
    /// Words change at any moment, and not between calls alone.
    pub meanwhile: bool,
    /// It ends without a word.
    pub dies: bool,
}

impl Trial {
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (kind, transactional, forgets) = [
            (Kind::Bloom, false, false),
            (Kind::Bloom, true, false),
            (Kind::Scalable, false, false),
            (Kind::Scalable, true, false),
            (Kind::Counting, false, false),
            (Kind::Fingerprint, false, false),
            (Kind::Fingerprint, true, false),
            (Kind::Fingerprint, false, true),
            (Kind::Fingerprint, true, true),
        ][random.below(9) as usize];
        Self {
            seed,
            kind,
            transactional,
            forgets,
            background: random.below(2) == 0,
            handles: 1 + random.below(2) as usize,
            meanwhile: random.below(4) == 0,
            dies: random.below(3) == 0,
            follows: random.below(2) == 0,
        }
    }

    pub fn options(&self) -> Options {
        let options = match self.follows {
            true => Options::new().buffer_between(LEAST_BUFFER, 32 * LEAST_BUFFER),
            false => Options::new().buffer(LEAST_BUFFER),
        };
        let options = options
            .kind(self.kind)
            .transactional(self.transactional)
            .fpr(1e-9)
            .measured(false)
            .seed([7; 32])
            .least_run(if self.transactional { 16 } else { 8192 })
            .background(self.background)
            .timeout(Duration::from_millis(300))
            .storage(Unsynced::new());
        let options = match self.kind {
            Kind::Scalable => options,
            _ => options.capacity(200_000),
        };
        match self.forgets {
            true => options.forget_after(YEAR),
            false => options,
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Has a child play its part, and answers what it told of it, after what was `told` before.
fn run(part: &str, seed: u64, path: &Path, told: String) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hostile_memory::child",
            "--ignored",
            "--nocapture",
        ])
        .env(TASK, format!("{part} {seed} {}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    let told = told + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "EVERSEEN_MEMORY_TRIAL={seed}: {part} ended with {}: {:?}\n{told}",
        output.status,
        Trial::of(seed),
    );
    told
}

#[test]
#[ignore = "not a test: what the other tests start"]
fn child() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        eprintln!("it hangs");
        std::process::abort();
    });
    let mut words = task.splitn(3, ' ');
    let mut next = || words.next().unwrap();
    let (part, seed, path) = (next(), next(), PathBuf::from(next()));
    let trial = Trial::of(seed.parse().unwrap());
    match part {
        "work" => work::work(&trial, &path),
        _ => judge::judge(&trial, &path),
    }
}

fn try_one(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let told = run("work", seed, &path, String::new());
    run("judge", seed, &path, told);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn whatever_is_in_shared_memory_no_acknowledged_key_is_lost() {
    if let Some(seed) = number("EVERSEEN_MEMORY_TRIAL") {
        return try_one(seed);
    }
    let seed = number("EVERSEEN_SEED").unwrap_or(16);
    let trials = number("EVERSEEN_MEMORY_TRIALS").unwrap_or(10);
    println!("EVERSEEN_SEED={seed} EVERSEEN_MEMORY_TRIALS={trials}");
    let mut seeds = Random::new(seed);
    for _ in 0..trials {
        try_one(seeds.next());
    }
}
