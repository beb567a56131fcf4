//! `tests/reader.py`, which follows FORMAT.md and shares no code with the library, answers as the library does and refuses what it
//! refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::bytes::finalise;
use super::log::{interrupted, log_path};
use super::reader_process;
use super::snapshot::copy;

pub(crate) fn run(store: &Path, arguments: &[&str]) -> Output {
    let store = store.to_str().expect("a name in UTF-8");
    let output = reader_process::ask(&[&[store], arguments].concat());
    output.unwrap_or_else(|error| {
        panic!("this test needs python3 (3.8 or later, its standard library alone): {error}")
    })
}

/// The reader as a user starts it.
#[test]
fn the_reader_says_the_same_in_a_process_of_its_own() {
    let folder = TempDir::new().unwrap();
    let (path, store) = store_with_log(folder.path());
    store.close().unwrap();
    for length in [None, Some(131_072)] {
        if let Some(length) = length {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(length).unwrap();
        }
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("reader.py");
        let alone = Command::new("python3").arg(script).arg(&path).output();
        let alone = alone.unwrap();
        assert_eq!(alone.status.success(), length.is_none());
        assert_eq!(run(&path, &[]), alone);
    }
}

/// What the reader answers for hashes as given to `insert_hash`, or with `raw` for mixed ones.
pub(crate) fn answers(store: &Path, hashes: &[u64], raw: bool) -> Vec<bool> {
    answers_at(store, hashes, raw, None)
}

/// The same at a time, in milliseconds since 1970.
pub(crate) fn answers_at(store: &Path, hashes: &[u64], raw: bool, clock: Option<u64>) -> Vec<bool> {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("hashes");
    let lines: Vec<_> = hashes.iter().map(ToString::to_string).collect();
    std::fs::write(&list, lines.join("\n")).unwrap();
    let mut arguments = vec!["--hashes", list.to_str().unwrap()];
    if raw {
        arguments.push("--raw");
    }
    let clock = clock.map(|clock| clock.to_string());
    if let Some(clock) = &clock {
        arguments.extend(["--clock", clock]);
    }
    let output = run(store, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "reader.py: {said}");
    let json = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = json.split_once("\"answers\": \"").unwrap();
    let (answers, _) = rest.split_once('"').unwrap();
    answers.chars().map(|answer| answer == '1').collect()
}

/// How often the reader finds hashes of a counting store, as given to `insert_hash`.
pub(crate) fn counts(store: &Path, hashes: &[u64]) -> Vec<u64> {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("hashes");
    let lines: Vec<_> = hashes.iter().map(ToString::to_string).collect();
    std::fs::write(&list, lines.join("\n")).unwrap();
    let output = run(store, &["--hashes", list.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "reader.py: {said}");
    let json = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = json.split_once("\"counts\": [").unwrap();
    let (counts, _) = rest.split_once(']').unwrap();
    let parse = |count: &str| count.trim().parse().unwrap();
    counts.split(',').map(parse).collect()
}

/// `count` hashes, the same in every run.
pub(crate) fn random(seed: u64, count: u64) -> Vec<u64> {
    (0..count)
        .map(|index| finalise(seed ^ finalise(index + 1)))
        .collect()
}

pub(crate) fn agree(path: &Path, hashes: &[u64]) -> Vec<bool> {
    // Enough for the logs of all stores here.
    let options = Options::new().buffer(1 << 20);
    let store = options.open_read_only(path).unwrap();
    let library = store.contains_batch(hashes).unwrap();
    let reader = answers(path, hashes, false);
    assert_eq!(reader.len(), library.len());
    let differ: Vec<_> = (0..hashes.len())
        .filter(|at| reader[*at] != library[*at])
        .collect();
    assert!(
        differ.is_empty(),
        "{} differ: {:?}…",
        differ.len(),
        &differ[..1]
    );
    library
}

#[test]
fn the_reader_agrees_on_fresh_stores() {
    let folder = TempDir::new().unwrap();
    for (index, kind) in [Kind::Bloom, Kind::Scalable].into_iter().enumerate() {
        for transactional in [false, true] {
            // A rate so bad that many absent keys are answered "seen", and alike by both.
            let path = folder.path().join(format!("{kind}-{transactional}"));
            let capacity = if kind == Kind::Bloom { 9000 } else { 700 };
            let options = Options::new().kind(kind).capacity(capacity).fpr(0.2);
            let options = options
                .transactional(transactional)
                .seed(super::seed())
                .buffer(LEAST_BUFFER);
            let store = options.create(&path).unwrap();
            let seed = 0xE5EE_0000 + index as u64;
            println!("seed {seed:#x}");
            let hashes = random(seed, 12_000);
            store.insert_batch(&hashes[..1500]).unwrap();
            store.commit_with(b"first").unwrap();
            store.checkpoint().unwrap();
            store.insert_batch(&hashes[1500..3000]).unwrap();
            store.commit_with(b"second").unwrap();
            store.insert_batch(&hashes[3000..4000]).unwrap();

            // While it is open: a log with something uncommitted.
            let copies = TempDir::new().unwrap();
            let copied = copy(&path, copies.path());
            let found = agree(&copied, &hashes);
            assert!(found[..3000].iter().all(|found| *found));
            // So few keys leave a growing store's pages nearly empty.
            let wrong = found[4000..].iter().any(|found| *found);
            assert!(wrong || kind == Kind::Scalable);
            assert!(transactional || found[3000..4000].iter().all(|found| *found));

            store.close().unwrap();
            let found = agree(&path, &hashes);
            assert!(found[..3000].iter().all(|found| *found));
            assert!(!found[3000..].iter().all(|found| *found));
        }
    }
}

/// A fold, and a union of growing stores, whose layers have rates of their own.
#[test]
fn the_reader_agrees_on_merged_stores() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let options = Options::new().buffer(LEAST_BUFFER).background(false);
    let fill = |name: &str, options: &Options, hashes: &[u64]| {
        let store = options.create(path(name)).unwrap();
        store.insert_batch(hashes).unwrap();
        store.close().unwrap();
    };
    let hashes = random(5, 12_000);
    fill(
        "large",
        &options.clone().capacity(50_000).fpr(1e-3).foldable(2),
        &hashes,
    );
    let merge = options.merge();
    merge.fold(path("large"), path("small"), 4).unwrap();
    fill(
        "one",
        &options
            .clone()
            .kind(Kind::Scalable)
            .capacity(1000)
            .fpr(1e-3),
        &hashes[..6000],
    );
    let like = options.clone().like(path("one"));
    fill("two", &like, &hashes[6000..]);
    let merge = options.clone().fpr(0.1).merge();
    let report = merge
        .union(path("both"), &[path("one"), path("two")])
        .unwrap();
    assert!(report.layers > 1, "{report:?}");
    for name in ["small", "both"] {
        let found = agree(&path(name), &[&hashes[..], &random(6, 12_000)].concat());
        assert!(found[..12_000].iter().all(|found| *found), "{name}");
    }
}

#[test]
fn the_reader_agrees_in_the_midst_of_a_checkpoint() {
    for (kind, transactional) in [(Kind::Bloom, true), (Kind::Scalable, false)] {
        for nth in [1, 3] {
            let copies = TempDir::new().unwrap();
            let path = interrupted(kind, transactional, nth, copies.path());
            let output = run(&path, &[]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("\"closed\": true"), "{said}");
            assert!(!said.contains("\"torn\": [\n  0,\n  0\n ]"), "{said}");
            agree(&path, &Vec::from_iter(0..8000));
        }
    }
}

fn store_with_log(folder: &Path) -> (PathBuf, Store) {
    let path = folder.join("store");
    let options = Options::new()
        .capacity(1000)
        .fpr(0.01)
        .seed(super::seed())
        .buffer(LEAST_BUFFER);
    let store = options.create(&path).unwrap();
    store.insert_batch(&random(1, 500)).unwrap();
    store.checkpoint().unwrap();
    for part in random(2, 200).chunks(50) {
        store.insert_batch(part).unwrap();
        store.commit().unwrap();
    }
    (path, store)
}

/// A byte flipped anywhere that carries meaning: library and reader both refuse.
#[test]
fn the_reader_refuses_damage_as_the_library_does() {
    let folder = TempDir::new().unwrap();
    let (path, _store) = store_with_log(folder.path());
    let log = log_path(&path, 2);
    // In the newest superblock a flip makes the older one count, whose log is gone. The last byte
    // of a log that counts is that of a mark which nothing later proves to have been durable.
    let file = std::fs::read(&path).unwrap();
    let (newest, _) = super::store_file::newest_superblock(&file);
    let places = [
        (&path, 0, "not a store"),
        (&path, 10, "CRC"),
        (&path, 60, "CRC"),
        (&path, 254, "CRC"),
        (&path, 300, "padding"),
        (&path, 4095, "padding"),
        (&path, 131_072, "CRC"),
        (&path, 131_077, "CRC"),
        (&path, 131_072 + 9, "CRC"),
        (&path, 131_072 + 16, "CRC"),
        (&path, 131_072 + 4095, "CRC"),
        (&log, 3, "no log header"),
        (&log, 20, "CRC"),
        (&log, 4096 + 1, "damaged"),
        (&log, 4096 + 40 + 30, "damaged"),
        (&log, 4096 + 40 + 24 + 400 + 2, "damaged"),
    ];
    for (which, at, message) in places {
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let bad = copies.path().join(which.file_name().unwrap());
        flip(&bad, at);
        refuses(&copied, message);
        let outcome = Options::new().buffer(LEAST_BUFFER).open_read_only(&copied);
        let sound = outcome.is_ok_and(|store| store.verify().is_ok_and(|report| report.is_ok()));
        assert!(!sound, "the library takes byte {at} of {}", which.display());
    }
    for at in [newest, newest + 9, newest + 40, newest + 310, newest + 330] {
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        flip(&copied, at);
        let output = run(&copied, &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        let older = Options::new().open_read_only(&copied);
        // Either the older one still fits the logs, or both refuse; never one alone.
        assert_eq!(
            output.status.success(),
            older.is_ok(),
            "{at}: {said} {older:?}"
        );
    }
    // Cut short, and without its log.
    let copies = TempDir::new().unwrap();
    let copied = copy(&path, copies.path());
    std::fs::remove_file(log_path(&copied, 2)).unwrap();
    refuses(&copied, "is missing");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&copied)
        .unwrap();
    file.set_len(131_072).unwrap();
    refuses(&copied, "cut short");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn refuses(store: &Path, message: &str) {
    let output = run(store, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "expected {message}: {said}");
    assert!(
        said.contains(message) && !said.contains("Traceback"),
        "{message}: {said}"
    );
}
