//! What a delta costs, and what it is good for.

use std::fs;
use std::ops::ControlFlow;

use everseen::{Error, Kind};

use super::setting::{assert_same, insert, options, store};
use crate::support::files::{beside, key, names};

#[test]
fn a_delta_is_the_pages_touched_and_less_than_a_page_beside() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..50_000);
    let copy = beside(&path, "-copy");
    let whole = store.snapshot(&copy).unwrap();
    insert(&store, 50_000..50_020);
    let delta = beside(&path, "-delta");
    let made = store.snapshot_since(&delta, &copy).unwrap();
    assert!((1..=20).contains(&made.pages), "{} pages", made.pages);
    assert!(made.pages < whole.pages / 4);
    let beside_pages = made.bytes - made.pages * 4096;
    // The header, the superblock as it is without padding, and the end mark.
    assert_eq!(beside_pages, 96 + 392 + 16);
    assert_eq!(delta.metadata().unwrap().len(), made.bytes);
}

#[test]
fn a_delta_of_nothing_has_no_page_and_can_be_applied() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..1000);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    let delta = beside(&path, "-delta");
    let made = store.snapshot_since(&delta, &copy).unwrap();
    assert_eq!((made.pages, made.from), (0, made.to));
    let before = fs::read(&copy).unwrap();
    assert_eq!(options(Kind::Bloom).apply(&delta, &copy).unwrap().pages, 0);
    assert!(before == fs::read(&copy).unwrap());
}

#[test]
fn one_delta_serves_all_copies_of_a_moment() {
    let options = options(Kind::Scalable);
    let (_folder, path, store) = store(&options, 0..3000);
    let copies = ["-a", "-b", "-c"].map(|name| beside(&path, name));
    store.snapshot(&copies[0]).unwrap();
    fs::copy(&copies[0], &copies[1]).unwrap();
    fs::copy(&copies[0], &copies[2]).unwrap();
    // What lies behind the layers, as an interrupted checkpoint leaves it, is not taken into a new one.
    let file = fs::OpenOptions::new().write(true).open(&copies[2]).unwrap();
    let length = file.metadata().unwrap().len();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 100_000], length).unwrap();
    insert(&store, 3000..20_000);
    let delta = beside(&path, "-delta");
    store.snapshot_since(&delta, &copies[0]).unwrap();
    for copy in &copies {
        options.apply(&delta, copy).unwrap();
        assert_same(copy, &copies[0]);
    }
}

#[test]
fn a_repaired_page_is_in_the_delta_though_its_generation_is_an_old_one() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = store(&options, 0..50_000);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 100], 131_072 + 4096 * 5 + 99).unwrap();
    let delta = beside(&path, "-delta");
    store.repair(everseen::OnDamage::Seen).unwrap();
    assert_eq!(store.snapshot_since(&delta, &copy).unwrap().pages, 1);
    options.apply(&delta, &copy).unwrap();
    let whole = beside(&path, "-whole");
    store.snapshot(&whole).unwrap();
    assert_same(&copy, &whole);
}

#[test]
fn making_and_applying_can_be_given_up_and_leave_nothing() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = store(&options, 0..1000);
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    insert(&store, 1000..2000);
    let delta = beside(&path, "-delta");
    let before = names(&path).len();
    let stop = |_| ControlFlow::Break(());
    let given_up = store.snapshot_since_watched(&delta, &copy, stop);
    assert!(matches!(given_up, Err(Error::Cancelled)), "{given_up:?}");
    assert_eq!(names(&path).len(), before);
    store.snapshot_since(&delta, &copy).unwrap();
    let bytes = fs::read(&copy).unwrap();
    let given_up = options.apply_watched(&delta, &copy, stop);
    assert!(matches!(given_up, Err(Error::Cancelled)), "{given_up:?}");
    assert!(bytes == fs::read(&copy).unwrap());
    assert!(store.contains(key(7)).unwrap());
}
