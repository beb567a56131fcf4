//! Copies of stores that can only be read: with what a killed writer left in its logs, and without a change to the store.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, FormatError, Kind, Store};

use super::setting::{KINDS, assert_whole, insert, options, store};
use crate::support::fault::FaultStorage;
use crate::support::files::{beside, image, keys, killed_at_write, place};
use crate::support::segments::{from, newest};
use crate::support::share::Share;
use crate::support::unsynced::Unsynced;

/// Keys of the stores here, of which the last third were never in them.
const KEYS: u64 = 2100;

fn options_of(kind: Kind) -> Options {
    match kind {
        Kind::Counting => options(Kind::Bloom).kind(kind).capacity(40_000),
        _ => options(kind),
    }
}

/// The defaults, without waiting for the disk or for a large buffer.
fn quick() -> Options {
    Options::new().buffer(LEAST_BUFFER).storage(Unsynced::new())
}

/// All files of a folder.
fn files(store: &Path) -> BTreeMap<std::ffi::OsString, Vec<u8>> {
    let entries = fs::read_dir(store.parent().unwrap()).unwrap();
    let entries = entries.map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// What a store answers, and what it says of itself.
fn answers(store: &Store) -> (Vec<u64>, u64, Option<everseen::Commit>) {
    let keys = keys(0..KEYS);
    let found = match store.stats().unwrap().kind {
        Kind::Counting => keys
            .iter()
            .map(|key| store.count_estimate(key).unwrap())
            .collect(),
        _ => {
            let found = store.contains_batch(&keys).unwrap();
            found.into_iter().map(u64::from).collect()
        }
    };
    let stats = store.stats().unwrap();
    (found, stats.keys, store.last_commit("default").unwrap())
}

/// Copies a store through a handle that only reads, and compares the copy with what a writer makes of the store.
#[track_caller]
fn copy_and_compare(killed: &Path) -> everseen::SnapshotReport {
    let before = files(killed);
    let (target, copy) = place();
    let reader = quick().open_read_only(killed).unwrap();
    let report = reader.snapshot(&copy).unwrap();
    reader.close().unwrap();
    assert!(files(killed) == before, "the store or a log has changed");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
    assert_eq!(report.bytes, copy.metadata().unwrap().len());
    let copied = quick().open_read_only(&copy).unwrap();
    assert!(copied.recovery().is_clean(), "{:?}", copied.recovery());
    assert!(copied.verify().unwrap().is_ok());
    assert_eq!(report.keys, copied.stats().unwrap().keys);
    let (_folder, twin) = image(killed);
    quick().open(&twin).unwrap().close().unwrap();
    let twin = quick().open_read_only(&twin).unwrap();
    assert!(answers(&copied) == answers(&twin));
    // It is a store like any other.
    let alive = quick().open(&copy).unwrap();
    assert!(alive.insert(b"one more").unwrap());
    alive.close().unwrap();
    report
}

/// Keys in the pages and keys in the log, some of which are gone again.
fn fill(store: &Store) {
    let kind = store.stats().unwrap().kind;
    insert(store, 0..KEYS / 3);
    store.commit().unwrap();
    // Each call takes a checkpoint.
    match kind {
        Kind::Counting => store.checkpoint().unwrap(),
        _ => drop(store.exempt(&keys(0..100)).unwrap()),
    }
    insert(store, KEYS / 3..KEYS / 3 * 2);
    if matches!(kind, Kind::Counting | Kind::Fingerprint) {
        let gone = keys(KEYS / 6..KEYS / 2);
        store.remove_batch(&gone).unwrap();
    }
    store.commit_with(b"here").unwrap();
}

#[test]
fn what_a_killed_writer_left_in_its_log_is_in_the_copy() {
    for kind in [&KINDS[..], &[Kind::Counting]].concat() {
        for transactional in [false, true] {
            let options = options_of(kind).storage(Unsynced::new());
            let options = match transactional {
                true if kind == Kind::Counting => continue,
                true => options.transactional(true),
                false => options,
            };
            let (_folder, path, store) = store(&options, 0..0);
            fill(&store);
            if transactional {
                // No commit covers them.
                insert(&store, KEYS / 3 * 2..KEYS);
            }
            let (_copy, killed) = image(&path);
            let report = copy_and_compare(&killed);
            assert!(report.pages > 0, "{kind}");
        }
    }
}

/// One write in so many is the last, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

/// Of the log that was closed and the one behind it, with pages that may be torn, a journal, or a part of the segments.
#[test]
fn what_an_interrupted_checkpoint_left_is_in_the_copy() {
    for kind in [&KINDS[..], &[Kind::Counting]].concat() {
        let (mut share, mut last) = (Share::one_in(FEW), 0);
        for nth in 1.. {
            if !share.takes() {
                continue;
            }
            let storage = FaultStorage::without_syncs();
            let options = options_of(kind).storage(storage.shared());
            let (_folder, path, store) = store(&options, 0..0);
            fill(&store);
            let (_copy, killed, is_over) =
                killed_at_write(&storage, nth, &path, || store.checkpoint());
            copy_and_compare(&killed);
            last = nth;
            if is_over {
                break;
            }
        }
        println!("{kind}: {last} writes");
        assert!(last > 2, "{kind}: {last}");
    }
}

/// How many runs there are above the oldest.
fn runs_of(store: &Path) -> u64 {
    let file = fs::read(store).unwrap();
    let newest = newest(&from(&file)).unwrap();
    newest.runs as u64
}

#[test]
fn a_store_that_was_closed_is_copied_as_its_writer_copies_it() {
    for kind in KINDS {
        let (_folder, path, store) = store(&options(kind), 0..20_000);
        store.close().unwrap();
        let reader = Options::new().follow(true).open_read_only(&path).unwrap();
        let copies = [beside(&path, "-one"), beside(&path, "-two")];
        reader.snapshot(&copies[0]).unwrap();
        let writer = Options::new().open(&path).unwrap();
        writer.snapshot(&copies[1]).unwrap();
        super::setting::assert_same(&copies[0], &copies[1]);
        writer.close().unwrap();
        // And what has changed since.
        let delta = reader.snapshot_since(beside(&path, "-delta"), &copies[0]);
        // A delta of segments has the directory of each run in any case.
        let pages = match kind {
            Kind::Fingerprint => 1 + runs_of(&copies[0]),
            _ => 0,
        };
        assert_eq!(delta.unwrap().pages, pages);
        reader.close().unwrap();
        assert!(matches!(
            reader.snapshot(beside(&path, "-three")).unwrap_err(),
            Error::Closed
        ));
    }
}

#[test]
fn a_delta_needs_all_keys_in_the_pages() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..100);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    insert(&store, 100..130);
    let (_killed_folder, killed) = image(&path);
    let reader = Options::new().open_read_only(&killed).unwrap();
    let delta = beside(&killed, "-delta");
    let refused = reader.snapshot_since(&delta, &copy).unwrap_err();
    let found = match &refused {
        Error::KeysInLog { path, keys } => Some((path, *keys)),
        _ => None,
    };
    assert_eq!(found, Some((&killed, 30)), "{refused:?}");
    assert!(!delta.exists() && !beside(&delta, "-part").exists());
}

/// The writer's keys may be in its memory alone.
#[test]
fn a_store_that_is_being_written_is_not_copied_by_a_reader() {
    for exclusive in [false, true] {
        let (_folder, path, store) = store(&options(Kind::Bloom), 0..100);
        store.close().unwrap();
        let reader = Options::new().open_read_only(&path).unwrap();
        let writer = Options::new().exclusive(exclusive).open(&path).unwrap();
        let copy = beside(&path, "-copy");
        let refused = reader.snapshot(&copy).unwrap_err();
        assert!(
            matches!(&refused, Error::Locked { path: named } if *named == path),
            "{refused:?}"
        );
        assert!(!copy.exists() && !beside(&copy, "-part").exists());
        drop(writer);
        reader.snapshot(&copy).unwrap();
        assert_whole(&copy, 0..100);
    }
}

#[test]
fn no_writer_opens_a_store_while_a_reader_copies_it() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..100);
    store.close().unwrap();
    let reader = Options::new().open_read_only(&path).unwrap();
    let mut opened = None;
    reader
        .snapshot_watched(beside(&path, "-copy"), |_| {
            let writer = Options::new().timeout(Duration::ZERO).open(&path);
            opened.get_or_insert(writer.map(drop));
            ControlFlow::Continue(())
        })
        .unwrap();
    let refused = opened.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }), "{refused:?}");
    Options::new().open(&path).unwrap();
}

#[test]
fn a_reader_whose_store_was_replaced_copies_nothing() {
    let (folder, path, store) = store(&options(Kind::Bloom), 0..100);
    store.close().unwrap();
    let reader = Options::new().open_read_only(&path).unwrap();
    let other = folder.path().join("other");
    options(Kind::Bloom)
        .create(&other)
        .unwrap()
        .close()
        .unwrap();
    fs::rename(&other, &path).unwrap();
    let refused = reader.snapshot(beside(&path, "-copy")).unwrap_err();
    assert!(
        matches!(&refused, Error::Replaced { path: named } if *named == path),
        "{refused:?}"
    );
    fs::remove_file(&path).unwrap();
    assert!(!beside(&path, "-copy").exists());
}

/// Changes some bytes of a page that is in use.
fn damage_a_page(store: &Path) {
    let sound = fs::read(store).unwrap();
    for page in 5.. {
        let mut bad = sound.clone();
        bad[131_072 + 4096 * page + 99..][..3].copy_from_slice(&[0xA5; 3]);
        fs::write(store, &bad).unwrap();
        let opened = Options::new().open_read_only(store);
        if opened.is_ok_and(|opened| !opened.verify().unwrap().is_ok()) {
            return;
        }
    }
}

/// Whether it is found in the copy's pages, or by moving keys there.
#[test]
fn damage_is_said_to_be_the_stores() {
    for kind in KINDS {
        for dirty in [false, true] {
            // In one run: what moves keys reads the page, too.
            let options = options(kind).least_run(u64::MAX);
            let (_folder, path, store) = store(&options, 0..20_000);
            store.checkpoint().unwrap();
            if dirty {
                insert(&store, 20_000..21_000);
            }
            let (_copy, killed) = image(&path);
            damage_a_page(&killed);
            let reader = Options::new().least_run(u64::MAX);
            let reader = reader.open_read_only(&killed).unwrap();
            let refused = reader.snapshot(beside(&killed, "-copy")).unwrap_err();
            let named = match &refused {
                Error::Format {
                    path,
                    source: FormatError::PageDamaged { .. } | FormatError::SegmentDamaged { .. },
                } => Some(path),
                _ => None,
            };
            assert_eq!(named, Some(&killed), "{kind} {dirty}: {refused:?}");
            assert!(!beside(&killed, "-copy").exists());
            // And by a writer.
            if !dirty {
                drop(reader);
                let writer = Options::new().open(&killed).unwrap();
                let refused = writer.snapshot(beside(&killed, "-copy")).unwrap_err();
                assert!(
                    matches!(&refused, Error::Format { path, .. } if *path == killed),
                    "{kind}: {refused:?}"
                );
            }
        }
    }
}
