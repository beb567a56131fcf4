//! Operations in any order, with kills among them and time that passes, beside a set of numbers.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use everseen::testing::Options;
use everseen::{Kind, Store};
use everseen_fuzz::stores::{self, CLOCK, STEP, STEPS, folder, time};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use tempfile::TempDir;

#[derive(Debug, Arbitrary)]
enum Step {
    Insert(u16),
    /// This many keys from one on, in one batch.
    Batch(u16, u16),
    Contains(u16),
    Commit,
    CommitWith(u8),
    Checkpoint,
    Reopen,
    /// The process dies: its files are copied away as they lie there.
    Kill,
    /// Looks at the store as a reader does that comes while it is open.
    Read,
    /// So many tenths of a step pass in a store that forgets.
    Pass(u8),
}

#[derive(Debug, Arbitrary)]
struct Input {
    kind: u8,
    transactional: bool,
    exclusive: bool,
    /// Whether it forgets, if it is of a kind that can.
    forgets: bool,
    steps: Vec<Step>,
}

/// A store and what must be in it.
struct Twin {
    options: Options,
    folder: TempDir,
    store: Option<Store>,
    /// Keys that were accepted, and the step of that.
    present: HashMap<u64, u64>,
    /// Keys that a kill takes away.
    pending: HashSet<u64>,
    tag: Option<Vec<u8>>,
    transactional: bool,
    exclusive: bool,
    /// The time, if the store forgets.
    clock: Option<u64>,
}

impl Twin {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// The step that it is now; always the same in a store that forgets nothing.
    fn step(&self) -> u64 {
        self.clock.map_or(0, |clock| clock / STEP)
    }

    fn is_there(&self, key: u64) -> bool {
        let step = self.present.get(&key);
        let is_remembered = step.is_some_and(|step| step + STEPS >= self.step());
        is_remembered || self.pending.contains(&key)
    }

    fn pass(&mut self, tenths: u8) {
        if let Some(clock) = &mut self.clock {
            *clock += u64::from(tenths) * STEP / 10;
            let now = time(*clock);
            self.options = self.options.clone().clock(now);
            self.store().advance_to(now).expect("it forgets");
        }
    }

    /// Inserts this many keys from one on; fewer if the transaction would not fit the buffer.
    fn insert_some(&mut self, first: u16, count: u16) {
        let most = self.store().uncommitted().unwrap().most.min(8000);
        let left = most.saturating_sub(self.pending.len() as u64);
        let first = u64::from(first);
        let keys: Vec<u64> = (first..first + left.min(count.into())).collect();
        let answers = self.store().insert_batch(&keys).expect("there is room");
        for (key, new) in keys.into_iter().zip(answers) {
            assert_eq!(new, !self.is_there(key), "key {key}");
            if new && self.transactional {
                self.pending.insert(key);
            } else if new {
                self.present.insert(key, self.step());
            }
        }
    }

    fn commit(&mut self, tag: &[u8]) {
        self.store().commit_with(tag).expect("it can be committed");
        let step = self.step();
        let accepted = self.pending.drain().map(|key| (key, step));
        self.present.extend(accepted);
        self.tag = Some(tag.to_vec());
    }

    fn reopen(&mut self) {
        self.store().close().expect("it can be closed");
        self.store = None;
        self.pending.clear();
        self.open();
    }

    fn kill(&mut self) {
        let files = stores::take(self.folder.path());
        let died = std::mem::replace(&mut self.folder, folder());
        stores::write(&files, self.folder.path());
        // The dead one's folder goes after it has closed.
        self.store = None;
        drop(died);
        self.pending.clear();
        self.open();
    }

    fn open(&mut self) {
        let store = self.options.open(stores::path(&self.folder));
        self.store = Some(store.expect("it can be opened"));
        self.check(self.store());
    }

    fn check(&self, store: &Store) {
        for key in self.present.keys().chain(&self.pending) {
            let found = store.contains(*key).expect("nothing is damaged");
            assert_eq!(found, self.is_there(*key), "key {key}");
        }
        for key in 1 << 40..(1 << 40) + 50 {
            let found = store.contains(key).expect("nothing is damaged");
            assert!(!found, "absent key {key}");
        }
        let commit = store.last_commit("default").expect("logs can be read");
        assert_eq!(commit.map(|commit| commit.tag), self.tag);
        let keys = store.stats().expect("logs can be read").keys;
        let counted = (self.present.len() + self.pending.len()) as u64;
        // What is forgotten counts until it has left.
        assert!(
            keys == counted || self.clock.is_some(),
            "{keys}, not {counted}"
        );
    }
}

fuzz_target!(|input: Input| {
    let kind = match input.kind % 3 {
        0 => Kind::Bloom,
        1 => Kind::Scalable,
        _ => Kind::Fingerprint,
    };
    let forgets = input.forgets && kind == Kind::Fingerprint;
    let mut options = stores::options()
        .kind(kind)
        .capacity(match kind {
            Kind::Scalable => 2000,
            // Keys may come again while they are still in the pages.
            _ if forgets => 1 << 19,
            _ => 1 << 17,
        })
        .fpr(1e-12)
        .seed([7; 32])
        .transactional(input.transactional)
        .exclusive(input.exclusive);
    if forgets {
        options = options.forget_after(Duration::from_millis(STEP * STEPS));
    }
    let folder = folder();
    let store = options
        .create(stores::path(&folder))
        .expect("it can be made");
    let mut twin = Twin {
        options,
        folder,
        store: Some(store),
        present: HashMap::new(),
        pending: HashSet::new(),
        tag: None,
        transactional: input.transactional,
        exclusive: input.exclusive,
        clock: forgets.then_some(CLOCK),
    };
    for step in input.steps.iter().take(40) {
        match step {
            Step::Insert(key) => twin.insert_some(*key, 1),
            Step::Batch(first, count) => twin.insert_some(*first, *count),
            Step::Contains(key) => {
                let key = u64::from(*key);
                let found = twin.store().contains(key).expect("nothing is damaged");
                assert_eq!(found, twin.is_there(key), "key {key}");
            }
            Step::Pass(tenths) => twin.pass(*tenths),
            Step::Commit => twin.commit(&[]),
            Step::CommitWith(tag) => twin.commit(&[*tag]),
            Step::Checkpoint => twin.store().checkpoint().expect("there is room"),
            Step::Reopen => twin.reopen(),
            Step::Kill => twin.kill(),
            Step::Read if twin.exclusive => {}
            Step::Read => {
                let reader = twin.options.open_read_only(stores::path(&twin.folder));
                twin.check(&reader.expect("it can be read"));
            }
        }
    }
    twin.check(twin.store());
    twin.reopen();
    let report = twin.store().verify().expect("it can be read");
    assert!(report.is_ok(), "{report:?}");
});
