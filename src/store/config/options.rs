//! How a store is made and opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::superblock::MAX_WRITER_NAME;
use crate::hash::Hash;
use crate::page::Kind;
use crate::store::api::store::Store;
use crate::store::check::repair::OnDamage;
use crate::store::check::repair::RepairReport;
use crate::store::coordination::place::Place;
use crate::store::open::like::Like;
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
    pub(crate) like: Option<Arc<Like>>,
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

    /// Makes a store and opens it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::DanglingLink`], [`Error::MissingFolder`], [`Error::IsFolder`],
    /// [`Error::Sizing`] and [`Error::InvalidOption`] for parameters that don't fit, and what the
    /// operating system says. After an error there is no store.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        crate::store::open::create::create(self, path.as_ref())
    }

    /// Opens a store for reading and writing, and recovers it if its last user was killed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Locked`] while another handle has it open,
    /// [`Error::Format`] and [`Error::Log`] for damage. After an error nothing has changed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        crate::store::open::handle::open(self, path.as_ref())
    }

    /// Opens a store, or makes it when there is none. What is for new stores counts only then.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store> {
        match self.open(&path) {
            Err(Error::NotFound { .. }) => match self.create(&path) {
                // By somebody else, meanwhile.
                Err(Error::AlreadyExists { .. }) => self.open(path),
                outcome => outcome,
            },
            outcome => outcome,
        }
    }

    /// Opens a store for reading what it held when it was opened, logs included. Writes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Locked`] while somebody has it open for writing. A log of
    /// more keys than the buffer takes is [`Error::InvalidOption`]: read-only, it can't be emptied
    /// into the filter.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        crate::store::open::handle::open_read_only(self, path.as_ref())
    }

    /// Repairs a store that nobody has open, so far as what is left of it allows: restores a damaged
    /// header or superblock from its copies, cuts damaged logs off at the damage, brings what they
    /// hold into the pages, and makes of each damaged page one of which no key is seen, or every
    /// one. Copy the store first if what is lost matters.
    ///
    /// # Errors
    /// As [`open`](Self::open), for damage that can't be repaired: both superblocks, a log's header,
    /// a superblock that told of a layer which no other tells of.
    /// [`Error::InvalidOption`] for [`OnDamage::Error`].
    pub fn repair(&self, path: impl AsRef<Path>, policy: OnDamage) -> Result<RepairReport> {
        self.check()?;
        crate::store::check::offline_repair::repair(self, path.as_ref(), policy)
    }

    fn check(&self) -> Result<()> {
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

    /// The same for a store file of so many bytes, on a disk that has room for so many more. Both buffers are
    /// files there, and logs and pages need room as well.
    pub(crate) fn fit(&self, file: u64, room: u64) -> Self {
        let mut options = self.clone();
        if !self.granted {
            let buffer = file.clamp(DEFAULT_BUFFER, MOST_DEFAULT_BUFFER);
            options.buffer = buffer.min(room / 4).max(LEAST_BUFFER);
        }
        options
    }

    /// The same for buffers that are files beside the store, unless it is for this handle alone.
    pub(crate) fn fit_beside(&self, store: &Place, file: u64) -> Self {
        let room = match self.exclusive {
            true => None,
            false => store.folder().room(),
        };
        self.fit(file, room.unwrap_or(u64::MAX))
    }

    /// Bytes of the buffer of one generation, of which there are two.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer / 16 * 7
    }

    /// Pages that a checkpoint holds in memory at a time: half of what the tables leave. The rest is for
    /// the checkpoint's keys, and for a part of a large batch.
    pub(crate) fn chunk_pages(&self) -> u64 {
        (self.buffer / 16 / crate::sizing::PAGE_BYTES).clamp(1, 1024)
    }

    /// Keys that a checkpoint holds in memory at a time.
    pub(crate) fn chunk_keys(&self) -> u64 {
        (self.buffer / 32 / 8).clamp(64, 1 << 18)
    }

    /// Keys of a large batch that are looked up together. Each takes its hash, its place and whether
    /// it was found.
    pub(crate) fn part_keys(&self) -> usize {
        (self.buffer / 32 / 24).clamp(4096, 1 << 18) as usize
    }

    /// The same where pages come from the disk: all that tables and a checkpoint leave, for their places
    /// and whether they were found.
    pub(crate) fn sweep_keys(&self) -> usize {
        let tables = 2 * self.buffer_bytes();
        let checkpoint = self.chunk_pages() * crate::sizing::PAGE_BYTES + self.chunk_keys() * 8;
        let room = self.buffer.saturating_sub(tables + checkpoint);
        ((room / 5) as usize).clamp(self.part_keys(), 1 << 28)
    }
}
