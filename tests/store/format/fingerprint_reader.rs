//! `tests/reader.py` on stores of fingerprints: closed, killed with a log, killed in the midst of a checkpoint, damaged.

use std::path::{Path, PathBuf};

use everseen::{Error, Kind, LEAST_BUFFER, Options, Store};
use tempfile::TempDir;

use super::doc::Layout;
use super::log::interrupted;
use super::reader::{agree, random, run};
use super::seed;
use super::snapshot::copy;
use super::store_file::{newest_superblock, superblock_places};

/// So few fingerprints that many absent keys are answered "seen", and alike by both.
fn options(transactional: bool) -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(1 << 20);
    let options = options.capacity(20_000).fpr(0.1).seed(seed());
    options.transactional(transactional).background(false)
}

fn remove(store: &Store, hashes: &[u64]) -> usize {
    let gone = hashes
        .iter()
        .filter(|hash| store.remove_hash(**hash).unwrap());
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
        store.insert_hash_batch(&hashes[..4000]).unwrap();
        assert!(remove(&store, &hashes[..100]) > 90);
        store.commit_with(b"first").unwrap();
        store.checkpoint().unwrap();
        let wrong: Vec<u64> = hashes[8000..9000].to_vec();
        store.exempt_hash_batch(&wrong).unwrap();
        store.checkpoint().unwrap();

        // A log with inserts and removes of keys old and new, and some of both.
        store.insert_hash_batch(&hashes[4000..6000]).unwrap();
        assert!(remove(&store, &hashes[1000..1500]) > 450);
        assert!(remove(&store, &hashes[4000..4500]) > 450);
        store.insert_hash_batch(&hashes[1000..1100]).unwrap();
        store.insert_hash_batch(&wrong[..100]).unwrap();
        store.commit_with(b"second").unwrap();
        // Of a transactional store these don't count.
        store.insert_hash_batch(&hashes[6000..7000]).unwrap();
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

/// A closed store with a page of fingerprints or more, and the keys that are in it.
fn closed(folder: &Path) -> (PathBuf, Vec<u64>) {
    let path = folder.join("store");
    let store = options(false).create(&path).unwrap();
    let hashes = random(0xF2, 9000);
    store.insert_hash_batch(&hashes).unwrap();
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
        store.insert_hash_batch(&random(0xF3, 3000)).unwrap();
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
        let library = library.and_then(|store| store.contains_hash_batch(&hashes));
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
    let error = store.contains_hash_batch(&hashes).unwrap_err();
    assert!(matches!(error, Error::Ended), "{error:?}");
    drop(store);
    let output = run(&path, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("passed: pages are used again"), "{said}");

    let store = options(false).open(&path).unwrap();
    let found = store.contains_hash_batch(&hashes).unwrap();
    assert!(found.iter().all(|found| *found));
    store.close().unwrap();
    agree(&path, &hashes);
}
