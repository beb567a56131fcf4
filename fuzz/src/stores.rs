//! Small good stores, made once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::Kind;
use everseen::testing::{GivenRun, LEAST_BUFFER, Options};
use tempfile::TempDir;

use crate::disk::SmallDisk;

pub const STORE: &str = "store";
/// Keys that each of them holds and that count, but for those that are forgotten.
pub const KEYS: u64 = 100;

/// When the stores that forget were made, in milliseconds since 1970: the begin of a step.
pub const CLOCK: u64 = 1_700_000_000_000;
/// Milliseconds of a step.
pub const STEP: u64 = 1000;
/// Steps of a window.
pub const STEPS: u64 = 15;

/// Returns a time in milliseconds since 1970.
pub fn time(clock: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(clock)
}

/// The files of a store, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The least buffer, no threads, nobody else, and for stores that forget no time of the system's.
pub fn options() -> Options {
    Options::new()
        .buffer(LEAST_BUFFER)
        .background(false)
        .exclusive(true)
        .clock(time(CLOCK))
        .storage(SmallDisk::shared())
}

/// A folder in memory if there is such a place.
pub fn folder() -> TempDir {
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
    folder.expect("a folder can be made")
}

/// The path of the store in a folder.
pub fn path(folder: &TempDir) -> PathBuf {
    folder.path().join(STORE)
}

/// Store and logs as they lie there, memory and locks aside: what `kill -9` leaves.
pub fn take(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("it can be listed");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == STORE || name.contains("-log.") {
            let bytes = fs::read(entry.path()).expect("it can be read");
            files.insert(name, bytes);
        }
    }
    files
}

/// Writes files into a folder.
pub fn write(files: &Files, folder: &Path) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("it can be written");
    }
}

/// Removes all files of a folder.
pub fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("it can be listed");
        fs::remove_file(entry.path()).expect("it can be removed");
    }
}

/// Stores of each kind, and such as forget, plain and transactional, closed and killed with logs; and one with several runs.
pub static STORES: LazyLock<Vec<Files>> = LazyLock::new(|| {
    let mut stores = Vec::new();
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            for closed in [true, false] {
                stores.push(make(kind, transactional, closed, false));
            }
        }
    }
    stores.push(with_runs(&make(Kind::Fingerprint, false, true, false)));
    for transactional in [false, true] {
        for closed in [true, false] {
            stores.push(make(Kind::Fingerprint, transactional, closed, true));
        }
    }
    stores
});

/// Gives a store two runs more: some of its keys went, and came again.
fn with_runs(files: &Files) -> Files {
    let folder = folder();
    write(files, folder.path());
    let path = path(&folder);
    let store = options().open(&path).expect("it is good");
    let hashes: Vec<u64> = (0..KEYS / 4).map(|key| store.hasher().mix(key)).collect();
    store.close().expect("it can be closed");
    let gone = GivenRun {
        went: hashes.clone(),
        ..GivenRun::default()
    };
    let again = GivenRun {
        came: hashes,
        ..GivenRun::default()
    };
    let added = options().add_runs(&path, &[gone, again]);
    added.expect("it is a store of fingerprints");
    take(folder.path())
}

/// The keys of a store that forgets come in four steps; the first ones are forgotten by the last.
fn make(kind: Kind, transactional: bool, closed: bool, forgets: bool) -> Files {
    let folder = folder();
    let path = path(&folder);
    let mut options = options()
        .kind(kind)
        .capacity(50 * if kind == Kind::Scalable { 1 } else { 10 })
        .fpr(1e-6)
        .seed([7; 32])
        .transactional(transactional);
    if forgets {
        options = options.forget_after(Duration::from_millis(STEP * STEPS));
    }
    let store = options.create(&path).expect("it can be made");
    for part in 0..4 {
        let keys: Vec<u64> = (part * KEYS / 4..(part + 1) * KEYS / 4).collect();
        if forgets {
            let now = time(CLOCK + part * 6 * STEP);
            store.advance_to(now).expect("it forgets");
        }
        store.insert_batch(&keys).expect("there is room");
        store.commit_with(b"tag").expect("it can be committed");
        if part < 2 {
            store.checkpoint().expect("it can be checkpointed");
        }
    }
    if closed {
        store.close().expect("it can be closed");
    }
    take(folder.path())
}
