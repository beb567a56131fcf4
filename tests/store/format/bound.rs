//! Stores with `bound_pages` and without: golden ones, what becomes of those, and their part of the dump.

use std::fs;
use std::path::Path;

use super::bytes::page_crc;
use super::doc::Layout;
use super::golden::{golden, key, options};
use super::golden_dump::dump;
use super::golden_fingerprints::{self, some_fields};
use super::reader;
use super::store_file::newest_superblock;

pub(crate) const BLOOM: &str = "bound.ever";
pub(crate) const COUNTING: &str = "bound-counting.ever";
pub(crate) const FINGERPRINT: &str = "bound-fingerprint.ever";

/// Bit 2 of `incompatible`.
const BOUND_PAGES: u64 = 4;

fn is_bound(path: &Path) -> bool {
    let file = fs::read(path).unwrap();
    Layout::of("Header").number(&file, "incompatible") & BOUND_PAGES != 0
}

/// A store stays what it was made as, and its pages with it. One that is made of it is bound.
#[test]
fn stores_of_earlier_builds_stay_as_they_were_made_and_unions_of_them_are_bound() {
    for (name, bound) in [
        ("bloom.ever", false),
        ("scalable.ever", false),
        ("counting.ever", false),
        (golden_fingerprints::NAME, false),
        (BLOOM, true),
        (COUNTING, true),
        (FINGERPRINT, true),
    ] {
        let (work, path) = golden(name);
        assert_eq!(is_bound(&path), bound, "{name}");
        let store = options().open(&path).unwrap();
        let is_full = store.stats().unwrap().capacity == Some(store.stats().unwrap().keys);
        if !is_full {
            let new: Vec<_> = (20_000..20_050).map(key).collect();
            store.insert_batch(&new).unwrap();
            assert!(
                store
                    .contains_batch(&new)
                    .unwrap()
                    .iter()
                    .all(|found| *found)
            );
        }
        store.close().unwrap();
        assert_eq!(is_bound(&path), bound, "{name}");
        let united = work.path().join("united");
        let copied = work.path().join("copied");
        let store = options().open(&path).unwrap();
        assert!(store.verify().unwrap().is_ok(), "{name}");
        store.snapshot(&copied).unwrap();
        store.close().unwrap();
        assert_eq!(is_bound(&copied), bound, "{name}");
        let hashes: Vec<u64> = (0..100).collect();
        let answers = reader::answers(&path, &hashes, false);
        assert_eq!(reader::answers(&copied, &hashes, false), answers, "{name}");
        if !name.contains("counting") {
            options().merge().union(&united, &[&path]).unwrap();
            assert!(is_bound(&united), "{name}");
            let store = options().open_read_only(&united).unwrap();
            assert!(store.verify().unwrap().is_ok(), "{name}");
            assert_eq!(reader::answers(&united, &hashes, false), answers, "{name}");
        }
    }
}

/// The part of the dump that differs from that of stores whose pages are not bound.
pub(crate) fn dump_stores(out: &mut String, folder: &Path) {
    for name in [BLOOM, COUNTING, FINGERPRINT] {
        let file = fs::read(folder.join(name)).unwrap();
        *out += &format!("\n{name}: of its header\n");
        some_fields(out, &file, 0, "Header", &["incompatible", "store_id"]);
        let (superblock, _) = newest_superblock(&file);
        let number = |base: usize, section, name| Layout::of(section).number(&file[base..], name);
        let entry = superblock + Layout::of("Superblocks").end();
        let page = match name {
            FINGERPRINT => {
                let place = number(entry, "Directory entry", "place_a") as usize * 4096;
                *out += "one copy of its directory\n";
                some_fields(out, &file, place, "Pages", &["crc"]);
                number(place + 16, "Segment entry", "first_page")
            }
            _ => number(entry, "Layer entry", "first_page"),
        };
        *out += "its first page\n";
        let at = page as usize * 4096;
        assert_eq!(
            number(at, "Pages", "crc"),
            page_crc(&file, page, &file[at..at + 4096]).into()
        );
        some_fields(out, &file, at, "Pages", &["crc"]);
        if name == COUNTING {
            *out += "an image in its journal begins\n";
            dump(out, &file[196_608..][..16], 196_608, "as the page does");
        }
    }
}
