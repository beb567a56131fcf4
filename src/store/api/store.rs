//! An open store, and what became of its keys.

use std::path::Path;

use crate::error::Result;
use crate::hash::{HashedKey, KeyHasher};
use crate::store::check::fullness::{Fullness, KeyCounter};
use crate::store::check::repair::{RepairReport, Repairer};
use crate::store::check::stats::{self, Stats};
use crate::store::check::verify::{Checker, VerifyReport};
use crate::store::config::damage_policy::OnDamage;
use crate::store::config::options::Options;
use crate::store::engine::recovery_report::RecoveryReport;
use crate::store::open::session::Session;
use crate::store::prefetch::hash_source::HashSource;
use crate::store::read::Reader;
use crate::store::write::Writer;
use crate::store::write::commit::Commit;
use crate::store::write::quiesce::checkpoint_now;
use crate::store::write::verdict::{OnPending, Verdict};

/// An open store.
///
/// All methods take `&self`: threads share one handle, by reference or in an [`Arc`]. Looking up
/// takes no lock. Dropping it does what [`close`](Self::close) does, as far as it can, and tells
/// nobody of an error: who cares calls `close`.
///
/// Keys are any bytes. From their [keyed hash](enum@crate::Hash) on, two keys of the same 64 bits
/// are one.
///
/// # What a map can't survive
/// Pages are read through a memory map of the store file. Whoever shortens that file while it is
/// open ends the process with a bus error; so may a disk that fails under it, when looking up, and
/// when inserting single keys too, whose log is written through a map.
///
/// # What is trusted
/// Handles share memory through files beside the store (`NAME-shm*`), and trust those who may write to them, as they
/// trust those who may write to the store. What something else writes there by mistake is
/// [`Error::SharedMemory`](crate::Error::SharedMemory) as soon as it is met, and loses nothing that was acknowledged:
/// all handles must be closed, and the next to open the store recovers it from its logs. Until then a look-up may
/// answer wrongly.
#[derive(Debug)]
pub struct Store {
    pub(crate) engine: Session,
}

impl Store {
    pub(crate) fn of(engine: Session) -> Self {
        Self { engine }
    }

    /// Opens a store with the default [`Options`].
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    /// Makes sure that the key is in the store, and answers whether it was absent: `true` the first
    /// time, ever.
    ///
    /// When it returns, the key outlives the process, and after the next
    /// [`commit`](Self::commit) power loss too; in a transactional store both hold from the commit
    /// on. For a share of new keys no larger than the false-positive rate the answer is `false`.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full),
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge),
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), a full or failing disk, a damaged page. After an
    /// error the key is not in the store.
    pub fn insert(&self, key: &[u8]) -> Result<bool> {
        Ok(self.claim(key)? == Verdict::New)
    }

    /// As [`insert`](Self::insert), with the richer answer.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn claim(&self, key: &[u8]) -> Result<Verdict> {
        Writer::of(&self.engine).claim_single(self.engine.hasher.hash(key))
    }

    /// Inserts the keys in their order and answers for each whether it was absent. Of keys that are
    /// equal, within the batch too, the first is. Several times as fast as one at a time.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). Keys before the one that failed are in the store; who needs
    /// to know which calls [`claim_batch`](Self::claim_batch).
    pub fn insert_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut verdicts = Vec::with_capacity(keys.len());
        self.claim_batch(keys, &mut verdicts)?;
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict == Verdict::New)
            .collect())
    }

    /// Inserts the keys in their order and appends a verdict for each to `verdicts`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). Then the verdicts appended are those of the keys before the one
    /// that failed, and those keys are done; of the others none is in the store.
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

    /// The store's own hasher, for who hashes keys on another thread than the one that inserts them:
    /// that is half of the work of a large batch.
    pub fn hasher(&self) -> &KeyHasher {
        &self.engine.hasher
    }

    /// As [`claim_batch`](Self::claim_batch), for keys that this store's [`hasher`](Self::hasher)
    /// has hashed. That it was this store's is not checked: another's keys are others here.
    ///
    /// # Errors
    /// As [`claim_batch`](Self::claim_batch).
    pub fn claim_hashed(&self, keys: &[HashedKey], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| Writer::of(&self.engine).claim_each(keys, verdicts),
        )
    }

    /// As [`claim_hashed`](Self::claim_hashed), up to the first key that is
    /// [pending](Verdict::Pending): its verdict is the last that is appended, and the keys behind it
    /// are left alone. So a caller that acts on each new key, in order, can wait for that one with no
    /// unfinished claim of its own: it commits first, and two callers that wait for each other both
    /// go on.
    ///
    /// # Errors
    /// As [`claim_hashed`](Self::claim_hashed).
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

    /// Whether the key is in the store. `false` is certain; `true` is wrong for a share of absent
    /// keys no larger than the false-positive rate. Takes no lock.
    ///
    /// # Errors
    /// A damaged page, or a handle that can't go on.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Reader::of(&self.engine).contains(self.engine.hasher.hash(key))
    }

    /// Answers [`contains`](Self::contains) for each key, in their order, several times as fast as
    /// one at a time.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub fn contains_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let hasher = &self.engine.hasher;
        let mut found = Vec::with_capacity(keys.len());
        self.in_parts(
            keys,
            |keys| hasher.hash_two(keys.map(AsRef::as_ref)),
            |keys| Reader::of(&self.engine).contains_each(keys, &mut found),
        )?;
        Ok(found)
    }

    /// As [`contains_batch`](Self::contains_batch), for keys that this store's
    /// [`hasher`](Self::hasher) has hashed, which is not checked.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub fn contains_hashed(&self, keys: &[HashedKey]) -> Result<Vec<bool>> {
        let mut found = Vec::with_capacity(keys.len());
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| Reader::of(&self.engine).contains_each(keys, &mut found),
        )?;
        Ok(found)
    }

    /// As [`insert`](Self::insert), for callers who bring their own 64-bit hash. It passes a
    /// bijective mixer, so it need not be evenly spread, but equal hashes are equal keys.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_hash(&self, hash: u64) -> Result<bool> {
        Ok(Writer::of(&self.engine).claim_single(self.engine.hasher.mix(hash))? == Verdict::New)
    }

    /// As [`insert_batch`](Self::insert_batch), for callers who bring their own hashes.
    ///
    /// # Errors
    /// As [`insert_batch`](Self::insert_batch).
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

    /// As [`contains`](Self::contains), for callers who bring their own hash.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub fn contains_hash(&self, hash: u64) -> Result<bool> {
        Reader::of(&self.engine).contains(self.engine.hasher.mix(hash))
    }

    /// As [`contains_batch`](Self::contains_batch), for callers who bring their own hashes.
    ///
    /// # Errors
    /// As [`contains`](Self::contains).
    pub fn contains_hash_batch(&self, hashes: &[u64]) -> Result<Vec<bool>> {
        let hasher = &self.engine.hasher;
        let mut found = Vec::with_capacity(hashes.len());
        self.in_parts(
            hashes,
            |hashes| hashes.map(|hash| hasher.mix(*hash)),
            |keys| Reader::of(&self.engine).contains_each(keys, &mut found),
        )?;
        Ok(found)
    }

    /// Passes the hashes of keys on in parts. `hash` hashes two keys at once.
    pub(crate) fn in_parts<K>(
        &self,
        keys: &[K],
        hash: impl Fn([&K; 2]) -> [u64; 2],
        each: impl FnMut(&dyn HashSource) -> Result<()>,
    ) -> Result<()> {
        let engine = &self.engine;
        engine.hints.in_parts(&engine.options, keys, hash, each)
    }

    /// Makes durable everything that returned before the call, in any thread, and answers the
    /// commit's sequence number. In a transactional store this is what makes it count.
    ///
    /// Threads that commit at once share the wait for the disk.
    ///
    /// # Errors
    /// A full disk (nothing has happened then), or a failing one (the handle is poisoned then:
    /// reopen to learn whether the commit counts).
    pub fn commit(&self) -> Result<u64> {
        Writer::of(&self.engine).commit(&[])
    }

    /// As [`commit`](Self::commit), and keeps up to 4096 bytes of the caller's own with it, under
    /// the handle's writer name: a crawler's position, a stream's offset.
    /// [`last_commit`](Self::last_commit) gives them back. The next commit of the same writer
    /// replaces them.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); [`Error::TagTooLarge`](crate::Error::TagTooLarge),
    /// [`Error::TooManyWriters`](crate::Error::TooManyWriters).
    pub fn commit_with(&self, tag: &[u8]) -> Result<u64> {
        Writer::of(&self.engine).commit(tag)
    }

    /// The last commit of a writer, which after a crash tells where to go on from.
    ///
    /// # Errors
    /// If the logs can't be read.
    pub fn last_commit(&self, writer: &str) -> Result<Option<Commit>> {
        Writer::of(&self.engine).last_commit(writer)
    }

    /// The new keys that a handle of a transactional store may have uncommitted; `u64::MAX` in any
    /// other. It follows from the buffer.
    pub fn transaction_quota(&self) -> u64 {
        Writer::of(&self.engine).quota()
    }

    /// Moves everything committed from log and buffer into the pages, and waits for it. Needed by
    /// nobody for safety: it happens by itself whenever the buffer is full.
    ///
    /// # Errors
    /// A full disk (to be tried again once there is room) or a failing one, a damaged page.
    pub fn checkpoint(&self) -> Result<()> {
        checkpoint_now(&self.engine)
    }

    /// What the store can tell about itself without reading its pages.
    ///
    /// # Errors
    /// If superblock or logs can't be read.
    pub fn stats(&self) -> Result<Stats> {
        stats::stats(&self.engine)
    }

    /// How many keys there are and how many there may be. Costs some ten nanoseconds, so that it can be asked after each
    /// batch, to make a larger store in time.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn fullness(&self) -> Result<Fullness> {
        KeyCounter::of(&self.engine).fullness()
    }

    /// Reads everything, header and superblocks and every page, and names what is damaged. Does
    /// not look into logs, which are checked whenever they are read.
    ///
    /// # Errors
    /// If the header or both superblocks are damaged.
    pub fn verify(&self) -> Result<VerifyReport> {
        Checker::of(&self.engine).verify()
    }

    /// Rewrites each damaged page, so that it verifies: as one of which no key is seen
    /// ([`OnDamage::NeverSeen`]) or every one ([`OnDamage::Seen`]). Others may have the store open;
    /// checkpoints wait. For a store that can't be opened, and for a damaged section, there is
    /// [`Options::repair`](crate::Options::repair).
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for [`OnDamage::Error`]; a full or
    /// failing disk. After an error some pages may have been repaired and others not.
    pub fn repair(&self, policy: OnDamage) -> Result<RepairReport> {
        Repairer::of(&self.engine).repair(policy)
    }

    /// What opening found, and did about it.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.engine.recovery
    }

    /// Closes the store: moves what counts into the pages, after which the one file is the whole
    /// store, and frees it for others. In a transactional store what is not committed is dropped.
    /// Any later call on this handle is [`Error::Closed`](crate::Error::Closed), but another
    /// `close` does nothing.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint). After [`Error::NoSpace`](crate::Error::NoSpace) and
    /// [`Error::Busy`](crate::Error::Busy) the handle can do nothing but be closed again. After
    /// any error nothing acknowledged is lost, and the next open goes on from the log.
    pub fn close(&self) -> Result<()> {
        self.engine.close()
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Store>();
};
