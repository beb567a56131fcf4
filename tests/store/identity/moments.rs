//! A store file and logs that are not of one moment: the file was restored from a copy, or a log was put beside another
//! file. Readers and writers say the same, nothing on the disk changes, and `repair` sets the log aside.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, Kind, OnDamage};
use tempfile::TempDir;

use crate::format::reader;
use crate::support::files::{beside, held, image, keys, log_of, names, place, small};

/// A store of each sort.
fn sorts() -> Vec<(&'static str, Options)> {
    let fixed = small().capacity(20_000).fpr(1e-9);
    vec![
        ("bloom", fixed.clone().kind(Kind::Bloom)),
        (
            "transactional",
            fixed.clone().kind(Kind::Bloom).transactional(true),
        ),
        ("counting", fixed.kind(Kind::Counting)),
        (
            "scalable",
            small().kind(Kind::Scalable).capacity(200).fpr(1e-9),
        ),
        ("fingerprint", small().kind(Kind::Fingerprint).fpr(1e-9)),
    ]
}

/// Inserts keys and closes: the store comes to its next generation.
fn session(options: &Options, path: &Path, numbers: Range<u64>) {
    let store = options.open(path).unwrap();
    store.insert_batch(&keys(numbers)).unwrap();
    store.commit().unwrap();
    store.close().unwrap();
}

/// What a process leaves that is killed after it has committed these keys.
fn killed(options: &Options, path: &Path, numbers: Range<u64>) -> (TempDir, PathBuf) {
    let store = options.open(path).unwrap();
    store.insert_batch(&keys(numbers)).unwrap();
    store.commit().unwrap();
    image(path)
}

/// A copy of a store that is closed, in the same folder.
fn copied(path: &Path, suffix: &str) -> PathBuf {
    let copy = beside(path, suffix);
    fs::copy(path, &copy).unwrap();
    copy
}

/// All files beside the store, and what is in them.
fn files(path: &Path) -> Vec<(OsString, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let entries = entries.map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Both ways to open name this log, the file's generation and the log's, and change nothing.
#[track_caller]
fn refused(options: &Options, path: &Path, log: &Path, generation: u64, of_log: u64) {
    let before = files(path);
    for outcome in [options.open_read_only(path), options.open(path)] {
        let error = outcome.unwrap_err();
        let Error::OtherMoment {
            path: got,
            store,
            generation: file,
            log_generation,
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((got.as_path(), store.as_path()), (log, path), "{error:?}");
        assert_eq!((*file, *log_generation), (generation, of_log), "{error:?}");
    }
    assert!(files(path) == before, "something was changed");
    reader_refuses(path, "of another moment");
}

/// The reader that follows FORMAT.md refuses it, too.
#[track_caller]
fn reader_refuses(path: &Path, why: &str) {
    let output = reader::run(path, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(why), "{said}");
}

/// A repair sets the log aside, whole, and the store then has these keys of 1,000 and goes on.
#[track_caller]
fn set_aside(options: &Options, path: &Path, log: &Path, left: u64) {
    let bytes = fs::read(log).unwrap();
    let report = options.repair(path, OnDamage::NeverSeen).unwrap();
    let aside = beside(log, "-aside");
    assert_eq!(report.set_aside, [aside.as_path()], "{report:?}");
    assert!(
        !report.is_whole() && !report.rolled_back && !report.log_missing,
        "{report:?}"
    );
    assert!(fs::read(&aside).unwrap() == bytes && !log.exists());
    let store = options.open_read_only(path).unwrap();
    assert_eq!(held(&store, &keys(0..1000)), left as usize);
    drop(store);
    session(options, path, 900..950);
    let store = options.open(path).unwrap();
    assert_eq!(held(&store, &keys(900..950)), 50);
}

#[test]
fn an_older_copy_beside_the_log_of_a_killed_writer_is_named() {
    for (sort, options) in sorts() {
        println!("{sort}");
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        let backup = copied(&path, "-backup");
        session(&options, &path, 100..200);
        let (_killed, path) = killed(&options, &path, 200..400);
        let backup = path.with_file_name(backup.file_name().unwrap());
        let newest = copied(&path, "-newest");
        fs::copy(&backup, &path).unwrap();
        let log = log_of(&path, 3);
        refused(&options, &path, &log, 2, 3);
        // The way back: the file that belongs to the log.
        fs::copy(&newest, &path).unwrap();
        let store = options.open_read_only(&path).unwrap();
        assert_eq!(held(&store, &keys(0..1000)), 400);
        drop(store);
        // The way on: without the log.
        fs::copy(&backup, &path).unwrap();
        set_aside(&options, &path, &log, 100);
    }
}

/// What the log was begun for is what the copy holds, so copy and log together are the store as it was.
#[test]
fn a_copy_of_the_moment_that_a_log_was_begun_at_has_all_keys() {
    for (sort, options) in sorts() {
        println!("{sort}");
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        copied(&path, "-backup");
        let (_killed, path) = killed(&options, &path, 100..200);
        fs::copy(beside(&path, "-backup"), &path).unwrap();
        for outcome in [options.open_read_only(&path), options.open(&path)] {
            assert_eq!(held(&outcome.unwrap(), &keys(0..1000)), 200);
        }
        assert!(reader::run(&path, &[]).status.success());
    }
}

/// A copy was restored and went on for as many generations as the store that it is a copy of: generations alone can't
/// tell the one's log from the other's.
#[test]
fn a_log_of_the_right_generation_and_of_another_moment_is_named() {
    for (sort, options) in sorts() {
        println!("{sort}");
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        let backup = copied(&path, "-backup");
        session(&options, &path, 100..200);
        let first = copied(&path, "-first");
        fs::copy(backup, &path).unwrap();
        session(&options, &path, 300..400);
        let (_killed, path) = killed(&options, &path, 400..500);
        fs::copy(
            first
                .file_name()
                .map(|name| path.with_file_name(name))
                .unwrap(),
            &path,
        )
        .unwrap();
        let log = log_of(&path, 3);
        refused(&options, &path, &log, 3, 3);
        set_aside(&options, &path, &log, 200);
    }
}

/// The same, and the killed writer had expected its log: without it the file is not whole.
#[test]
fn a_repair_goes_back_where_the_file_expects_another_log_than_the_one_beside_it() {
    for (sort, options) in sorts() {
        println!("{sort}");
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        let backup = copied(&path, "-backup");
        session(&options, &path, 100..200);
        let (_first, first) = killed(&options, &path, 200..300);
        fs::copy(backup, &path).unwrap();
        session(&options, &path, 300..400);
        let (_second, second) = killed(&options, &path, 400..500);
        fs::copy(&first, &second).unwrap();
        let log = log_of(&second, 3);
        refused(&options, &second, &log, 3, 3);
        let report = options.repair(&second, OnDamage::NeverSeen).unwrap();
        assert_eq!(report.set_aside, [beside(&log, "-aside").as_path()]);
        assert!(report.rolled_back, "{report:?}");
        let store = options.open(&second).unwrap();
        assert_eq!(held(&store, &keys(0..1000)), 200);
        drop(store);
        // The file was repaired without its log: put back, the log is no longer taken for one of the past.
        fs::copy(log_of(&first, 3), &log).unwrap();
        let generation = generation_of(&options, &second);
        refused(&options, &second, &log, generation, 3);
    }
}

fn generation_of(options: &Options, path: &Path) -> u64 {
    let log = log_of(path, 3);
    let away = beside(path, "-away");
    fs::rename(&log, &away).unwrap();
    let store = options.open_read_only(path).unwrap();
    let generation = store.stats().unwrap().generation;
    drop(store);
    fs::rename(&away, &log).unwrap();
    generation
}

/// A log of the generation before the store file's is removed as one whose keys are in the pages only if they are.
#[test]
fn a_newer_copy_beside_an_older_log_is_named() {
    for (sort, options) in sorts() {
        println!("{sort}");
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        let backup = copied(&path, "-backup");
        session(&options, &path, 100..200);
        copied(&path, "-next");
        session(&options, &path, 200..300);
        copied(&path, "-newest");
        fs::copy(backup, &path).unwrap();
        let (_killed, path) = killed(&options, &path, 300..400);
        let log = log_of(&path, 2);
        for (newer, generation, held) in [("-next", 3, 200), ("-newest", 4, 300)] {
            fs::copy(beside(&path, newer), &path).unwrap();
            refused(&options, &path, &log, generation, 2);
            let kept = fs::read(&log).unwrap();
            set_aside(&options, &path, &log, held);
            fs::remove_file(beside(&log, "-aside")).unwrap();
            fs::write(&log, kept).unwrap();
        }
    }
}

/// Of two logs one fits: the other is named, and the one that fits stays.
#[test]
fn of_two_logs_the_one_that_does_not_fit_is_named() {
    let options = small().capacity(20_000).fpr(1e-9);
    for other in [1, 2, 4, 5, 9] {
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        session(&options, &path, 100..200);
        let (_other_folder, branch) = image(&path);
        for number in 3..9 {
            session(&options, &branch, number * 50..number * 50 + 10);
        }
        let stray = killed(&options, &branch, 800..810);
        let (_killed, path) = killed(&options, &path, 200..300);
        let log = log_of(&path, other);
        fs::copy(log_of(&stray.1, 9), &log).unwrap();
        crate::support::log::header(&log, 48, &other.to_le_bytes());
        refused(&options, &path, &log, 3, other);
        let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert_eq!(report.set_aside, [beside(&log, "-aside").as_path()]);
        let store = options.open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..1000)), 300);
    }
}

/// Another store's log is named by readers, too, whatever its generation is, and set aside.
#[test]
fn a_log_of_another_store_is_named_by_readers_too() {
    let options = small().capacity(20_000).fpr(1e-9);
    for generation in [1, 2, 4, 9] {
        let (_folder, path) = place();
        options.create(&path).unwrap().close().unwrap();
        session(&options, &path, 0..100);
        session(&options, &path, 100..200);
        let (_killed, path) = killed(&options, &path, 200..300);
        let (_other_folder, other) = place();
        options.create(&other).unwrap().close().unwrap();
        let (_other_killed, other) = killed(&options, &other, 500..600);
        let log = log_of(&path, generation);
        fs::copy(log_of(&other, 1), &log).unwrap();
        crate::support::log::header(&log, 48, &generation.to_le_bytes());
        let before = files(&path);
        for outcome in [options.open_read_only(&path), options.open(&path)] {
            let error = outcome.unwrap_err();
            assert!(
                matches!(&error, Error::LeftoverLog { path } if *path == log),
                "{error:?}"
            );
        }
        assert!(files(&path) == before, "something was changed");
        reader_refuses(&path, "belongs to another store");
        let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert_eq!(report.set_aside, [beside(&log, "-aside").as_path()]);
        let store = options.open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..1000)), 300);
        store.close().unwrap();
        assert_eq!(names(&path).len(), 2);
    }
}

/// Several may be set aside, under names of their own, and one that fits is left where it is.
#[test]
fn every_log_that_does_not_fit_is_set_aside() {
    let options = small().capacity(20_000).fpr(1e-9);
    let (_folder, path) = place();
    options.create(&path).unwrap().close().unwrap();
    session(&options, &path, 0..100);
    let backup = copied(&path, "-backup");
    session(&options, &path, 100..200);
    let (_killed, path) = killed(&options, &path, 200..300);
    fs::copy(path.with_file_name(backup.file_name().unwrap()), &path).unwrap();
    let log = log_of(&path, 3);
    for number in 4..9 {
        fs::copy(&log, log_of(&path, number)).unwrap();
        crate::support::log::header(&log_of(&path, number), 48, &number.to_le_bytes());
    }
    fs::write(beside(&log, "-aside"), "mine").unwrap();
    let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
    assert_eq!(report.set_aside.len(), 6, "{report:?}");
    assert!(report.set_aside.contains(&beside(&log, "-aside2")));
    assert_eq!(fs::read(beside(&log, "-aside")).unwrap(), b"mine");
    assert_eq!(held(&options.open(&path).unwrap(), &keys(0..1000)), 100);
}
