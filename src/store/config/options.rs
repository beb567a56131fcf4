//! How a store is made and opened.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::superblock::MAX_WRITER_NAME;
use crate::hash::Hash;
use crate::page::Kind;
use crate::store::config::damage_policy::OnDamage;
use crate::store::config::template::Template;
use crate::store::coordination::place::Place;
use crate::sys::storage::{self, Storage};

/// Memory for the write buffer and all scratch, unless told otherwise: 64 MiB. A larger filter gets
/// as much as it has itself, up to [`MOST_DEFAULT_BUFFER`]; a disk with little room, a fourth of that.
pub const DEFAULT_BUFFER: u64 = 64 << 20;
/// The most of the same that a handle takes unless told: 256 MiB.
pub const MOST_DEFAULT_BUFFER: u64 = 256 << 20;
/// The least memory for the write buffer: 128 KiB.
pub const LEAST_BUFFER: u64 = 128 << 10;
/// How long a handle waits for others, unless told otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Keys of a growing store's first layer, unless told otherwise.
pub const DEFAULT_FIRST_LAYER: u64 = 1 << 20;
/// The false-positive rate, unless told otherwise.
pub const DEFAULT_FPR: f64 = 1e-6;

/// How a store is made and opened.
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
    pub(crate) fpr: Option<f64>,
    pub(crate) bits_per_key: Option<f64>,
    pub(crate) growth: u32,
    pub(crate) tightening: f64,
    pub(crate) hash: Hash,
    pub(crate) seed: Option<[u8; 32]>,
    pub(crate) transactional: Option<bool>,
    pub(crate) foldable: u32,
    pub(crate) measured: Option<bool>,
    pub(crate) like: Option<Arc<Template>>,
    pub(crate) times: u64,
    pub(crate) buffer: u64,
    /// Whether `buffer` was told, or is to be found when the filter's size is known.
    pub(crate) granted: bool,
    pub(crate) writer: String,
    pub(crate) background: bool,
    pub(crate) exclusive: bool,
    pub(crate) timeout: Duration,
    pub(crate) on_damage: OnDamage,
    pub(crate) storage: Arc<dyn Storage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kind: None,
            capacity: None,
            fpr: None,
            bits_per_key: None,
            growth: 2,
            tightening: 0.85,
            hash: Hash::default(),
            seed: None,
            transactional: None,
            foldable: 0,
            measured: None,
            like: None,
            times: 1,
            buffer: DEFAULT_BUFFER,
            granted: false,
            writer: "default".to_owned(),
            background: true,
            exclusive: false,
            timeout: DEFAULT_TIMEOUT,
            on_damage: OnDamage::default(),
            storage: storage::disk(),
        }
    }
}

impl Options {
    /// The defaults: a store that grows, at a rate of 1e-6, hashed by HighwayHash with a random key.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a new store: which kind of filter. Unless told, [`Kind::Bloom`] where a
    /// [`capacity`](Self::capacity) is given, else [`Kind::Scalable`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// For a new store: how many keys it is for; of [`Kind::Scalable`], how many its first layer is
    /// for (1,048,576 unless told).
    pub fn capacity(mut self, keys: u64) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// For a new store: the false-positive rate at capacity, above 0 and below 1 (1e-6 unless
    /// told). Of [`Kind::Scalable`], the bound of the rate of all layers together.
    pub fn fpr(mut self, rate: f64) -> Self {
        self.fpr = Some(rate);
        self
    }

    /// For a new store of fixed capacity: filter bits a key, in place of a rate.
    pub fn bits_per_key(mut self, bits: f64) -> Self {
        self.bits_per_key = Some(bits);
        self
    }

    /// For a new store that grows: how many times as large each layer is as the one before it, 2
    /// to 16 (2 unless told).
    pub fn growth(mut self, factor: u32) -> Self {
        self.growth = factor;
        self
    }

    /// For a new store that grows: the rate of each layer over that of the one before it, between
    /// 0 and 1 (0.85 unless told).
    pub fn tightening(mut self, ratio: f64) -> Self {
        self.tightening = ratio;
        self
    }

    /// For a new store: the algorithm that turns keys into 64 bits.
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = hash;
        self
    }

    /// For a new store: the key of the hash, in place of a random one. Who knows it can choose
    /// colliding keys; give one only to make stores that agree with each other.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// For a new store: what a handle has not committed when it is closed, dropped or killed never
    /// happened. Otherwise every insert that returned outlives the process. Unless told it is not so, but a store that
    /// is [`like`](Self::like) another is as that one.
    pub fn transactional(mut self, yes: bool) -> Self {
        self.transactional = Some(yes);
        self
    }

    /// For a new store: whether it keeps a share of its keys exactly, one in 4096 or fewer (as few as take
    /// less than a hundredth of the filter), so that [`Store::measured`] can tell how often it was wrong.
    /// It does unless told otherwise, and a store that is [`like`](Self::like) another does as that one. A store that is [merged](crate::Merge) from others does not, nor does one of
    /// [`Kind::Counting`]: of a key that was removed nobody knows why it is seen.
    pub fn measured(mut self, yes: bool) -> Self {
        self.measured = Some(yes);
        self
    }

    /// Bytes of memory for both write buffers and all scratch, 128 KiB or more. Unless told they are
    /// as many as the filter has when it is opened, and between 64 and 256 MiB; but no more than a
    /// fourth of what the disk has room for, where both buffers are files while the store is open
    /// ([`Error::NoRoomForBuffer`] where those that were asked for don't fit). More make for fewer,
    /// denser checkpoints.
    ///
    /// Of threads that look up or insert large batches at once, each but the first takes a thirty-second
    /// more. Beside it a handle uses one bit for each page of the filter (1/32768 of its size).
    pub fn buffer(mut self, bytes: u64) -> Self {
        (self.buffer, self.granted) = (bytes, true);
        self
    }

    /// The name under which this handle commits, 1 to 255 bytes ("default" unless told).
    pub fn writer(mut self, name: &str) -> Self {
        self.writer = name.to_owned();
        self
    }

    /// Whether checkpoints run on a thread of their own (they do unless told otherwise), and on a second
    /// one while somebody waits for them, as at closing; or on the thread whose insert filled the buffer.
    pub fn background(mut self, yes: bool) -> Self {
        self.background = yes;
        self
    }

    /// Opens the store for this handle alone, or not at all: [`Error::Locked`] if anybody has it
    /// open. The buffer is private then, and inserts take no lock between processes.
    pub fn exclusive(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// How long this handle waits for others, at opening, closing, and when the buffer is full and
    /// another process is at its checkpoint: 30 seconds unless told. Then [`Error::Busy`].
    pub fn timeout(mut self, patience: Duration) -> Self {
        self.timeout = patience;
        self
    }

    /// What this handle does when it meets a damaged page: answers an error unless told otherwise.
    pub fn on_damage(mut self, policy: OnDamage) -> Self {
        self.on_damage = policy;
        self
    }

    /// Where files lie: [`storage::disk`], unless a test puts something in between. Locks are
    /// always the operating system's.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// For a new store that is [`like`](Self::like) another of fixed capacity: so many times its
    /// pages, 1 or more, and room for as many keys as keep the same rate in them. It can be merged with
    /// the other one all the same, which folds it.
    pub fn times(mut self, factor: u64) -> Self {
        self.times = factor;
        self
    }

    /// For a new store of fixed capacity: its number of pages is rounded up to a multiple of
    /// 2^`levels`, so that it can be [folded](crate::Merge::fold) in half so many times; 0 to 20, 0
    /// unless told.
    pub fn foldable(mut self, levels: u32) -> Self {
        self.foldable = levels;
        self
    }

    /// Refuses what no store can be opened with.
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
        if !(1..=MAX_WRITER_NAME).contains(&self.writer.len()) {
            let got = format!("{} bytes", self.writer.len());
            return wrong("writer", "a name of 1 to 255 bytes", got);
        }
        Ok(())
    }

    /// The same for the files of a store's folder, by whatever name that goes later.
    pub(crate) fn within(&self, place: &Place) -> Self {
        let mut options = self.clone();
        if let Some(storage) = self.storage.within(place.folder()) {
            options.storage = storage;
        }
        options
    }

    /// Whether a new store keeps a sample of its keys.
    pub(crate) fn is_measured(&self) -> bool {
        let like = self.like.as_ref().is_none_or(|like| like.is_measured());
        self.measured.unwrap_or(like)
    }
}
