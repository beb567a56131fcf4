//! Stores to merge, and the pages of their files.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Key, Merge, Store};
use tempfile::TempDir;

use crate::support::files::small;

/// Where pages begin, and bytes of a page and of its header (FORMAT.md, "The whole file" and "Pages").
const PAGES: usize = 131_072;
const PAGE: usize = 4096;
const HEADER: usize = 16;

/// A folder with stores in it.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a store with these keys and closes it.
    pub fn make(&self, name: &str, options: &Options, keys: &[impl Key]) -> PathBuf {
        let path = self.path(name);
        let store = options.create(&path).unwrap();
        store.insert_batch(keys).unwrap();
        store.close().unwrap();
        path
    }

    /// Makes a store like another, with so many times its pages and these keys.
    pub fn like(&self, name: &str, other: &Path, times: u64, keys: &[Vec<u8>]) -> PathBuf {
        let options = small().like(other).times(times);
        self.make(name, &options, keys)
    }

    /// Names in the folder that begin so, sorted.
    pub fn names(&self, start: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(start))
            .collect();
        names.sort();
        names
    }
}

/// How tests merge: with little memory, and checkpoints on the thread that asks for them.
pub fn merge<'a>() -> Merge<'a> {
    small().merge()
}

/// Occupancy and payload of each page of a file, from its first page on.
pub fn pages_of(path: &Path) -> Vec<(u32, Vec<u8>)> {
    let file = fs::read(path).unwrap();
    file[PAGES..]
        .chunks(PAGE)
        .map(|page| {
            let occupancy = u32::from_le_bytes(page[4..8].try_into().unwrap());
            (occupancy, page[HEADER..].to_vec())
        })
        .collect()
}

/// Every page must have the same bits, and say that it has so many.
#[track_caller]
pub fn assert_same_pages(one: &Path, other: &Path) {
    let (one, other) = (pages_of(one), pages_of(other));
    assert_eq!(one.len(), other.len(), "numbers of pages");
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one.0, other.0, "occupancy of page {number}");
        assert!(one.1 == other.1, "bits of page {number}");
    }
}

/// All keys must be there, and every page whole.
#[track_caller]
pub fn assert_holds(path: &Path, keys: &[Vec<u8>]) {
    let store = Store::open(path).unwrap();
    let found = store.contains_batch(keys).unwrap();
    assert!(found.iter().all(|found| *found), "a false negative");
    let report = store.verify().unwrap();
    assert!(report.is_ok(), "{report:?}");
    store.close().unwrap();
}

/// The numbers of absent keys out of `count` that the store takes for present.
pub fn false_positives(path: &Path, count: u64) -> u64 {
    let store = Store::open(path).unwrap();
    let absent: Vec<_> = (0..count)
        .map(|number| format!("absent {number}"))
        .collect();
    let found = store.contains_batch(&absent).unwrap();
    found.iter().filter(|found| **found).count() as u64
}

/// `hits` of `count` at a rate of `rate` must be within four standard deviations, and may be luck one time in 16,000.
#[track_caller]
pub fn assert_rate(hits: u64, count: u64, rate: f64) {
    let expected = count as f64 * rate;
    let deviation = (hits as f64 - expected) / expected.sqrt();
    assert!(
        deviation.abs() <= 4.0,
        "{hits} of {count}, expected {expected:.1}: {deviation:+.2} standard deviations"
    );
}
