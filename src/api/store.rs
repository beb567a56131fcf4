//! An open store: its keys, its commits, its end.

use std::path::Path;
use std::time::SystemTime;

use crate::api::batch::{self, BatchError};
use crate::api::claim::ClaimOptions;
use crate::api::key::{Key, bits_of, bits_of_two};
use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::open::close::CloseReport;
use crate::engine::open::close::Session;
use crate::engine::open::follower::{Follower, anchor_of};
use crate::engine::read::Reader;
use crate::engine::write::Writer;
use crate::engine::write::commit::Commit;
use crate::engine::write::verdict::Verdict;
use crate::error::{Error, Result};
use crate::prefetch::hash_source::HashSource;

/// A set of keys in one file, open in this process.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("visited.ever");
/// use everseen::CreateOptions;
///
/// let visited = CreateOptions::new().open_or_create(&path)?;
/// assert!(visited.insert("https://example.org/")?); // the first time, ever
/// assert!(!visited.insert("https://example.org/")?);
/// assert!(visited.contains("https://example.org/")?);
///
/// let new = visited.insert_batch(&["https://example.org/a", "https://example.org/"])?;
/// assert_eq!(new, [true, false]);
/// visited.commit()?; // what returned before outlives a power cut, too
/// # visited.close()?;
/// # Ok(())
/// # }
/// ```
///
/// All methods take `&self`: threads share one handle, by reference or in an [`Arc`](std::sync::Arc). Looking up takes
/// no lock. Dropping a handle does what [`close`](Self::close) does, as far as possible, but reports no error. To see
/// errors, call `close`.
///
/// A [key](Key) is arbitrary bytes, or a hash of the caller's own. Two keys with the same 64-bit [keyed
/// hash](enum@crate::Hash) are one key.
///
/// # What a map can't survive
/// Pages are read through a memory map of the store file. If a process shortens that file while it is open, this
/// process ends with a bus error. A disk that fails underneath may do the same, during look-ups and also during
/// single-key inserts, whose log is written through a map.
///
/// # What is trusted
/// Handles share memory through files beside the store (`NAME-shm*`). They trust every process that may write to those
/// files, as they trust every process that may write to the store. What anything else writes there by mistake is
/// reported as [`Error::SharedMemory`](crate::Error::SharedMemory) as soon as a handle meets it. Nothing acknowledged
/// is lost: all handles must be closed, and the next handle to open the store recovers it from its logs. Until then a
/// look-up may return a wrong answer.
#[derive(Debug)]
pub struct Store {
    /// The open store. In a handle that follows, only what never changes; look-ups there go through [`read`](Self::read).
    pub(crate) engine: Session,
    follower: Option<Follower>,
}

impl Store {
    /// Opens a store with the default [`OpenOptions`].
    ///
    /// # Errors
    /// The same as [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Makes sure that the key is in the store, and returns whether it was absent: `true` the first time, ever.
    ///
    /// When it returns, the key outlives the process, and after the next [`commit`](Self::commit) it also outlives a
    /// power loss. In a transactional store both hold only from the commit on. For a share of new keys no larger than
    /// the false-positive rate it returns `false`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TransactionTooLarge`], [`Error::ReadOnly`], a full or failing disk, a damaged page. After
    /// an error the key is not in the store.
    pub fn insert(&self, key: impl Key) -> Result<bool> {
        Ok(self.claim(key)? == Verdict::New)
    }

    /// Inserts the keys in order and returns for each whether it was absent. Of equal keys, also within the batch, the
    /// first counts as absent. Several times as fast as inserting one at a time.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert), with the answers for the keys that are in the store nevertheless.
    pub fn insert_batch<K: Key>(
        &self,
        keys: &[K],
    ) -> std::result::Result<Vec<bool>, BatchError<bool>> {
        let is_new = |verdict| verdict == Verdict::New;
        let answers = |verdicts: Vec<_>| verdicts.into_iter().map(is_new).collect();
        match self.claim_batch(keys, ClaimOptions::new()) {
            Ok(verdicts) => Ok(answers(verdicts)),
            Err(failed) => Err(BatchError {
                done: answers(failed.done),
                error: failed.error,
            }),
        }
    }

    /// Returns whether the key is in the store. `false` is certain. `true` is wrong for a share of absent keys no
    /// larger than the false-positive rate. Takes no lock.
    ///
    /// In a transactional store it is `true` for a key that any handle has claimed and not committed, too. So it doesn't
    /// tell whether somebody must still take care of the key; [`claim`](Self::claim) does.
    ///
    /// # Errors
    /// A damaged page; or the handle can't go on.
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        let bits = bits_of(&self.engine.hasher, &key);
        self.read(|engine| Reader::of(engine).contains(bits))
    }

    /// Returns [`contains`](Self::contains) for each key, in order, several times as fast as one at a time.
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_batch<K: Key>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = Vec::with_capacity(keys.len());
        self.in_parts(keys, |part| {
            let done = found.len();
            self.read(|engine| {
                // A handle that follows may ask again.
                found.truncate(done);
                Reader::of(engine).contains_each(part, &mut found)
            })
        })?;
        Ok(found)
    }

    /// Makes durable everything that returned before the call, in any thread, and returns the commit's sequence number.
    /// In a transactional store, only the commit makes these operations take effect.
    ///
    /// From then on, a log that is damaged before the end of this commit, or cut off, is an error
    /// ([`LogError::Damaged`](crate::LogError::Damaged), [`LogError::Truncated`](crate::LogError::Truncated)) and never an
    /// older state. Damage to keys that no commit covers can't be told from what a crash leaves. After a power cut, nor
    /// can damage to those of the last commit, if the cut took the note of it.
    ///
    /// Threads that commit at the same time share the wait for the disk. The commit's tag is empty: it replaces the tag
    /// of this writer's last [`commit_with`](Self::commit_with).
    ///
    /// # Errors
    /// A full disk (nothing has happened then). [`Error::Poisoned`](crate::Error::Poisoned) after a write or sync that
    /// failed: reopen to learn whether the commit took effect. Its cause is [`Error::Moved`](crate::Error::Moved) if
    /// somebody removed, renamed or replaced the store's file or log.
    pub fn commit(&self) -> Result<u64> {
        Writer::of(&self.engine).commit(&[])
    }

    /// Like [`commit`](Self::commit), but stores up to 4096 bytes of the caller's own with the commit, under the
    /// handle's writer name: a crawler's position, a stream's offset. [`last_commit`](Self::last_commit) returns them.
    /// The next commit of the same writer replaces them.
    ///
    /// # Errors
    /// The same as [`commit`](Self::commit); [`Error::TagTooLarge`](crate::Error::TagTooLarge),
    /// [`Error::TooManyWriters`](crate::Error::TooManyWriters).
    pub fn commit_with(&self, tag: &[u8]) -> Result<u64> {
        Writer::of(&self.engine).commit(tag)
    }

    /// Returns the last commit of a writer, which says where to resume after a crash. `None` if that writer never
    /// committed. A handle commits as "default" unless [`OpenOptions::writer`] names it.
    ///
    /// # Errors
    /// If the logs can't be read.
    pub fn last_commit(&self, writer: &str) -> Result<Option<Commit>> {
        self.read(|engine| Writer::of(engine).last_commit(writer))
    }

    /// Goes on to a later time in a store that [forgets](crate::CreateOptions::forget_after), for all handles; a handle that only
    /// reads does so for itself. An earlier time has no effect.
    ///
    /// Keys that are inserted from here on are of that time, and those that are too old then are new. They leave the file with
    /// a checkpoint of a log that began since. The time is recorded once a key is inserted or committed.
    ///
    /// # Errors
    /// [`Error::NeverForgets`].
    pub fn advance_to(&self, time: SystemTime) -> Result<()> {
        self.read(|engine| {
            let view = engine.views.current()?;
            let clock = view.clock.as_ref().ok_or_else(|| Error::NeverForgets {
                path: engine.file.place.to_path_buf(),
                action: "advance their time",
            })?;
            clock.advance_to(time);
            Ok(())
        })
    }

    /// Moves everything committed from log and buffer into the pages, and waits until it is there. Safety never
    /// requires this call: a checkpoint runs by itself whenever the buffer is full. A store that forgets drops what is forgotten
    /// by now, and records the time, even if no key came.
    ///
    /// In a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint) its cost follows the keys that came and went since the
    /// last one, not the store: it writes at most 32 entries of at most 8 bytes for each (of fewer than 32,768 as for so
    /// many), 8 MiB for each run that is being merged, and the sections of exact keys. Closing moves at most as many pages
    /// again as the handle's checkpoints wrote, and 1 MiB. What merges that have begun have still to write is
    /// [`RunStats::due`](crate::RunStats::due).
    ///
    /// # Errors
    /// A full disk (try again once there is room) or a failing one, a damaged page.
    pub fn checkpoint(&self) -> Result<()> {
        Writer::of(&self.engine).checkpoint()
    }

    /// Does the same, and merges all runs of a store of fingerprints into one, which takes as long as writing
    /// the whole store. Nothing requires this call either: look-ups in one run are a little faster, its file is some percent
    /// smaller, and builds that know of no runs can read it.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_full(&self) -> Result<()> {
        Writer::of(&self.engine).checkpoint_full()
    }

    /// Closes the store. Moves everything that counts into the pages, after which the one file is the whole store, and
    /// releases it for other handles. Any later call on this handle is [`Error::Closed`](crate::Error::Closed), except
    /// that another `close` does nothing.
    ///
    /// In a transactional store it drops what this handle has not committed, and the report says how many keys that were.
    /// A handle that is dropped without this call closes just so, and reports neither that nor errors.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint). For a handle that only reads, [`Error::Replaced`](crate::Error::Replaced)
    /// and [`Error::Moved`](crate::Error::Moved) if its file has lost its name, and nothing else. After [`Error::NoSpace`](crate::Error::NoSpace) and
    /// [`Error::Busy`](crate::Error::Busy) the only call left on this handle is another `close`. After any error
    /// nothing acknowledged is lost, and the next open continues from the log.
    pub fn close(&self) -> Result<CloseReport> {
        match &self.follower {
            None => self.engine.close(),
            Some(follower) => follower.close(),
        }
    }
}

/// What the parts of the API share.
impl Store {
    pub(crate) fn of(engine: Session) -> Self {
        Self {
            engine,
            follower: None,
        }
    }

    /// Returns a handle that opens the store again by itself, as these options say.
    pub(crate) fn following(options: &OpenOptions, opened: Session) -> Result<Self> {
        Ok(Self {
            engine: anchor_of(&opened)?,
            follower: Some(Follower::of(options, opened)),
        })
    }

    /// Does some work that only reads. In a handle that follows, it may be done several times.
    #[inline]
    pub(crate) fn read<T>(&self, mut work: impl FnMut(&Engine) -> Result<T>) -> Result<T> {
        match &self.follower {
            None => match work(&self.engine) {
                Ok(done) => Ok(done),
                Err(error) => Err(self.explained(error)),
            },
            Some(follower) => follower.read(work),
        }
    }

    /// Does some work that only reads, once.
    pub(crate) fn read_once<T>(&self, work: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        match &self.follower {
            None => work(&self.engine).map_err(|error| self.explained(error)),
            Some(follower) => follower.read_once(work),
        }
    }

    /// Returns why a handle that only reads met damage: its file may be another one than the one that has the store's
    /// name.
    #[cold]
    fn explained(&self, error: Error) -> Error {
        if !matches!(error, Error::Format { .. } | Error::Log { .. }) {
            return error;
        }
        Reader::of(&self.engine)
            .expect_name()
            .err()
            .unwrap_or(error)
    }

    /// Passes the hashes of the keys on in parts.
    pub(crate) fn in_parts<K: Key>(
        &self,
        keys: &[K],
        each: impl FnMut(&dyn HashSource) -> Result<()>,
    ) -> Result<()> {
        let (engine, hasher) = (&self.engine, &self.engine.hasher);
        let hash = |two: [&K; 2]| bits_of_two(hasher, two);
        engine.hints.in_parts(&engine.options, keys, hash, each)
    }

    /// Does work on a batch in parts, and returns the answers that it appends.
    pub(crate) fn answers<K: Key, A>(
        &self,
        keys: &[K],
        mut each: impl FnMut(&dyn HashSource, &mut Vec<A>) -> Result<()>,
    ) -> batch::BatchResult<A> {
        batch::collect(keys.len(), |answers| {
            self.in_parts(keys, |part| each(part, answers))
        })
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Store>();
};
