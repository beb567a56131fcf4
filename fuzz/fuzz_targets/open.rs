//! A whole store, changed anywhere, with checksums mended or not, opened and used.
#![no_main]

use std::cell::RefCell;

use everseen::Store;
use everseen_fuzz::forge::{Patch, patch, seal_log, seal_store};
use everseen_fuzz::stores::{self, KEYS, STORE, STORES};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use tempfile::TempDir;

/// Where a file is changed.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Part {
    Header,
    Intent,
    OtherIntent,
    Superblock,
    OtherSuperblock,
    Pages,
    LogHeader,
    LogRecords,
    OtherLogRecords,
}

#[derive(Debug, Arbitrary)]
struct Input {
    good: u8,
    changes: Vec<(Part, Patch)>,
    /// Whether checksums of the store, and of its logs, are mended.
    seal_store: bool,
    seal_logs: bool,
    /// Bytes that are missing at the end of a file.
    short: Option<(bool, u32)>,
    /// A log takes the place of another one.
    rename_log: bool,
    /// Whether the handle shares the store, and keys for the store.
    shared: bool,
    keys: Vec<u16>,
}

thread_local! {
    static FOLDER: RefCell<TempDir> = RefCell::new(stores::folder());
}

fuzz_target!(|input: Input| {
    let mut files = STORES[usize::from(input.good) % STORES.len()].clone();
    let logs: Vec<String> = files
        .keys()
        .filter(|name| *name != STORE)
        .cloned()
        .collect();
    for (part, change) in &input.changes {
        let (name, start) = match part {
            Part::Header => (Some(STORE), 0),
            Part::Intent => (Some(STORE), 4096),
            Part::OtherIntent => (Some(STORE), 8192),
            Part::Superblock => (Some(STORE), 16_384),
            Part::OtherSuperblock => (Some(STORE), 73_728),
            Part::Pages => (Some(STORE), 131_072),
            Part::LogHeader => (logs.first().map(String::as_str), 0),
            Part::LogRecords => (logs.first().map(String::as_str), 4096),
            Part::OtherLogRecords => (logs.last().map(String::as_str), 4096),
        };
        if let Some(file) = name.and_then(|name| files.get_mut(name)) {
            patch(file, start, std::slice::from_ref(change));
        }
    }
    for (name, bytes) in &mut files {
        match name == STORE {
            true if input.seal_store => seal_store(bytes),
            false if input.seal_logs => seal_log(bytes),
            _ => {}
        }
        if let Some((of_store, missing)) = input.short
            && of_store == (name == STORE)
        {
            bytes.truncate(bytes.len().saturating_sub(missing as usize));
        }
    }
    if input.rename_log
        && let Some(log) = logs.first().and_then(|name| files.get(name)).cloned()
    {
        for generation in 1..6 {
            files
                .entry(format!("{STORE}-log.{generation}"))
                .or_insert_with(|| log.clone());
        }
    }
    FOLDER.with_borrow(|folder| {
        stores::write(&files, folder.path());
        let path = stores::path(folder);
        let options = stores::options().exclusive(!input.shared);
        if let Ok(store) = options.open_read_only(&path) {
            ask(&store);
        }
        if let Ok(store) = options.open(&path) {
            ask(&store);
            let kept = insert(&store, &input.keys);
            let checkpointed = store.checkpoint();
            expect(&store, &kept);
            let _ = store.verify();
            let closed = store.close();
            drop(store);
            if checkpointed.is_ok()
                && closed.is_ok()
                && let Ok(store) = options.open(&path)
            {
                expect(&store, &kept);
                let _ = store.close();
            }
        }
        stores::clear(folder.path());
    });
});

/// Asks for everything that can be asked for.
fn ask(store: &Store) {
    for key in 0..2 * KEYS {
        let _ = store.contains(key);
    }
    let _ = store.stats();
    let _ = store.verify();
    let _ = store.last_commit("default");
}

/// Inserts keys and commits; answers those that were taken.
fn insert(store: &Store, keys: &[u16]) -> Vec<u64> {
    let keys = keys.iter().map(|key| u64::from(*key));
    let kept = keys.filter(|key| store.insert(*key).is_ok()).collect();
    match store.commit_with(b"fuzzed") {
        Ok(_) => kept,
        Err(_) => Vec::new(),
    }
}

/// What was taken is there, or it can't be told.
fn expect(store: &Store, kept: &[u64]) {
    for key in kept {
        assert!(
            !matches!(store.contains(*key), Ok(false)),
            "key {key} is lost"
        );
    }
}
