//! What closing a transactional store drops, and what it says of it.

use everseen::testing::Options;
use everseen::{CloseReport, Error, Kind, Store};
use tempfile::TempDir;

fn made(options: &Options) -> (TempDir, std::path::PathBuf, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options.create(&path).unwrap();
    (folder, path, store)
}

fn counts(report: CloseReport) -> (u64, u64) {
    (report.dropped, report.abandoned)
}

#[test]
fn closing_says_how_many_keys_it_drops() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for exclusive in [false, true] {
            let options = Options::new().kind(kind).capacity(1000);
            let options = options.transactional(true).exclusive(exclusive);
            let (_folder, path, store) = made(&options);
            store.insert(b"kept").unwrap();
            assert_eq!(store.uncommitted().unwrap().keys, 1);
            store.commit().unwrap();
            assert_eq!(store.uncommitted().unwrap().keys, 0);
            store.insert_batch(&[b"a", b"b", b"a"]).unwrap();
            assert_eq!(store.uncommitted().unwrap().keys, 2, "{kind} {exclusive}");
            assert_eq!(counts(store.close().unwrap()), (2, 0), "{kind} {exclusive}");
            // The second call does nothing, and says so.
            assert_eq!(store.close().unwrap(), CloseReport::default());
            assert!(matches!(store.uncommitted(), Err(Error::Closed)));
            let store = Options::new().open(&path).unwrap();
            assert!(store.contains(b"kept").unwrap());
            assert!(!store.contains(b"a").unwrap());
            assert_eq!(store.close().unwrap(), CloseReport::default());
        }
    }
}

/// Of several handles each drops its own, whether it is the last one or not.
#[test]
fn each_handle_says_what_it_drops_itself() {
    let options = Options::new().capacity(1000).transactional(true);
    let (_folder, path, one) = made(&options);
    let other = Options::new().open(&path).unwrap();
    let reader = Options::new().open_read_only(&path).unwrap();
    one.insert_batch(&[b"a", b"b"]).unwrap();
    other.insert_batch(&[b"c", b"d", b"e"]).unwrap();
    assert_eq!(reader.uncommitted().unwrap().keys, 0);
    assert_eq!(counts(reader.close().unwrap()), (0, 0));
    assert_eq!(counts(one.close().unwrap()), (2, 0));
    assert_eq!(other.uncommitted().unwrap().keys, 3);
    assert_eq!(counts(other.close().unwrap()), (3, 0));
}

#[test]
fn removes_that_are_not_committed_count() {
    let options = Options::new().kind(Kind::Fingerprint).transactional(true);
    let (_folder, path, store) = made(&options);
    store.insert_batch(&[b"a", b"b"]).unwrap();
    store.commit().unwrap();
    assert!(store.remove(b"a").unwrap());
    assert_eq!(store.uncommitted().unwrap().keys, 1);
    assert_eq!(counts(store.close().unwrap()), (1, 0));
    assert!(Options::new().open(&path).unwrap().contains(b"a").unwrap());
}

#[test]
fn a_store_that_is_not_transactional_drops_nothing() {
    for kind in [Kind::Bloom, Kind::Counting, Kind::Fingerprint] {
        let (_folder, path, store) = made(&Options::new().kind(kind).capacity(1000));
        store.insert(b"a").unwrap();
        assert_eq!(store.uncommitted().unwrap().keys, 0, "{kind}");
        assert_eq!(store.close().unwrap(), CloseReport::default(), "{kind}");
        assert!(Options::new().open(&path).unwrap().contains(b"a").unwrap());
    }
}
