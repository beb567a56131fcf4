//! What a commit has acknowledged is missed if the log loses it: a byte of the last transaction of a killed writer is
//! changed, or the log is cut off, and no later mark can tell.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, Kind, LogError, OnDamage};
use tempfile::TempDir;

use crate::format::reader;
use crate::support::files::{held, image, keys, log_of, place, small};
use crate::support::log;

fn sorts() -> Vec<Options> {
    let fixed = small().capacity(20_000).fpr(1e-9);
    vec![
        fixed.clone().kind(Kind::Bloom),
        fixed.clone().kind(Kind::Bloom).transactional(true),
        fixed.kind(Kind::Counting),
        small()
            .kind(Kind::Fingerprint)
            .fpr(1e-9)
            .transactional(true),
    ]
}

/// What a killed process leaves that has committed keys 0 to 20 and 20 to 40, and claimed `more` after that. Also where the
/// last commit begins and ends.
fn killed(options: &Options, more: u64) -> (TempDir, PathBuf, usize, usize) {
    let (_folder, path) = place();
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..20)).unwrap();
    store.commit().unwrap();
    let begin = log::end(&log_of(&path, 1));
    store.insert_batch(&keys(20..40)).unwrap();
    store.commit().unwrap();
    let end = log::end(&log_of(&path, 1));
    if more > 0 {
        store.insert_batch(&keys(100..100 + more)).unwrap();
    }
    let (folder, killed) = image(&path);
    (folder, killed, begin, end)
}

/// Both ways to open say that the log is damaged before `durable`, and so does the reader that follows FORMAT.md.
#[track_caller]
fn damaged(options: &Options, path: &Path, durable: usize) {
    for outcome in [options.open_read_only(path), options.open(path)] {
        match outcome.unwrap_err() {
            Error::Log {
                source: LogError::Damaged { durable: got, .. },
                ..
            } => assert_eq!(got, durable as u64),
            error => panic!("{error:?}"),
        }
    }
}

#[test]
fn each_byte_of_the_last_commit_that_is_flipped_is_named() {
    for options in sorts() {
        for more in [0, 7] {
            let (_folder, path, begin, end) = killed(&options, more);
            let log = log_of(&path, 1);
            let good = fs::read(&log).unwrap();
            for at in begin..end {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                fs::write(&log, bad).unwrap();
                damaged(&options, &path, end);
            }
            let refused = reader::run(&path, &[]);
            assert_eq!(refused.status.code(), Some(2));
            // The way out.
            let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
            assert!(report.log_bytes > 0 && !report.is_whole(), "{report:?}");
            let store = options.open(&path).unwrap();
            assert_eq!(held(&store, &keys(0..20)), 20);
        }
    }
}

#[test]
fn a_log_cut_off_anywhere_is_named() {
    for options in sorts() {
        let (_folder, path, begin, end) = killed(&options, 0);
        let log = log_of(&path, 1);
        let good = fs::read(&log).unwrap();
        for length in [4096, 4097, 4120, begin - 1, begin, begin + 1, end - 1] {
            fs::write(&log, &good[..length]).unwrap();
            damaged(&options, &path, end);
            assert_eq!(reader::run(&path, &[]).status.code(), Some(2));
        }
        // All that was committed is there, and more was made.
        for length in [end, end + 1, good.len() - 1] {
            fs::write(&log, &good[..length]).unwrap();
            let expected = good.len() as u64;
            for outcome in [options.open_read_only(&path), options.open(&path)] {
                match outcome.unwrap_err() {
                    Error::Log {
                        source:
                            LogError::Truncated {
                                expected: made,
                                got,
                            },
                        ..
                    } => assert_eq!((made, got), (expected, length as u64)),
                    error => panic!("{error:?}"),
                }
            }
            assert_eq!(reader::run(&path, &[]).status.code(), Some(2));
        }
        let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert!(report.log_bytes > 0, "{report:?}");
        assert_eq!(held(&options.open(&path).unwrap(), &keys(0..40)), 40);
        // Cut to its header alone, with nothing left.
        let (_folder, path, _, _) = killed(&options, 0);
        let log = log_of(&path, 1);
        let good = fs::read(&log).unwrap();
        fs::write(&log, &good[..4096]).unwrap();
        let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert!(report.log_bytes > 0, "{report:?}");
        assert_eq!(held(&options.open(&path).unwrap(), &keys(0..40)), 0);
    }
}

/// Keys that no commit covers survive a kill as well; the log's length tells if they were cut off with it.
#[test]
fn a_log_without_a_commit_that_is_cut_off_is_named() {
    let options = small().capacity(20_000).fpr(1e-9);
    let (_folder, path) = place();
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..20)).unwrap();
    let (_killed, path) = image(&path);
    let log = log_of(&path, 1);
    let good = fs::read(&log).unwrap();
    fs::write(&log, &good[..4096]).unwrap();
    for outcome in [options.open_read_only(&path), options.open(&path)] {
        let error = outcome.unwrap_err();
        let (name, made) = (log.display(), good.len());
        assert_eq!(
            error.to_string(),
            format!(
                "{name}: cut off: the file has 4096 bytes, and was made with {made}; restore store and log from a copy, or give up what is gone with `repair`"
            )
        );
        assert!(
            matches!(
                &error,
                Error::Log {
                    source: LogError::Truncated { got: 4096, .. },
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

/// A note that was lost or damaged accuses nobody.
#[test]
fn a_note_that_says_nothing_is_none() {
    let options = small().capacity(20_000).fpr(1e-9);
    let (_folder, path, ..) = killed(&options, 3);
    let log = log_of(&path, 1);
    let good = fs::read(&log).unwrap();
    for at in 512..536 {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&log, &bad).unwrap();
        assert_eq!(
            held(&options.open_read_only(&path).unwrap(), &keys(0..40)),
            40
        );
    }
    let mut blank = good;
    blank[512..536].fill(0);
    fs::write(&log, &blank).unwrap();
    assert_eq!(held(&options.open(&path).unwrap(), &keys(0..40)), 40);
}

/// A log that nothing expects, whose creator lost power before its length was durable, is gone on with. The length that it
/// was to have does not accuse it later.
#[test]
fn a_length_that_was_never_durable_is_forgotten() {
    let options = small().capacity(20_000).fpr(1e-9);
    let (_folder, path) = place();
    options.create(&path).unwrap().close().unwrap();
    let bare = fs::read(&path).unwrap();
    let store = options.open(&path).unwrap();
    store.insert_batch(&keys(0..20)).unwrap();
    let (_killed, path) = image(&path);
    let log = log_of(&path, 1);
    let good = fs::read(&log).unwrap();
    // Far longer than a log grows to at first.
    let mut half_made = good[..4096].to_vec();
    half_made[528..536].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&half_made[32..48]);
    hasher.update(&half_made[516..536]);
    half_made[512..516].copy_from_slice(&hasher.finalize().to_le_bytes());
    fs::write(&log, half_made).unwrap();
    fs::write(&path, bare).unwrap();
    assert_eq!(
        held(&options.open_read_only(&path).unwrap(), &keys(0..40)),
        0
    );
    let store = options.open(&path).unwrap();
    store.insert_batch(&keys(20..40)).unwrap();
    store.commit().unwrap();
    let (_killed, path) = image(&path);
    assert_eq!(held(&options.open(&path).unwrap(), &keys(20..40)), 20);
}
