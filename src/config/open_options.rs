//! How a handle opens a store.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::label::LABEL_WRITER;
use crate::file::superblock::MAX_WRITER_NAME;
use crate::shm::locks::DYING;
use crate::shm::place::Place;
use crate::sys::storage::{self, Storage};

/// The least segments that a checkpoint merges between two publications of them, which take three syncs each.
const LEAST_IN_STEP: u64 = 16;

/// Entries of a run of fingerprints from which on it is worth keeping apart: the pages, fences and directories of smaller ones
/// take more than what they hold.
pub(crate) const LEAST_RUN: u64 = 8192;
/// A checkpoint merges as much at once as if so many keys had come: with the ratio of runs, some 260,000 entries.
pub(crate) const LEAST_AT_ONCE: u64 = 4 * LEAST_RUN;
/// 32 KiB of hashes.
pub(crate) const LEAST_PART: u64 = 4096;

/// How a handle opens a store: what it may take, how long it waits, and what it does about damage.
///
/// None of this is kept in the store, and each handle may have other options. What a *new* store is like,
/// [`CreateOptions`](crate::CreateOptions) say.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("urls.ever");
/// # everseen::CreateOptions::new().create(&path)?.close()?;
/// use std::time::{Duration, SystemTime};
/// use everseen::OpenOptions;
///
/// let store = OpenOptions::new().writer("crawler-1").timeout(Duration::from_secs(5)).open(&path)?;
/// store.insert("https://example.org/")?;
/// store.commit_with(b"frontier at 1")?;
/// # store.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions {
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
    /// The time of the handle, if the caller tells it.
    pub(crate) clock: Option<SystemTime>,
    /// How many pages a segment has that this handle writes, about: 2 to 1020.
    pub(crate) segment_pages: u64,
    /// How many segments a checkpoint merges at least before it publishes them and uses the room of the old ones.
    pub(crate) step_segments: u64,
    /// A run with fewer entries is merged with the next one.
    pub(crate) least_run: u64,
    /// A checkpoint that brings fewer keys merges as much at once as one that brings so many.
    pub(crate) least_at_once: u64,
    /// A part of a sample with fewer hashes is merged with what comes.
    pub(crate) least_part: u64,
    /// The bytes of segments from which on they are worth a negative filter, whatever memory there is; `None` decides
    /// by memory.
    pub(crate) filtered_from: Option<u64>,
    pub(crate) storage: Arc<dyn Storage>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            buffer: Self::DEFAULT_BUFFER,
            granted: false,
            between: None,
            writer: "default".to_owned(),
            background: true,
            exclusive: false,
            timeout: Self::DEFAULT_TIMEOUT,
            dying: DYING,
            on_damage: OnDamage::default(),
            follow: false,
            clock: None,
            segment_pages: TARGET_PAGES as u64,
            step_segments: LEAST_IN_STEP,
            least_run: LEAST_RUN,
            least_at_once: LEAST_AT_ONCE,
            least_part: LEAST_PART,
            filtered_from: None,
            storage: storage::disk(),
        }
    }
}

impl OpenOptions {
    /// The memory for the write buffers and all scratch that a handle takes by default when it opens a small filter, and
    /// the least that it goes back to: 64 MiB. See [`buffer`](Self::buffer).
    pub const DEFAULT_BUFFER: u64 = 64 << 20;
    /// The most memory that a handle takes by default before it has filled a buffer: 256 MiB. See
    /// [`buffer`](Self::buffer).
    pub const MOST_FIRST_BUFFER: u64 = 256 << 20;
    /// The minimum memory for the write buffer: 128 KiB.
    pub const LEAST_BUFFER: u64 = 128 << 10;
    /// How long a handle waits for others by default: 30 seconds.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the bytes of memory for both write buffers and all scratch, 128 KiB or more. More memory makes for fewer,
    /// denser checkpoints.
    ///
    /// By default memory follows the filter. A handle begins with the filter's size, within 64 to 256 MiB. In a store of
    /// [`Kind::Fingerprint`](crate::Kind::Fingerprint) it begins with 64 MiB, of which the first buffer takes 1 MiB. Each further
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
    /// for a [`Kind::Fingerprint`](crate::Kind::Fingerprint) 12 to 16 bytes.
    ///
    /// By default, a handle that fills a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint) with one buffer after another also keeps a filter of
    /// absent keys in memory, with 3 to 12 bits for each key: at most an eighth of the memory that the process may have, and
    /// a fourth of what is available. With a size that is set here there is none.
    ///
    /// A handle that looks many keys up in a store of several [runs](crate::Store::checkpoint_full) keeps a filter of the younger ones:
    /// 6 to 16 bits for each of their keys, a sixth of all or so. With a size that is set here it takes at most a quarter of
    /// that in addition.
    #[must_use]
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = bytes;
        (self.granted, self.between) = (true, None);
        self
    }

    /// Lets the memory for write buffers and scratch follow the filter within these bounds, instead of from 64 MiB up.
    /// The other bounds that apply by default still do; see [`buffer`](Self::buffer), which this replaces.
    #[must_use]
    pub fn buffer_between(mut self, least: u64, most: u64) -> Self {
        self.buffer = least;
        (self.granted, self.between) = (false, Some((least, most)));
        self
    }

    /// Sets the name under which this handle commits, 1 to 255 bytes ("default" by default). Two handles of one name are
    /// not refused, and overwrite each other's tags.
    #[must_use]
    pub fn writer(mut self, name: &str) -> Self {
        self.writer = name.to_owned();
        self
    }

    /// Sets whether checkpoints run on a thread of their own, and on a second one while a caller waits for them, as at
    /// closing. Otherwise they run on the thread whose insert filled the buffer. Defaults to `true`.
    #[must_use]
    pub fn background(mut self, yes: bool) -> Self {
        self.background = yes;
        self
    }

    /// Opens the store for this handle exclusively, or not at all: [`Error::Locked`] if any other handle has it open.
    /// The buffer is then private, and inserts take no lock between processes.
    #[must_use]
    pub fn exclusive(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// Sets how long this handle waits for others before it returns [`Error::Busy`]: at opening, at closing, and when
    /// the buffer is full and another process is running a checkpoint. Defaults to 30 seconds.
    #[must_use]
    pub fn timeout(mut self, patience: Duration) -> Self {
        self.timeout = patience;
        self
    }

    /// Sets what this handle does when it meets a damaged page. Defaults to an error.
    #[must_use]
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
    #[must_use]
    pub fn follow(mut self, yes: bool) -> Self {
        self.follow = yes;
        self
    }

    /// Tells a store that [forgets](crate::CreateOptions::forget_after) what time it is, for replays of logs and for tests.
    /// Time then stands still for this handle until [`Store::advance_to`](crate::Store::advance_to) moves it on, or another
    /// handle's is later. By default it is that of the system's clock at opening, and then follows one that can't be set.
    ///
    /// A store's time never runs backwards: if its keys are of later times, this one has no effect.
    #[must_use]
    pub fn clock(mut self, now: SystemTime) -> Self {
        self.clock = Some(now);
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
        if self.buffer < Self::LEAST_BUFFER {
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
}
