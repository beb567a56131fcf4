//! The bytes of a copy between the header and the pages.

use crate::file::copy::{CopyMark, Moment, superblocks_of};
use crate::file::layout::{
    COPY_MARK_OFFSET, INTENT_OFFSETS, PAGES_OFFSET, REUSED_OFFSET, SUPERBLOCK_OFFSETS,
};
use crate::file::{Header, Superblock};

/// Returns the bytes from the intents to the pages: no intent (or the word `reused`), the mark, the
/// superblocks.
pub(crate) fn front(header: &Header, store: &Superblock, digest: u64) -> Vec<u8> {
    let from = INTENT_OFFSETS[0];
    let mut bytes = vec![0; (PAGES_OFFSET - from) as usize];
    let mut put = |offset: u64, part: &[u8]| {
        let at = (offset - from) as usize;
        bytes[at..at + part.len()].copy_from_slice(part);
    };
    if store.directory.is_some() {
        // As a delta that leads to this moment leaves it: readers of the moment before notice.
        put(REUSED_OFFSET, &store.set_version().to_le_bytes());
    }
    let both = superblocks_of(store);
    // Each spares the other, and the second is the newer one.
    assert_ne!(both[0].slot(), both[1].slot());
    assert!(both[0].sequence < both[1].sequence);
    for superblock in &both {
        let offset = SUPERBLOCK_OFFSETS[superblock.slot()];
        put(offset, &superblock.encode(header));
    }
    let mark = mark_of(header, &both[1], digest);
    // Otherwise no delta could be laid on the copy.
    assert!(mark.fits(&both[1]));
    put(COPY_MARK_OFFSET, &mark.encode());
    bytes
}

/// Returns the mark of a copy whose newest superblock is `newest`.
pub(crate) fn mark_of(header: &Header, newest: &Superblock, digest: u64) -> CopyMark {
    CopyMark {
        store_id: header.store_id,
        moment: Moment {
            generation: newest.generation,
            digest,
        },
        sequence: newest.sequence,
        next: None,
    }
}
