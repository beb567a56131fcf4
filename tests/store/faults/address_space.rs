//! A process whose address space is limited (`ulimit -v`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use everseen::testing::Options;
use everseen::{Error, Result, Store};

use crate::support::share::all_or;
use crate::support::unsynced::Unsynced;

const TASK: &str = "EVERSEEN_LIMITED_CHILD";

/// How many keys a child adds, and how many at a time.
const KEYS: u64 = 300_000;
const BATCH: u64 = 3_000;

/// The child's words for how far it came.
const COMMITTED: &str = "committed ";

#[test]
fn memory_that_can_t_be_had_is_a_typed_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // No processor has so many addresses.
    let options = Options::new().exclusive(true).buffer(1 << 50);
    match options.create(&path) {
        Err(Error::OutOfMemory {
            action: "reserve memory for",
            path: named,
            limit: None,
        }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
    Options::new().create(&path).unwrap().close().unwrap();
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn options() -> Options {
    let options = Options::new().storage(Unsynced::new());
    options.fpr(1e-12).transactional(true)
}

/// Adds keys from `first` on.
fn add(path: &Path, first: u64) -> Result<Store> {
    let options = options();
    let store = options.open_or_create(path)?;
    for begin in (first..first + KEYS).step_by(BATCH as usize) {
        let keys: Vec<_> = (begin..begin + BATCH).map(key).collect();
        store.insert_batch(&keys)?;
        store.commit()?;
        eprintln!("{COMMITTED}{}", begin + BATCH);
    }
    Ok(store)
}

#[test]
#[ignore = "not a test: what the other tests start"]
fn child() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let (first, path) = task.split_once(' ').unwrap();
    let added = add(&PathBuf::from(path), first.parse().unwrap());
    match added.and_then(|store| store.close()) {
        Ok(_) => eprintln!("done"),
        Err(error) => eprintln!("{error:?}"),
    }
}

/// Has a child add its keys under a limit in KiB.
fn add_within(limit: u64, first: u64, path: &Path) -> Output {
    let child = "--exact faults::address_space::child --ignored --nocapture --test-threads=1";
    let mut command = Command::new("sh");
    // Otherwise the allocator reserves 64 MiB for the thread of the test.
    command.env("MALLOC_ARENA_MAX", "1");
    command.env(TASK, format!("{first} {}", path.display()));
    let script = format!("ulimit -v {limit}; exec \"$0\" {child}");
    command.args(["-c", &script]);
    command.arg(std::env::current_exe().unwrap());
    command.stdin(Stdio::null()).output().unwrap()
}

/// Returns the least limit, in whole thousands, under which the system can load this binary at all.
fn least_limit() -> u64 {
    let starts = |limit: u64| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {limit}; exec \"$0\" --list")]);
        command.arg(std::env::current_exe().unwrap());
        command.output().unwrap().status.success()
    };
    let limits = Vec::from_iter((5..200).map(|thousands| thousands * 1000));
    let least = limits.partition_point(|limit| !starts(*limit));
    limits[least]
}

/// Has a child add keys from `first` on to a store that has all before it. Returns whether it came to its end.
fn is_done(limit: u64, first: u64, path: &Path) -> bool {
    let ran = add_within(limit, first, path);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{limit} {}: {said}", ran.status);
    let last = said.lines().next_back().unwrap_or_default();
    let of_limit = format!("limit: Some({})", limit * 1024);
    let is_refused = last.contains("OutOfMemory") && last.contains(&of_limit);
    assert!(last == "done" || is_refused, "{limit}: {said}");
    let mut lines = said.lines().rev();
    let committed = lines.find_map(|line| line.strip_prefix(COMMITTED));
    let committed = committed.map_or(first, |number| number.parse().unwrap());
    if path.exists() {
        let store = options().open(path).unwrap();
        let keys: Vec<_> = (0..first + KEYS).map(key).collect();
        let held = store.contains_batch(&keys).unwrap();
        let held = held.iter().take_while(|held| **held).count() as u64;
        assert!(
            held >= committed && held.is_multiple_of(BATCH),
            "{limit}: {held}"
        );
        assert_eq!(store.stats().unwrap().keys, held, "{limit}");
        store.close().unwrap();
    } else {
        assert_eq!(committed, 0, "{limit}");
    }
    last == "done"
}

/// Checkpoints, the maps of a store that grows, new buffers: what is large is asked for before anything depends on it.
#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux tells the limit")]
fn a_handle_without_address_space_ends_with_a_typed_error_and_loses_nothing() {
    let least = least_limit();
    let mut done = Vec::new();
    let some = all_or(&[8, 10, 12, 14, 16, 20, 30, 60, 200][..], &[8, 20]);
    for more in some {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        done.push(is_done(least + more * 1000, 0, &path));
        // That is enough, if all that is mapped follows the limit.
        assert!(*more < 20 || done.ends_with(&[true]), "{more}");
    }
    // Otherwise, nothing was tested.
    assert!(!done[0]);
}

/// A process that had all the memory made segments of four megabytes, which one that has little must read whole.
#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux tells the limit")]
fn a_store_that_others_made_with_more_memory_is_refused_before_anything_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (made, path) = (folder.path().join("made"), folder.path().join("store"));
    let first = 5 * KEYS;
    let store = options().create(&made).unwrap();
    for begin in (0..first).step_by(KEYS as usize) {
        let keys: Vec<_> = (begin..begin + KEYS).map(key).collect();
        store.insert_batch(&keys).unwrap();
        store.commit().unwrap();
    }
    store.close().unwrap();
    let least = least_limit();
    let mut done = Vec::new();
    for more in all_or(&[14, 18, 22, 30, 200][..], &[14, 200]) {
        std::fs::copy(&made, &path).unwrap();
        done.push(is_done(least + more * 1000, first, &path));
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(
        (done.first(), done.last()),
        (Some(&false), Some(&true)),
        "{done:?}"
    );
}
