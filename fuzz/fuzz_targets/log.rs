//! A log of any bytes, and of any records with checksums that are right.
#![no_main]

use std::cell::RefCell;
use std::fs;

use everseen::fuzzing;
use everseen_fuzz::disk::SmallDisk;
use everseen_fuzz::forge::{Patch, patch, seal_log};
use everseen_fuzz::stores::{self, STORE, STORES};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use tempfile::TempDir;

/// A record as it is put into the log.
#[derive(Debug, Arbitrary)]
struct Record {
    kind: u8,
    handle: u64,
    payload: Vec<u8>,
    /// Bytes of a payload that is longer than the fuzzer would make it, in units of 256.
    longer: u8,
}

#[derive(Debug, Arbitrary)]
struct Input {
    good: u8,
    /// Records that replace those that are there, if there are any.
    records: Vec<Record>,
    /// Changes before the checksums are mended, and after.
    before: Vec<Patch>,
    seal: bool,
    after: Vec<Patch>,
    /// Where the file ends.
    length: u16,
}

thread_local! {
    static FOLDER: RefCell<TempDir> = RefCell::new(stores::folder());
}

fuzz_target!(|input: Input| {
    // Those that were killed have logs.
    let killed: Vec<_> = STORES.iter().filter(|files| files.len() > 1).collect();
    let files = killed[usize::from(input.good) % killed.len()];
    let (name, good) = files.iter().next_back().expect("there is a log");
    let generation = name.rsplit('.').next().and_then(|part| part.parse().ok());
    let generation: u64 = generation.expect("a log's name ends with its generation");
    let mut log = good.clone();
    if !input.records.is_empty() {
        log.truncate(4096);
        for record in &input.records {
            let mut payload = record.payload.clone();
            payload.resize(payload.len().next_multiple_of(8), 0);
            payload.resize(payload.len() + usize::from(record.longer) * 256, 1);
            log.extend_from_slice(&[0; 8]);
            log.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            log.extend_from_slice(&u32::from(record.kind % 8).to_le_bytes());
            log.extend_from_slice(&record.handle.to_le_bytes());
            log.extend_from_slice(&payload);
        }
    }
    patch(&mut log, 0, &input.before);
    if input.seal {
        seal_log(&mut log);
    }
    patch(&mut log, 0, &input.after);
    if input.length > 0 {
        log.truncate(usize::from(input.length));
    }
    let page = &files[STORE][..4096];
    FOLDER.with_borrow(|folder| {
        let path = stores::path(folder);
        let storage = SmallDisk::shared();
        fs::write(folder.path().join(name), &log).expect("it can be written");
        let Ok(found) = fuzzing::log(&*storage, &path, page, generation) else {
            return;
        };
        let found = found.expect("it is there");
        assert!((4096..=log.len() as u64).contains(&found.end));
        assert!(found.committed_keys <= found.keys);
        assert!(found.keys <= found.end / 8);
        // Nothing behind the end of the chain counts.
        log.truncate(found.end as usize);
        fs::write(folder.path().join(name), &log).expect("it can be written");
        let shorter = fuzzing::log(&*storage, &path, page, generation);
        assert_eq!(shorter.expect("it was good"), Some(found));
    });
});
