//! Small stores of fingerprints in every state that damage may meet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::image::Image;
use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{place, small};
use crate::support::numbers::key;
use crate::support::segments::{from, newest};

/// A store as it lies on the disk, and what is known of its keys.
pub struct Known {
    pub name: String,
    pub image: Image,
    /// Whether each key is there.
    pub truth: BTreeMap<u64, bool>,
    /// Keys that a log names.
    pub logged: BTreeSet<u64>,
    /// It has no log, and nothing more to do.
    pub closed: bool,
}

/// A store at work.
struct Making {
    _folder: TempDir,
    path: PathBuf,
    storage: FaultStorage,
    options: Options,
    truth: BTreeMap<u64, bool>,
    logged: BTreeSet<u64>,
    next: u64,
}

impl Making {
    fn new(transactional: bool) -> Self {
        let (folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let options = small()
            .kind(Kind::Fingerprint)
            .capacity(10_000)
            .fpr(1e-12)
            .segment_pages(2)
            .step_segments(2)
            .transactional(transactional)
            .storage(storage.shared());
        options.create(&path).unwrap().close().unwrap();
        let never = (1 << 40..(1 << 40) + 60).map(|number| (key(number), false));
        Self {
            _folder: folder,
            path,
            storage,
            options,
            truth: never.collect(),
            logged: BTreeSet::new(),
            next: 0,
        }
    }

    fn open(&self) -> Store {
        self.options.open(&self.path).unwrap()
    }

    /// Inserts new keys and removes some of the first.
    fn change(&mut self, store: &Store, inserts: u64, removes: usize, counts: bool) {
        let there = self.truth.iter().filter(|(_, there)| **there);
        let gone: Vec<u64> = there.map(|(raw, _)| *raw).take(removes).collect();
        let new: Vec<u64> = (self.next..self.next + inserts).map(key).collect();
        self.next += inserts;
        assert!(store.insert_batch(&new).unwrap().iter().all(|new| *new));
        for raw in &gone {
            assert!(store.remove(*raw).unwrap());
        }
        self.logged.extend(new.iter().chain(&gone));
        let changes = new.iter().map(|raw| (*raw, counts));
        self.truth.extend(changes);
        if counts {
            self.truth.extend(gone.iter().map(|raw| (*raw, false)));
        }
    }

    /// Sessions that end well, so that room is written again.
    fn sessions(mut self, count: u64) -> Self {
        for session in 0..count {
            let store = self.open();
            self.change(&store, 800, 50 * session as usize, true);
            store.commit_with(b"early").unwrap();
            store.close().unwrap();
            self.logged.clear();
        }
        self
    }

    fn done(&mut self, name: String) -> Known {
        let image = Image::take(&self.path);
        self.storage.heal();
        Known {
            name,
            closed: image.0.len() == 1,
            image,
            truth: std::mem::take(&mut self.truth),
            logged: std::mem::take(&mut self.logged),
        }
    }
}

/// What has been committed in the log, and what has not.
fn killed(transactional: bool) -> Known {
    let mut making = Making::new(transactional).sessions(3);
    let store = making.open();
    making.change(&store, 60, 30, true);
    store.commit_with(b"one").unwrap();
    making.change(&store, 20, 10, true);
    store.commit_with(b"two").unwrap();
    making.change(&store, 20, 10, !transactional);
    let known = making.done(format!("killed, transactional {transactional}"));
    store.close().unwrap();
    known
}

/// A checkpoint that is broken off in the middle of a write; then another log.
fn broken_off(write: u64) -> Known {
    let mut making = Making::new(false).sessions(2);
    let store = making.open();
    making.change(&store, 300, 30, true);
    store.commit_with(b"one").unwrap();
    let torn = Fault::Torn(Failure::NoSpace);
    making
        .storage
        .arm(Rule::from(write, torn).on(Call::Write).on_store());
    store.checkpoint().unwrap_err();
    making.change(&store, 20, 5, true);
    store.commit_with(b"two").unwrap();
    let known = making.done(format!("checkpoint broken off at write {write}"));
    store.close().unwrap();
    known
}

/// All of them, the same each time but for salts and ids.
pub fn all() -> Vec<Known> {
    let mut stores = vec![
        Making::new(false)
            .sessions(1)
            .done("young, closed".to_owned()),
        Making::new(false).sessions(5).done("closed".to_owned()),
        Making::new(true)
            .sessions(4)
            .done("transactional, closed".to_owned()),
        killed(false),
        killed(true),
    ];
    stores.extend((1..=5).map(broken_off));
    let segments = stores.iter().map(|known| {
        let named = newest(&from(known.image.store())).unwrap();
        named.segments.len()
    });
    let several = segments.filter(|segments| *segments > 1).count();
    assert!(several > 3, "{several} stores have several segments");
    stores
}
