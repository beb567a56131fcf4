//! The real store, whose steps are driven by hand.

use crate::testing::{Appending, GivenRun, Options};
use crate::{BatchError, ClaimOptions, Kind, Precheck};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::model::{EXEMPT, Model};
use super::{Place, Point, Script, Step};
use crate::api::store::Store;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::read::Reader;
use crate::engine::read::point::{Found, look_up};
use crate::engine::view::View;
use crate::engine::write::Writer;
use crate::engine::write::verdict::Verdict;
use crate::error::{Error, Result};
use crate::hash::{HashedKey, finalise};
use crate::memtable::Presence;
use crate::testing::LEAST_BUFFER;

/// The hashes with one fingerprint.
const HASHES: [u64; 2] = [1 << 63, (1 << 63) + 1];
/// Other keys, so many that there are several segments and a checkpoint has several steps.
const FILLERS: u64 = 4500;
/// Those of the oldest run. The others came in a younger one, with a key that went again.
const OLDEST: u64 = 3000;
const NAME: &str = "store";

/// The real store, and what it must say.
pub(super) struct World {
    folder: TempDir,
    /// Handles whose steps are explored, and one that rotates, checkpoints and keeps the store open.
    handles: [Arc<Store>; 2],
    keeper: Store,
    turn: u64,
    model: Model,
}

fn options() -> Options {
    let options = Options::new()
        .kind(Kind::Fingerprint)
        .background(false)
        .measured(false);
    let options = options
        .capacity(8000)
        .fpr(1e-12)
        .buffer(LEAST_BUFFER)
        .transactional(true);
    options.segment_pages(2).step_segments(1)
}

fn place() -> TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

impl World {
    pub(super) fn new() -> Self {
        let folder = place();
        let keeper = options().create(folder.path().join(NAME)).unwrap();
        for part in Vec::from_iter(0..OLDEST).chunks(500) {
            let part: Vec<_> = part
                .iter()
                .map(|n| HashedKey::from_bits(finalise(*n)))
                .collect();
            keeper.claim_batch(&part, ClaimOptions::new()).unwrap();
            keeper.commit().unwrap();
        }
        keeper.close().unwrap();
        let path = folder.path().join(NAME);
        // The first checkpoint merges all runs into one, between any two other steps.
        let came = (OLDEST..FILLERS).map(finalise).chain([HASHES[0]]);
        let came = GivenRun {
            came: came.collect(),
            ..GivenRun::default()
        };
        let went = GivenRun {
            went: vec![HASHES[0]],
            ..GivenRun::default()
        };
        options().add_runs(&path, &[came, went]).unwrap();
        let keeper = options().open(&path).unwrap();
        Self {
            handles: [(); 2].map(|()| open(&path)),
            folder,
            keeper,
            turn: 0,
            model: Model::default(),
        }
    }

    /// Changes a filler in each part of the range, so that the next checkpoint writes all segments again.
    fn change_fillers(&mut self) {
        let mut fillers: Vec<u64> = (0..64).map(finalise).collect();
        fillers.sort_unstable();
        let fillers = fillers
            .iter()
            .step_by(8)
            .map(|bits| HashedKey::from_bits(*bits));
        let fillers: Vec<_> = fillers.collect();
        let mut outcome = Vec::new();
        match self.turn % 2 {
            0 => self.keeper.remove_into(&fillers, &mut outcome).unwrap(),
            _ => {
                let mut verdicts = Vec::new();
                self.keeper.claim_into(&fillers, &mut verdicts).unwrap();
                outcome.extend(verdicts.iter().map(|verdict| *verdict == Verdict::New));
            }
        }
        assert!(outcome.iter().all(|changed| *changed), "{outcome:?}");
        self.keeper.commit().unwrap();
        self.turn += 1;
    }

    /// What the buffers say of the fingerprint, beside the model.
    pub(super) fn place(&self) -> Place {
        let view = self.view();
        let active = &view.active.buffer;
        let says = match active.lookup(HASHES[0]) {
            Presence::Absent => 0,
            Presence::Settled => 1,
            Presence::Removed => 2,
            Presence::Open(_) => 3,
            Presence::Removing(_) => 4,
            Presence::RemovingBelow(_) => 5,
        };
        let is_there = active.slot_of(HASHES[0]).is_some();
        (self.model, says, is_there)
    }

    /// Takes a step, if it can be taken now, and checks its outcome.
    pub(super) fn take(&mut self, step: Step) -> bool {
        match step {
            Step::Change(handle, hash, is_insert) => {
                let expected = self.model.change(handle, hash, is_insert);
                assert_eq!(changed(&self.handles[handle], hash, is_insert), expected);
            }
            Step::Commit(handle) => {
                self.handles[handle].commit().unwrap();
                self.model.commit(handle);
            }
            Step::Reopen(handle) => {
                self.handles[handle].close().unwrap();
                self.model.open[handle] = None;
                self.handles[handle] = open(&self.folder.path().join(NAME));
                self.go_on();
            }
            Step::Exempt => {
                let exempts = self.model.exempt();
                let report = Writer::of(&self.keeper.engine)
                    .exempt(vec![HASHES[EXEMPT]])
                    .unwrap();
                assert_eq!(report.exempted == 1, exempts);
            }
            Step::Rotate => {
                if self.model.sealed.is_some() {
                    return false;
                }
                self.change_fillers();
                let writer = Writer::of(&self.keeper.engine);
                assert!(writer.lock().unwrap().seal_active(false).unwrap());
                self.model.rotate();
            }
            Step::Checkpoint { from_log } => {
                if self.model.sealed.is_none() {
                    return false;
                }
                self.checkpoint(from_log);
                self.model.checkpoint();
            }
            Step::Kill => self.kill(),
            Step::Overtake(hash, point, script) => return self.overtake(hash, point, script),
            Step::InsertLate(hash, script) => return self.insert_late(hash, script),
        }
        self.check();
        true
    }

    fn checkpoint(&self, from_log: bool) {
        let checkpointer = Checkpointer::of(&self.keeper.engine);
        if !from_log {
            return checkpointer
                .checkpoint_all(options().open_options().timeout)
                .unwrap();
        }
        let sealed = self.view().sealed.clone().unwrap();
        let log = Writer::of(&self.keeper.engine)
            .logs
            .of(&sealed)
            .map(Arc::clone);
        checkpointer.checkpoint_from_log(&log.unwrap()).unwrap();
    }

    fn kill(&mut self) {
        let folder = place();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let from = entry.unwrap().path();
            let name = from.file_name().unwrap();
            if !name.to_str().unwrap().contains("-shm") {
                std::fs::copy(&from, folder.path().join(name)).unwrap();
            }
        }
        let path = folder.path().join(NAME);
        self.keeper = options().open(&path).unwrap();
        self.handles = [(); 2].map(|()| open(&path));
        self.folder = folder;
        self.model.open = [None; 2];
        self.go_on();
    }

    /// Who opens a store goes on with the checkpoint that is due.
    fn go_on(&mut self) {
        if self.view().sealed.is_none() {
            self.model.checkpoint();
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&*self.keeper.engine.views.current().unwrap())
    }

    fn overtake(&mut self, hash: usize, point: Point, script: Script) -> bool {
        let mut allowed = BTreeSet::from([self.model.has(0, hash)]);
        let looking = Arc::clone(&self.handles[0]);
        let world = RefCell::new((&mut *self, &mut allowed, Some(script)));
        let at = |here: Point| {
            let mut world = world.borrow_mut();
            let (world, allowed, script) = &mut *world;
            if here == point
                && let Some(script) = script.take()
            {
                for between in script.into_iter().flatten() {
                    world.take(between.step());
                    allowed.insert(world.model.has(0, hash));
                }
            }
        };
        let reader = Reader::of(&looking.engine);
        let found = look_up(
            HASHES[hash],
            reader.shared,
            |stale| match stale {
                None => reader.views.current(),
                Some(stale) => reader.view_after(stale),
            },
            |_| at(Point::View),
            |presence| {
                at(Point::Active);
                reader.says_there(presence)
            },
            |view: &View| {
                at(Point::Active);
                let probed = reader.probe(view, HASHES[hash]);
                at(Point::Probed);
                probed
            },
        );
        let found = match found {
            Ok(Found::Present) => true,
            Ok(Found::Absent(())) => false,
            other => panic!("{other:?}"),
        };
        assert!(allowed.contains(&found), "found {found}, not {allowed:?}");
        self.check();
        true
    }

    fn insert_late(&mut self, hash: usize, script: Script) -> bool {
        let key = [HashedKey::from_bits(HASHES[hash])];
        let mut precheck = Precheck::for_claims(&self.handles[0], &key).unwrap();
        let mut was_there = self.model.has(0, hash);
        for between in script.into_iter().flatten() {
            self.take(between.step());
            was_there |= self.model.has(0, hash);
        }
        let mut verdict = Vec::new();
        BatchError::append(
            precheck.claim(&self.handles[0], &key, 0..1, ClaimOptions::new()),
            &mut verdict,
        )
        .unwrap();
        let before = self.model;
        let expected = match self.model.change(0, hash, true) {
            None => Verdict::Pending,
            Some(true) => Verdict::New,
            Some(false) => Verdict::Seen,
        };
        // As if it had been claimed when it was looked for.
        if verdict[0] == Verdict::Seen && was_there {
            self.model = before;
        } else {
            assert_eq!(verdict[0], expected);
        }
        self.check();
        true
    }

    /// Checks what all handles say of both hashes.
    fn check(&self) {
        for (handle, store) in self.handles.iter().enumerate() {
            let expected = [0, 1].map(|hash| self.model.has(handle, hash));
            let reader = Reader::of(&store.engine);
            let found = HASHES.map(|hash| reader.contains(hash).unwrap());
            assert_eq!(found, expected, "handle {handle}");
            let mut found = Vec::new();
            reader.contains_each(&HASHES.to_vec(), &mut found).unwrap();
            assert_eq!(found, expected, "handle {handle}, together");
        }
        if self.model.sealed.is_none() && self.turn.is_multiple_of(2) {
            let keys = self.view().superblock.keys();
            assert_eq!(keys, FILLERS + u64::from(self.model.in_pages));
        }
    }
}

fn open(path: &Path) -> Arc<Store> {
    Arc::new(options().open(path).unwrap())
}

/// Inserts or removes a hash. Returns whether that changed anything, `None` if another handle has to commit first.
fn changed(store: &Store, hash: usize, is_insert: bool) -> Option<bool> {
    let writer = Writer::of(&store.engine);
    let hash = HASHES[hash];
    let outcome: Result<bool> = match is_insert {
        true => match writer.claim_single(hash).unwrap() {
            Verdict::Pending => return None,
            verdict => Ok(verdict == Verdict::New),
        },
        false => writer.remove_single(hash),
    };
    match outcome {
        Err(Error::Busy { .. }) => None,
        outcome => Some(outcome.unwrap()),
    }
}
