//! What can't be copied, or can't have a delta: the error names it, and nothing has changed.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{DeltaError, Error, FormatError, Kind, Store};

use super::setting::{KINDS, insert, options, store};
use crate::support::files::{beside, log_of, place, small};

/// The error must be one about a delta or a copy at this path.
#[track_caller]
fn delta_error<T: std::fmt::Debug>(outcome: everseen::Result<T>, at: &Path) -> DeltaError {
    match outcome {
        Err(Error::Delta { path, source }) => {
            assert_eq!(path, at);
            source
        }
        other => panic!("expected an error about a delta, got {other:?}"),
    }
}

#[test]
fn a_name_that_is_taken_is_left_as_it_is() {
    let (folder, path, store) = store(&options(Kind::Bloom), 0..100);
    let taken = beside(&path, "-taken");
    fs::write(&taken, b"mine").unwrap();
    let is_taken = |outcome: everseen::Result<everseen::SnapshotReport>, at: &Path| {
        let outcome = outcome.unwrap_err();
        assert!(
            matches!(&outcome, Error::AlreadyExists { path } if path == at),
            "{outcome:?}"
        );
    };
    is_taken(store.snapshot(&taken), &taken);
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
    is_taken(store.snapshot(&path), &path);
    // A log that an opener would take for the copy's own.
    let copy = beside(&path, "-copy");
    let generation = store.stats().unwrap().generation + 1;
    for number in generation - 1..=generation + 1 {
        let log = log_of(&copy, number);
        fs::write(&log, b"old").unwrap();
        is_taken(store.snapshot(&copy), &log);
        assert!(!copy.exists());
        fs::remove_file(&log).unwrap();
    }
    let in_folder = store.snapshot(folder.path()).unwrap_err();
    assert!(matches!(in_folder, Error::IsFolder { .. }), "{in_folder:?}");
    let nowhere = store.snapshot(folder.path().join("no/such")).unwrap_err();
    assert!(
        matches!(nowhere, Error::MissingFolder { .. }),
        "{nowhere:?}"
    );
    store.snapshot(&copy).unwrap();
}

#[test]
fn two_that_make_the_same_file_are_kept_apart() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..100);
    let copy = beside(&path, "-copy");
    let mut inner = None;
    store
        .snapshot_watched(&copy, |_| {
            let (_other_folder, _, other) = super::setting::store(&options(Kind::Bloom), 0..10);
            inner = Some(other.snapshot(&copy));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let refused = inner.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }), "{refused:?}");
    // What a killed one left is made anew.
    fs::remove_file(&copy).unwrap();
    fs::write(
        beside(&copy, "-part"),
        [&b"EVERSEEN"[..], &[0; 5000]].concat(),
    )
    .unwrap();
    store.snapshot(&copy).unwrap();
    assert!(!beside(&copy, "-part").exists());
}

#[test]
fn a_damaged_page_is_not_copied() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..50_000);
    let whole = beside(&path, "-whole");
    store.snapshot(&whole).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Bits of a page's payload, or its occupancy and generation.
    for at in [99, 5, 12] {
        let place = 131_072 + 4096 * 5 + at;
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xA5; 3], place).unwrap();
        let copy = beside(&path, "-copy");
        match store.snapshot(&copy).unwrap_err() {
            Error::Format {
                path: named,
                source:
                    FormatError::PageDamaged {
                        layer: 0, page: 5, ..
                    },
            } => assert_eq!(named, path),
            other => panic!("{other:?}"),
        }
        assert!(!copy.exists());
        assert!(!beside(&copy, "-part").exists());
    }
    // It is in the delta as well, or would be.
    let delta = store.snapshot_since(beside(&path, "-delta"), &whole);
    assert!(
        matches!(
            delta,
            Err(Error::Format {
                source: FormatError::PageDamaged { page: 5, .. },
                ..
            })
        ),
        "{delta:?}"
    );
    store.repair(everseen::OnDamage::Seen).unwrap();
    store.snapshot(beside(&path, "-copy")).unwrap();
}

#[test]
fn a_delta_needs_a_copy_of_the_same_store_that_nobody_wrote_to() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = store(&options, 0..1000);
    let delta = beside(&path, "-delta");
    let since = |previous: &Path| delta_error(store.snapshot_since(&delta, previous), previous);

    // A store of its own, closed.
    let (_others, other, stranger) = super::setting::store(&options, 0..10);
    stranger.close().unwrap();
    assert_eq!(since(&other), DeltaError::NotACopy);
    // A copy of another store.
    let stranger = small().open(&other).unwrap();
    let foreign = beside(&other, "-copy");
    stranger.snapshot(&foreign).unwrap();
    assert_eq!(
        since(&foreign),
        DeltaError::WrongStore {
            expected: store.stats().unwrap().store_id,
            got: stranger.stats().unwrap().store_id,
        }
    );
    // A copy that went its own way.
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    let kept = beside(&path, "-kept");
    fs::copy(&copy, &kept).unwrap();
    let own = small().open(&copy).unwrap();
    insert(&own, 5000..5010);
    own.close().unwrap();
    let written = since(&copy);
    let DeltaError::Written { expected, got } = written else {
        panic!("{written:?}");
    };
    assert!(got > expected);
    // Opened and closed without a word it is still what it was.
    small().open(&kept).unwrap().close().unwrap();
    store.snapshot_since(&delta, &kept).unwrap();
    // A copy with a page that is not what it was.
    let file = fs::OpenOptions::new().write(true).open(&kept).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 4], 131_072 + 8).unwrap();
    let other_delta = beside(&path, "-other");
    let wrong = delta_error(store.snapshot_since(&other_delta, &kept), &kept);
    assert!(
        matches!(wrong, DeltaError::WrongContent { .. }),
        "{wrong:?}"
    );
    // A missing one, and a name that is taken.
    let none = beside(&path, "-none");
    let missing = delta_error(store.snapshot_since(&other_delta, &none), &none);
    assert_eq!(missing, DeltaError::MissingCopy);
    let missing = delta_error(small().apply(&delta, &none), &none);
    assert_eq!(missing, DeltaError::MissingCopy);
    let missing = delta_error(small().apply(&none, &kept), &none);
    assert_eq!(missing, DeltaError::Missing);
    let taken = store.snapshot_since(&delta, &foreign);
    assert!(taken.is_err());
}

/// A store, a copy of generation after 1000 keys, and deltas to 2000 and to 3000.
struct Chain {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    store: Store,
    copy: std::path::PathBuf,
    first: std::path::PathBuf,
    second: std::path::PathBuf,
}

fn chain(kind: Kind) -> Chain {
    let options = options(kind);
    let (folder, path, store) = store(&options, 0..1000);
    let [copy, first, second, late] =
        ["-copy", "-first", "-second", "-late"].map(|name| beside(&path, name));
    store.snapshot(&copy).unwrap();
    insert(&store, 1000..2000);
    store.snapshot_since(&first, &copy).unwrap();
    store.snapshot(&late).unwrap();
    insert(&store, 2000..3000);
    store.snapshot_since(&second, &late).unwrap();
    Chain {
        _folder: folder,
        path,
        store,
        copy,
        first,
        second,
    }
}

#[test]
fn deltas_are_applied_in_their_order_to_their_own_copies() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        apply_in_order(kind);
    }
}

fn apply_in_order(kind: Kind) {
    let options = options(kind);
    let chain = chain(kind);
    let before = fs::read(&chain.copy).unwrap();
    let skipped = delta_error(options.apply(&chain.second, &chain.copy), &chain.copy);
    let DeltaError::WrongGeneration { expected, got } = skipped else {
        panic!("{skipped:?}");
    };
    assert!(expected > got);
    // A store that nobody copied, and one of another id.
    let (_others, other, stranger) = store(&options, 0..10);
    let foreign = beside(&other, "-copy");
    stranger.snapshot(&foreign).unwrap();
    let wrong = delta_error(options.apply(&chain.first, &foreign), &foreign);
    assert!(matches!(wrong, DeltaError::WrongStore { .. }), "{wrong:?}");
    let bare = beside(&chain.path, "-bare");
    {
        let mut bytes = before.clone();
        bytes[12_288..12_384].fill(0);
        fs::write(&bare, bytes).unwrap();
    }
    let wrong = delta_error(options.apply(&chain.first, &bare), &bare);
    assert_eq!(wrong, DeltaError::NotACopy);
    // One that somebody has open, and one that somebody has written to.
    let open = options.open(&chain.copy).unwrap();
    let locked = options.apply(&chain.first, &chain.copy).unwrap_err();
    assert!(matches!(locked, Error::Locked { .. }), "{locked:?}");
    open.close().unwrap();
    let own = beside(&chain.path, "-own");
    fs::copy(&chain.copy, &own).unwrap();
    let alive = options.open(&own).unwrap();
    insert(&alive, 7000..7001);
    alive.close().unwrap();
    let wrong = delta_error(options.apply(&chain.first, &own), &own);
    assert!(matches!(wrong, DeltaError::Written { .. }), "{wrong:?}");

    assert!(before == fs::read(&chain.copy).unwrap());
    options.apply(&chain.first, &chain.copy).unwrap();
    options.apply(&chain.second, &chain.copy).unwrap();
    super::setting::assert_whole(&chain.copy, 0..3000);
    let past = delta_error(options.apply(&chain.first, &chain.copy), &chain.copy);
    assert!(
        matches!(past, DeltaError::WrongGeneration { .. }),
        "{past:?}"
    );
}

/// A store that went back to a backup counts its generations again, with other keys.
#[test]
fn histories_that_parted_are_told_apart() {
    for kind in KINDS {
        let options = options(kind);
        let chain = chain(kind);
        let newer = beside(&chain.path, "-newer");
        chain.store.snapshot(&newer).unwrap();
        // The store is lost, and goes on from its backup.
        chain.store.close().unwrap();
        fs::remove_file(&chain.path).unwrap();
        fs::copy(&chain.copy, &chain.path).unwrap();
        let store = options.open(&chain.path).unwrap();
        let delta = beside(&chain.path, "-delta");
        let wrong = delta_error(store.snapshot_since(&delta, &newer), &newer);
        assert!(matches!(wrong, DeltaError::Newer { .. }), "{wrong:?}");
        insert(&store, 70_000..71_000);
        let other = beside(&chain.path, "-otherwise");
        store.snapshot(&other).unwrap();
        // As far as the first copy's successor was, by the generation.
        let late = beside(&chain.path, "-late");
        let generation = |path| {
            Options::new()
                .open_read_only(path)
                .unwrap()
                .stats()
                .unwrap()
        };
        assert_eq!(generation(&late).generation, generation(&other).generation);
        let wrong = delta_error(options.apply(&chain.second, &other), &other);
        assert!(
            matches!(wrong, DeltaError::WrongContent { .. }),
            "{wrong:?}"
        );
        // A delta since the old life's copy is true all the same, if the layers still are.
        insert(&store, 71_000..90_000);
        match store.snapshot_since(&delta, &late) {
            Ok(_) => {
                options.apply(&delta, &late).unwrap();
                let whole = beside(&chain.path, "-whole");
                store.snapshot(&whole).unwrap();
                super::setting::assert_same(&late, &whole);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_layer_in_another_place_is_refused() {
    let options = options(Kind::Scalable);
    let (_folder, path, store) = store(&options, 0..1000);
    let backup = beside(&path, "-backup");
    store.snapshot(&backup).unwrap();
    // One life with a small second layer, one with a large one.
    insert(&store, 1000..9000);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    store.close().unwrap();
    fs::remove_file(&path).unwrap();
    fs::copy(&backup, &path).unwrap();
    let large = small().buffer(8 << 20).kind(Kind::Scalable);
    let store = large.open(&path).unwrap();
    insert(&store, 0..40_000);
    store.checkpoint().unwrap();
    for number in 0..6 {
        insert(&store, 40_000 + number..40_001 + number);
        store.checkpoint().unwrap();
    }
    let delta = beside(&path, "-delta");
    let wrong = delta_error(store.snapshot_since(&delta, &copy), &copy);
    assert_eq!(wrong, DeltaError::Layers { layer: 1 });
    let _ = place();
}
