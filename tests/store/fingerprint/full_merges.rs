//! Merges of all runs, where a page can't be read and where hardly a key is left.

use std::os::unix::fs::FileExt;

use everseen::Error;

use super::steps::{found, insert, named, options};
use crate::support::files::place;
use crate::support::numbers::key;

/// Enough of them for segments that are merged in several steps.
const BASE: u64 = 45_000;

/// The keys that came are in a run of their own before all is merged: a merge that has begun would keep them in their log, and
/// no other log could follow that.
#[test]
fn a_full_merge_that_meets_damage_keeps_nothing_out() {
    for forgets in [false, true] {
        let (_folder, path) = place();
        let options = options().least_run(64);
        let options = match forgets {
            true => options.forget_after(std::time::Duration::from_secs(86_400)),
            false => options,
        };
        let store = options.create(&path).unwrap();
        insert(&store, 0..BASE);
        store.checkpoint_full().unwrap();
        insert(&store, BASE..BASE + 500);
        store.checkpoint().unwrap();
        let segments = named(&path).segments;
        assert!(segments.len() >= 32, "{}", segments.len());
        let last = segments.iter().max_by_key(|one| one.first).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        for page in last.first_page..=last.first_page + last.pages {
            file.write_all_at(&[0x5A; 64], page * 4096 + 100).unwrap();
        }
        insert(&store, BASE + 500..BASE + 510);
        let refused = store.checkpoint_full();
        assert!(matches!(refused, Err(Error::Format { .. })), "{refused:?}");
        for more in 0..3 {
            let numbers = BASE + 510 + more * 10..BASE + 520 + more * 10;
            let keys: Vec<u64> = numbers.map(key).collect();
            store.insert_batch(&keys).unwrap();
            store.checkpoint().unwrap();
        }
        assert!(store.contains(key(BASE + 505)).unwrap());
        store.close().unwrap();
    }
}

/// What a part of the file grows by is estimated from its keys.
#[test]
fn a_store_of_which_all_was_removed_does_not_grow_without_measure() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    const KEYS: u64 = 20_000;
    insert(&store, 0..KEYS);
    store.checkpoint().unwrap();
    let keys: Vec<u64> = (0..KEYS).map(key).collect();
    assert!(store.remove_batch(&keys).unwrap().iter().all(|gone| *gone));
    store.checkpoint().unwrap();
    store.close().unwrap();

    let store = options()
        .buffer(16 << 20)
        .step_segments(1 << 20)
        .background(true)
        .open(&path)
        .unwrap();
    insert(&store, 0..KEYS);
    store.checkpoint().unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length < 16 << 20, "{length}");
    assert_eq!(found(&store, 0..KEYS), KEYS);
    store.close().unwrap();
}
