//! How a store is created and opened.

use std::sync::Arc;
use std::time::Duration;

use crate::config::damage_policy::OnDamage;
use crate::config::template::Template;
use crate::error::{Error, Result};
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::label::{LABEL_WRITER, MAX_LABEL};
use crate::file::superblock::MAX_WRITER_NAME;
use crate::hash::Hash;
use crate::page::Kind;
use crate::shm::locks::DYING;
use crate::shm::place::Place;
use crate::sys::storage::{self, Storage};

/// The memory for the write buffers and all scratch that a handle takes by default when it opens a small filter, and
/// the least that it goes back to: 64 MiB. See [`Options::buffer`].
pub const DEFAULT_BUFFER: u64 = 64 << 20;
/// The most memory that a handle takes by default before it has filled a buffer: 256 MiB. See [`Options::buffer`].
pub const MOST_FIRST_BUFFER: u64 = 256 << 20;
/// The minimum memory for the write buffer: 128 KiB.
pub const LEAST_BUFFER: u64 = 128 << 10;
/// How long a handle waits for others by default: 30 seconds.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The default number of keys of the first layer of a store of [`Kind::Scalable`].
pub const DEFAULT_FIRST_LAYER: u64 = 1 << 20;
/// How many times as large each layer of a store of [`Kind::Scalable`] is as the one before it by default.
pub const DEFAULT_GROWTH: u32 = 2;
/// The ratio of each layer's rate to that of the layer before it in a store of [`Kind::Scalable`] by default.
pub const DEFAULT_TIGHTENING: f64 = 0.85;
/// The default false-positive rate.
pub const DEFAULT_FPR: f64 = 1e-6;
/// The default number of keys that a store of [`Kind::Fingerprint`] may grow to: 2^36.
pub const DEFAULT_GROWS_TO: u64 = 1 << 36;
/// The least segments that a checkpoint merges between two publications of them, which take three syncs each.
const LEAST_IN_STEP: u64 = 16;

/// How a store is created and opened.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("urls.ever");
/// use everseen::Options;
///
/// let store = Options::new().capacity(1_000_000).fpr(1e-4).create(&path)?;
/// assert!(store.insert(b"https://example.org/")?);
/// store.close()?;
///
/// let store = Options::new().open(&path)?;
/// assert!(!store.insert(b"https://example.org/")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) kind: Option<Kind>,
    pub(crate) capacity: Option<u64>,
    pub(crate) grows_to: Option<u64>,
    pub(crate) fpr: Option<f64>,
    pub(crate) bits_per_key: Option<f64>,
    pub(crate) growth: u32,
    pub(crate) tightening: f64,
    pub(crate) hash: Option<Hash>,
    pub(crate) seed: Option<[u8; 32]>,
    pub(crate) transactional: Option<bool>,
    pub(crate) foldable: u32,
    pub(crate) measured: Option<bool>,
    pub(crate) label: Option<Vec<u8>>,
    pub(crate) like: Option<Arc<Template>>,
    pub(crate) times: u64,
    pub(crate) buffer: u64,
    /// Whether the caller set `buffer`. Otherwise it is computed once the filter's size is known.
    pub(crate) granted: bool,
    /// The bounds within which memory follows the filter, unless `buffer` is set.
    pub(crate) between: Option<(u64, u64)>,
    pub(crate) writer: String,
    pub(crate) background: bool,
    pub(crate) exclusive: bool,
    pub(crate) timeout: Duration,
    /// How long to wait for the locks of a process that is dying.
    pub(crate) dying: Duration,
    pub(crate) on_damage: OnDamage,
    pub(crate) follow: bool,
    pub(crate) segment_pages: u64,
    pub(crate) step_segments: u64,
    /// The bytes of segments from which on they are worth a negative filter, whatever memory there is; `None` decides
    /// by memory.
    pub(crate) filtered_from: Option<u64>,
    pub(crate) storage: Arc<dyn Storage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kind: None,
            capacity: None,
            grows_to: None,
            fpr: None,
            bits_per_key: None,
            growth: DEFAULT_GROWTH,
            tightening: DEFAULT_TIGHTENING,
            hash: None,
            seed: None,
            transactional: None,
            foldable: 0,
            measured: None,
            label: None,
            like: None,
            times: 1,
            buffer: DEFAULT_BUFFER,
            granted: false,
            between: None,
            writer: "default".to_owned(),
            background: true,
            exclusive: false,
            timeout: DEFAULT_TIMEOUT,
            dying: DYING,
            on_damage: OnDamage::default(),
            follow: false,
            segment_pages: TARGET_PAGES as u64,
            step_segments: LEAST_IN_STEP,
            filtered_from: None,
            storage: storage::disk(),
        }
    }
}

impl Options {
    /// Returns the defaults: a store of [`Kind::Fingerprint`], which grows, at a rate of 1e-6, hashed by HighwayHash with a
    /// random key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the kind of filter of a new store. Defaults to [`Kind::Bloom`] where a [`capacity`](Self::capacity) is
    /// given, to [`Kind::Scalable`] where its layers are ([`growth`](Self::growth), [`tightening`](Self::tightening)), else
    /// to [`Kind::Fingerprint`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Returns the kind that a new store gets.
    pub(crate) fn kind_of_new(&self) -> Kind {
        let shapes_layers = self.growth != DEFAULT_GROWTH || self.tightening != DEFAULT_TIGHTENING;
        let default = || Kind::default_for(self.capacity.is_some(), shapes_layers);
        self.kind.unwrap_or_else(default)
    }

    /// Sets how many keys a new store is for. For [`Kind::Scalable`], this is the capacity of its first layer
    /// (1,048,576 by default).
    pub fn capacity(mut self, keys: u64) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// Sets how many keys a new store of [`Kind::Fingerprint`] may grow to. Defaults to 2^36, or to as many as keep the
    /// rate among 2^63 fingerprints. The more there may be, the more bits each key takes: one for each doubling.
    pub fn grows_to(mut self, keys: u64) -> Self {
        self.grows_to = Some(keys);
        self
    }

    /// Sets the false-positive rate of a new store at capacity, above 0 and below 1 (1e-6 by default). For
    /// [`Kind::Scalable`], it bounds the rate of all layers together.
    pub fn fpr(mut self, rate: f64) -> Self {
        self.fpr = Some(rate);
        self
    }

    /// Sets the filter bits per key of a new store of fixed capacity, instead of a rate.
    pub fn bits_per_key(mut self, bits: f64) -> Self {
        self.bits_per_key = Some(bits);
        self
    }

    /// Sets how many times as large each layer of a new store of [`Kind::Scalable`] is as the one before it, 2 to 16 (2 by
    /// default). Another factor than the default asks for that kind, unless a kind or a capacity is given.
    pub fn growth(mut self, factor: u32) -> Self {
        self.growth = factor;
        self
    }

    /// Sets the ratio of each layer's rate to that of the layer before it in a new store of [`Kind::Scalable`], between 0
    /// and 1 (0.85 by default). Another ratio than the default asks for that kind, unless a kind or a capacity is given.
    pub fn tightening(mut self, ratio: f64) -> Self {
        self.tightening = ratio;
        self
    }

    /// Sets the algorithm with which a new store hashes keys to 64 bits.
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = Some(hash);
        self
    }

    /// Sets the hash key of a new store, instead of a random one. Anyone who knows it can choose colliding keys; set it
    /// only to create stores that agree with each other.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets whether a new store is transactional: then closing a handle **drops** what the handle has not
    /// [committed](crate::Store::commit), as dropping or killing it does; the inserts never happened, and
    /// [`close`](crate::Store::close) returns how many they were. Otherwise every insert that returned outlives the
    /// process.
    ///
    /// Defaults to `false`, so that a program that never commits loses nothing; to the other store's setting for a store
    /// that is [`like`](Self::like) another; for one that is [merged](crate::Merge) from others to whether all of them
    /// are. The command `everseen` creates transactional stores.
    pub fn transactional(mut self, yes: bool) -> Self {
        self.transactional = Some(yes);
        self
    }

    /// Sets whether a new store keeps a share of its keys exactly, so that
    /// [`Store::measured`](crate::Store::measured) can report how often it was wrong. The share is one key in 4096, or
    /// fewer so that it takes less than a hundredth of the filter.
    ///
    /// Defaults to `true`, or to the other store's setting for a store that is [`like`](Self::like) another. A store
    /// that is [merged](crate::Merge) from others keeps no such sample, nor does one of [`Kind::Counting`]: why a
    /// removed key is seen cannot be known.
    pub fn measured(mut self, yes: bool) -> Self {
        self.measured = Some(yes);
        self
    }

    /// Gives a new store a label: up to 4096 bytes of the application's own, such as the version of the rules by which it
    /// makes keys of its data. The store never interprets them, and they never change. [`Store::label`](crate::Store::label)
    /// returns them, of each copy of the store too. No bytes are no label.
    ///
    /// Defaults to no label, or to the other store's for a store that is [`like`](Self::like) another. A store that is
    /// [merged](crate::Merge) from others has the label that all of them have.
    pub fn label(mut self, label: &[u8]) -> Self {
        self.label = Some(label.to_vec());
        self
    }

    /// Sets the bytes of memory for both write buffers and all scratch, 128 KiB or more. More memory makes for fewer,
    /// denser checkpoints.
    ///
    /// By default memory follows the filter. A handle begins with the filter's size, within 64 to 256 MiB. Each further
    /// buffer is up to four times as large as the one before it, as long as both take less than four times the filter's
    /// size, an eighth of the memory that the process may have (of physical memory, or of a control group's), a fourth
    /// of what is available now, and a fourth of the disk's free space: buffers are files on the disk while the store is
    /// open. For the same reason they take at most half of the dirty memory from which on the system writes to the disk
    /// in the background; buffers of an [`exclusive`](Self::exclusive) handle are no files, and are not bound by that.
    /// When the system runs short, the next buffers are smaller again. [`Stats::buffer_bytes`](crate::Stats) says what
    /// they take.
    ///
    /// The first handle to open a store decides for all that join it, except that a handle makes no buffer larger than
    /// what it is set to, or than the first. If buffers of an explicitly set size do not fit on the disk, the error is
    /// [`Error::NoRoomForBuffer`].
    ///
    /// A handle that is idle keeps the buffers that it has last seen until its next call, even if others have replaced
    /// them since.
    ///
    /// When several threads look up or insert large batches at once, each but the first takes another thirty-second of
    /// these bytes. In addition, a handle uses one bit per page of the filter (1/32768 of its size), or
    /// for a [`Kind::Fingerprint`] 12 to 16 bytes.
    ///
    /// By default, a handle that fills a store of [`Kind::Fingerprint`] with one buffer after another also keeps a filter of
    /// absent keys in memory, with 3 to 12 bits for each key: at most a sixteenth of the memory that the process may have, and
    /// an eighth of what is available. With a size that is set here there is none.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = bytes;
        (self.granted, self.between) = (true, None);
        self
    }

    /// Lets the memory for write buffers and scratch follow the filter within these bounds, instead of from 64 MiB up.
    /// The other bounds that apply by default still do; see [`buffer`](Self::buffer), which this replaces.
    pub fn buffer_between(mut self, least: u64, most: u64) -> Self {
        self.buffer = least;
        (self.granted, self.between) = (false, Some((least, most)));
        self
    }

    /// Sets the name under which this handle commits, 1 to 255 bytes ("default" by default). Two handles of one name are
    /// not refused, and overwrite each other's tags.
    pub fn writer(mut self, name: &str) -> Self {
        self.writer = name.to_owned();
        self
    }

    /// Sets whether checkpoints run on a thread of their own, and on a second one while a caller waits for them, as at
    /// closing. Otherwise they run on the thread whose insert filled the buffer. Defaults to `true`.
    pub fn background(mut self, yes: bool) -> Self {
        self.background = yes;
        self
    }

    /// Opens the store for this handle exclusively, or not at all: [`Error::Locked`] if any other handle has it open.
    /// The buffer is then private, and inserts take no lock between processes.
    pub fn exclusive(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// Sets how long this handle waits for others before it returns [`Error::Busy`]: at opening, at closing, and when
    /// the buffer is full and another process is running a checkpoint. Defaults to 30 seconds.
    pub fn timeout(mut self, patience: Duration) -> Self {
        self.timeout = patience;
        self
    }

    /// Sets what this handle does when it meets a damaged page. Defaults to an error.
    pub fn on_damage(mut self, policy: OnDamage) -> Self {
        self.on_damage = policy;
        self
    }

    /// Sets whether a handle of [`open_read_only`](Self::open_read_only) follows the store from one writer to the next, by
    /// opening it again whenever that is needed. Defaults to `false`.
    ///
    /// Each answer then belongs to a moment within its call, and the answers of a call with many keys to one or more such
    /// moments: what returned in any process before the call began is seen, whether that process still has the store open,
    /// has closed it or was killed. Three things differ from that:
    ///
    /// - While another handle has the store [exclusively](Self::exclusive), nobody else can see what it writes: answers
    ///   are those of the last moment before that was looked at. Once it has used the room of what they come from, a call
    ///   waits for it, and then fails with [`Error::Locked`].
    /// - A file that replaces the store under its name is not followed: [`Error::Replaced`].
    /// - A call fails with [`Error::Busy`] if others take longer than the [timeout](Self::timeout) to open or close the
    ///   store, or if a hundred writers come and go during the call.
    ///
    /// It is off by default because such a call may wait for others, and because an open handle that doesn't follow is a
    /// copy of one moment, as far as its kind of store allows: see [`open_read_only`](Self::open_read_only). Handles that
    /// write, and those that read beside a writer, see everything at once in any case.
    pub fn follow(mut self, yes: bool) -> Self {
        self.follow = yes;
        self
    }

    /// Sets how many pages a segment has that this handle writes, about: 2 to 1020 (1020 by default). For tests, so that
    /// a store of [`Kind::Fingerprint`] with few keys has several segments.
    #[doc(hidden)]
    pub fn segment_pages(mut self, pages: u64) -> Self {
        self.segment_pages = pages;
        self
    }

    /// Sets how long an opener waits for locks that a dying process may hold (a second by default). For tests, so that none
    /// depends on how fast its own threads are.
    #[doc(hidden)]
    pub fn dying(mut self, patience: Duration) -> Self {
        self.dying = patience;
        self
    }

    /// Sets how many segments of a store of [`Kind::Fingerprint`] a checkpoint merges at least before it publishes them and
    /// uses the room of the old ones: 1 or more (16 by default). For tests, so that a small store is merged in several steps.
    #[doc(hidden)]
    pub fn step_segments(mut self, segments: u64) -> Self {
        self.step_segments = segments.max(1);
        self
    }

    /// Sets how many bytes of segments get a negative filter, whatever memory there is. For tests, so that a small
    /// store of [`Kind::Fingerprint`] has one.
    #[doc(hidden)]
    pub fn filtered_from(mut self, bytes: u64) -> Self {
        self.filtered_from = Some(bytes);
        self
    }

    /// Sets where files lie. Defaults to [`storage::disk`]; a test may put a layer in between. Locks are always those
    /// of the operating system.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// Gives a new store that is [`like`](Self::like) another of fixed capacity `factor` times that store's pages, 1 or
    /// more, and room for as many keys as keep the same rate in them. It can still be merged with the other store,
    /// which folds it.
    pub fn times(mut self, factor: u64) -> Self {
        self.times = factor;
        self
    }

    /// Rounds the number of pages of a new store of fixed capacity up to a multiple of 2^`levels`, so that the store
    /// can be [folded](crate::Merge::fold) in half `levels` times. 0 to 20, 0 by default.
    pub fn foldable(mut self, levels: u32) -> Self {
        self.foldable = levels;
        self
    }

    /// Refuses options with which no store can be opened.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |option, expected: &str, got: String| {
            Err(Error::InvalidOption {
                option,
                expected: expected.to_owned(),
                got,
            })
        };
        if self.buffer < LEAST_BUFFER {
            return wrong("buffer", "at least 131072 bytes", self.buffer.to_string());
        }
        if let Some((least, most)) = self.between
            && least > most
        {
            let expected = format!("at least {least} bytes at most");
            return wrong("buffer", &expected, most.to_string());
        }
        if !(1..=MAX_WRITER_NAME).contains(&self.writer.len()) {
            let got = format!("{} bytes", self.writer.len());
            return wrong("writer", "a name of 1 to 255 bytes", got);
        }
        if self.writer == LABEL_WRITER {
            let expected = "a name other than that of the label";
            return wrong("writer", expected, self.writer.clone());
        }
        if !(2..=TARGET_PAGES as u64).contains(&self.segment_pages) {
            let got = self.segment_pages.to_string();
            return wrong("segment_pages", "2 to 1020", got);
        }
        let label = self.label.as_deref().unwrap_or_default();
        if label.len() > MAX_LABEL {
            let got = format!("{} bytes", label.len());
            return wrong("label", "at most 4096 bytes", got);
        }
        Ok(())
    }

    /// Returns the same options for files of the store's directory, whatever it is renamed to later.
    pub(crate) fn within(&self, place: &Place) -> Self {
        let mut options = self.clone();
        if let Some(storage) = self.storage.within(place.folder()) {
            options.storage = storage;
        }
        options
    }

    /// Returns the label of a new store, empty if it has none.
    pub(crate) fn new_label(&self) -> &[u8] {
        let like = self.like.as_ref().and_then(|like| like.label.as_deref());
        self.label.as_deref().or(like).unwrap_or_default()
    }

    /// Returns whether a new store keeps a sample of its keys.
    pub(crate) fn is_measured(&self) -> bool {
        let like = self.like.as_ref().is_none_or(|like| like.is_measured());
        self.measured.unwrap_or(like)
    }
}
