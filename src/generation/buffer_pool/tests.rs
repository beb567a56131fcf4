use std::sync::Arc;

use std::path::PathBuf;

use super::*;
use crate::testing::{LEAST_BUFFER, Options};
use crate::{Kind, Store};

fn at(path: &std::path::Path) -> [PathBuf; 2] {
    spare_paths(&Place::of_new(path).unwrap())
}

fn options() -> Options {
    Options::new().capacity(100_000).buffer(1 << 20)
}

fn insert(store: &Store, keys: std::ops::Range<u64>) {
    for key in keys {
        assert!(store.insert(key.to_le_bytes()).unwrap(), "{key}");
    }
}

fn make_spare(store: &Store, checkpointed: &Weak<Generation>) {
    let demand = store.engine.views.current().unwrap().demand();
    store
        .engine
        .buffers
        .make_spare(checkpointed, demand, || true);
}

#[test]
fn it_is_a_file_that_the_next_rotation_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.ever");
    let [making, spare] = at(&path);
    let store = options().create(&path).unwrap();
    insert(&store, 0..10);
    std::fs::write(&making, [0; 5000]).unwrap();
    make_spare(&store, &Weak::new());
    assert!(spare.exists() && !making.exists());
    store.checkpoint().unwrap();
    assert!(!spare.exists());
    insert(&store, 10..20);
    make_spare(&store, &Weak::new());
    assert!((0..20).all(|key: u64| store.contains(key.to_le_bytes()).unwrap()));
    store.close().unwrap();
    assert!(!spare.exists());
}

#[test]
fn one_of_another_size_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.ever");
    let store = options().create(&path).unwrap();
    insert(&store, 0..10);
    let [_, spare] = at(&path);
    std::fs::write(&spare, [0; 4096]).unwrap();
    store.checkpoint().unwrap();
    insert(&store, 10..20);
    assert!(!spare.exists());
}

#[test]
fn what_a_kill_leaves_is_removed_by_the_next_to_open() {
    for exclusive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        options().create(&path).unwrap().close().unwrap();
        for path in at(&path) {
            std::fs::write(path, [0; 4096]).unwrap();
        }
        let store = Options::new().exclusive(exclusive).open(&path).unwrap();
        assert!(at(&path).iter().all(|path| !path.exists()));
        insert(&store, 0..10);
    }
}

#[test]
fn there_are_never_three() {
    for exclusive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let store = options().exclusive(exclusive).create(&path).unwrap();
        insert(&store, 0..10);
        let held = Arc::clone(&store.engine.views.current().unwrap().active);
        store.checkpoint().unwrap();
        insert(&store, 10..20);
        let is_made = || at(&path)[1].exists() || lock(&store.engine.buffers.spare).is_some();
        make_spare(&store, &Arc::downgrade(&held));
        assert!(!is_made());
        let checkpointed = Arc::downgrade(&held);
        drop(held);
        make_spare(&store, &checkpointed);
        assert!(is_made());
    }
}

#[test]
fn an_exclusive_handle_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.ever");
    let store = options().exclusive(true).create(&path).unwrap();
    insert(&store, 0..10);
    make_spare(&store, &Weak::new());
    assert!(at(&path).iter().all(|path| !path.exists()));
    let number = lock(&store.engine.buffers.spare)
        .as_ref()
        .map(Buffer::generation);
    store.checkpoint().unwrap();
    assert!(lock(&store.engine.buffers.spare).is_none());
    let active = store.engine.views.current().unwrap().active.number();
    assert_eq!(number, Some(active));
    insert(&store, 10..20);
    assert!((0..20).all(|key: u64| store.contains(key.to_le_bytes()).unwrap()));
}

/// The bytes of the active buffer.
fn active(store: &Store) -> u64 {
    store.engine.views.current().unwrap().active.buffer.bytes()
}

fn between() -> Options {
    let options = Options::new().kind(Kind::Scalable).capacity(1_000_000);
    options.buffer_between(LEAST_BUFFER, 32 * LEAST_BUFFER)
}

#[test]
fn buffers_grow_with_the_filter_and_keep_within_the_bound_of_each_handle() {
    for exclusive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let options = between().background(false).exclusive(exclusive);
        let store = options.create(&path).unwrap();
        let mut taken = vec![active(&store)];
        let mut next = 0;
        let mut rotate = |store: &Store, taken: &mut Vec<u64>| {
            insert(store, next..next + 5000);
            store.checkpoint().unwrap();
            assert!((0..next + 5000).all(|key| store.contains(key.to_le_bytes()).unwrap()));
            next += 5000;
            taken.push(active(store));
        };
        (0..4).for_each(|_| rotate(&store, &mut taken));
        assert!(taken.is_sorted(), "{taken:?}");
        let most = taken[4];
        assert!(
            most > 16 * taken[0] && most <= 14 * LEAST_BUFFER,
            "{taken:?}"
        );
        if exclusive {
            continue;
        }
        // It takes over what there is, and makes only small ones itself.
        let small = Options::new().buffer(2 * LEAST_BUFFER).background(false);
        let joined = small.open(&path).unwrap();
        assert_eq!(active(&joined), most);
        rotate(&joined, &mut taken);
        assert!(
            taken[5] > taken[0] && taken[5] <= 2 * LEAST_BUFFER,
            "{taken:?}"
        );
        assert_eq!(active(&store), taken[5]);
        rotate(&store, &mut taken);
        assert!(taken[6] > taken[5], "{taken:?}");
        joined.close().unwrap();
    }
}

#[test]
fn a_caller_does_not_wait_for_a_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.ever");
    let [_, spare] = at(&path);
    let store = between().create(&path).unwrap();
    let least = active(&store);
    insert(&store, 0..10);
    store.checkpoint().unwrap();
    assert_eq!(active(&store), least);
    // The thread that ends a checkpoint makes one ahead, and it is larger.
    insert(&store, 10..20);
    make_spare(&store, &Weak::new());
    let made = std::fs::metadata(&spare).unwrap().len();
    store.checkpoint().unwrap();
    let ahead = active(&store);
    assert!(ahead > 3 * least && ahead <= 4 * least, "{ahead}");
    let is_file = !cfg!(everseen_portable);
    assert_eq!(made, if is_file { ahead } else { 0 });
    insert(&store, 20..30);
    assert!((0..30).all(|key: u64| store.contains(key.to_le_bytes()).unwrap()));
}

#[test]
fn one_that_is_too_small_or_too_large_by_now_is_not_taken() {
    for (made, now) in [(0, 64), (64, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let [_, spare] = at(&path);
        let store = between().background(false).create(&path).unwrap();
        let pool = &store.engine.buffers;
        let least = active(&store);
        let demand = |filter, current| Demand {
            filter,
            current: least * current,
            carried: 0,
            waits: false,
        };
        pool.make_spare(&Weak::new(), demand(made << 20, 64), || true);
        assert!(spare.exists());
        let now = demand(now << 20, 64);
        let wanted = pool.next_bytes(now);
        assert!(pool.take_spare(7, now, wanted).is_none());
        assert!(!spare.exists());
    }
}

/// What is free changes all the time. The one made ahead is taken although it would now be made a little smaller, but
/// never if it exceeds what the handle was set to.
#[test]
fn one_that_is_a_little_too_large_is_taken_within_the_bound_of_the_handle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.ever");
    let store = between().background(false).create(&path).unwrap();
    let small = Options::new().buffer(2 * LEAST_BUFFER).background(false);
    let small = small.open(&path).unwrap();
    let bound = table(2 * LEAST_BUFFER);
    let first = &store.engine.buffers;
    let demand = |current| Demand {
        filter: 64 << 20,
        current,
        carried: 0,
        waits: false,
    };
    for (store, made, wanted, is_taken) in [
        (&store, 100, 90, true),
        (&store, 100, 75, false),
        (&store, 110, 100, true),
        (&small, 110, 100, false),
        (&small, 99, 90, true),
    ] {
        let made = demand(bound * made / 100 / 4);
        let wanted = bound * wanted / 100;
        let pool = &store.engine.buffers;
        // Made by the handle that may make larger ones.
        first.make_spare(&Weak::new(), made, || true);
        let taken = pool.take_spare(7, made, wanted);
        assert_eq!(taken.is_some(), is_taken, "{made:?}, {wanted}");
        remove_if_there(&pool.place, &buffer_path(&pool.place, 7)).unwrap();
    }
}

#[test]
fn where_there_is_no_room_smaller_ones_do_that_hold_what_is_carried_over() {
    let (current, least) = (1 << 20, 1 << 18);
    let tried = |bytes, carried| {
        let demand = Demand {
            filter: 0,
            current,
            carried,
            waits: false,
        };
        demand.smaller_than(bytes, least).collect::<Vec<_>>()
    };
    let many = limit_of(least);
    assert_eq!(tried(1 << 22, 0), [current, least]);
    assert_eq!(tried(1 << 22, many), [current]);
    assert_eq!(tried(1 << 20, 0), [least]);
    assert_eq!(tried(1 << 20, many), []);
    assert_eq!(tried(1 << 18, 0), []);
}

#[test]
fn only_a_lack_of_room_makes_recovery_try_a_smaller_one() {
    let path = PathBuf::from("store");
    let failed = |kind: io::ErrorKind| no_buffer("make", &path, 1, kind.into());
    assert!(lacks_room(&failed(io::ErrorKind::StorageFull)));
    assert!(lacks_room(&failed(io::ErrorKind::OutOfMemory)));
    assert!(!lacks_room(&failed(io::ErrorKind::InvalidData)));
}

#[test]
fn what_is_carried_over_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = between().create(folder.path().join("store.ever")).unwrap();
    let pool = &store.engine.buffers;
    let least = active(&store);
    let current = 16 * least;
    let carried = limit_of(least);
    // The filter is small again.
    let demand = |carried| Demand {
        waits: false,
        filter: 0,
        current,
        carried,
    };
    assert_eq!(limit_of(pool.next_bytes(demand(0))), limit_of(least));
    assert_eq!(pool.next_bytes(demand(carried)), current);
}

#[test]
fn a_log_of_a_large_buffer_is_recovered_with_a_large_one_or_with_none() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Counting] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let options = between().kind(kind).fpr(1e-9).background(false);
        let store = options.create(&path).unwrap();
        let keys = |from: u64, to: u64| (from..to).map(u64::to_le_bytes).collect::<Vec<_>>();
        store.insert_batch(&keys(0, 30_000)).unwrap();
        store.checkpoint().unwrap();
        store.insert_batch(&keys(30_000, 31_000)).unwrap();
        store.checkpoint().unwrap();
        let limit = limit_of(active(&store));
        assert!(limit > 20_000, "{kind}: {limit}");
        store.insert_batch(&keys(31_000, 51_000)).unwrap();
        store.commit().unwrap();
        for (name, options) in [
            ("large", between()),
            ("small", Options::new().buffer(LEAST_BUFFER)),
        ] {
            let copy = folder.path().join(name);
            std::fs::copy(&path, &copy).unwrap();
            let number = store.stats().unwrap().generation;
            let log = |path: &PathBuf| crate::wal::log_path(path, number);
            std::fs::copy(log(&path), log(&copy)).unwrap();
            let opened = options.open(&copy).unwrap();
            assert_eq!(opened.recovery().keys, 20_000);
            let is_large = active(&opened) > 4 * table(LEAST_BUFFER);
            assert_eq!(is_large, name == "large", "{kind}");
            let found = opened.contains_batch(&keys(0, 51_000)).unwrap();
            assert!(found.iter().all(|found| *found), "{kind}, {name}");
            opened.close().unwrap();
        }
    }
}

fn table(budget: u64) -> u64 {
    budget / 16 * 7
}
