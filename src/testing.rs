//! What this repository's own rigs use, and no program should: both sets of options in one, the knobs that give a small
//! store many parts, and the seam between the engine and the disk. Not covered by any promise.

mod given_runs;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use given_runs::GivenRun;
use given_runs::add_runs;

use crate::storefile::meta::identify;
use crate::storefile::still_file::StillFile;
use crate::sys::storage::Storage;
pub use crate::sys::{Map, storage};
use crate::{
    ApplyReport, BatchError, ClaimOptions, CreateOptions, ForgetBy, Hash, Key, Kind, Merge,
    OnDamage, OpenOptions, OptionDifference, Progress, RepairReport, Result, Store, Verdict,
    apply_delta, repair,
};

/// [`OpenOptions::LEAST_BUFFER`].
pub const LEAST_BUFFER: u64 = OpenOptions::LEAST_BUFFER;

/// What a rig creates its stores with, and opens them with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a new store is like.
    pub create: CreateOptions,
}

/// Methods of one of the two, which keep the other.
macro_rules! forwarded {
    ($($name:ident($($argument:ident: $kind:ty),*) => $part:ident;)*) => {
        $(
            #[must_use]
            pub fn $name(self, $($argument: $kind),*) -> Self {
                self.$part(|options| options.$name($($argument),*))
            }
        )*
    };
}

impl Options {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn created(mut self, set: impl FnOnce(CreateOptions) -> CreateOptions) -> Self {
        self.create = set(self.create);
        self
    }

    fn opened(mut self, set: impl FnOnce(OpenOptions) -> OpenOptions) -> Self {
        self.create.open = set(self.create.open);
        self
    }

    forwarded! {
        kind(kind: Kind) => created;
        capacity(keys: u64) => created;
        grows_to(keys: u64) => created;
        fpr(rate: f64) => created;
        bits_per_key(bits: f64) => created;
        hash(hash: Hash) => created;
        seed(seed: [u8; 32]) => created;
        transactional(yes: bool) => created;
        measured(yes: bool) => created;
        forget_after(window: Duration) => created;
        forget_steps(steps: u32) => created;
        forget_by(by: ForgetBy) => created;
        label(label: &[u8]) => created;
        times(factor: u64) => created;
        foldable(levels: u32) => created;
        like(path: impl AsRef<Path>) => created;
        buffer(bytes: u64) => opened;
        buffer_between(least: u64, most: u64) => opened;
        writer(name: &str) => opened;
        background(yes: bool) => opened;
        exclusive(yes: bool) => opened;
        timeout(patience: Duration) => opened;
        on_damage(policy: OnDamage) => opened;
        follow(yes: bool) => opened;
        clock(now: SystemTime) => opened;
    }

    #[must_use]
    pub fn growth(mut self, factor: u32) -> Self {
        self.create.growth = factor;
        self
    }

    #[must_use]
    pub fn tightening(mut self, ratio: f64) -> Self {
        self.create.tightening = ratio;
        self
    }

    /// How many pages a segment has that this handle writes, about: 2 to 1020 (1020 by default).
    #[must_use]
    pub fn segment_pages(mut self, pages: u64) -> Self {
        self.create.open.segment_pages = pages;
        self
    }

    /// How many segments a checkpoint merges at least before it publishes them: 1 or more (16 by default).
    #[must_use]
    pub fn step_segments(mut self, segments: u64) -> Self {
        self.create.open.step_segments = segments.max(1);
        self
    }

    /// A run with fewer entries is merged with the next one (8,192 by default). A checkpoint merges as much at once as if
    /// four times as many keys came.
    #[must_use]
    pub fn least_run(mut self, entries: u64) -> Self {
        self.create.open.least_run = entries;
        self.least_at_once(entries.saturating_mul(4))
    }

    /// A checkpoint that brings fewer keys merges as much at once as one that brings so many (32,768 by default).
    #[must_use]
    pub fn least_at_once(mut self, keys: u64) -> Self {
        self.create.open.least_at_once = keys;
        self
    }

    /// A part of a sample with fewer hashes is merged with what comes (4,096 by default).
    #[must_use]
    pub fn least_part(mut self, hashes: u64) -> Self {
        self.create.open.least_part = hashes;
        self
    }

    /// How many bytes of segments get a negative filter, whatever memory there is.
    #[must_use]
    pub fn filtered_from(mut self, bytes: u64) -> Self {
        self.create.open.filtered_from = Some(bytes);
        self
    }

    /// How long an opener waits for locks that a dying process may hold (a second by default), so that no test depends
    /// on how fast its own threads are.
    #[must_use]
    pub fn dying(mut self, patience: Duration) -> Self {
        self.create.open.dying = patience;
        self
    }

    /// Where files lie. Locks are always those of the operating system.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.create.open.storage = storage;
        self
    }

    /// How a store is opened.
    #[must_use]
    pub fn open_options(&self) -> &OpenOptions {
        &self.create.open
    }

    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.create.create(path)
    }

    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_options().open(path)
    }

    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.create.open_or_create(path)
    }

    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_options().open_read_only(path)
    }

    /// A merge that opens its inputs so, with what these options say of the result.
    pub fn merge<'a>(&self) -> Merge<'a> {
        let merge = Merge::new().open_options(self.open_options().clone());
        let merge = match self.create.fpr {
            Some(rate) => merge.fpr(rate),
            None => merge,
        };
        match self.create.transactional {
            Some(yes) => merge.transactional(yes),
            None => merge,
        }
    }

    pub fn differences(&self, store: &Store) -> Result<Vec<OptionDifference>> {
        self.create.differences(store)
    }

    pub fn repair(&self, path: impl AsRef<Path>, policy: OnDamage) -> Result<RepairReport> {
        repair(path, policy, self.open_options())
    }

    pub fn apply(&self, delta: impl AsRef<Path>, copy: impl AsRef<Path>) -> Result<ApplyReport> {
        self.apply_watched(delta, copy, |_| ControlFlow::Continue(()))
    }

    pub fn apply_watched(
        &self,
        delta: impl AsRef<Path>,
        copy: impl AsRef<Path>,
        watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<ApplyReport> {
        apply_delta(delta, copy, self.open_options(), watch)
    }
}

impl Options {
    /// Gives a closed store of fingerprints more runs, the oldest first. Nothing checks that they are true.
    pub fn add_runs(&self, path: impl AsRef<Path>, runs: &[GivenRun]) -> Result<()> {
        let options = self.open_options();
        let (file, meta) = identify(options, path.as_ref(), true)?;
        let Some(space) = meta.header.space() else {
            return Err(crate::Error::WrongKind {
                path: path.as_ref().to_owned(),
                action: "add runs",
                expected: "fingerprint",
                got: meta.header.kind,
            });
        };
        let store = StillFile {
            file: &*file,
            path: path.as_ref(),
            header: &meta.header,
            superblock: &meta.superblock,
        };
        add_runs(store, space, runs, options.segment_pages as usize)
    }
}

/// Batches whose answers join a list, beside an error too, as rigs compare them.
pub trait Appending {
    /// [`Store::claim_batch`], which appends the verdicts.
    fn claim_into<K: Key>(&self, keys: &[K], verdicts: &mut Vec<Verdict>) -> Result<()>;
    /// [`Store::remove_batch`], which appends the answers.
    fn remove_into<K: Key>(&self, keys: &[K], removed: &mut Vec<bool>) -> Result<()>;
}

impl Appending for Store {
    fn claim_into<K: Key>(&self, keys: &[K], verdicts: &mut Vec<Verdict>) -> Result<()> {
        BatchError::append(self.claim_batch(keys, ClaimOptions::new()), verdicts)
    }

    fn remove_into<K: Key>(&self, keys: &[K], removed: &mut Vec<bool>) -> Result<()> {
        BatchError::append(self.remove_batch(keys), removed)
    }
}
