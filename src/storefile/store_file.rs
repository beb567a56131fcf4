//! The file of an open store: its header, its superblocks, and what makes them durable.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::layout::{
    INTENT_OFFSETS, MAX_COUNTER, PAGE_LIMIT, PAGES_OFFSET, SUPERBLOCK_OFFSETS, page_offset,
};
use crate::file::{FormatError, Header, Intent, Superblock};
use crate::page::KeyModel;
use crate::page::PAGE_BYTES;
use crate::shm::coordination::Coordination;
use crate::shm::fsync_failures::SeenFailures;
use crate::shm::place::Place;
use crate::storefile::file_watch::FileWatch;
use crate::storefile::meta::{Meta, read_meta_of};
use crate::sys::storage::{Owner, StorageFile, write_all_at};

/// The store's file, as one handle has it open.
#[derive(Debug)]
pub(crate) struct StoreFile {
    pub(crate) place: Place,
    pub(crate) header: Header,
    /// What the store knows of a key.
    pub(crate) model: KeyModel,
    /// The maximum number of keys that the store may hold.
    pub(crate) key_limit: u64,
    pub(crate) raw: Arc<dyn StorageFile>,
    /// Only in a handle that reads.
    pub(crate) watch: Option<FileWatch>,
    shared: Arc<Coordination>,
    /// The failed syncs of the file that the system has reported to this handle.
    reported: SeenFailures,
}

impl StoreFile {
    pub(crate) fn new(
        place: Place,
        header: Header,
        (raw, watch): (Arc<dyn StorageFile>, Option<FileWatch>),
        shared: Arc<Coordination>,
    ) -> Self {
        let key_limit = match header.growth() {
            Some(growth) => growth.limit(),
            None => header.capacity,
        };
        Self {
            model: header.key_model(),
            place,
            header,
            key_limit,
            raw,
            watch,
            shared,
            reported: SeenFailures::default(),
        }
    }

    /// Reads the current header and superblocks.
    pub(crate) fn read_meta(&self) -> Result<Meta> {
        read_meta_of(&*self.raw, &self.place)
    }

    /// Returns the error of an operation that only other stores support.
    #[cold]
    pub(crate) fn wrong_kind(&self, action: &'static str, expected: &'static str) -> Error {
        Error::WrongKind {
            path: self.place.to_path_buf(),
            action,
            expected,
            got: self.header.kind,
        }
    }

    /// Returns the owner and mode of the store file. Files derived from a store get the same.
    pub(crate) fn owner(&self) -> Result<Option<Owner>> {
        Ok(self.place.state()?.map(|state| state.owner))
    }

    /// Makes a superblock durable.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        let outcome = write_superblock(&*self.raw, &self.place, &self.header, superblock);
        if outcome.is_err() {
            self.shared.doubt().raise();
        }
        outcome
    }

    /// Writes pages, not durably. The disk begins at once with what is long, so that the sync which follows waits for less.
    pub(crate) fn write_pages(&self, bytes: &[u8], offset: u64) -> Result<()> {
        // An empty range would mean the rest of the file to some systems.
        if bytes.is_empty() {
            return Ok(());
        }
        let (page, length) = (PAGE_BYTES as u64, bytes.len() as u64);
        let are_pages = offset >= PAGES_OFFSET
            && offset.is_multiple_of(page)
            && length.is_multiple_of(page)
            && offset + length <= page_offset(PAGE_LIMIT);
        // All before the pages has a writer of its own.
        assert!(are_pages, "{length} bytes at {offset}");
        write_all_at(&*self.raw, bytes, offset)
            .map_err(|error| Error::io("write pages of", &self.place, error))?;
        let range = offset..offset + bytes.len() as u64;
        let started = self.raw.start_writing(range);
        // As after a failed sync, nobody knows what reached the disk.
        started.map_err(|error| self.not_synced("start to write pages of", error))
    }

    /// Writes an intent to its place, not durably.
    pub(crate) fn write_intent(&self, intent: &Intent) -> Result<()> {
        // Whatever it says, it takes the place of one that names pages that may be torn.
        assert!(intent.pages.start < intent.pages.end, "{intent:?}");
        let offset = INTENT_OFFSETS[(intent.sequence % 2) as usize];
        write_all_at(&*self.raw, &intent.encode(&self.header), offset)
            .map_err(|error| Error::io("write pages of", &self.place, error))
    }

    /// Makes the pages of segments durable, and then the superblock that names them, in both places. Then the room is free of
    /// what it no longer names. Returns the newer one, whose sequence is higher by 1.
    pub(crate) fn name_segments(&self, superblock: Superblock) -> Result<Superblock> {
        // A reader of the directory asks by its version whether its room was written again.
        let directory = superblock.directory.as_ref();
        assert!(directory.is_some_and(|named| named.version <= superblock.sequence));
        self.sync("sync the pages of")?;
        self.write_superblock(&superblock)?;
        // Both places name the directory, so that what neither names is free.
        assert!(superblock.sequence < MAX_COUNTER);
        let again = Superblock {
            sequence: superblock.sequence + 1,
            ..superblock
        };
        self.write_superblock(&again)?;
        Ok(again)
    }

    /// Makes durable what was written to the store file.
    pub(crate) fn sync(&self, action: &'static str) -> Result<()> {
        self.raw
            .sync()
            .map_err(|error| self.not_synced(action, error))
    }

    fn not_synced(&self, action: &'static str, error: io::Error) -> Error {
        self.shared.doubt().raise();
        Error::sync(action, &self.place, error)
    }

    /// Makes the newest superblock durable if a sync of the store file failed, through whichever handle. Pages need no
    /// such care: until a superblock records a checkpoint, recovery repeats all of it.
    pub(crate) fn repair_sync(&self) -> Result<()> {
        if !self.shared.doubt().is_open() {
            return Ok(());
        }
        self.shared.doubt().sync(
            &*self.raw,
            &self.reported,
            || {
                let superblock = self.read_meta()?.superblock;
                write_superblock(&*self.raw, &self.place, &self.header, &superblock)
            },
            |error| Error::sync("sync the store", &self.place, error),
        )
    }

    /// Returns an error about the store file's bytes.
    pub(crate) fn format_error(&self, source: FormatError) -> Error {
        Error::Format {
            path: self.place.to_path_buf(),
            source,
        }
    }
}

/// Makes a superblock durable, and with it everything else in the file that is not yet durable.
pub(crate) fn write_superblock(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
    superblock: &Superblock,
) -> Result<()> {
    let bytes = superblock.encode(header);
    let offset = SUPERBLOCK_OFFSETS[superblock.slot()];
    write_all_at(file, &bytes, offset)
        .map_err(|error| Error::io("write the superblock of", path, error))?;
    file.sync()
        .map_err(|error| Error::sync("sync the superblock of", path, error))
}
