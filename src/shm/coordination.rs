//! The words that all handles of an open store share: which generation is active, which handles are present.
//!
//! They lie in a file of their own (`NAME-shm`), or in private memory for a handle that has the store exclusively. The
//! first handle to open a store creates them anew: what an earlier session left is never read.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::file::layout::LAST_WRITABLE;
use crate::file::side_file::SHM;
use crate::memtable::{ShmCorruption, Sum, shared_clock};
use crate::page::write_window::WriteWindow;
use crate::shm::buffer_sizes::BufferSizes;
use crate::shm::fsync_failures::FsyncFailures;
use crate::shm::handle_slot::{HandleSlot, SLOT_WORDS};
use crate::shm::place::Place;
use crate::shm::session_lock::SessionLock;
use crate::shm::shm_mismatch::ShmMismatch;
use crate::shm::writer_lock::{MOST_SLOTS, WriterLock};
use crate::sys::sync::Ordering;
use crate::sys::{FileId, Region, SECOND_MAGIC};

pub(crate) const SHM_MAGIC: u64 = u64::from_le_bytes(*b"EVERSHM8");
pub(crate) const SHM_WORDS: u64 = if cfg!(all(test, loom)) { 72 } else { 2048 };

/// The maximum number of handles that may have a store open at a time. (The model checker has no time for that many.)
pub(crate) const MAX_HANDLES: usize = if cfg!(all(test, loom)) { 1 } else { 128 };
/// The maximum number of handles that come and go while another one stays: thousands of years of them. A larger number
/// was forged.
const MOST_BETWEEN_HANDLES: u64 = 1 << 40;
const FIRST_SLOT: usize = 64;
/// Words in a line of the processor's cache.
const LINE_WORDS: usize = 8;

#[derive(Debug, Clone, Copy)]
#[repr(usize)]
enum Word {
    Magic,
    /// The first handle has finished recovery.
    Ready,
    /// All handles are gone: a watching handle must attach to the store anew.
    Ended,
    StoreId,
    /// Which file the store is: a copy of it has the same id.
    Device = Word::StoreId as usize + 2,
    Inode,
    /// The least bytes of a write buffer.
    BufferBytes,
    Active,
    Settled,
    Checkpointer,
    /// Memory and disk have diverged: all handles must reopen.
    Poisoned,
    /// The number of failed syncs of the store file, and the number of those that were repaired.
    Failures,
    Mended,
    NextHandle,
    CommitSequence,
    /// An upper bound of the bytes that all writers' names and tags need in a superblock.
    WritersBytes,
    /// Of a store that forgets: the latest time that any handle knows, in milliseconds since 1970.
    Clock,
    /// The writer lock. It begins a cache line with the words that its owner changes each time, and no others.
    Lock = 24,
    /// The number of the handle that is changing something under the writer lock.
    Changing,
    /// A sum of all words that change only under the writer lock, as its last holder left them.
    Seal,
    Window = 32,
    /// The most bytes of a write buffer.
    MostBuffer = Word::Window as usize + WriteWindow::WORDS,
    End,
}

const _: () = assert!((Word::End as usize) < SECOND_MAGIC && SECOND_MAGIC < FIRST_SLOT);
const _: () = assert!(MAX_HANDLES as u64 <= MOST_SLOTS);
/// The lock's line has what its owner changes each time, and nothing that others read meanwhile.
const _: () = assert!((Word::Lock as usize).is_multiple_of(LINE_WORDS));
const _: () = assert!(Word::Seal as usize / LINE_WORDS == Word::Lock as usize / LINE_WORDS);
const _: () = assert!((Word::Clock as usize) < Word::Lock as usize);
const _: () = assert!(Word::Window as usize >= Word::Lock as usize + LINE_WORDS);
const _: () = assert!(FIRST_SLOT.is_multiple_of(LINE_WORDS) && SLOT_WORDS == LINE_WORDS);
const _: () = assert!(FIRST_SLOT + MAX_HANDLES * SLOT_WORDS <= SHM_WORDS as usize);

/// Why all handles must reopen: the disk has lost what memory refers to.
pub(crate) const LOST: u64 = 1;
/// Why all handles must reopen: the memory is damaged.
pub(crate) const DAMAGED: u64 = 2;

/// Marks the number of a handle that lives, but has left its change for the next owner of the writer lock to mend.
pub(crate) const GAVE_UP: u64 = 1 << 63;

/// Returns the path of the file of the shared words.
pub(crate) fn shared_path(store: &Place) -> PathBuf {
    store.beside(SHM)
}

/// The shared words.
#[derive(Debug)]
pub(crate) struct Coordination {
    region: Region,
    /// The sizes of write buffers when this handle created the words or attached to them. They never change.
    buffer_sizes: OnceLock<BufferSizes>,
    /// `None` for private memory.
    session: Option<SessionLock>,
}

impl Coordination {
    pub(crate) fn private() -> io::Result<Self> {
        Ok(Self::of(Region::private(SHM_WORDS)?, None))
    }

    fn of(region: Region, session: Option<SessionLock>) -> Self {
        Self {
            region,
            buffer_sizes: OnceLock::new(),
            session,
        }
    }

    pub(crate) fn create(place: &Place) -> io::Result<Self> {
        let region = Region::create(place.folder(), &shared_path(place), SHM_WORDS)?;
        let made = Self::shared(place, region)?;
        made.join_session()?;
        Ok(made)
    }

    fn shared(place: &Place, region: Region) -> io::Result<Self> {
        let session = match region.file() {
            Some(file) => Some(SessionLock::open(place, &shared_path(place), file)?),
            None => None,
        };
        Ok(Self::of(region, session))
    }

    /// Attaches to the words that the first handle created.
    ///
    /// # Errors
    /// Why they are not the shared memory of the handles that have `file` open.
    pub(crate) fn open(
        place: &Place,
        store_id: &[u8; 16],
        file: FileId,
        write: bool,
    ) -> Result<Self, ShmMismatch> {
        let found = Self::at(place, write)?;
        // This comes first: words that are not in use say nothing about the handles that have the store open.
        if !found.is_in_use().map_err(|_| ShmMismatch::NotThere)? {
            return Err(ShmMismatch::NotInUse);
        }
        found.expect_layout()?;
        if found.store_id() != *store_id || found.store_file() != file {
            return Err(ShmMismatch::OtherStore);
        }
        if write {
            found.join_session().map_err(|_| ShmMismatch::NotThere)?;
        }
        Ok(found)
    }

    /// Opens this store's words, whether they are in use or not.
    pub(crate) fn look(
        place: &Place,
        store_id: &[u8; 16],
        write: bool,
    ) -> Result<Self, ShmMismatch> {
        let found = Self::at(place, write)?;
        found.expect_layout()?;
        match found.store_id() == *store_id {
            true => Ok(found),
            false => Err(ShmMismatch::OtherStore),
        }
    }

    /// Opens whatever words there are.
    fn at(place: &Place, write: bool) -> Result<Self, ShmMismatch> {
        let region = Region::open(place.folder(), &shared_path(place), write);
        let found = region.and_then(|region| Self::shared(place, region));
        found.map_err(|_| ShmMismatch::NotThere)
    }

    fn expect_layout(&self) -> Result<(), ShmMismatch> {
        let words = self.region.words();
        let magic = words.first().map_or(0, |word| word.load(Ordering::Acquire));
        match (magic, words.len() as u64) {
            (0, _) => return Err(ShmMismatch::NotThere),
            (SHM_MAGIC, SHM_WORDS) => {}
            (magic, words) => {
                return Err(ShmMismatch::OtherLayout {
                    magic,
                    bytes: words * 8,
                });
            }
        }
        let (least, most) = (self.get(Word::BufferBytes), self.get(Word::MostBuffer));
        let sizes = BufferSizes::possible(least, most).map_err(ShmMismatch::Damaged)?;
        let _ = self.buffer_sizes.set(sizes);
        Ok(())
    }

    fn join_session(&self) -> io::Result<()> {
        self.session.as_ref().map_or(Ok(()), SessionLock::join)
    }

    /// Shows that this handle no longer uses the shared memory, however long it stays mapped.
    pub(crate) fn leave_session(&self) {
        if let Some(session) = &self.session {
            session.leave();
        }
    }

    /// Returns whether any handle, of this store or another, uses the shared memory of this name.
    pub(crate) fn is_used_by_anybody(place: &Place) -> io::Result<bool> {
        SessionLock::is_joined_at(place, &shared_path(place))
    }

    /// Returns whether a writing handle uses it, other than through this opening of it.
    pub(crate) fn is_in_use(&self) -> io::Result<bool> {
        self.session
            .as_ref()
            .map_or(Ok(false), SessionLock::is_joined_by_another)
    }

    /// Fills the words in. The caller has already filled in whatever is not an argument.
    pub(crate) fn begin(
        &self,
        store_id: &[u8; 16],
        file: FileId,
        sizes: BufferSizes,
        (active, checkpointed): (u64, u64),
    ) {
        // Between them lies one checkpoint at most.
        assert!(
            (checkpointed..=checkpointed + 1).contains(&active),
            "{checkpointed} {active}"
        );
        // Generations count from 1: 0 would say that a log before the first is due.
        assert!(checkpointed > 0);
        assert!(sizes.least <= sizes.most, "{sizes:?}");
        let (low, high) = halves(store_id);
        self.set(Word::Device, file.device);
        self.set(Word::Inode, file.inode);
        let words = self.region.words();
        words[Word::StoreId as usize].store(low, Ordering::Release);
        words[Word::StoreId as usize + 1].store(high, Ordering::Release);
        self.set(Word::BufferBytes, sizes.least);
        self.set(Word::MostBuffer, sizes.most);
        let _ = self.buffer_sizes.set(sizes);
        self.set(Word::Active, active);
        self.set(Word::Settled, checkpointed);
        self.set(Word::NextHandle, self.get(Word::NextHandle).max(1));
        self.set(Word::Magic, SHM_MAGIC);
        self.region.words()[SECOND_MAGIC].store(SHM_MAGIC, Ordering::Release);
    }

    fn get(&self, word: Word) -> u64 {
        self.region.words()[word as usize].load(Ordering::Acquire)
    }

    fn set(&self, word: Word, value: u64) {
        self.region.words()[word as usize].store(value, Ordering::Release);
    }

    fn store_id(&self) -> [u8; 16] {
        let words = self.region.words();
        let mut id = [0; 16];
        for (half, word) in id.chunks_exact_mut(8).zip(&words[Word::StoreId as usize..]) {
            half.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        id
    }

    fn store_file(&self) -> FileId {
        FileId {
            device: self.get(Word::Device),
            inode: self.get(Word::Inode),
        }
    }

    /// Returns the sizes of write buffers, as the first handle may have them.
    pub(crate) fn buffer_sizes(&self) -> BufferSizes {
        self.buffer_sizes.get().copied().unwrap_or_default()
    }

    /// Returns the latest time that any handle has told; 0 if something else has written over it.
    pub(crate) fn clock(&self) -> u64 {
        shared_clock::unpack(self.get(Word::Clock)).unwrap_or(0)
    }

    /// Makes a time known to all handles. Time never runs backwards.
    pub(crate) fn raise_clock(&self, clock: u64) {
        let word = &self.region.words()[Word::Clock as usize];
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |told| {
            let is_later = shared_clock::unpack(told).is_none_or(|told| told < clock);
            is_later.then(|| shared_clock::pack(clock))
        });
    }

    /// Returns the generation that takes new keys.
    #[inline]
    pub(crate) fn active(&self) -> u64 {
        self.get(Word::Active)
    }

    pub(crate) fn set_active(&self, generation: u64) {
        self.set(Word::Active, generation);
    }

    /// Returns the settled generation: the pages hold all generations below it. It is one behind the active generation
    /// while a checkpoint is due or running, else equal to it.
    #[inline]
    pub(crate) fn checkpointed(&self) -> u64 {
        self.get(Word::Settled)
    }

    pub(crate) fn set_checkpointed(&self, generation: u64) {
        self.set(Word::Settled, generation);
    }

    /// Returns the handle that is changing something under the writer lock, 0 for none. A handle that acquires the lock
    /// and finds another handle here knows that the other died while holding the lock, or [gave up](GAVE_UP).
    #[inline]
    pub(crate) fn changing(&self) -> u64 {
        self.get(Word::Changing)
    }

    #[inline]
    pub(crate) fn set_changing(&self, handle: u64) {
        self.set(Word::Changing, handle);
    }

    pub(crate) fn set_ready(&self) {
        self.set(Word::Ready, 1);
    }

    /// Returns whether another handle may join those that are present.
    pub(crate) fn is_joinable(&self) -> bool {
        self.get(Word::Ready) != 0 && !self.is_ended() && !self.is_poisoned()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.get(Word::Ended) != 0
    }

    pub(crate) fn set_ended(&self) {
        self.set(Word::Ended, 1);
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned() != 0
    }

    /// Returns [why](LOST) all handles must reopen; 0 if they need not.
    pub(crate) fn poisoned(&self) -> u64 {
        self.get(Word::Poisoned)
    }

    pub(crate) fn set_poisoned(&self, why: u64) {
        if !self.region.is_read_only() {
            self.set(Word::Poisoned, why);
        }
    }

    /// Returns the [sum](Self::sum) of the words that change under the writer lock, as its last holder left it.
    #[inline]
    pub(crate) fn seal(&self) -> u64 {
        self.get(Word::Seal)
    }

    #[inline]
    pub(crate) fn set_seal(&self, sum: u64) {
        self.set(Word::Seal, sum);
    }

    /// Adds the words that change only under the writer lock.
    #[inline]
    pub(crate) fn sum(&self, sum: &mut Sum) {
        sum.add(self.get(Word::BufferBytes));
        sum.add(self.get(Word::MostBuffer));
        for word in [Word::Active, Word::CommitSequence, Word::WritersBytes] {
            sum.add(self.get(word));
        }
    }

    /// Returns the failed syncs of the store file.
    pub(crate) fn doubt(&self) -> FsyncFailures<'_> {
        let words = self.region.words();
        FsyncFailures::new(
            &words[Word::Failures as usize],
            &words[Word::Mended as usize],
        )
    }

    /// Returns the lock that excludes other writers.
    #[inline]
    pub(crate) fn writer_lock(&self) -> WriterLock<'_> {
        WriterLock::new(&self.region.words()[Word::Lock as usize])
    }

    /// Returns a number for a new handle, distinct from all before it.
    pub(crate) fn new_handle(&self) -> u64 {
        self.region.words()[Word::NextHandle as usize].fetch_add(1, Ordering::AcqRel)
    }

    /// Checks the number of a new handle against those of the handles present.
    pub(crate) fn check_handle(&self, handle: u64) -> Result<(), ShmCorruption> {
        let others = (0..MAX_HANDLES).map(|index| self.slot(index).handle());
        let least = others.max().unwrap_or(0).saturating_add(1);
        // Records carry the number, and the next session counts on from there.
        let most = least.saturating_add(MOST_BETWEEN_HANDLES);
        ShmCorruption::unless_in("next handle", least..=most.min(LAST_WRITABLE - 1), handle)
    }

    /// Sets the number from which new handles are counted.
    pub(crate) fn set_next_handle(&self, number: u64) {
        self.set(Word::NextHandle, number);
    }

    pub(crate) fn commit_sequence(&self) -> u64 {
        self.get(Word::CommitSequence)
    }

    pub(crate) fn set_commit_sequence(&self, sequence: u64) {
        self.set(Word::CommitSequence, sequence);
    }

    pub(crate) fn writers_bytes(&self) -> u64 {
        self.get(Word::WritersBytes)
    }

    pub(crate) fn set_writers_bytes(&self, bytes: u64) {
        self.set(Word::WritersBytes, bytes);
    }

    /// Returns the process that is running a checkpoint, for error messages; 0 for none.
    pub(crate) fn checkpointer(&self) -> u64 {
        self.get(Word::Checkpointer)
    }

    pub(crate) fn set_checkpointer(&self, process: u64) {
        self.set(Word::Checkpointer, process);
    }

    /// Returns the window of pages that are being written.
    #[inline]
    pub(crate) fn window(&self) -> WriteWindow<'_> {
        let from = Word::Window as usize;
        WriteWindow::new(&self.region.words()[from..from + WriteWindow::WORDS])
    }

    /// Sets the range of pages that an interrupted checkpoint may have left torn.
    pub(crate) fn set_torn(&self, pages: Range<u64>) {
        self.window().set_torn(pages);
    }

    pub(crate) fn slot(&self, index: usize) -> HandleSlot<'_> {
        debug_assert!(index < MAX_HANDLES, "words behind the last slot: {index}");
        let from = FIRST_SLOT + index * SLOT_WORDS;
        HandleSlot::new(&self.region.words()[from..from + SLOT_WORDS])
    }

    /// Returns whether handles other than that in a slot seem to be open.
    pub(crate) fn has_others(&self, slot: usize) -> bool {
        (0..MAX_HANDLES).any(|index| index != slot && self.slot(index).handle() != 0)
    }

    /// Returns the slot of a handle, if it has one.
    pub(crate) fn slot_of(&self, handle: u64) -> Option<usize> {
        (0..MAX_HANDLES).find(|index| self.slot(*index).handle() == handle)
    }
}

fn halves(id: &[u8; 16]) -> (u64, u64) {
    let half = |from: usize| crate::codec::u64_at(id, from);
    (half(0), half(8))
}
