//! Small stores in every state that damage may meet.

use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::image::{Image, STORE};
use super::judge::{Answer, Reading, mix};
use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{place, small};
use crate::support::numbers::key;

/// A log's length with more room than a reader looks at in one go.
const ROOM: usize = 512 << 10;

/// A store as it lies on the disk, and what is known of its keys.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub image: Image,
    /// Keys that count.
    pub inserted: Vec<u64>,
    /// Keys that don't: never inserted, or never committed.
    pub absent: Vec<u64>,
}

/// A store at work.
struct Making {
    _folder: TempDir,
    path: PathBuf,
    storage: FaultStorage,
    options: Options,
    inserted: Vec<u64>,
    uncommitted: Vec<u64>,
    next: u64,
}

impl Making {
    fn new(options: Options) -> Self {
        let (folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let options = options.seed([7; 32]).storage(storage.shared());
        options.create(&path).unwrap().close().unwrap();
        Self {
            _folder: folder,
            path,
            storage,
            options,
            inserted: Vec::new(),
            uncommitted: Vec::new(),
            next: 0,
        }
    }

    fn open(&self) -> Store {
        self.options.open(&self.path).unwrap()
    }

    fn fresh(&mut self, count: u64) -> Vec<u64> {
        let keys = (self.next..self.next + count).map(key).collect();
        self.next += count;
        keys
    }

    fn insert(&mut self, store: &Store, count: u64) {
        let keys = self.fresh(count);
        let new = store.insert_batch(&keys).unwrap();
        assert!(new.iter().all(|new| *new));
        self.inserted.extend(keys);
    }

    fn insert_uncommitted(&mut self, store: &Store, count: u64) {
        self.insert(store, count);
        let from = self.inserted.len() - count as usize;
        self.uncommitted.extend(self.inserted.drain(from..));
    }

    /// A session of its own that ends well.
    fn session(mut self, count: u64) -> Self {
        let store = self.open();
        self.insert(&store, count);
        store.commit_with(b"early").unwrap();
        store.close().unwrap();
        self
    }

    /// What lies there now.
    fn done(&mut self, name: &'static str) -> Scenario {
        let image = Image::take(&self.path);
        self.storage.heal();
        let reading = Reading::of(&image).unwrap();
        let answer = |raw: &u64| reading.answer(mix(image.store(), *raw));
        assert!(
            self.inserted
                .iter()
                .all(|raw| answer(raw) == Answer::Present),
            "{name}: a key is missing"
        );
        let mut absent = std::mem::take(&mut self.uncommitted);
        absent.extend((1 << 40..(1 << 40) + 60).map(key));
        assert!(
            absent.iter().all(|raw| answer(raw) == Answer::Absent),
            "{name}: a key too many"
        );
        Scenario {
            name,
            inserted: std::mem::take(&mut self.inserted),
            absent,
            image,
        }
    }
}

fn bloom() -> Options {
    small().capacity(3000).fpr(1e-9)
}

fn scalable() -> Options {
    small()
        .kind(Kind::Scalable)
        .capacity(150)
        .growth(16)
        .fpr(1e-9)
}

/// All of them, the same each time but for salts and ids.
pub fn all() -> Vec<Scenario> {
    vec![
        Making::new(bloom())
            .session(150)
            .session(150)
            .done("bloom, closed"),
        sparse(),
        Making::new(scalable())
            .session(140)
            .session(300)
            .done("scalable, closed"),
        Making::new(bloom().transactional(true))
            .session(200)
            .done("transactional, closed"),
        killed(Making::new(bloom()).session(100), "bloom, killed"),
        killed(
            Making::new(scalable()).session(140).session(200),
            "scalable, killed",
        ),
        never_closed(),
        transactional_killed(),
        two_logs(bloom(), 1, "bloom, two logs"),
        two_logs(bloom().transactional(true), 1, "transactional, two logs"),
        two_logs(bloom(), 3, "bloom, checkpoint begun"),
        two_logs(scalable(), 4, "scalable, checkpoint begun in a new layer"),
        closing(),
        checkpointed(),
    ]
}

/// Most pages were never written.
fn sparse() -> Scenario {
    let options = small().capacity(30_000).fpr(1e-9);
    Making::new(options)
        .session(6)
        .session(4)
        .done("sparse, closed")
}

/// Four batches in the log: nothing proven, then one mark, two marks, and none after the last.
fn killed(mut making: Making, name: &'static str) -> Scenario {
    let store = making.open();
    making.insert(&store, 20);
    making.insert(&store, 20);
    store.commit_with(b"one").unwrap();
    making.insert(&store, 20);
    store.commit_with(b"two").unwrap();
    making.insert(&store, 20);
    let scenario = making.done(name);
    store.close().unwrap();
    scenario
}

/// Its first log, with much room reserved, and one superblock that is blank.
fn never_closed() -> Scenario {
    let mut making = Making::new(bloom());
    let store = making.open();
    making.insert(&store, 20);
    store.commit().unwrap();
    making.insert(&store, 20);
    let mut scenario = making.done("bloom, never closed");
    for (name, bytes) in &mut scenario.image.0 {
        if name != STORE {
            bytes.resize(ROOM, 0);
        }
    }
    store.close().unwrap();
    scenario
}

/// Two writers by turns, and what neither has committed.
fn transactional_killed() -> Scenario {
    let mut making = Making::new(bloom().transactional(true)).session(100);
    let one = making.open();
    let other = making
        .options
        .clone()
        .writer("other")
        .open(&making.path)
        .unwrap();
    making.insert(&one, 20);
    making.insert(&other, 20);
    one.commit_with(b"one").unwrap();
    making.insert(&one, 20);
    other.commit_with(b"two").unwrap();
    one.commit_with(b"three").unwrap();
    making.insert_uncommitted(&one, 10);
    making.insert_uncommitted(&other, 10);
    let scenario = making.done("transactional, killed");
    other.close().unwrap();
    one.close().unwrap();
    scenario
}

/// A checkpoint that is broken off at its nth write to the store, in the middle of that write; then another log.
fn two_logs(options: Options, write: u64, name: &'static str) -> Scenario {
    let mut making = Making::new(options).session(140);
    let store = making.open();
    making.insert(&store, 120);
    store.commit_with(b"one").unwrap();
    // The superblock that expects the log is written.
    let torn = match write {
        1 => Fault::Fails(Failure::NoSpace),
        _ => Fault::Torn(Failure::NoSpace),
    };
    making
        .storage
        .arm(Rule::from(write, torn).on(Call::Write).on_store());
    store.checkpoint().unwrap_err();
    making.insert(&store, 20);
    store.commit_with(b"two").unwrap();
    making.insert(&store, 20);
    store.commit_with(b"three").unwrap();
    let scenario = making.done(name);
    store.close().unwrap();
    scenario
}

/// Killed while it closed: the log says that none follows.
fn closing() -> Scenario {
    let mut making = Making::new(bloom()).session(140);
    let store = making.open();
    making.insert(&store, 120);
    store.commit_with(b"one").unwrap();
    let full = Fault::Torn(Failure::NoSpace);
    making
        .storage
        .arm(Rule::from(4, full).on(Call::Write).on_store());
    store.close().unwrap_err();
    let scenario = making.done("bloom, killed at closing");
    store.close().unwrap();
    scenario
}

/// Killed when a checkpoint was done and its log not yet removed.
fn checkpointed() -> Scenario {
    let mut making = Making::new(bloom()).session(100);
    let store = making.open();
    making.insert(&store, 60);
    store.commit_with(b"one").unwrap();
    let stays = Fault::Fails(Failure::Broken);
    making.storage.arm(Rule::from(1, stays).on(Call::Remove));
    store.checkpoint().unwrap();
    making.insert(&store, 20);
    store.commit_with(b"two").unwrap();
    making.insert(&store, 20);
    let scenario = making.done("bloom, checkpoint done and its log there");
    store.close().unwrap();
    scenario
}
