//! Stores to spoil, and copies of them as a killed process leaves them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use everseen::testing::Options;
use everseen::{Error, FormatError, LogError, Store};
use tempfile::TempDir;

use super::fault::{Call, Failure, Fault, FaultStorage, Rule};
use super::unsynced::Unsynced;

/// A key like those that users have.
pub fn key(number: u64) -> Vec<u8> {
    format!("https://example.org/page/{number}").into_bytes()
}

/// The keys of a range of numbers.
pub fn keys(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(key).collect()
}

/// The same, made once: `numbers` up to 8000.
pub fn ready_keys() -> &'static [Vec<u8>] {
    static KEYS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| keys(0..8000));
    &KEYS
}

/// The smallest buffer, no threads, no sample, no waiting for the disk, and a given seed, so that each key is in the same
/// page in every run.
pub fn small() -> Options {
    Options::new()
        .buffer(everseen::testing::LEAST_BUFFER)
        .measured(false)
        .seed([7; 32])
        .background(false)
        .storage(Unsynced::new())
}

/// A folder and the path of a store in it that is yet to be made.
pub fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    (folder, path)
}

/// The path of the store's log of a generation.
pub fn log_of(store: &Path, generation: u64) -> PathBuf {
    beside(store, &format!("-log.{generation}"))
}

/// The path of a file beside the store.
pub fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Names of the store and its logs, shared memory aside, sorted.
pub fn names(store: &Path) -> Vec<String> {
    let folder = store.parent().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            let beside = ["-shm"];
            !beside.iter().any(|other| name.contains(other))
        })
        .collect();
    names.sort();
    names
}

/// Copies the store as it lies there, logs included, into a new folder: what `kill -9` leaves.
pub fn image(store: &Path) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    for name in names(store) {
        fs::copy(
            store.parent().unwrap().join(&name),
            folder.path().join(&name),
        )
        .unwrap();
    }
    let path = folder.path().join(store.file_name().unwrap());
    (folder, path)
}

/// What is left of a store if its process dies at the `nth` write to the store file while `act` runs, counted from 1, and
/// whether that ended before. `storage` is the store's disk, and works again afterwards.
pub fn killed_at_write(
    storage: &FaultStorage,
    nth: u64,
    store: &Path,
    act: impl FnOnce() -> everseen::Result<()>,
) -> (TempDir, PathBuf, bool) {
    let rule = Rule::from(nth, Fault::Fails(Failure::Broken));
    storage.arm(rule.on(Call::Write).on_store());
    let is_over = act().is_ok();
    let (folder, killed) = image(store);
    storage.heal();
    (folder, killed, is_over)
}

/// How many of the keys the store has.
pub fn held(store: &Store, keys: &[impl everseen::Key]) -> usize {
    let found = store.contains_batch(keys).unwrap();
    found.iter().filter(|found| **found).count()
}

/// The error must be one about the bytes of this store file.
#[track_caller]
pub fn format_error(outcome: everseen::Result<Store>, store: &Path) -> FormatError {
    match outcome {
        Err(Error::Format { path, source }) => {
            assert_eq!(path, store);
            source
        }
        other => panic!("expected a format error, got {other:?}"),
    }
}

/// The error must be one about the bytes of this log.
#[track_caller]
pub fn log_error(outcome: everseen::Result<Store>, log: &Path) -> LogError {
    match outcome {
        Err(Error::Log { path, source }) => {
            assert_eq!(path, log);
            source
        }
        other => panic!("expected a log error, got {other:?}"),
    }
}
