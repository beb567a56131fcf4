//! Damaged pages.

use everseen::testing::{Appending, Options};
use std::fs;
use std::path::{Path, PathBuf};

use everseen::{Damage, Error, FormatError, Verdict};
use tempfile::TempDir;

use crate::support::files::{image, key, keys, place, small};
use crate::support::forge::page_crc;

const PAGES: usize = 131_072;

fn options() -> Options {
    small().capacity(4000).fpr(1e-9)
}

/// A closed store of 2000 keys in some pages.
fn closed() -> (TempDir, PathBuf) {
    let (folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..2000)).unwrap();
    store.close().unwrap();
    (folder, path)
}

/// Flips a byte of a page of the first layer; answers the error that it must give.
fn damage(path: &Path, page: usize, at: usize) -> FormatError {
    let mut file = fs::read(path).unwrap();
    let start = PAGES + page * 4096;
    file[start + at] ^= 0x40;
    let bytes = &file[start..start + 4096];
    let error = FormatError::PageDamaged {
        layer: 0,
        page: page as u64,
        expected: page_crc(&file, (start / 4096) as u64, bytes),
        got: u32::from_le_bytes(bytes[..4].try_into().unwrap()),
    };
    fs::write(path, file).unwrap();
    error
}

#[track_caller]
fn is_damage(error: &Error, store: &Path, expected: &FormatError) {
    let Error::Format { path, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!((path.as_path(), source), (store, expected));
}

#[test]
fn a_damaged_page_is_told_and_others_answer() {
    for at in [0, 3, 4, 8, 15, 16, 2000, 4095] {
        let (_folder, path) = closed();
        let pages = (fs::metadata(&path).unwrap().len() as usize - PAGES) / 4096;
        assert!(pages > 3);
        let expected = damage(&path, 1, at);
        for read_only in [false, true] {
            let store = match read_only {
                false => options().open(&path),
                true => options().open_read_only(&path),
            };
            let store = store.unwrap();
            let (mut good, mut bad) = (0, 0);
            for number in 0..2000 {
                match store.contains(key(number)) {
                    Ok(found) => {
                        assert!(found);
                        good += 1;
                    }
                    Err(error) => {
                        is_damage(&error, &path, &expected);
                        bad += 1;
                    }
                }
            }
            let share = 2000 / pages;
            assert!(bad > share / 2 && good > 2000 - 2 * share, "{good} {bad}");
            let report = store.verify().unwrap();
            let keys = 2000_u64.div_ceil(pages as u64);
            let damage = report.damaged;
            let [
                Damage {
                    layer: 0,
                    page: 1,
                    keys: got,
                    ..
                },
            ] = damage[..]
            else {
                panic!("{damage:?}");
            };
            assert_eq!(got, keys);
        }
    }
}

/// A page that was written and is all zeros now has lost its keys, and no checksum tells.
#[test]
fn a_page_of_zeros_where_every_page_has_been_written() {
    let (_folder, path) = closed();
    let mut file = fs::read(&path).unwrap();
    file[PAGES + 4096..PAGES + 8192].fill(0);
    let expected = FormatError::PageDamaged {
        layer: 0,
        page: 1,
        expected: page_crc(&file, (PAGES / 4096 + 1) as u64, &[0; 4096]),
        got: 0,
    };
    fs::write(&path, file).unwrap();
    let store = options().open(&path).unwrap();
    let errors: Vec<_> = (0..2000)
        .filter_map(|number| store.contains(key(number)).err())
        .collect();
    assert!(!errors.is_empty());
    for error in &errors {
        is_damage(error, &path, &expected);
    }
}

/// Verdicts are of keys that are done: none may say "seen" of a key that is nowhere.
#[test]
fn a_batch_that_meets_a_damaged_page_has_done_what_it_says() {
    let (_folder, path) = closed();
    let expected = damage(&path, 2, 100);
    let store = options().open(&path).unwrap();
    let batch = keys(5000..5200);
    let mut verdicts = Vec::new();
    let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
    is_damage(&error, &path, &expected);
    assert!(verdicts.len() < batch.len());
    for (key, verdict) in batch.iter().zip(&verdicts) {
        assert!(store.contains(key).unwrap(), "{verdict:?} and absent");
        assert_eq!(*verdict, Verdict::New);
    }
    for key in &batch[verdicts.len()..] {
        assert!(
            !matches!(store.contains(key), Ok(true)),
            "not done and present"
        );
    }
    // What follows the key of the damaged page can be inserted still.
    let later = batch.len() - 1;
    for key in &batch[verdicts.len() + 1..=later] {
        match store.insert(key) {
            Ok(new) => assert!(new),
            Err(error) => is_damage(&error, &path, &expected),
        }
    }
}

/// A checkpoint that meets a damaged page can't go on; what it was to bring stays in the log.
#[test]
fn a_checkpoint_that_meets_a_damaged_page_loses_nothing() {
    let (_folder, path) = closed();
    let store = options().open(&path).unwrap();
    let new: Vec<_> = keys(5000..6000);
    store.insert_batch(&new).unwrap();
    store.commit().unwrap();
    let expected = damage(&path, 0, 50);
    let error = store.checkpoint().unwrap_err();
    is_damage(&error, &path, &expected);
    assert!(new.iter().all(|key| store.contains(key).unwrap()));
    // The page is not taken for one that the checkpoint before has left half written.
    let error = store.checkpoint().unwrap_err();
    is_damage(&error, &path, &expected);
    drop(store);
    let store = options().open(&path).unwrap();
    is_damage(&store.checkpoint().unwrap_err(), &path, &expected);
    drop(store);
    let reader = options().open_read_only(&path).unwrap();
    assert!(new.iter().all(|key| reader.contains(key).unwrap()));
}

/// An intent that named the page would make it pass for torn, and the next checkpoint would seal what is left of it.
#[test]
fn a_page_that_was_damaged_when_a_checkpoint_met_it_never_passes_for_torn() {
    // All pages get keys, or a few of many do.
    for (capacity, new) in [(4000, 1000), (100_000, 20)] {
        let options = small().capacity(capacity).fpr(1e-9);
        let (_folder, path) = place();
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..2000)).unwrap();
        store.close().unwrap();
        let store = options.open(&path).unwrap();
        store.insert_batch(&keys(5000..5000 + new)).unwrap();
        let (_killed, killed) = image(&path);
        let before = fs::read(&path).unwrap();
        store.checkpoint().unwrap();
        let after = fs::read(&path).unwrap();
        // The last that the checkpoint changes: others come before it.
        let pages = (before.len() - PAGES) / 4096;
        let at = |page: usize| PAGES + page * 4096..PAGES + (page + 1) * 4096;
        let met = (0..pages).rfind(|page| before[at(*page)] != after[at(*page)]);
        let met = met.unwrap();
        assert!(met > 3);

        let expected = damage(&killed, met, 50);
        let store = options.open(&killed).unwrap();
        is_damage(&store.checkpoint().unwrap_err(), &killed, &expected);
        drop(store);
        for _ in 0..2 {
            let reader = options.open_read_only(&killed).unwrap();
            let mut errors = 0;
            for key in keys(0..2000) {
                match reader.contains(&key) {
                    Ok(found) => assert!(found),
                    Err(error) => {
                        is_damage(&error, &killed, &expected);
                        errors += 1;
                    }
                }
            }
            assert!(errors > 0);
            drop(reader);
            // To open it for writing is to try the checkpoint again.
            let store = options.open(&killed).unwrap();
            is_damage(&store.checkpoint().unwrap_err(), &killed, &expected);
            drop(store);
        }
    }
}
