//! Logs against their tables: header, records, the chain, marks and cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::bytes::{crc32, mix, number};
use super::doc::{Layout, section, table};
use super::seed;
use super::snapshot::{Interrupted, copy};
use super::store_file::newest_superblock;

const OPEN: u64 = 1;
const INSERT: u64 = 2;
const COMMIT: u64 = 3;
const CUT: u64 = 4;
pub(crate) const EXEMPT: u64 = 6;
const LOST: u64 = 7;

/// A record, as "Log records" describes it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) offset: usize,
    pub(crate) kind: u64,
    pub(crate) handle: u64,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn log_path(store: &Path, generation: u64) -> PathBuf {
    PathBuf::from(format!("{}-log.{generation}", store.display()))
}

/// The records of the chain.
pub(crate) fn chain(log: &[u8]) -> Vec<Record> {
    let (head, layout) = (Layout::of("The log"), Layout::of("Log records"));
    let salt = head.bytes(log, "salt");
    let mut previous = head.number(log, "crc");
    let mut records = Vec::new();
    let mut offset = 4096;
    while let Some(bytes) = log.get(offset..offset + layout.end()) {
        let get = |name| layout.number(bytes, name);
        let length = get("length") as usize;
        let fits = length <= 65_536 && length.is_multiple_of(8) && get("flags") == 0;
        let known = (OPEN..=CUT).contains(&get("kind")) || [EXEMPT, LOST].contains(&get("kind"));
        if !fits || !known || get("previous") != previous {
            break;
        }
        let Some(whole) = log.get(offset..offset + layout.end() + length) else {
            break;
        };
        let at = (offset as u64).to_le_bytes();
        if get("crc") != u64::from(crc32(&[salt, &at, &whole[4..]])) {
            break;
        }
        records.push(Record {
            offset,
            kind: get("kind"),
            handle: get("handle"),
            payload: whole[layout.end()..].to_vec(),
        });
        previous = get("crc");
        offset += whole.len();
        if get("kind") == CUT {
            break;
        }
    }
    records
}

fn hashes(record: &Record) -> impl Iterator<Item = u64> + '_ {
    assert_eq!(record.kind, INSERT);
    record.payload.chunks_exact(8).map(number)
}

/// The keys that count, after "Which keys count".
fn counting(records: &[Record], transactional: bool) -> BTreeSet<u64> {
    let mut last = BTreeMap::new();
    for record in records.iter().filter(|record| record.kind == COMMIT) {
        last.insert(record.handle, record.offset);
    }
    let counts = |record: &&Record| {
        let mark = last.get(&record.handle).copied().unwrap_or(0);
        record.kind == INSERT && (!transactional || record.offset < mark)
    };
    records.iter().filter(counts).flat_map(hashes).collect()
}

fn mixed(raw: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
    raw.into_iter().map(|raw| mix(raw, &seed())).collect()
}

fn options() -> Options {
    Options::new()
        .buffer(LEAST_BUFFER)
        .seed(seed())
        .background(false)
}

#[test]
fn kinds_of_records_are_those_of_the_code() {
    let rows = table(&section("Log records"), &["kind", "name", "payload"]);
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("1", "open"),
            ("2", "insert"),
            ("3", "commit"),
            ("4", "cut"),
            ("5", "remove"),
            ("6", "exempt"),
            ("7", "lost"),
        ]
    );
}

#[test]
fn a_log_is_as_documented() {
    [Kind::Scalable, Kind::Fingerprint]
        .into_iter()
        .for_each(log_of);
}

fn log_of(kind: Kind) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options().kind(kind).writer("née").create(&path).unwrap();
    let id = store.stats().unwrap().store_id;
    assert!(!log_path(&path, 1).exists());
    store.insert_batch(&Vec::from_iter(0..3000)).unwrap();
    assert_eq!(store.commit_with(b"tag").unwrap(), 1);
    store.insert(3000).unwrap();
    assert_eq!(store.commit().unwrap(), 2);
    store.insert(3001).unwrap();
    let log = std::fs::read(log_path(&path, 1)).unwrap();

    let head = Layout::of("The log");
    assert_eq!(head.bytes(&log, "magic"), b"EVERSLOG");
    assert_eq!(head.number(&log, "version"), 1);
    assert_eq!(
        head.number(&log, "crc"),
        u64::from(crc32(&[&log[..12], &log[16..64]]))
    );
    assert_eq!(head.bytes(&log, "store_id"), id);
    assert_ne!(head.bytes(&log, "salt"), [0; 16]);
    assert_eq!(head.number(&log, "generation"), 1);
    assert_eq!(head.number(&log, "moment"), 0);
    let note = Layout::of("The note");
    let noted = &log[512..536];
    let crc = crc32(&[head.bytes(&log, "salt"), &noted[4..]]);
    assert_eq!(note.number(noted, "crc"), u64::from(crc));
    assert!(
        log[64..512]
            .iter()
            .chain(&log[536..4096])
            .all(|byte| *byte == 0)
    );

    let records = chain(&log);
    assert_eq!((records[0].kind, records[0].payload.len()), (OPEN, 16));
    assert!(records.iter().all(|record| record.handle == 1));
    assert_eq!(counting(&records, false), mixed(0..=3001));
    let marks: Vec<_> = records
        .iter()
        .filter(|record| record.kind == COMMIT)
        .collect();
    let layout = Layout::of("Commit payload");
    for (mark, (sequence, durable, tag)) in marks.iter().zip([
        (1, 4096, b"tag".as_slice()),
        (2, marks[0].offset + 24 + marks[0].payload.len(), b""),
    ]) {
        let payload = &mark.payload;
        assert_eq!(layout.number(payload, "sequence"), sequence);
        assert_eq!(layout.number(payload, "durable"), durable as u64);
        assert_eq!(layout.number(payload, "name_length"), 4);
        assert_eq!(layout.number(payload, "tag_length"), tag.len() as u64);
        assert_eq!(layout.number(payload, "reserved"), 0);
        let text = ["née".as_bytes(), tag].concat();
        assert_eq!(payload[layout.end()..][..text.len()], text);
        let padding = &payload[layout.end() + text.len()..];
        assert!(padding.len() < 8 && padding.iter().all(|byte| *byte == 0));
    }

    // The superblock tells of the log, and a copy of both is what a killed process leaves.
    let file = std::fs::read(&path).unwrap();
    let layout = Layout::of("Superblocks");
    assert_eq!(layout.number(newest_superblock(&file).1, "flags"), 1);
    let copies = TempDir::new().unwrap();
    let copied = copy(&path, copies.path());
    let store = options().open(&copied).unwrap();
    assert!(!store.insert(3001).unwrap());
    assert!(store.insert(3002).unwrap());
    let records = chain(&std::fs::read(log_path(&copied, 1)).unwrap());
    let again: Vec<_> = records
        .iter()
        .filter(|record| record.kind == OPEN)
        .collect();
    assert_eq!(
        again.iter().map(|record| record.handle).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_ne!(again[0].payload, again[1].payload);
    assert_eq!(counting(&records, false), mixed(0..=3002));
}

#[test]
fn in_a_transactional_store_a_mark_covers_its_own_handle() {
    [Kind::Scalable, Kind::Fingerprint]
        .into_iter()
        .for_each(marks_of);
}

fn marks_of(kind: Kind) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let made = options().kind(kind).transactional(true);
    let store = made.create(&path).unwrap();
    store.insert_batch(&Vec::from_iter(0..100)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&Vec::from_iter(100..200)).unwrap();
    let copies = TempDir::new().unwrap();
    let copied = copy(&path, copies.path());
    let store = options().open(&copied).unwrap();
    store.insert_batch(&Vec::from_iter(200..300)).unwrap();
    store.commit().unwrap();
    let records = chain(&std::fs::read(log_path(&copied, 1)).unwrap());
    assert_eq!(counting(&records, true), mixed((0..100).chain(200..300)));
    assert_eq!(counting(&records, false), mixed(0..300));
    for raw in 0..300 {
        let expected = !(100..200).contains(&raw);
        assert_eq!(store.contains(raw).unwrap(), expected, "{raw}");
    }
}

/// A store as it is in the midst of its `nth` write of pages, and the commits that came before.
pub(crate) fn interrupted(kind: Kind, transactional: bool, nth: u32, copies: &Path) -> PathBuf {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let storage = Interrupted::new(&path, copies, nth);
    let options = options()
        .kind(kind)
        .capacity(200_000)
        .fpr(1e-5)
        .transactional(transactional);
    let store = options.storage(storage.clone()).create(&path).unwrap();
    insert_until(&store, &storage);
    copies.join("store")
}

/// Inserts 0, 1, 2, … with a commit after every 500th, whose tag is how many there are.
fn insert_until(store: &Store, storage: &Interrupted) {
    let mut next = 0_u64;
    while !storage.is_done() {
        store.insert(next).unwrap();
        next += 1;
        if next.is_multiple_of(500) {
            store.commit_with(&next.to_le_bytes()).unwrap();
        }
        assert!(next < 150_000);
    }
}

#[test]
fn a_rotation_leaves_a_cut_and_the_next_log() {
    for (kind, transactional) in [(Kind::Bloom, false), (Kind::Scalable, true)] {
        let copies = TempDir::new().unwrap();
        let path = interrupted(kind, transactional, 2, copies.path());
        let file = std::fs::read(&path).unwrap();
        let (_, superblock) = newest_superblock(&file);
        let fixed = Layout::of("Superblocks");
        assert_eq!(fixed.number(superblock, "generation"), 1);
        let first = chain(&std::fs::read(log_path(&path, 1)).unwrap());
        let second = chain(&std::fs::read(log_path(&path, 2)).unwrap());
        let cut = first.last().unwrap();
        assert_eq!((cut.kind, cut.payload.len()), (CUT, 72));
        let layout = Layout::of("Cut payload");
        assert_eq!(layout.number(&cut.payload, "flags"), 0);
        assert_eq!(layout.number(&cut.payload, "layer_index"), 0);
        let layer = layout.bytes(&cut.payload, "layer");
        let entry = Layout::of("Layer entry");
        match kind {
            Kind::Bloom => assert_eq!(layer, &superblock[fixed.end()..][..entry.end()]),
            _ => assert_eq!(fixed.number(superblock, "layer_count"), 0),
        }
        assert_eq!(entry.number(layer, "keys"), 0);
        assert_eq!(entry.number(layer, "first_page"), 32);

        // The next log begins with what the handle had not committed, in a transactional store.
        assert_eq!(second[0].kind, OPEN);
        let all = counting(&first, false);
        let committed = counting(&first, transactional);
        let carried: BTreeSet<u64> = second[1..].iter().flat_map(hashes).collect();
        assert_eq!(&all - &committed, carried);
        assert_eq!(carried.is_empty(), !transactional);

        // The newest intent names the torn pages, and an opener mends them.
        let keys = all.len() as u64;
        let store = options().open(&path).unwrap();
        for raw in 0..keys {
            let dropped = transactional && raw >= committed.len() as u64;
            assert_eq!(store.contains(raw).unwrap(), !dropped, "{raw} of {keys}");
        }
        store.close().unwrap();
        let store = options().open_read_only(&path).unwrap();
        assert!(store.verify().unwrap().is_ok());
        assert_eq!(store.stats().unwrap().keys, committed.len() as u64);
    }
}

/// Closing writes a cut with the flag last.
#[test]
fn the_last_cut_says_so() {
    let folder = TempDir::new().unwrap();
    let copies = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let storage = Interrupted::new(&path, copies.path(), 1);
    let options = options().capacity(1000).storage(storage.clone());
    let store = options.create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.close().unwrap();
    assert!(storage.is_done());
    let path = copies.path().join("store");
    let cut = chain(&std::fs::read(log_path(&path, 1)).unwrap())
        .pop()
        .unwrap();
    assert_eq!(cut.kind, CUT);
    assert_eq!(Layout::of("Cut payload").number(&cut.payload, "flags"), 1);
    assert!(!log_path(&path, 2).exists());
}
