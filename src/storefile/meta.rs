//! What a store file says about itself: header, superblock, intent.

use std::path::Path;
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::copy::{self, CopyMark};
use crate::file::layout::{
    COPY_MARK_OFFSET, INTENT_OFFSETS, LAST_WRITABLE, PAGES_OFFSET, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSETS,
};
use crate::file::{
    FormatError, Header, Intent, Layer, Section, Superblock, SuperblockFault, intent,
};
use crate::page::PAGE_BYTES;
use crate::sys::storage::{StorageFile, read_exact_at};

/// The header and the superblock of a store, checked.
pub(crate) struct Meta {
    pub(crate) header: Header,
    pub(crate) superblock: Superblock,
    /// The other superblock, if it is valid.
    pub(crate) other: Option<Superblock>,
    /// What is wrong with the other superblock, if it is damaged.
    pub(crate) damaged: Option<SuperblockFault>,
    /// The newest intent, if any.
    pub(crate) intent: Option<Intent>,
}

/// Returns the error of a failure to read a section.
pub(crate) fn section_error(path: &Path, error: std::io::Error) -> Error {
    Error::io("read a section of", path, error)
}

/// Opens the file, then reads and checks header and superblocks.
pub(crate) fn identify(
    options: &OpenOptions,
    path: &Path,
    write: bool,
) -> Result<(Arc<dyn StorageFile>, Meta)> {
    let failed = |error| Error::io("open", path, error);
    let file = options.storage.open(path, write).map_err(failed)?;
    let meta = read_meta_of(&*file, path)?;
    Ok((file, meta))
}

pub(crate) fn read_meta_of(file: &dyn StorageFile, path: &Path) -> Result<Meta> {
    let failed = |error| Error::io("read", path, error);
    let wrong = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let length = file.length().map_err(failed)?;
    let mut page = vec![0; length.min(PAGE_BYTES as u64) as usize];
    read_exact_at(file, &mut page, 0).map_err(failed)?;
    let header = Header::decode(&page, length).map_err(wrong)?;
    let read = |slot: usize| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        read_exact_at(file, &mut bytes, SUPERBLOCK_OFFSETS[slot]).map_err(failed)?;
        Ok::<_, Error>(Superblock::decode(&bytes, &header))
    };
    let (superblock, other, damaged) = match (read(0)?, read(1)?) {
        // Whatever the other one says: it may be of long before.
        (Err(SuperblockFault::UnknownFlags { unknown }), _)
        | (_, Err(SuperblockFault::UnknownFlags { unknown })) => {
            return Err(wrong(FormatError::SuperblockFlags { unknown }));
        }
        (Ok(a), Ok(b)) if a.sequence > b.sequence => (a, Some(b), None),
        (Ok(a), Ok(b)) => (b, Some(a), None),
        // The other one has not been written yet.
        (Ok(good), Err(SuperblockFault::Blank)) | (Err(SuperblockFault::Blank), Ok(good)) => {
            (good, None, None)
        }
        (Ok(good), Err(bad)) | (Err(bad), Ok(good)) => (good, None, Some(bad)),
        (Err(a), Err(b)) => {
            let mark = read_mark(file, path, &header)?;
            let half = mark.and_then(|mark| mark.half_applied(None));
            return Err(wrong(half.unwrap_or(FormatError::NoSuperblock { a, b })));
        }
    };
    let mark = read_mark(file, path, &header)?;
    if let Some(half) = mark.and_then(|mark| mark.half_applied(Some(&superblock))) {
        return Err(wrong(half));
    }
    let expected = superblock.end_offset().max(PAGES_OFFSET);
    // The file may have grown by now, if a checkpoint has made room for a layer since.
    if length < expected && file.length().map_err(failed)? < expected {
        return Err(wrong(FormatError::Truncated {
            expected,
            got: length,
        }));
    }
    Ok(Meta {
        intent: newest_intent(file, path, &header)?,
        header,
        superblock,
        other,
        damaged,
    })
}

/// Refuses to write to a store of which a counter is near its end.
pub(crate) fn expect_counters_left(path: &Path, counters: &[(&'static str, u64)]) -> Result<()> {
    match counters.iter().find(|(_, got)| *got > LAST_WRITABLE) {
        None => Ok(()),
        Some(&(counter, got)) => Err(Error::Format {
            path: path.to_owned(),
            source: FormatError::WornOut { counter, got },
        }),
    }
}

impl Meta {
    /// Refuses a store that can be read, but not written to by this library.
    pub(crate) fn expect_writable(&self, path: &Path) -> Result<()> {
        let unknown = self.header.unknown_to_writers();
        if unknown != 0 {
            return Err(Error::Format {
                path: path.to_owned(),
                source: FormatError::ReadOnlyFeatures { unknown },
            });
        }
        let superblock = &self.superblock;
        let counters = [
            ("sequence", superblock.sequence),
            ("generation", superblock.generation),
            ("commit_sequence", superblock.commit_sequence),
        ];
        expect_counters_left(path, &counters)
    }

    /// Returns whether the checkpoint of the log of this generation was interrupted: pages may have some of its keys.
    pub(crate) fn has_begun(&self) -> bool {
        let generation = self.superblock.generation;
        let intent = self.intent.as_ref();
        let intends = intent.is_some_and(|intent| intent.generation == generation);
        intends || self.superblock.partly_merged.is_some()
    }

    /// Returns the sections that the other superblock names.
    pub(crate) fn other_sections(&self) -> &[Section] {
        self.other.as_ref().map_or(&[], |other| &other.sections)
    }
}

/// Reads the mark of a copy, if the file has one of this store.
pub(crate) fn read_mark(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
) -> Result<Option<CopyMark>> {
    let mut bytes = [0; copy::COPY_MARK_BYTES];
    read_exact_at(file, &mut bytes, COPY_MARK_OFFSET)
        .map_err(|error| Error::io("read", path, error))?;
    Ok(CopyMark::decode(&bytes, header))
}

fn newest_intent(file: &dyn StorageFile, path: &Path, header: &Header) -> Result<Option<Intent>> {
    let mut newest: Option<Intent> = None;
    for offset in INTENT_OFFSETS {
        let mut bytes = [0; intent::INTENT_BYTES];
        read_exact_at(file, &mut bytes, offset).map_err(|error| Error::io("read", path, error))?;
        let age = |intent: &Intent| (intent.generation, intent.sequence);
        if let Some(found) = Intent::decode(&bytes, header)
            && newest.as_ref().is_none_or(|held| age(&found) > age(held))
        {
            newest = Some(found);
        }
    }
    Ok(newest)
}

/// Of a transactional layer's capacity, a remainder below this share stays free: a commit brings any number of keys, and
/// the last few would each time cost a checkpoint of their own.
const LEAST_REMAINDER: u64 = 16;

/// Returns how many committed keys the next buffer may take until the last layer of a growing store is full.
/// `checkpointing` says how many keys a checkpoint is bringing into which layer.
pub(crate) fn room_after(
    header: &Header,
    superblock: &Superblock,
    checkpointing: Option<(u64, &Layer)>,
) -> u64 {
    if header.growth().is_none() {
        return u64::MAX;
    }
    let (count, layer) = match (checkpointing, superblock.layers.last()) {
        (Some((count, layer)), _) if count > 0 => (count, layer),
        (_, Some(layer)) => (0, layer),
        (_, None) => return u64::MAX,
    };
    let room = layer.room().saturating_sub(count);
    let least = match header.transactional {
        true => layer.capacity / LEAST_REMAINDER,
        false => 0,
    };
    // If there is no room, the next checkpoint creates a layer as large as it needs.
    if room <= least { u64::MAX } else { room }
}
