//! A record of the log (FORMAT.md, "Log records").

use crate::codec::{Decoder, Encoder, put_u32, u32_at, u64_at};
use crate::file::Layer;
use crate::file::layer::LAYER_BYTES;
use crate::file::layout::{FIRST_PAGE, MAX_COUNTER};
use crate::file::superblock::{MAX_TAG, MAX_WRITER_NAME};
use crate::sizing::MAX_LAYERS;

pub(crate) const RECORD_CRC_OFFSET: usize = 0;
pub(crate) const PREVIOUS_OFFSET: usize = 4;
pub(crate) const RECORD_LENGTH_OFFSET: usize = 8;
pub(crate) const KIND_OFFSET: usize = 12;
pub(crate) const HANDLE_OFFSET: usize = 16;
/// Bytes before the payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 24;
/// Maximum bytes in a payload.
pub(crate) const MAX_PAYLOAD: usize = 65_536;
/// Maximum bytes in the payload of a commit record.
pub(crate) const MAX_MARK: usize = (24 + MAX_WRITER_NAME + MAX_TAG).next_multiple_of(8);
/// Maximum number of hashes in one record.
pub(crate) const MAX_RECORD_HASHES: usize = MAX_PAYLOAD / 8;

const CUT_FLAG_LAST: u32 = 1;
const CUT_FLAG_FORGETS: u32 = 2;

const _: () = assert!(RECORD_CRC_OFFSET + 4 == PREVIOUS_OFFSET);
const _: () = assert!(PREVIOUS_OFFSET + 4 == RECORD_LENGTH_OFFSET);
const _: () = assert!(RECORD_LENGTH_OFFSET + 4 == KIND_OFFSET);
const _: () = assert!(KIND_OFFSET + 4 == HANDLE_OFFSET);
const _: () = assert!(HANDLE_OFFSET + 8 == RECORD_HEADER_BYTES);
/// Records follow each other without gaps, and each begins at a multiple of 8.
const _: () = assert!(RECORD_HEADER_BYTES.is_multiple_of(8) && MAX_PAYLOAD.is_multiple_of(8));
const _: () = assert!(MAX_MARK <= MAX_PAYLOAD && 8 + LAYER_BYTES <= MAX_PAYLOAD);

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A handle begins to write to the log. The record carries a nonce, so that a dead handle's leftovers after the
    /// valid end can never continue the chain of the records that overwrite them.
    Open,
    /// Keys that a handle inserted.
    Insert,
    /// Commits what a handle has written so far.
    Commit,
    /// The log is closed.
    Cut,
    /// Keys that a handle removed.
    Remove,
    /// Known false positives.
    Exempt,
    /// New keys that were mistaken for seen.
    Lost,
}

impl RecordKind {
    pub(crate) fn id(self) -> u16 {
        match self {
            RecordKind::Open => 1,
            RecordKind::Insert => 2,
            RecordKind::Commit => 3,
            RecordKind::Cut => 4,
            RecordKind::Remove => 5,
            RecordKind::Exempt => 6,
            RecordKind::Lost => 7,
        }
    }

    pub(crate) fn from_id(id: u16) -> Option<Self> {
        match id {
            1 => Some(RecordKind::Open),
            2 => Some(RecordKind::Insert),
            3 => Some(RecordKind::Commit),
            4 => Some(RecordKind::Cut),
            5 => Some(RecordKind::Remove),
            6 => Some(RecordKind::Exempt),
            7 => Some(RecordKind::Lost),
            _ => None,
        }
    }
}

/// A record whose CRC has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) offset: u64,
    pub(crate) kind: RecordKind,
    pub(crate) handle: u64,
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    /// Returns the hashes of a record that holds hashes.
    pub(crate) fn hashes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.payload.chunks_exact(8).map(|bytes| u64_at(bytes, 0))
    }
}

/// The first fields of a record, before the CRC check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordHeader {
    pub(crate) crc: u32,
    pub(crate) previous: u32,
    pub(crate) length: usize,
    pub(crate) kind: RecordKind,
    pub(crate) handle: u64,
}

impl RecordHeader {
    /// Returns `None` if these bytes can't begin a record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        let kind = u32_at(bytes, KIND_OFFSET);
        // The upper half holds flags. None are defined.
        let kind = RecordKind::from_id(u16::try_from(kind).ok()?)?;
        let length = u32_at(bytes, RECORD_LENGTH_OFFSET) as usize;
        let handle = u64_at(bytes, HANDLE_OFFSET);
        if length > MAX_PAYLOAD || !length.is_multiple_of(8) || handle > MAX_COUNTER {
            return None;
        }
        Some(Self {
            crc: u32_at(bytes, RECORD_CRC_OFFSET),
            previous: u32_at(bytes, PREVIOUS_OFFSET),
            length,
            kind,
            handle,
        })
    }
}

/// Returns the CRC of a record at `offset` in a log with this salt. `record` is the header and the payload.
pub(crate) fn checksum(salt: &[u8; 16], offset: u64, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(salt);
    hasher.update(&offset.to_le_bytes());
    hasher.update(&record[PREVIOUS_OFFSET..]);
    hasher.finalize()
}

/// Begins a record in `out`. The payload follows, then [`seal`].
pub(crate) fn begin(out: &mut Vec<u8>, previous: u32, kind: RecordKind, handle: u64) {
    out.clear();
    Encoder::new(out)
        .u32(0)
        .u32(previous)
        .u32(0)
        .u16(kind.id())
        .u16(0)
        .u64(handle);
}

/// Fills in the length and CRC of the record in `out` and returns the CRC.
pub(crate) fn seal(out: &mut Vec<u8>, salt: &[u8; 16], offset: u64) -> u32 {
    Encoder::new(out).align();
    let length = out.len() - RECORD_HEADER_BYTES;
    // A reader would take a longer record for the torn end of the log, and lose all behind it.
    assert!(length <= MAX_PAYLOAD, "{length} bytes");
    put_u32(out, RECORD_LENGTH_OFFSET, length as u32);
    let crc = checksum(salt, offset, out);
    put_u32(out, RECORD_CRC_OFFSET, crc);
    crc
}

/// The payload of a commit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    /// Offset up to which this log was known to be durable when the mark was written.
    pub(crate) durable: u64,
    pub(crate) writer: String,
    pub(crate) tag: Vec<u8>,
}

impl Mark {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        // Nobody could read the commit back: its keys would be dropped.
        let name = self.writer.len();
        assert!((1..=MAX_WRITER_NAME).contains(&name), "{name} bytes");
        assert!(self.tag.len() <= MAX_TAG, "{} bytes", self.tag.len());
        assert!(self.sequence <= MAX_COUNTER, "{}", self.sequence);
        Encoder::new(out)
            .u64(self.sequence)
            .u64(self.durable)
            .u16(self.writer.len() as u16)
            .u16(self.tag.len() as u16)
            .u32(0)
            .bytes(self.writer.as_bytes())
            .bytes(&self.tag);
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut input = Decoder::new(payload);
        let sequence = input.u64()?;
        let durable = input.u64()?;
        let writer_length = usize::from(input.u16()?);
        let tag_length = usize::from(input.u16()?);
        input.u32()?;
        let in_range = (1..=MAX_WRITER_NAME).contains(&writer_length) && tag_length <= MAX_TAG;
        if !in_range || sequence > MAX_COUNTER {
            return None;
        }
        let writer = std::str::from_utf8(input.bytes(writer_length)?)
            .ok()?
            .to_owned();
        let tag = input.bytes(tag_length)?.to_vec();
        Some(Self {
            sequence,
            durable,
            writer,
            tag,
        })
    }
}

/// The payload of the record that closes a log: the work of its checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// No log follows: the store is closing.
    pub(crate) last: bool,
    /// The log was closed to drop from the pages what is forgotten by its time, whether it holds anything or not.
    pub(crate) forgets: bool,
    /// The layer that receives the keys, counted from 0. It may not exist yet.
    pub(crate) layer_index: u32,
    /// That layer before the checkpoint. A store of fingerprints has none.
    pub(crate) layer: Option<Layer>,
}

impl Cut {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.layer_index < MAX_LAYERS, "{}", self.layer_index);
        let begin = out.len();
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.last, CUT_FLAG_LAST) | flag(self.forgets, CUT_FLAG_FORGETS);
        let mut encoder = Encoder::new(out);
        encoder.u32(flags).u32(self.layer_index);
        match &self.layer {
            Some(layer) => layer.encode(&mut encoder),
            None => {
                encoder.bytes(&[0; LAYER_BYTES]);
            }
        }
        // A log that no reader finds closed is never checkpointed.
        assert_eq!(Self::decode(&out[begin..]).as_ref(), Some(self));
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut input = Decoder::new(payload);
        let flags = input.u32()?;
        let layer_index = input.u32()?;
        let bytes = input.bytes(LAYER_BYTES)?;
        let layer = match bytes.iter().all(|byte| *byte == 0) {
            true => None,
            false => Some(Layer::decode(&mut Decoder::new(bytes), FIRST_PAGE)?.ok()?),
        };
        if flags & !(CUT_FLAG_LAST | CUT_FLAG_FORGETS) != 0 {
            return None;
        }
        Some(Self {
            last: flags & CUT_FLAG_LAST != 0,
            forgets: flags & CUT_FLAG_FORGETS != 0,
            layer_index,
            layer,
        })
    }
}
