//! A whole copy.

use std::fs;
use std::ops::ControlFlow;

use everseen::testing::Options;
use everseen::{Error, Kind};

use super::setting::{KINDS, assert_whole, insert, options, store};
use crate::support::fault::FaultStorage;
use crate::support::files::{beside, key, names, place, small};

/// The bytes of the pages of a store file.
fn pages(path: &std::path::Path) -> Vec<u8> {
    fs::read(path).unwrap()[131_072..].to_vec()
}

#[test]
fn a_copy_has_what_the_store_has_and_is_one_file() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        for plain in [false, true] {
            let options = match plain {
                // The rigs' storage copies by reading and writing.
                true => options(kind).storage(FaultStorage::without_syncs().shared()),
                false => options(kind),
            };
            let (_folder, path, store) = store(&options, 0..20_000);
            let sequence = store.commit_with(b"here").unwrap();
            let (target, copy) = place();
            let report = store.snapshot(&copy).unwrap();
            assert_eq!(report.bytes, copy.metadata().unwrap().len());
            let stats = store.stats().unwrap();
            assert_eq!(report.keys, stats.keys);
            assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
            assert_whole(&copy, 0..20_000);
            let opened = Options::new().open_read_only(&copy).unwrap();
            let commit = opened.last_commit("default").unwrap().unwrap();
            assert_eq!((commit.sequence, &*commit.tag), (sequence, &b"here"[..]));
            assert!(opened.recovery().is_clean(), "{:?}", opened.recovery());
            assert_eq!(report.pages, opened.verify().unwrap().pages);

            // The slow twin: a copy of the closed store.
            store.close().unwrap();
            assert!(pages(&path) == pages(&copy), "{kind} {plain}");

            // It is a store like any other.
            let alive = small().open(&copy).unwrap();
            insert(&alive, 20_000..20_100);
            alive.close().unwrap();
            assert_whole(&copy, 0..20_100);
        }
    }
}

#[test]
fn an_empty_store_can_be_copied() {
    for kind in KINDS {
        let (_folder, path, store) = store(&options(kind), 0..0);
        let copy = beside(&path, "-copy");
        assert_eq!(store.snapshot(&copy).unwrap().keys, 0);
        assert_whole(&copy, 0..0);
        // The holes of a store for many keys stay holes.
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let blocks = copy.metadata().unwrap().blocks();
            assert!(blocks * 512 < 300_000, "{blocks} blocks");
        }
    }
}

#[test]
fn what_is_not_committed_in_a_transactional_store_is_not_in_it() {
    let options = options(Kind::Bloom).transactional(true).fpr(1e-9);
    let (_folder, path, store) = store(&options, 0..300);
    store.commit_with(b"300").unwrap();
    insert(&store, 300..400);
    let other = small().writer("other").open(&path).unwrap();
    insert(&other, 400..500);
    other.commit_with(b"other's").unwrap();
    insert(&other, 500..600);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    let opened = Options::new().open_read_only(&copy).unwrap();
    let has = |number| opened.contains(key(number)).unwrap();
    assert!((0..300).chain(400..500).all(has));
    assert!(!(300..400).chain(500..600).any(has));
    for (writer, tag) in [("default", "300"), ("other", "other's")] {
        let commit = opened.last_commit(writer).unwrap().unwrap();
        assert_eq!(commit.tag, tag.as_bytes());
    }
    // Nor were they lost to the store.
    store.commit().unwrap();
    other.commit().unwrap();
    assert!((0..600).all(|number| store.contains(key(number)).unwrap()));
}

#[test]
fn it_can_be_given_up_and_leaves_nothing() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..1000);
    let before = names(&path);
    let copy = beside(&path, "-copy");
    let mut told = Vec::new();
    store
        .snapshot_watched(&copy, |progress| {
            told.push(progress);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(told.len() > 1);
    assert!(told.is_sorted_by_key(|progress| progress.done));
    assert!(told.iter().all(|progress| progress.done <= progress.total));
    fs::remove_file(&copy).unwrap();
    for moment in 0..told.len() {
        let mut count = 0;
        let given_up = store.snapshot_watched(&copy, |_| {
            count += 1;
            match count > moment {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(matches!(given_up, Err(Error::Cancelled)), "{given_up:?}");
        assert_eq!(names(&path).len(), before.len());
    }
    store.snapshot(&copy).unwrap();
}
