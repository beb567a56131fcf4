//! The intent: the pages that a checkpoint is about to write (FORMAT.md, "Intents").
//!
//! After a crash, a page in the range of a durable intent may be half old and half new. Anywhere else a wrong CRC is
//! damage.

use std::ops::Range;

use super::Header;
use super::layout::{MAX_COUNTER, SECTOR_BYTES};
use crate::codec::{Decoder, Encoder, put_u32, u32_at};

pub(crate) const INTENT_MAGIC: [u8; 8] = *b"EVERINTT";
pub(crate) const INTENT_CRC_OFFSET: usize = 8;
pub(crate) const INTENT_BYTES: usize = 64;

/// The pages that may be torn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    /// The generation whose log is being checkpointed.
    pub(crate) generation: u64,
    /// Counts the intents of that checkpoint; the higher number is the newer intent.
    pub(crate) sequence: u64,
    /// Page numbers in the file.
    pub(crate) pages: Range<u64>,
}

impl Intent {
    pub(crate) fn encode(&self, header: &Header) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(INTENT_BYTES);
        Encoder::new(&mut bytes)
            .bytes(&INTENT_MAGIC)
            .u32(0)
            .u32(0)
            .bytes(&header.store_id)
            .u64(self.generation)
            .u64(self.sequence)
            .u64(self.pages.start)
            .u64(self.pages.end);
        let crc = crc32fast::hash(&bytes[INTENT_CRC_OFFSET + 4..]);
        put_u32(&mut bytes, INTENT_CRC_OFFSET, crc);
        bytes
    }

    /// Returns `None` if the bytes hold no intent of this store, or only a partial one. A partial intent never became
    /// durable, so no page was written on the strength of it.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Option<Self> {
        let bytes = bytes.get(..INTENT_BYTES)?;
        let crc = crc32fast::hash(&bytes[INTENT_CRC_OFFSET + 4..]);
        if bytes[..8] != INTENT_MAGIC || u32_at(bytes, INTENT_CRC_OFFSET) != crc {
            return None;
        }
        let mut input = Decoder::new(&bytes[16..]);
        if input.array::<16>()? != header.store_id {
            return None;
        }
        let intent = Self {
            generation: input.u64()?,
            sequence: input.u64()?,
            pages: input.u64()?..input.u64()?,
        };
        (intent.sequence <= MAX_COUNTER).then_some(intent)
    }
}

const _: () = assert!(INTENT_BYTES == 8 + 4 + 4 + 16 + 32);
/// An intent is there or it never became durable: that it can't be torn is what [`Intent::decode`] relies on.
const _: () = assert!(INTENT_BYTES <= SECTOR_BYTES);
