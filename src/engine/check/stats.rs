//! What a store knows about itself without reading its pages.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::forget_by::ForgetBy;
use crate::engine::Engine;
use crate::engine::check::fullness::KeyCounter;
use crate::engine::check::measured::{Measured, measured};
use crate::engine::view::{View, ViewCell};
use crate::engine::write::Writer;
use crate::engine::write::commit::Commit;
use crate::error::{Error, Result};
use crate::file::run_table::Draining;
use crate::file::superblock::Commits;
use crate::file::{Header, Layer, Superblock};
use crate::filter::check as filter;
use crate::generation::sampling::Sampling;
use crate::hash::Hash;
use crate::page::Kind;
use crate::sizing::{self, Cell};
use crate::storefile::store_file::StoreFile;
use crate::sys::LockWaits;

/// The result of [`Store::stats`](crate::Store::stats).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// The kind of filter.
    pub kind: Kind,
    /// The algorithm that turns keys into 64 bits.
    pub hash: Hash,
    /// Keys the store was created for, or may grow to; `None` if it grows in layers.
    pub capacity: Option<u64>,
    /// The bound on the false-positive rate, set when the store was created.
    pub fpr_target: f64,
    /// The false-positive rate expected of its pages at their current fill. In a store of
    /// [`Kind::Fingerprint`](crate::Kind::Fingerprint) this is exact, or an upper bound if it forgets.
    pub fpr_now: f64,
    /// Keys the store holds: in pages and in the write buffer, uncommitted ones included. In a counting store, inserts
    /// minus removes. In a store that [forgets](crate::CreateOptions::forget_after), forgotten ones that no checkpoint has dropped
    /// yet, and at most: a key that came again, or went, may be counted once more until the [`runs`](Self::runs) that have it are
    /// merged.
    pub keys: u64,
    /// The most keys the store takes; see [`Fullness::limit`](crate::Fullness::limit).
    pub key_limit: u64,
    /// Keys left until that limit: this many may be inserted before the rate passes its target.
    pub keys_left: u64,
    /// Keys that were [exempt](crate::Store::exempt) at the last checkpoint. Keys inserted since then are still counted.
    pub exempt: u64,
    /// How often inserts were wrong so far, measured on a sample of the keys as of the last checkpoint. `None` if the
    /// store was [created](crate::CreateOptions::measured) without a sample, or if the sample is damaged.
    pub measured: Option<Measured>,
    /// Bytes of the store file.
    pub bytes: u64,
    /// Filter bits per key of capacity, or per key in the pages if the store grows (0 while there are none).
    pub bits_per_key: f64,
    /// The number of checkpoints, plus one.
    pub generation: u64,
    /// Bytes of records in the logs.
    pub log_bytes: u64,
    /// Bytes of memory that write buffers take now: the active one, and the one that a checkpoint moves into the pages,
    /// if any. All handles share them.
    pub buffer_bytes: u64,
    /// How often this handle has taken the writer lock since it was opened: mostly once for each batch of up to 512
    /// keys that contains a new one, and for each commit.
    pub lock_taken: u64,
    /// The total time that its threads have waited for the writer lock.
    pub lock_waited: Duration,
    /// Whether uncommitted operations are dropped at close or death.
    pub transactional: bool,
    /// The last commit of each writer, by name.
    pub commits: Vec<Commit>,
    /// The layers, oldest first.
    pub layers: Vec<LayerStats>,
    /// The runs, oldest first, in a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint); none in others.
    /// [`Store::checkpoint_full`](crate::Store::checkpoint_full) makes them one.
    pub runs: Vec<RunStats>,
    /// How it forgets; `None` if it keeps keys for ever.
    pub forgetting: Option<Forgetting>,
    /// A random number that distinguishes the store from all others.
    pub store_id: [u8; 16],
    /// When the store was created, in seconds since 1970.
    pub created: u64,
}

/// How a store [forgets](crate::CreateOptions::forget_after).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgetting {
    /// How long each key is seen at least.
    pub window: Duration,
    /// Which event of a key starts its window.
    pub by: ForgetBy,
    /// In how many steps ages are counted: a key is seen for no longer than one step more than the window.
    pub steps: u32,
    /// The time of the store. Unless the handle was [told](crate::OpenOptions::clock) another, it stands still where the
    /// system's clock is behind it.
    pub now: SystemTime,
    /// No key in the pages came later; `None` before the first checkpoint.
    pub latest: Option<SystemTime>,
    /// No key in the pages came earlier; `None` if that is not known. Some that came before [`now`](Self::now) less the window
    /// may be forgotten, and stay there until a checkpoint merges what they lie in.
    pub earliest: Option<SystemTime>,
}

impl Forgetting {
    fn of(view: &View, header: &Header) -> Option<Self> {
        let (window, clock) = (header.window?, view.clock.as_ref()?);
        let time = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
        let (latest, earliest) = (view.superblock.clock, view.superblock.earliest);
        Some(Self {
            window: Duration::from_millis(window.milliseconds()),
            by: ForgetBy::of(header.renews()),
            steps: window.steps(),
            now: time(clock.now()),
            latest: (latest > 0).then(|| time(latest)),
            earliest: (earliest > 0).then(|| time(window.begin_of(earliest))),
        })
    }
}

/// One run of a store of fingerprints: what checkpoints brought, merged with runs of its size.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStats {
    /// Keys that it adds to the older runs; in a store that forgets, keys that came, whether the older ones have them or not.
    pub added: u64,
    /// Keys of older runs that it takes away, likewise. The oldest run has none.
    pub removed: u64,
    /// Its pages of 4096 bytes.
    pub pages: u64,
    /// How many entries checkpoints have still to write until it is merged into the next older run: their share with each
    /// key that comes. 0 if that has not begun.
    pub due: u64,
}

/// One layer of a store.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerStats {
    /// Keys the layer was planned for.
    pub capacity: u64,
    /// Keys in it.
    pub keys: u64,
    /// Its pages of 4096 bytes.
    pub pages: u64,
    /// Its filter bits: 32,640 per page. In a counting store, four of them are one counter.
    pub bits: u64,
    /// Bits, or counters, per key.
    pub k: u32,
    /// The share of bits expected to be set, or of counters expected to be above 0.
    pub fill: f64,
    /// The false-positive rate expected of it now.
    pub fpr: f64,
}

impl LayerStats {
    fn of(layer: &Layer, cell: Cell) -> Self {
        Self {
            capacity: layer.capacity,
            keys: layer.keys,
            pages: layer.pages,
            bits: layer.pages * sizing::PAGE_BITS,
            k: layer.probes,
            fill: cell.expected_fill(layer.keys, layer.pages, layer.probes),
            fpr: cell.expected_rate(layer.keys, layer.pages, layer.probes),
        }
    }
}

/// Collects the counts that a store keeps about itself.
pub(crate) fn stats(engine: &Engine) -> Result<Stats> {
    engine.handle.check_usable()?;
    let collector = StatsCollector {
        file: &engine.file,
        views: &engine.views,
        waits: &engine.writer.waits,
        keys: KeyCounter::of(engine),
        sampling: engine.sample.sampling,
    };
    collector.collect(Writer::of(engine).named_commits()?)
}

fn runs_of(superblock: &Superblock) -> Vec<RunStats> {
    let oldest = superblock.directory.iter().map(|oldest| RunStats {
        added: oldest.keys,
        removed: 0,
        pages: oldest.pages,
        due: 0,
    });
    let below = superblock.directories();
    let younger = superblock.runs().iter().zip(below).map(|(run, below)| {
        let rest = |draining: Draining| draining.rest(run.directory.keys, below.keys);
        RunStats {
            added: run.came(),
            removed: run.went,
            pages: run.directory.pages,
            due: run.draining().map_or(0, rest),
        }
    });
    // Runs stand above an oldest one, whose fingerprints theirs are told from.
    debug_assert!(superblock.directory.is_some() || superblock.runs().is_empty());
    oldest.chain(younger).collect()
}

struct StatsCollector<'a> {
    file: &'a StoreFile,
    views: &'a ViewCell,
    waits: &'a LockWaits,
    keys: KeyCounter<'a>,
    sampling: Option<Sampling>,
}

impl StatsCollector<'_> {
    fn collect(&self, commits: Commits) -> Result<Stats> {
        let header = &self.file.header;
        let view = self.views.current()?;
        let fullness = self.keys.fullness_of(&view);
        let superblock = &view.superblock;
        let layers: Vec<_> = superblock
            .layers
            .iter()
            .map(|layer| LayerStats::of(layer, header.kind.cell()))
            .collect();
        let buffers = || view.sealed.iter().chain([&view.active]);
        let length = self.file.raw.length();
        Ok(Stats {
            kind: header.kind,
            hash: header.hash,
            capacity: header.growth().is_none().then_some(header.capacity),
            fpr_target: header.fpr,
            fpr_now: filter::expected_rate(header, superblock),
            keys: fullness.keys,
            key_limit: fullness.limit,
            keys_left: fullness.left(),
            exempt: view
                .sections
                .exempt
                .as_ref()
                .map_or(0, |exempt| exempt.count()),
            measured: measured(&view, self.sampling),
            bytes: length.map_err(|error| Error::io("measure", &self.file.place, error))?,
            bits_per_key: filter::bits_per_key(header, superblock),
            generation: superblock.generation,
            log_bytes: buffers()
                .map(|one| one.buffer.tail().end)
                .fold(0, u64::saturating_add),
            buffer_bytes: view.buffer_bytes(),
            lock_taken: self.waits.taken(),
            lock_waited: self.waits.waited(),
            transactional: header.transactional,
            commits: commits
                .into_iter()
                .map(|(writer, entry)| Commit {
                    writer,
                    sequence: entry.sequence,
                    tag: entry.tag,
                })
                .collect(),
            layers,
            runs: runs_of(superblock),
            forgetting: Forgetting::of(&view, header),
            store_id: header.store_id,
            created: header.created,
        })
    }
}
