//! The golden store of fingerprints: how it was made, and its part of the dump.

use everseen::testing::{Appending, Options};
use std::path::Path;

use everseen::Kind;

use super::bound;
use super::doc::Layout;
use super::golden::{golden, key, options};
use super::golden_dump::{dump, dump_fields};
use super::store_file::newest_superblock;

pub(crate) const NAME: &str = "fingerprint.ever";

fn fingerprint_options() -> Options {
    let options = options().kind(Kind::Fingerprint);
    options.capacity(1 << 20).fpr(1e-6)
}

/// Several pages of keys, some of which were removed, in the pages and in the log alone.
pub(crate) fn make(path: &Path) {
    let store = fingerprint_options().create(path).unwrap();
    let keys = |numbers: std::ops::Range<u64>| numbers.map(key).collect::<Vec<_>>();
    store.insert_batch(&keys(0..4800)).unwrap();
    store.commit_with(b"4800 put in").unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&keys(4800..5000)).unwrap();
    let mut removed = Vec::new();
    store.remove_into(&keys(4000..4900), &mut removed).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    store.commit_with(b"900 taken out").unwrap();
    store.close().unwrap();
}

#[test]
fn the_golden_store_of_fingerprints_is_what_was_put_in() {
    for name in [NAME, bound::FINGERPRINT] {
        is_what_was_put_in(name);
    }
}

fn is_what_was_put_in(name: &str) {
    let (_work, path) = golden(name);
    let store = fingerprint_options().open(&path).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.kind, stats.keys), (Kind::Fingerprint, 4100));
    assert_eq!(stats.commits[0].tag, b"900 taken out");
    for number in 0..10_000 {
        let expected = number < 4000 || (4900..5000).contains(&number);
        assert_eq!(store.contains(key(number)).unwrap(), expected, "{number}");
    }
    assert!(store.insert(key(4000)).unwrap());
    assert!(store.remove(key(0)).unwrap());
    store.close().unwrap();
    let store = fingerprint_options().open_read_only(&path).unwrap();
    assert!(store.contains(key(4000)).unwrap() && !store.contains(key(0)).unwrap());
}

/// Some fields of a table.
pub(crate) fn some_fields(
    out: &mut String,
    file: &[u8],
    base: usize,
    section: &str,
    names: &[&str],
) {
    for name in names {
        let (offset, size) = Layout::of(section).place(name);
        dump(out, &file[base + offset..][..size], base + offset, name);
    }
}

pub(crate) fn dump_store(out: &mut String, file: &[u8]) {
    *out += "\nfingerprint.ever: of its header\n";
    let names = ["incompatible", "kind", "probes", "capacity", "fpr", "bits"];
    some_fields(out, file, 0, "Header", &names);
    *out += "its word reused\n";
    dump(out, &file[4096..4104], 4096, "reused");
    let (superblock, _) = newest_superblock(file);
    *out += "of its newest superblock\n";
    let names = ["sequence", "generation", "keys", "layer_count"];
    some_fields(out, file, superblock, "Superblocks", &names);
    *out += "its directory entry\n";
    let entry = superblock + Layout::of("Superblocks").end();
    dump_fields(out, file, entry, "Directory entry");
    let number = |base: usize, section, name| Layout::of(section).number(&file[base..], name);
    let page = |number: u64| number as usize * 4096;
    let directory = page(number(entry, "Directory entry", "place_a"));
    *out += "one copy of its directory\n";
    dump_fields(out, file, directory, "Page of the directory");
    *out += "its only segment\n";
    let segment = directory + 16;
    dump_fields(out, file, segment, "Segment entry");
    let get = |name| number(segment, "Segment entry", name);
    let fences = page(get("first_page") + get("pages"));
    *out += "its fences\n";
    dump_fields(out, file, fences, "Page of fences");
    let count = get("pages") as usize;
    dump(
        out,
        &file[fences + 16..][..8 * count],
        fences + 16,
        "fences",
    );
    let first = page(get("first_page"));
    *out += "its first page\n";
    dump_fields(out, file, first, "Pages of fingerprints");
    dump(
        out,
        &file[first + 28..][..20],
        first + 28,
        "begins, up to the tenth",
    );
}
