//! `tests/reader.py` on stores of fingerprints: closed, killed with a log, killed in the midst of a checkpoint, damaged.

use std::path::{Path, PathBuf};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Store};
use tempfile::TempDir;

use super::bytes::crc32;
use super::doc::Layout;
use super::log::{chain, interrupted, log_path};
use super::reader::{agree, random, run};
use super::refused::put;
use super::seed;
use super::snapshot::copy;
use super::store_file::{newest_superblock, superblock_places};
use crate::support::numbers::key;

/// So few fingerprints that many absent keys are answered "seen", and alike by both.
fn options(transactional: bool) -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(1 << 20);
    let options = options.capacity(20_000).fpr(0.1).seed(seed());
    options.transactional(transactional).background(false)
}

fn remove(store: &Store, hashes: &[u64]) -> usize {
    let gone = hashes.iter().filter(|hash| store.remove(**hash).unwrap());
    gone.count()
}

fn reader_says(path: &Path, said: &str) {
    let output = run(path, &[]);
    let json = String::from_utf8_lossy(&output.stdout);
    assert!(json.contains(said), "{said}: {json}");
}

#[test]
fn the_reader_agrees_on_stores_of_fingerprints() {
    for transactional in [false, true] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = options(transactional).create(&path).unwrap();
        let hashes = random(0xF1, 12_000);
        let fresh = copy(
            &path,
            TempDir::new_in(folder.path()).unwrap().keep().as_path(),
        );
        assert!(agree(&fresh, &hashes).iter().all(|found| !found));
        store.insert_batch(&hashes[..4000]).unwrap();
        assert!(remove(&store, &hashes[..100]) > 90);
        store.commit_with(b"first").unwrap();
        store.checkpoint().unwrap();
        let wrong: Vec<u64> = hashes[8000..9000].to_vec();
        store.exempt(&wrong).unwrap();
        store.checkpoint().unwrap();

        // A log with inserts and removes of keys old and new, and some of both.
        store.insert_batch(&hashes[4000..6000]).unwrap();
        assert!(remove(&store, &hashes[1000..1500]) > 450);
        assert!(remove(&store, &hashes[4000..4500]) > 450);
        store.insert_batch(&hashes[1000..1100]).unwrap();
        store.insert_batch(&wrong[..100]).unwrap();
        store.commit_with(b"second").unwrap();
        // Of a transactional store these don't count.
        store.insert_batch(&hashes[6000..7000]).unwrap();
        assert!(remove(&store, &hashes[2000..2500]) > 450);

        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let killed = agree(&copied, &hashes);
        let present = |range: std::ops::Range<usize>| {
            let found = killed[range].iter().filter(|found| **found);
            found.count()
        };
        // Some share a fingerprint with one that is there, or with one that was removed.
        let few = [0..100, 1100..1500, 4000..4500];
        assert!(few.into_iter().all(|range| present(range) < 60));
        assert!(present(1000..1100) > 95 && present(4500..6000) > 1400);
        assert_eq!(present(6000..7000) > 900, !transactional);
        assert_eq!(present(2000..2500) > 450, transactional);
        assert!(killed[9000..].iter().any(|found| *found));
        reader_says(&copied, "\"kind\": \"fingerprint\"");
        // The store that goes on from there, and the one that is closed.
        options(transactional)
            .open(&copied)
            .unwrap()
            .close()
            .unwrap();
        assert_eq!(agree(&copied, &hashes).len(), hashes.len());
        store.close().unwrap();
        agree(&path, &hashes);
        reader_says(&path, "\"logs\": []");
    }
}

/// A checkpoint that was cut off while it wrote segments, one copy of the directory or the other.
#[test]
fn the_reader_agrees_in_the_midst_of_a_checkpoint_of_segments() {
    for (transactional, nth) in [(false, 1), (true, 2), (false, 3), (true, 5), (false, 6)] {
        let copies = TempDir::new().unwrap();
        let path = interrupted(Kind::Fingerprint, transactional, nth, copies.path());
        reader_says(&path, "\"closed\": true");
        let before = agree(&path, &Vec::from_iter(0..8000));
        let open = Options::new().buffer(LEAST_BUFFER).open(&path).unwrap();
        open.close().unwrap();
        let after = agree(&path, &Vec::from_iter(0..8000));
        assert!(before == after, "{nth}");
    }
}

/// A checkpoint of which some segments are published, and others are not.
#[test]
fn the_reader_agrees_between_two_steps_of_a_checkpoint() {
    let stores = crate::fingerprint::steps::partly_merged();
    for (_folder, path) in [&stores[0], &stores[stores.len() - 1]] {
        let hashes: Vec<u64> = (0..9000).map(key).collect();
        let found = agree(path, &hashes);
        assert_eq!(found.iter().filter(|found| **found).count(), 8000);
        let file = std::fs::read(path).unwrap();
        let (_, superblock) = newest_superblock(&file);
        let fixed = Layout::of("Superblocks");
        assert_eq!(fixed.number(superblock, "flags") & !4, 3);
        assert_eq!(fixed.number(superblock, "keys"), 6000);
        let directory = Layout::of("Directory entry");
        let entry = &superblock[fixed.end()..];
        let keys = directory.number(entry, "directory_keys");
        assert!((6001..8000).contains(&keys), "{keys}");
        let generation = directory.number(entry, "directory_generation");
        assert_eq!(generation, fixed.number(superblock, "generation") + 1);
    }
}

/// A closed store with a page of fingerprints or more, and the keys that are in it.
fn closed(folder: &Path) -> (PathBuf, Vec<u64>) {
    let path = folder.join("store");
    let store = options(false).create(&path).unwrap();
    let hashes = random(0xF2, 9000);
    store.insert_batch(&hashes).unwrap();
    store.close().unwrap();
    (path, hashes)
}

/// Each of the two superblocks that end a checkpoint is enough.
#[test]
fn either_superblock_names_the_directory() {
    let folder = TempDir::new().unwrap();
    let (path, hashes) = closed(folder.path());
    let found = agree(&path, &hashes);
    for (offset, _) in superblock_places() {
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let mut file = std::fs::read(&copied).unwrap();
        file[offset] ^= 1;
        std::fs::write(&copied, file).unwrap();
        assert!(agree(&copied, &hashes) == found);
        // The next checkpoint names it twice again before it writes anywhere.
        let store = options(false).open(&copied).unwrap();
        store.insert_batch(&random(0xF3, 3000)).unwrap();
        store.close().unwrap();
        agree(&copied, &hashes);
        reader_says(&copied, "\"superblock_faults\": []");
    }
}

#[test]
fn damage_to_segments_is_told_by_both() {
    let folder = TempDir::new().unwrap();
    let (path, hashes) = closed(folder.path());
    let sound = std::fs::read(&path).unwrap();
    let (_, superblock) = newest_superblock(&sound);
    let entry = &superblock[Layout::of("Superblocks").end()..];
    let get = |name| Layout::of("Directory entry").number(entry, name) as usize;
    let places = [get("place_a"), get("place_b")];
    let segment = &sound[places[0] * 4096 + 16..];
    let own = |name| Layout::of("Segment entry").number(segment, name) as usize;
    let list = own("first_page");
    let fences = list + own("pages");
    let check = |flips: &[usize], said: Option<&str>| {
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let mut file = sound.clone();
        flips.iter().for_each(|at| file[*at] ^= 4);
        std::fs::write(&copied, file).unwrap();
        let library = Options::new().open_read_only(&copied);
        let library = library.and_then(|store| store.contains_batch(&hashes));
        let output = run(&copied, &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match said {
            Some(said) => {
                let error = format!("{:?}", library.unwrap_err());
                assert!(error.contains("SegmentDamaged"), "{flips:?}: {error}");
                assert_eq!(output.status.code(), Some(2), "{flips:?}");
                assert!(told.contains(said) && !told.contains("Traceback"), "{told}");
            }
            None => {
                assert!(library.unwrap().iter().all(|found| *found), "{flips:?}");
                assert!(output.status.success(), "{flips:?}: {told}");
            }
        }
    };
    check(&[], None);
    for at in [0, 5, 9, 17, 24, 26, 30, 300, 4095] {
        check(&[list * 4096 + at], Some("is damaged: CRC"));
        check(&[fences * 4096 + at], Some("of fences, is damaged: CRC"));
        check(&[places[0] * 4096 + at], None);
        check(&[places[1] * 4096 + at], None);
        let both = places.map(|place| place * 4096 + at);
        check(&both, Some("of the directory, is damaged: CRC"));
    }
}

/// `reused` is under no CRC. One that no writer can have left keeps all from reading until one opens the store.
#[test]
fn a_word_that_passes_every_directory_is_mended_by_the_first_writer() {
    let folder = TempDir::new().unwrap();
    let (path, hashes) = closed(folder.path());
    let mut file = std::fs::read(&path).unwrap();
    file[4096 + 5] ^= 1;
    std::fs::write(&path, &file).unwrap();
    let store = Options::new().open_read_only(&path).unwrap();
    let error = store.contains_batch(&hashes).unwrap_err();
    assert!(matches!(error, Error::Ended), "{error:?}");
    drop(store);
    let output = run(&path, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("passed: pages are used again"), "{said}");

    let store = options(false).open(&path).unwrap();
    let found = store.contains_batch(&hashes).unwrap();
    assert!(found.iter().all(|found| *found));
    store.close().unwrap();
    agree(&path, &hashes);
}

/// "Header": what a fingerprint store says of itself, and bit 1 of `incompatible` in it and in no other.
#[test]
fn a_bad_header_field_of_a_store_of_fingerprints_has_the_error_of_its_line() {
    let folder = TempDir::new().unwrap();
    let (path, _) = closed(folder.path());
    let bloom = folder.path().join("bloom");
    Options::new().capacity(1000).create(&bloom).unwrap();
    let most = (1_u64 << 63).to_le_bytes();
    let mut beyond = most;
    beyond[0] = 1;
    let bad: [(&Path, &str, &[u8], &str); 9] = [
        (&path, "incompatible", &[1], "incompatible"),
        (&bloom, "incompatible", &[3], "incompatible"),
        (&path, "kind", &[1], "incompatible"),
        (&bloom, "kind", &[4], "incompatible"),
        (&path, "probes", &[1], "probes"),
        (&path, "bits", &[0; 8], "bits"),
        (&path, "bits", &beyond, "bits"),
        (&path, "growth", &[2], "growth"),
        (&path, "tightening", &1_f64.to_le_bytes(), "growth"),
    ];
    let layout = Layout::of("Header");
    for (path, name, value, field) in bad {
        let sound = std::fs::read(path).unwrap();
        let mut file = sound.clone();
        put(&mut file, 0, layout.field(name), value);
        let crc = crc32(&[&file[..252]]);
        put(&mut file, 0, layout.field("crc"), &crc.to_le_bytes());
        std::fs::write(path, file).unwrap();
        let error = format!("{:?}", Options::new().open(path).unwrap_err());
        let expected = format!("HeaderField {{ field: \"{field}\"");
        assert!(error.contains(&expected), "{name}: {error}");
        let output = run(path, &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(told.contains(&format!("header: {field}")), "{name}: {told}");
        std::fs::write(path, sound).unwrap();
    }
}

/// "Cut payload": that of a fingerprint store chooses no layer.
#[test]
fn a_cut_of_a_store_of_fingerprints_names_no_layer() {
    let copies = TempDir::new().unwrap();
    let path = interrupted(Kind::Fingerprint, false, 1, copies.path());
    let log = log_path(&path, 1);
    let sound = std::fs::read(&log).unwrap();
    let cut = chain(&sound).pop().unwrap();
    let layout = Layout::of("Cut payload");
    assert_eq!((cut.kind, cut.payload.len()), (4, layout.end()));
    assert!(cut.payload.iter().all(|byte| *byte == 0));
    let salt = Layout::of("The log").bytes(&sound, "salt");
    // A layer that a scalable store could have.
    let mut layer = Vec::new();
    for number in [32_u64, 1, 1000, 0, 0.01_f64.to_bits(), 7, 3, 0] {
        layer.extend(number.to_le_bytes());
    }
    let bad: [(&str, &[u8]); 4] = [
        ("flags", &[2]),
        ("layer_index", &[1]),
        ("layer", &[1]),
        ("layer", &layer),
    ];
    for (name, value) in bad {
        let mut file = sound.clone();
        let at = cut.offset;
        put(&mut file, at + 24, layout.field(name), value);
        let crc = crc32(&[salt, &(at as u64).to_le_bytes(), &file[at + 4..at + 96]]);
        file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&log, file).unwrap();
        let error = Options::new().open(&path).unwrap_err();
        assert!(
            format!("{error:?}").contains("Nonsense"),
            "{name}: {error:?}"
        );
        let output = run(&path, &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("the cut makes no sense"), "{name}: {told}");
    }
    std::fs::write(&log, sound).unwrap();
    agree(&path, &Vec::from_iter(0..3000));
}
