//! Random operations of several handles under a simulated clock, held against an exact model: inserts, claims, look-ups,
//! removals, commits, checkpoints, handles that are closed or dropped, kills of all of them, and clocks that jump ahead and
//! back. The long run is `EVERSEEN_OPERATIONS=1000000 cargo test --release --test store -- --nocapture forgetting::model`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{ForgetBy, Store, Verdict};
use tempfile::TempDir;

use super::{STEP, STEPS, at, forgetting};
use crate::support::files::{image, place};
use crate::support::numbers::{Random, key};
use crate::support::share::all_some_or;

/// Keys that are asked for.
const KEYS: u64 = 3000;
/// When a store is made: some time in the middle of a step.
const BEGIN: u64 = 1_700_000_001_234;

/// What a store should know: of each key the step in which it was accepted, and the handle that has claimed it since.
#[derive(Default)]
struct Model {
    clock: u64,
    accepted: BTreeMap<u64, u64>,
    claimed: BTreeMap<u64, usize>,
    /// Whether a key that is seen is as old as its last claim, and who renews one with the next commit.
    by_last: bool,
    renewed: BTreeMap<u64, usize>,
}

impl Model {
    fn step(&self) -> u64 {
        self.clock / STEP
    }

    fn is_seen(&self, number: u64) -> bool {
        let step = self.accepted.get(&number);
        step.is_some_and(|step| step + STEPS >= self.step())
    }

    fn seen(&self) -> u64 {
        let steps = self.accepted.values();
        steps.filter(|step| **step + STEPS >= self.step()).count() as u64
    }

    fn claim(&mut self, number: u64, handle: usize, transactional: bool) -> Verdict {
        if self.is_seen(number) {
            self.renew(number, handle, transactional);
            return Verdict::Seen;
        }
        // What is renewed may be forgotten before the commit.
        let open = self.claimed.get(&number).or(self.renewed.get(&number));
        match open {
            Some(by) if *by == handle => Verdict::Seen,
            Some(_) => Verdict::Pending,
            None if transactional => {
                self.claimed.insert(number, handle);
                Verdict::New
            }
            None => {
                self.accepted.insert(number, self.step());
                Verdict::New
            }
        }
    }

    /// Makes a key that came in an earlier step as old as this one, unless another handle is about to.
    fn renew(&mut self, number: u64, handle: usize, transactional: bool) {
        let step = self.step();
        if !self.by_last || self.accepted[&number] == step {
            return;
        }
        match transactional {
            true => drop(self.renewed.entry(number).or_insert(handle)),
            false => drop(self.accepted.insert(number, step)),
        }
    }

    fn commit(&mut self, handle: usize) {
        let step = self.step();
        let changed = self.claimed.iter().chain(&self.renewed);
        let own = changed.filter(|(_, by)| **by == handle);
        self.accepted.extend(own.map(|(number, _)| (*number, step)));
        self.abort(handle);
    }

    fn abort(&mut self, handle: usize) {
        self.claimed.retain(|_, by| *by != handle);
        self.renewed.retain(|_, by| *by != handle);
    }
}

/// How a store is made and used.
#[derive(Debug, Clone, Copy)]
struct Way {
    transactional: bool,
    /// One has the store exclusively.
    handles: usize,
    /// Whether checkpoints run on a thread of their own.
    background: bool,
    /// Whether few keys are a run of their own.
    has_runs: bool,
    by: ForgetBy,
}

/// A store, its model, and the handles that are open.
struct World {
    _folder: TempDir,
    path: PathBuf,
    kind: Way,
    handles: Vec<Store>,
    model: Model,
    random: Random,
}

impl World {
    fn new(seed: u64, kind: Way) -> Self {
        let (folder, path) = place();
        let mut world = Self {
            _folder: folder,
            path,
            kind,
            handles: Vec::new(),
            model: Model {
                clock: BEGIN,
                by_last: kind.by == ForgetBy::Last,
                ..Model::default()
            },
            random: Random::new(seed),
        };
        let made = world.options().transactional(kind.transactional);
        made.create(&world.path).unwrap().close().unwrap();
        world.open_all();
        world
    }

    fn options(&self) -> Options {
        let options = forgetting(self.model.clock).forget_by(self.kind.by);
        let options = options.step_segments(2);
        let options = options.exclusive(self.kind.handles == 1);
        let options = options.background(self.kind.background);
        match self.kind.has_runs {
            true => options.least_run(16).least_at_once(1),
            false => options,
        }
    }

    fn open_all(&mut self) {
        let options = self.options();
        self.handles = (0..self.kind.handles)
            .map(|_| options.open(&self.path).unwrap())
            .collect();
    }

    /// Some numbers of keys, most of them near each other: many come again.
    fn numbers(&mut self, most: u64) -> Vec<u64> {
        let (count, first) = (1 + self.random.below(most), self.random.below(KEYS));
        (0..count)
            .map(|_| (first + self.random.below(most)) % KEYS)
            .collect()
    }

    fn step(&mut self) {
        let handle = self.random.below(self.kind.handles as u64) as usize;
        match self.random.below(100) {
            0..35 => self.insert(handle),
            35..60 => self.look(handle),
            60..75 => self.pass_time(handle),
            75..80 if !self.kind.transactional => self.remove(handle),
            75..88 if self.kind.transactional => {
                self.handles[handle].commit().unwrap();
                self.model.commit(handle);
            }
            88..93 => self.checkpoint(handle),
            93..95 => self.replace(handle),
            95..96 => self.glance(),
            96..98 => self.close_all(),
            // A copy of what a thread is writing meanwhile would be none that a kill leaves.
            98..100 if !self.kind.background => self.kill_all(),
            _ => {}
        }
    }

    fn insert(&mut self, handle: usize) {
        let numbers = self.numbers(120);
        let keys: Vec<u64> = numbers.iter().map(|number| key(*number)).collect();
        let store = &self.handles[handle];
        let verdicts = match &keys[..] {
            [one] => vec![store.claim(*one).unwrap()],
            keys => store
                .claim_batch(keys, everseen::ClaimOptions::new())
                .unwrap(),
        };
        for (number, verdict) in numbers.into_iter().zip(verdicts) {
            let expected = self.model.claim(number, handle, self.kind.transactional);
            assert_eq!(verdict, expected, "key {number}");
        }
        if self.kind.transactional {
            let changed = self
                .model
                .claimed
                .values()
                .chain(self.model.renewed.values());
            let own = changed.filter(|by| **by == handle).count() as u64;
            assert_eq!(self.handles[handle].uncommitted().unwrap().keys, own);
        }
    }

    fn look(&mut self, handle: usize) {
        let numbers = self.numbers(200);
        let keys: Vec<u64> = numbers.iter().map(|number| key(*number)).collect();
        let store = &self.handles[handle];
        let found = match &keys[..] {
            [one] => vec![store.contains(*one).unwrap()],
            keys => store.contains_batch(keys).unwrap(),
        };
        for (number, found) in numbers.into_iter().zip(found) {
            let model = &self.model;
            let open = |by: &BTreeMap<u64, usize>| by.contains_key(&number);
            let expected = model.is_seen(number) || open(&model.claimed) || open(&model.renewed);
            assert_eq!(found, expected, "key {number}");
        }
    }

    fn pass_time(&mut self, handle: usize) {
        let passed = match self.random.below(20) {
            0 => self.random.below(3 * STEPS * STEP),
            1..4 => STEP + self.random.below(3 * STEP),
            _ => self.random.below(STEP),
        };
        let back = self.random.below(2) * self.random.below(STEP);
        self.model.clock += passed;
        self.handles[handle]
            .advance_to(at(self.model.clock))
            .unwrap();
        // Time never runs backwards.
        self.handles[handle]
            .advance_to(at(self.model.clock - back))
            .unwrap();
    }

    fn remove(&mut self, handle: usize) {
        let numbers: BTreeSet<u64> = self.numbers(20).into_iter().collect();
        for number in numbers {
            let removed = self.handles[handle].remove(key(number)).unwrap();
            assert_eq!(removed, self.model.is_seen(number), "key {number}");
            if removed {
                self.model.accepted.remove(&number);
            }
        }
    }

    /// Replaces a handle by one newly opened. Neither closing nor dropping it commits.
    fn replace(&mut self, handle: usize) {
        let behind = match self.kind.handles {
            // The others know what time it is, whatever the clock of this one shows.
            2.. => self.random.below(2) * self.random.below(3 * STEPS * STEP),
            _ => 0,
        };
        if self.random.below(2) == 0 {
            self.handles[handle].close().unwrap();
        }
        self.model.abort(handle);
        if behind > 0 {
            // Opening tells others nothing. A time that one was told counts for all of them.
            let other = &self.handles[(handle + 1) % self.kind.handles];
            other.advance_to(at(self.model.clock)).unwrap();
        }
        let mut handles = std::mem::take(&mut self.handles);
        drop(handles.remove(handle));
        let options = self.options().clock(at(self.model.clock - behind));
        handles.insert(handle, options.open(&self.path).unwrap());
        self.handles = handles;
    }

    /// One that only reads keeps its time to itself.
    fn glance(&mut self) {
        if self.kind.handles == 1 {
            // The store is another's alone.
            return;
        }
        let ahead = self.random.below(3 * STEPS * STEP);
        let clock = self.model.clock + self.random.below(2) * ahead;
        let reader = forgetting(clock).open_read_only(&self.path).unwrap();
        let numbers = self.numbers(200);
        let keys: Vec<u64> = numbers.iter().map(|number| key(*number)).collect();
        for (number, found) in numbers.iter().zip(reader.contains_batch(&keys).unwrap()) {
            let model = &self.model;
            let step = model.accepted.get(number);
            let is_remembered = step.is_some_and(|step| step + STEPS >= clock / STEP);
            let is_open = model.claimed.contains_key(number) || model.renewed.contains_key(number);
            let expected = is_remembered || is_open;
            assert_eq!(found, expected, "key {number} by a reader");
        }
    }

    /// After a checkpoint the pages have what is remembered, and nothing else. Runs may have it twice.
    fn checkpoint(&mut self, handle: usize) {
        let is_full = self.random.below(3) == 0;
        let store = &self.handles[handle];
        match is_full {
            true => store.checkpoint_full().unwrap(),
            false => store.checkpoint().unwrap(),
        }
        let (keys, known) = (store.stats().unwrap().keys, self.model.seen());
        let open = self.model.claimed.len() + self.model.renewed.len();
        let known = known + open as u64;
        match is_full || !self.kind.has_runs {
            true => assert_eq!(keys, known),
            false => assert!(keys >= known, "{keys} of {known}"),
        }
    }

    fn close_all(&mut self) {
        let is_behind = self.random.below(4) == 0;
        if is_behind {
            self.record_time();
        }
        for (number, handle) in std::mem::take(&mut self.handles).iter().enumerate() {
            handle.close().unwrap();
            self.model.abort(number);
        }
        match is_behind {
            true => self.open_behind(),
            false => {
                self.pause();
                self.open_all();
            }
        }
    }

    /// Accepts a key that nothing else asks for, so that the store knows the time without any handle.
    fn record_time(&mut self) {
        let number = KEYS + self.random.below(1 << 40);
        assert!(self.handles[0].insert(key(number)).unwrap());
        self.model.claim(number, 0, self.kind.transactional);
        if self.kind.transactional {
            self.handles[0].commit().unwrap();
            self.model.commit(0);
        }
    }

    /// Opens all handles with a clock that is behind.
    fn open_behind(&mut self) {
        let clock = self.model.clock;
        self.model.clock -= self.random.below(3 * STEPS * STEP);
        self.open_all();
        self.model.clock = clock;
    }

    /// Goes on with what `kill -9` of all handles leaves.
    fn kill_all(&mut self) {
        let (folder, path) = image(&self.path);
        self.handles.clear();
        (self._folder, self.path) = (folder, path);
        self.model.claimed.clear();
        self.model.renewed.clear();
        self.pause();
        self.open_all();
    }

    /// No handle is open for some time.
    fn pause(&mut self) {
        self.model.clock += match self.random.below(4) {
            0 => self.random.below(2 * STEPS * STEP),
            _ => self.random.below(STEP),
        };
    }
}

/// Returns how much time has passed.
fn run(seed: u64, kind: Way, steps: u64) -> u64 {
    println!("seed {seed}, {kind:?}");
    let mut world = World::new(seed, kind);
    for _ in 0..steps {
        world.step();
    }
    for handle in &world.handles {
        assert!(handle.verify().unwrap().is_ok());
    }
    world.model.clock - BEGIN
}

/// Some runs of each way to use a store; with EVERSEEN_ALL=1, more, and with EVERSEEN_OPERATIONS so many operations of both
/// tests. EVERSEEN_SEED begins elsewhere.
fn run_all(transactional: bool) {
    let (mut seeds, steps) = all_some_or((6, 3000), (3, 2000), (2, 1200));
    if let Ok(operations) = std::env::var("EVERSEEN_OPERATIONS") {
        seeds = operations.parse::<u64>().unwrap().div_ceil(2 * 4 * steps);
    }
    let begin = std::env::var("EVERSEEN_SEED").map_or(0, |seed| seed.parse().unwrap());
    let (mut operations, mut passed) = (0, 0);
    for (handles, background) in [(3, false), (3, true), (1, false), (1, true)] {
        for seed in begin..begin + seeds {
            let kind = Way {
                transactional,
                handles,
                background,
                has_runs: seed % 2 == 0,
                by: match (seed / 2 + u64::from(background)) % 2 {
                    0 => ForgetBy::First,
                    _ => ForgetBy::Last,
                },
            };
            passed += run(seed, kind, steps);
            operations += steps;
        }
    }
    let windows = passed / (STEPS * STEP);
    println!("{operations} operations in {windows} windows");
    assert!(windows > operations / 100, "{windows} windows are few");
}

#[test]
fn answers_are_those_of_the_model() {
    run_all(false);
}

#[test]
fn answers_of_a_transactional_store_are_those_of_the_model() {
    run_all(true);
}
