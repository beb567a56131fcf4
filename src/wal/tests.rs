//! Compares the log with a plain list of what was written to it.

use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::file::RECORDS_OFFSET;
use super::record::{self, RECORD_HEADER_BYTES, RecordHeader};
use super::*;
use crate::file::Layer;
use crate::file::layout::FIRST_PAGE;
use crate::sizing::Cell;
use crate::sys::storage::StorageFile;
use crate::sys::{Map, lock};

/// An in-memory file.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Vec<u8>>);

impl StorageFile for Memory {
    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let held = lock(&self.0);
        let rest = held.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut held = lock(&self.0);
        let end = offset as usize + bytes.len();
        let length = held.len().max(end);
        held.resize(length, 0);
        held[offset as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        lock(&self.0).resize(length as usize, 0);
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let length = length.max(self.length()?);
        self.set_length(length)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, _offset: u64, _length: u64) -> io::Result<Map> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns a log in memory and its file.
pub(crate) fn log_in_memory() -> (LogFile, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let log = LogFile {
        id: None,
        file: Arc::clone(&memory) as Arc<dyn StorageFile>,
        path: "log".into(),
        generation: 1,
        salt: [5; 16],
        moment: 0,
        clock: None,
        header_crc: 77,
        noted: Mutex::default(),
    };
    memory.set_length(RECORDS_OFFSET).unwrap();
    (log, memory)
}

/// A record that a test requests.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    Open,
    Insert(Vec<u64>),
    Commit(Mark),
    Cut(Cut),
}

fn mark() -> impl Strategy<Value = Mark> {
    let tag = prop::collection::vec(any::<u8>(), 0..40);
    (0_u64..1 << 60, any::<u64>(), "[a-z]{1,20}", tag).prop_map(
        |(sequence, durable, writer, tag)| Mark {
            sequence,
            durable,
            writer,
            tag,
        },
    )
}

fn cut() -> impl Strategy<Value = Cut> {
    (any::<bool>(), 0_u32..64, 1_u64..1000, 1_u64..1 << 40).prop_map(
        |(last, layer_index, pages, capacity)| Cut {
            forgets: pages % 3 == 1,
            last,
            layer_index,
            layer: (layer_index > 9).then_some(Layer {
                cell: Cell::Bit,
                first_page: FIRST_PAGE,
                pages,
                capacity,
                keys: capacity / 2,
                fpr: 1.0 / capacity.max(2) as f64,
                probes: 1 + layer_index % 64,
                all_written: !last,
            }),
        },
    )
}

pub(crate) fn wishes() -> impl Strategy<Value = Vec<(u64, Wish)>> {
    let wish = prop_oneof![
        1 => Just(Wish::Open),
        6 => prop::collection::vec(any::<u64>(), 1..30).prop_map(Wish::Insert),
        2 => mark().prop_map(Wish::Commit),
        1 => cut().prop_map(Wish::Cut),
    ];
    prop::collection::vec((1_u64..6, wish), 1..20)
}

/// The position and contents of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) start: u64,
    end: u64,
    kind: RecordKind,
    handle: u64,
    /// Reading it returns what was requested.
    whole: bool,
}

/// Writes the records and returns the position of each.
pub(crate) fn write(log: &LogFile, at: &mut LogEnd, wishes: &[(u64, Wish)]) -> Vec<Written> {
    let mut written = Vec::new();
    let mut scratch = Vec::new();
    for (handle, wish) in wishes {
        let start = at.end;
        let mut writer = LogWriter {
            log,
            at,
            scratch: &mut scratch,
        };
        let kind = match wish {
            Wish::Open => writer.open(*handle).map(|()| RecordKind::Open),
            Wish::Insert(keys) => writer.insert(*handle, keys).map(|()| RecordKind::Insert),
            Wish::Commit(mark) => writer.commit(*handle, mark).map(|()| RecordKind::Commit),
            Wish::Cut(cut) => writer.cut(*handle, cut).map(|()| RecordKind::Cut),
        };
        written.push(Written {
            start,
            end: at.end,
            kind: kind.unwrap(),
            handle: *handle,
            whole: true,
        });
    }
    written
}

/// Reads all records; `whole` says whether each equals its request.
fn read(log: &LogFile, wishes: &[(u64, Wish)]) -> (Vec<Written>, LogEnd) {
    let mut reader = LogReader::new(log).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let whole = match wishes.get(found.len()) {
            Some((_, Wish::Open)) => record.payload.len() == 16,
            Some((_, Wish::Insert(keys))) => record.hashes().eq(keys.iter().copied()),
            Some((_, Wish::Commit(mark))) => Mark::decode(record.payload).as_ref() == Some(mark),
            Some((_, Wish::Cut(cut))) => Cut::decode(record.payload).as_ref() == Some(cut),
            None => false,
        };
        found.push(Written {
            start: record.offset,
            end: record.offset + (RECORD_HEADER_BYTES + record.payload.len()) as u64,
            kind: record.kind,
            handle: record.handle,
            whole,
        });
    }
    let end = LogEnd {
        end: reader.end(),
        previous: reader.previous(),
        allocated: log.file.length().unwrap(),
    };
    (found, end)
}

/// Possible damage to the bytes of a log.
#[derive(Debug, Clone)]
enum Harm {
    Truncated,
    /// Zeros from there to the end.
    Lost,
    /// One flipped bit in this byte.
    Flipped(u32),
}

fn harm() -> impl Strategy<Value = Harm> {
    let flipped = (0_u32..8).prop_map(Harm::Flipped);
    prop_oneof![Just(Harm::Truncated), Just(Harm::Lost), flipped]
}

proptest! {
    /// Whatever happens to a log from some byte on, a reader returns the records before that byte and none after it.
    #[test]
    fn what_is_read_is_what_was_written_up_to_the_harm(
        wishes in wishes(),
        later in wishes(),
        harm in harm(),
        at in any::<prop::sample::Index>(),
    ) {
        let (log, memory) = log_in_memory();
        let mut end = LogEnd::begin(&log).unwrap();
        let written = write(&log, &mut end, &wishes);
        prop_assert_eq!(read(&log, &wishes).0, written.clone());

        let place = RECORDS_OFFSET as usize + at.index((end.end - RECORDS_OFFSET) as usize);
        let before = lock(&memory.0).clone();
        match harm {
            Harm::Truncated => memory.set_length(place as u64).unwrap(),
            Harm::Lost => lock(&memory.0)[place..].fill(0),
            Harm::Flipped(bit) => lock(&memory.0)[place] ^= 1 << bit,
        }
        let unharmed = |record: &&Written| {
            let range = record.start as usize..record.end as usize;
            lock(&memory.0).get(range.clone()) == Some(&before[range])
        };
        let expected: Vec<Written> = written.iter().take_while(unharmed).cloned().collect();
        let (found, mut end) = read(&log, &wishes);
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(end.end, expected.last().map_or(RECORDS_OFFSET, |record| record.end));

        // The next writer announces itself: nothing of the old tail reappears behind its records.
        let mut all = wishes[..expected.len()].to_vec();
        let mut added = vec![(9, Wish::Open)];
        added.extend(later);
        let more = write(&log, &mut end, &added);
        all.extend(added);
        prop_assert_eq!(read(&log, &all).0, [expected, more].concat());
    }

    /// The CRC or the first fields of a single record reveal any flipped bit.
    #[test]
    fn a_record_with_any_bit_flipped_is_none(
        payload in prop::collection::vec(any::<u8>(), 0..64),
        previous in any::<u32>(),
        offset in any::<u64>(),
        handle in 0_u64..1 << 60,
        bit in any::<prop::sample::Index>(),
    ) {
        let salt = [3; 16];
        let mut bytes = Vec::new();
        record::begin(&mut bytes, previous, RecordKind::Insert, handle);
        bytes.extend_from_slice(&payload);
        let crc = record::seal(&mut bytes, &salt, offset);
        let header = RecordHeader::decode(&bytes).unwrap();
        prop_assert_eq!((header.crc, header.previous), (crc, previous));
        prop_assert_eq!((header.kind, header.handle), (RecordKind::Insert, handle));
        prop_assert_eq!(header.length, bytes.len() - RECORD_HEADER_BYTES);
        prop_assert_eq!(record::checksum(&salt, offset, &bytes), crc);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let verifies = RecordHeader::decode(&bytes)
            .is_some_and(|header| header.crc == record::checksum(&salt, offset, &bytes));
        prop_assert!(!verifies, "bit {}", bit);
    }

    #[test]
    fn marks_and_cuts_go_there_and_back(mark in mark(), cut in cut(), end in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        mark.encode(&mut bytes);
        prop_assert_eq!(Mark::decode(&bytes), Some(mark));
        prop_assert_eq!(Mark::decode(&bytes[..end.index(bytes.len())]), None);
        let mut bytes = Vec::new();
        cut.encode(&mut bytes);
        prop_assert_eq!(Cut::decode(&bytes), Some(cut));
        prop_assert_eq!(Cut::decode(&bytes[..end.index(bytes.len())]), None);
    }
}
