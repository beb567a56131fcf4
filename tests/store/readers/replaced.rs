//! Readers whose file is removed, renamed, replaced or written over.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use everseen::{Error, Kind, OnDamage, Store};

use super::{KINDS, look_until_it_fails, options};
use crate::support::files::{beside, held, keys, place};
use crate::support::share::Share;

/// What becomes of the file, and whether its name leads to another one then.
type Way = (fn(&Path), bool);

const WAYS: [Way; 5] = [
    (|path| fs::remove_file(path).unwrap(), false),
    (
        |path| fs::rename(path, beside(path, "-elsewhere")).unwrap(),
        false,
    ),
    // A copy of the very same bytes.
    (
        |path| {
            fs::copy(path, beside(path, "-copy")).unwrap();
            fs::rename(beside(path, "-copy"), path).unwrap();
        },
        true,
    ),
    (
        |path| fs::rename(beside(path, "-another"), path).unwrap(),
        true,
    ),
    // As a copy without truncation does it: the file is the same one, with another store in it.
    (
        |path| {
            let another = fs::read(beside(path, "-another")).unwrap();
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&another, 0).unwrap();
        },
        true,
    ),
];

#[track_caller]
fn expect_lost(error: &Error, path: &Path, is_replaced: bool) {
    let got = match error {
        Error::Replaced { path } if is_replaced => path,
        Error::Moved { path } if !is_replaced => path,
        _ => panic!("{error:?}"),
    };
    assert_eq!(got, path);
}

/// Whether the reader follows, and whether a writer has the store open beside it.
const SETTINGS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// Calls `each` with a reader whose file was lost in each way, and whether it was replaced. All lose their files at the
/// same time: they find out by the clock.
fn for_each_way(share: &mut Share, each: impl Fn(Store, &Path, bool) + Sync) {
    let each = &each;
    std::thread::scope(|scope| {
        for kind in KINDS {
            for (way, lost) in WAYS.into_iter().enumerate() {
                for (follow, with_writer) in SETTINGS.into_iter().filter(|_| share.takes()) {
                    println!("{kind}, way {way}, follow {follow}, beside a writer {with_writer}");
                    scope.spawn(move || lose(kind, lost, (follow, with_writer), each));
                }
            }
        }
    });
}

fn lose(
    kind: Kind,
    (go, is_replaced): Way,
    (follow, with_writer): (bool, bool),
    each: impl Fn(Store, &Path, bool),
) {
    let (_folder, path) = place();
    let options = options(kind);
    for name in [path.clone(), beside(&path, "-another")] {
        let store = options.create(name).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.close().unwrap();
    }
    let writer = with_writer.then(|| options.open(&path).unwrap());
    let reader = options
        .clone()
        .follow(follow)
        .open_read_only(&path)
        .unwrap();
    assert_eq!(held(&reader, &keys(0..100)), 100);
    go(&path);
    each(reader, &path, is_replaced);
    drop(writer);
}

#[test]
fn a_reader_reports_at_its_close_that_its_file_has_lost_its_name() {
    for_each_way(&mut Share::one_in(1), |reader, path, is_replaced| {
        expect_lost(&reader.close().unwrap_err(), path, is_replaced);
        // It is closed nevertheless.
        reader.close().unwrap();
    });
}

#[test]
fn a_reader_that_works_notices_and_does_not_go_on() {
    let keys = keys(0..100);
    // Each takes a second.
    let mut share = Share::one_in_or_all(4);
    for_each_way(&mut share, |reader, path, is_replaced| {
        expect_lost(&look_until_it_fails(&reader, &keys), path, is_replaced);
        for error in [
            reader.contains(b"key").unwrap_err(),
            reader.contains_batch(&keys).unwrap_err(),
            reader.stats().unwrap_err(),
            reader.close().unwrap_err(),
        ] {
            expect_lost(&error, path, is_replaced);
        }
    });
}

/// Whatever the bytes of the old file are by now, they are no damage of the store.
#[test]
fn a_reader_of_a_file_that_was_replaced_reports_no_damage() {
    for kind in KINDS {
        for follow in [false, true] {
            for policy in [OnDamage::Error, OnDamage::Seen, OnDamage::NeverSeen] {
                let (_folder, path) = place();
                let options = options(kind);
                let store = options.create(&path).unwrap();
                store.insert_batch(&keys(0..2000)).unwrap();
                store.close().unwrap();
                let reading = options.clone().follow(follow).on_damage(policy);
                let reader = reading.open_read_only(&path).unwrap();
                let damaged = || reading.open_read_only(&path).unwrap();
                let old = File::options().read(true).write(true).open(&path).unwrap();
                fs::copy(&path, beside(&path, "-copy")).unwrap();
                fs::rename(beside(&path, "-copy"), &path).unwrap();
                let end = old.metadata().unwrap().len();
                for page in (131_072..end).step_by(4096) {
                    old.write_all_at(&[0x5A; 64], page + 100).unwrap();
                }
                let error = reader.contains_batch(&keys(0..2000)).unwrap_err();
                expect_lost(&error, &path, true);
                expect_lost(&reader.close().unwrap_err(), &path, true);
                // The new one is whole.
                assert!(damaged().verify().unwrap().is_ok());
                let verifier = damaged();
                fs::remove_file(&path).unwrap();
                expect_lost(&verifier.verify().unwrap_err(), &path, false);
            }
        }
    }
}

/// A copy of an earlier moment that is written over the file.
#[test]
fn a_reader_does_not_go_back() {
    for (kind, follow) in KINDS
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let (_folder, path) = place();
        let options = options(kind);
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.close().unwrap();
        let earlier = fs::read(&path).unwrap();
        let store = options.open(&path).unwrap();
        store.insert_batch(&keys(100..200)).unwrap();
        store.close().unwrap();
        let reader = options
            .clone()
            .follow(follow)
            .open_read_only(&path)
            .unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&earlier, 0).unwrap();
        if follow {
            let error = reader.contains(b"key").unwrap_err();
            expect_lost(&error, &path, true);
        }
        expect_lost(&reader.close().unwrap_err(), &path, true);
    }
}
