//! An open store and its operations on keys.

use std::ops::Range;
use std::path::Path;

use crate::config::damage_policy::OnDamage;
use crate::config::options::Options;
use crate::engine::Engine;
use crate::engine::check::fullness::{Fullness, KeyCounter};
use crate::engine::check::repair::{RepairReport, Repairer};
use crate::engine::check::stats::{self, Stats};
use crate::engine::check::verify::{Checker, VerifyReport};
use crate::engine::open::close::CloseReport;
use crate::engine::open::follower::{Follower, anchor_of};
use crate::engine::open::session::Session;
use crate::engine::read::Reader;
use crate::engine::recovery_report::RecoveryReport;
use crate::engine::write::Writer;
use crate::engine::write::commit::Commit;
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::error::{Error, Result};
use crate::hash::{HashedKey, KeyHasher};
use crate::page::PageState;
use crate::prefetch::hash_source::HashSource;

/// An open store.
///
/// All methods take `&self`: threads share one handle, by reference or in an [`Arc`](std::sync::Arc). Looking up takes
/// no lock. Dropping a handle does what [`close`](Self::close) does, as far as possible, but reports no error. To see
/// errors, call `close`.
///
/// Keys are arbitrary bytes. Two keys with the same 64-bit [keyed hash](enum@crate::Hash) are one key.
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
    pub(crate) fn of(engine: Session) -> Self {
        Self {
            engine,
            follower: None,
        }
    }

    /// Returns a handle that opens the store again by itself, as these options say.
    pub(crate) fn following(options: &Options, opened: Session) -> Result<Self> {
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

    /// Opens a store with the default [`Options`].
    ///
    /// # Errors
    /// The same as [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    /// Makes sure that the key is in the store, and returns whether it was absent: `true` the first time, ever.
    ///
    /// When it returns, the key outlives the process, and after the next [`commit`](Self::commit) it also outlives a
    /// power loss. In a transactional store both hold only from the commit on. For a share of new keys no larger than
    /// the false-positive rate it returns `false`.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full),
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge),
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), a full or failing disk, a damaged page. After an
    /// error the key is not in the store.
    pub fn insert(&self, key: &[u8]) -> Result<bool> {
        Ok(self.claim(key)? == Verdict::New)
    }

    /// Like [`insert`](Self::insert), but returns the full verdict.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn claim(&self, key: &[u8]) -> Result<Verdict> {
        Writer::of(&self.engine).claim_single(self.engine.hasher.hash(key))
    }

    /// Inserts the keys in order and returns for each whether it was absent. Of equal keys, also within the batch, the
    /// first counts as absent. Several times as fast as inserting one at a time.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert). Keys before the one that failed are in the store. To learn how many, call
    /// [`claim_batch`](Self::claim_batch).
    pub fn insert_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut verdicts = Vec::with_capacity(keys.len());
        self.claim_batch(keys, &mut verdicts)?;
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict == Verdict::New)
            .collect())
    }

    /// Inserts the keys in order and appends a verdict for each to `verdicts`.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert). The verdicts appended are then those of the keys before the one that
    /// failed. Those keys are done, and none of the others is in the store.
    pub fn claim_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        let hasher = &self.engine.hasher;
        self.in_parts(
            keys,
            |keys| hasher.hash_two(keys.map(AsRef::as_ref)),
            |keys| Writer::of(&self.engine).claim_each(keys, verdicts),
        )
    }

    /// Returns the store's own hasher, for callers that hash keys on a different thread from the one that inserts them.
    /// Hashing is half the work of a large batch.
    pub fn hasher(&self) -> &KeyHasher {
        &self.engine.hasher
    }

    /// Like [`claim_batch`](Self::claim_batch), for keys that this store's [`hasher`](Self::hasher) has hashed. That is
    /// not checked: the hashes of another store's hasher stand for different keys here.
    ///
    /// # Errors
    /// The same as [`claim_batch`](Self::claim_batch).
    pub fn claim_hashed(&self, keys: &[HashedKey], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| Writer::of(&self.engine).claim_each(keys, verdicts),
        )
    }

    /// Like [`claim_hashed`](Self::claim_hashed), but stops at the first key that is [pending](Verdict::Pending). The
    /// verdict of that key is the last one appended, and the keys after it are left alone. A caller that acts on each
    /// new key, in order, can thus wait for the pending key with no unfinished claim of its own. It commits first, so
    /// two callers that wait for each other both go on.
    ///
    /// # Errors
    /// The same as [`claim_hashed`](Self::claim_hashed).
    pub fn claim_hashed_until_pending(
        &self,
        keys: &[HashedKey],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        let first = verdicts.len();
        let writer = Writer::of(&self.engine);
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| match OnPending::Stop.stops_after(&verdicts[first..]) {
                true => Ok(()),
                false => writer.claim_part(keys, OnPending::Stop, verdicts),
            },
        )
    }

    /// Returns whether the key is in the store. `false` is certain. `true` is wrong for a share of absent keys no
    /// larger than the false-positive rate. Takes no lock.
    ///
    /// In a transactional store it is `true` for a key that any handle has claimed and not committed, too. So it doesn't
    /// tell whether somebody must still take care of the key; [`claim`](Self::claim) does.
    ///
    /// # Errors
    /// A damaged page; or the handle can't go on.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = self.engine.hasher.hash(key);
        self.read(|engine| Reader::of(engine).contains(hash))
    }

    /// Returns [`contains`](Self::contains) for each key, in order, several times as fast as one at a time.
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let hasher = &self.engine.hasher;
        let mut found = Vec::with_capacity(keys.len());
        self.in_parts(
            keys,
            |keys| hasher.hash_two(keys.map(AsRef::as_ref)),
            |keys| self.append_found(keys, &mut found),
        )?;
        Ok(found)
    }

    /// Like [`contains_batch`](Self::contains_batch), for keys that this store's [`hasher`](Self::hasher) has hashed.
    /// That is not checked.
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_hashed(&self, keys: &[HashedKey]) -> Result<Vec<bool>> {
        let mut found = Vec::with_capacity(keys.len());
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| self.append_found(keys, &mut found),
        )?;
        Ok(found)
    }

    /// Like [`insert`](Self::insert), for callers that bring their own 64-bit hash. A bijective mixer spreads the hash,
    /// so it need not be evenly distributed, but equal hashes are equal keys.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn insert_hash(&self, hash: u64) -> Result<bool> {
        Ok(Writer::of(&self.engine).claim_single(self.engine.hasher.mix(hash))? == Verdict::New)
    }

    /// Like [`insert_batch`](Self::insert_batch), for callers that bring their own hashes.
    ///
    /// # Errors
    /// The same as [`insert_batch`](Self::insert_batch).
    pub fn insert_hash_batch(&self, hashes: &[u64]) -> Result<Vec<bool>> {
        let hasher = &self.engine.hasher;
        let mut verdicts = Vec::with_capacity(hashes.len());
        self.in_parts(
            hashes,
            |hashes| hashes.map(|hash| hasher.mix(*hash)),
            |keys| Writer::of(&self.engine).claim_each(keys, &mut verdicts),
        )?;
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict == Verdict::New)
            .collect())
    }

    /// Like [`contains`](Self::contains), for callers that bring their own hash.
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_hash(&self, hash: u64) -> Result<bool> {
        let hash = self.engine.hasher.mix(hash);
        self.read(|engine| Reader::of(engine).contains(hash))
    }

    /// Like [`contains_batch`](Self::contains_batch), for callers that bring their own hashes.
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_hash_batch(&self, hashes: &[u64]) -> Result<Vec<bool>> {
        let hasher = &self.engine.hasher;
        let mut found = Vec::with_capacity(hashes.len());
        self.in_parts(
            hashes,
            |hashes| hashes.map(|hash| hasher.mix(*hash)),
            |keys| self.append_found(keys, &mut found),
        )?;
        Ok(found)
    }

    /// Appends an answer for each key of a part.
    fn append_found(&self, keys: &dyn HashSource, found: &mut Vec<bool>) -> Result<()> {
        let done = found.len();
        self.read(|engine| {
            found.truncate(done);
            Reader::of(engine).contains_each(keys, found)
        })
    }

    /// Passes the hashes of the keys on in parts. `hash` hashes two keys at once.
    pub(crate) fn in_parts<K>(
        &self,
        keys: &[K],
        hash: impl Fn([&K; 2]) -> [u64; 2],
        each: impl FnMut(&dyn HashSource) -> Result<()>,
    ) -> Result<()> {
        let engine = &self.engine;
        engine.hints.in_parts(&engine.options, keys, hash, each)
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
    /// committed. A handle commits as "default" unless [`Options::writer`](crate::Options::writer) names it.
    ///
    /// # Errors
    /// If the logs can't be read.
    pub fn last_commit(&self, writer: &str) -> Result<Option<Commit>> {
        self.read(|engine| Writer::of(engine).last_commit(writer))
    }

    /// Returns how many keys this handle has inserted or removed since its last commit: what closing it now would drop.
    /// 0 unless the store is transactional.
    ///
    /// # Errors
    /// If the handle can't go on.
    pub fn uncommitted(&self) -> Result<u64> {
        self.read_once(|engine| Writer::of(engine).uncommitted())
    }

    /// Returns how many uncommitted new keys a handle of a transactional store may have; `u64::MAX` in any other store.
    /// The size of the buffer determines it.
    pub fn transaction_quota(&self) -> u64 {
        let quota = |engine: &Engine| Ok(Writer::of(engine).quota());
        self.read_once(quota).unwrap_or(u64::MAX)
    }

    /// Moves everything committed from log and buffer into the pages, and waits until it is there. Safety never
    /// requires this call: a checkpoint runs by itself whenever the buffer is full.
    ///
    /// # Errors
    /// A full disk (try again once there is room) or a failing one, a damaged page.
    pub fn checkpoint(&self) -> Result<()> {
        Writer::of(&self.engine).checkpoint()
    }

    /// Returns what the store knows about itself without reading its pages.
    ///
    /// # Errors
    /// If superblock or logs can't be read.
    pub fn stats(&self) -> Result<Stats> {
        self.read(stats::stats)
    }

    /// Returns [`Stats::buffer_bytes`] alone, in a few nanoseconds.
    ///
    /// # Errors
    /// If the shared memory can't be read.
    pub fn buffer_bytes(&self) -> Result<u64> {
        self.read(stats::buffer_bytes)
    }

    /// Returns how many keys there are and how many there may be. Takes about ten nanoseconds, cheap enough to call
    /// after each batch in order to create a larger store in time.
    ///
    /// # Errors
    /// The same as [`stats`](Self::stats).
    pub fn fullness(&self) -> Result<Fullness> {
        self.read(|engine| KeyCounter::of(engine).fullness())
    }

    /// Reads everything (header, superblocks and every page) and lists what is damaged. Does not read the logs, which
    /// are checked whenever they are read.
    ///
    /// # Errors
    /// If the header or both superblocks are damaged.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.read(|engine| Self::verify_in(engine, &mut |_, _, _| {}))
    }

    /// Does the same as [`verify`](Self::verify), and passes on what it finds: `each` gets the number of a layer, a run of
    /// its pages, and what each of them is. Runs come in order. Pages that a checkpoint is just writing are left out.
    ///
    /// # Errors
    /// If the header or both superblocks are damaged.
    pub fn verify_pages(
        &self,
        mut each: impl FnMut(u32, Range<u64>, PageState),
    ) -> Result<VerifyReport> {
        self.read_once(|engine| Self::verify_in(engine, &mut each))
    }

    fn verify_in(
        engine: &Engine,
        each: &mut dyn FnMut(u32, Range<u64>, PageState),
    ) -> Result<VerifyReport> {
        let report = Checker::of(engine).verify(each)?;
        Reader::of(engine).expect_name()?;
        Ok(report)
    }

    /// Rewrites each damaged page so that it verifies: as a page that holds no key ([`OnDamage::NeverSeen`]) or every
    /// key ([`OnDamage::Seen`]). Other handles may have the store open; checkpoints wait. For a store that can't be
    /// opened, and for a damaged section, use [`Options::repair`](crate::Options::repair).
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for [`OnDamage::Error`]; a full or
    /// failing disk. After an error some pages may have been repaired and others not.
    pub fn repair(&self, policy: OnDamage) -> Result<RepairReport> {
        Repairer::of(&self.engine).repair(policy)
    }

    /// Returns the bytes that the store was created with, as [`Options::label`](crate::Options::label) says.
    pub fn label(&self) -> Option<&[u8]> {
        self.engine.label.as_deref()
    }

    /// Returns what opening found and what it did about it.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.engine.recovery
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

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Store>();
};
