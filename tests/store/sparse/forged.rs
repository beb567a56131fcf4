//! Small files that say they are large, with right checksums: nobody goes through what is not there.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, LogError, OnDamage};

use crate::support::counted::{Counted, Counts};
use crate::support::files::{held, image, key, keys, log_of, place, small};
use crate::support::forge::{self, SUPERBLOCKS};
use crate::support::log;

/// More than anything here needs to read or write, and less than a thousandth of what is said to be there.
const BOUND: u64 = 8 << 20;

/// Options whose reading and writing is counted.
fn counted() -> (Options, Arc<Counts>) {
    let storage = Counted::new();
    let counts = Arc::clone(&storage.counts);
    (small().storage(storage), counts)
}

#[track_caller]
fn assert_few(counts: &Counts, what: &str) {
    let (read, written) = counts.take();
    assert!(read < BOUND, "{what}: {read} bytes read");
    assert!(written < BOUND, "{what}: {written} bytes written");
}

fn lengthen(path: &Path, length: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

/// Changes a field of each superblock of a file that is too long to be read.
fn forge_superblocks(path: &Path, offset: usize, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut front = vec![0; 131_072];
    file.read_exact_at(&mut front, 0).unwrap();
    let (_folder, other) = place();
    std::fs::write(&other, &front).unwrap();
    for slot in [0, 1] {
        if forge::is_written(&front, slot) {
            forge::superblock(&other, slot, offset, bytes);
        }
    }
    file.write_all_at(&std::fs::read(&other).unwrap(), 0)
        .unwrap();
}

/// 2^34 exemptions, of which there are three.
#[test]
fn a_section_is_read_up_to_the_first_hash_that_does_not_rise() {
    let (_folder, path) = place();
    let store = small().capacity(10_000).fpr(0.3).create(&path).unwrap();
    store.insert_batch(&keys(0..10_000)).unwrap();
    store.checkpoint().unwrap();
    let seen = |number: &u64| store.contains(key(*number)).unwrap();
    let wrong: Vec<u64> = (10_000..20_000).filter(seen).take(3).collect();
    let exempt: Vec<_> = wrong.iter().map(|number| key(*number)).collect();
    store.exempt(&exempt).unwrap();
    store.close().unwrap();
    let slot = forge::newest(&path);
    let entry = SUPERBLOCKS[slot] + 320 + 64;
    let first_page = forge::u64_at(&std::fs::read(&path).unwrap(), entry + 8);
    let count = 1_u64 << 34;
    forge::superblock(&path, slot, 320 + 64 + 16, &count.to_le_bytes());
    lengthen(&path, (first_page + count / 512 + 1) * 4096);

    let (options, counts) = counted();
    let store = options.open_read_only(&path).unwrap();
    match store.contains(&exempt[0]) {
        Err(Error::Format { source, .. }) => {
            assert!(matches!(
                source,
                FormatError::SectionDamaged { section: "exempt", hashes, .. } if hashes == count
            ));
        }
        other => panic!("{other:?}"),
    }
    let report = store.verify().unwrap();
    assert_eq!(report.sections.len(), 1);
    drop(store);
    assert_few(&counts, "read");
    let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
    assert_eq!(report.exemptions, count);
    assert_few(&counts, "repair");
    assert!(options.open(&path).unwrap().contains(&exempt[0]).unwrap());
}

/// A section of zeros alone, of which nobody could tell whether its pages are being used for something else.
/// A directory of 2^27 segments, of which there is one.
#[test]
fn a_directory_is_read_up_to_the_first_page_that_is_none() {
    let (_folder, path) = place();
    let store = small().kind(Kind::Fingerprint).create(&path).unwrap();
    store.insert_batch(&keys(0..1000)).unwrap();
    store.close().unwrap();
    let (segments, end_page) = (1_u64 << 27, 1_u64 << 29);
    let fields = [1 << 28, 1 << 27, segments, 1 << 28];
    for (field, value) in (0..).zip(fields) {
        forge_superblocks(&path, 320 + 8 * field, &value.to_le_bytes());
    }
    forge_superblocks(&path, 320 + 40, &end_page.to_le_bytes());
    lengthen(&path, end_page * 4096);

    let (options, counts) = counted();
    for opened in [options.open_read_only(&path), options.open(&path)] {
        let error = opened.unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Format {
                    source: FormatError::SegmentDamaged { .. },
                    ..
                }
            ),
            "{error:?}"
        );
        assert_few(&counts, "opening");
    }
}

#[test]
fn a_section_without_a_stamp_is_damaged() {
    let (_folder, path) = place();
    let store = small().capacity(10_000).fpr(0.3).create(&path).unwrap();
    store.insert_batch(&keys(0..10_000)).unwrap();
    store.checkpoint().unwrap();
    let seen = |number: &u64| store.contains(key(*number)).unwrap();
    let wrong = key((10_000..20_000).find(seen).unwrap());
    store.exempt(&[&wrong]).unwrap();
    store.close().unwrap();
    let slot = forge::newest(&path);
    let file = std::fs::read(&path).unwrap();
    let first_page = forge::u64_at(&file, SUPERBLOCKS[slot] + 320 + 64 + 8) as usize;
    forge::patch(&path, first_page * 4096, &[0; 16]);
    let crc = crc32fast::hash(&[0; 16]);
    forge::superblock(&path, slot, 320 + 64 + 24, &crc.to_le_bytes());
    let store = small().open_read_only(&path).unwrap();
    let expected = FormatError::SectionDamaged {
        section: "exempt",
        hashes: 1,
        expected: crc,
        got: crc,
    };
    assert_eq!(store.verify().unwrap().sections, [expected]);
}

/// A log of 8 GiB, all but the first of it holes.
#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux is asked where holes are")]
fn the_holes_of_a_log_are_not_read_written_or_given_room() {
    let (_folder, path) = place();
    let store = small().capacity(100_000).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&keys(100..200)).unwrap();
    let long = 8 << 30;
    let killed = || {
        let (folder, path) = image(&path);
        lengthen(&log_of(&path, 1), long);
        (folder, path)
    };
    {
        let (_folder, path) = killed();
        let (options, counts) = counted();
        let store = options.open_read_only(&path).unwrap();
        assert_eq!(held(&store, &keys(0..200)), 200);
        drop(store);
        assert_few(&counts, "read-only");
        let store = options.open(&path).unwrap();
        assert_few(&counts, "open");
        store.insert_batch(&keys(200..300)).unwrap();
        store.close().unwrap();
        assert_few(&counts, "close");
    }
    {
        // Through a map, as far as the file reaches.
        let (_folder, path) = killed();
        let store = small().open(&path).unwrap();
        assert!(store.insert(key(300)).unwrap());
        let room = log_of(&path, 1).metadata().unwrap().blocks() * 512;
        assert!(room < long / 32, "{room}");
        assert_eq!(held(&store, &keys(0..200)), 200);
    }
    {
        // A damaged record, and the mark that proves it far behind.
        let (_folder, path) = killed();
        let log = log_of(&path, 1);
        lengthen(&log, 1 << 20);
        let records = log::records(&log);
        let first = records.iter().find(|record| record.kind == log::INSERT);
        let first = first.unwrap();
        let mark = records.iter().find(|record| record.kind == log::COMMIT);
        let mark = mark.unwrap();
        let header = std::fs::read(&log).unwrap();
        let file = File::options().write(true).open(&log).unwrap();
        file.write_all_at(&[0xA5], first.offset as u64 + 30)
            .unwrap();
        file.write_all_at(&vec![0; (1 << 20) - mark.offset], mark.offset as u64)
            .unwrap();
        let at = long - 8192 - 8;
        let mut bytes = header[mark.offset..mark.end].to_vec();
        bytes[32..40].copy_from_slice(&(mark.offset as u64).to_le_bytes());
        let crc = log::record_crc(&header, at as usize, &bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&bytes, at).unwrap();
        file.set_len(long).unwrap();
        let (options, counts) = counted();
        match options.open(&path) {
            Err(Error::Log { source, .. }) => {
                let offset = first.offset as u64;
                assert!(
                    matches!(source, LogError::Damaged { offset: got, .. } if got == offset),
                    "{source}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_few(&counts, "damaged");
        let report = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert_eq!(report.log_bytes, long - first.offset as u64);
        assert_few(&counts, "cut off");
        assert_eq!(held(&options.open(&path).unwrap(), &keys(0..200)), 0);
    }
}

/// Hundreds of gigabytes, of which a hundred pages were ever written.
#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux is asked where holes are")]
fn the_holes_of_layers_are_counted_and_not_read() {
    for kind in [Kind::Bloom, Kind::Counting] {
        let (options, counts) = counted();
        let (_folder, path) = place();
        let store = options.clone().kind(kind).capacity(100_000_000_000);
        let store = store.fpr(0.01).create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.close().unwrap();
        assert_few(&counts, "made");
        let length = path.metadata().unwrap().len();
        assert!(length > 100 << 30, "{length}");

        let store = options.open_read_only(&path).unwrap();
        assert_eq!(held(&store, &keys(0..200)), 100);
        let report = store.verify().unwrap();
        drop(store);
        assert!(report.is_ok());
        assert!(report.pages > length / 4096 - 10_000);
        assert_eq!(report.blank, report.pages - 100);
        assert!((report.keys_estimate() - 100.0).abs() < 1.0);
        assert_few(&counts, "verify");

        // Each page was written, as it says.
        forge_superblocks(&path, 320 + 44, &1_u32.to_le_bytes());
        let store = options.open_read_only(&path).unwrap();
        let damaged = store.verify().unwrap();
        drop(store);
        assert_eq!((damaged.pages, damaged.blank), (report.pages, 0));
        assert_eq!(damaged.damaged.len(), 1 << 20);
        assert_eq!(damaged.unlisted, report.blank - (1 << 20));
        assert_few(&counts, "verify again");
        let repaired = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert_eq!((repaired.blank, repaired.unlisted), (report.blank, 0));
        assert!(repaired.pages.is_empty() && !repaired.is_whole());
        assert_few(&counts, "repair");
        let store = options.open_read_only(&path).unwrap();
        assert!(store.verify().unwrap().is_ok());
        assert_eq!(held(&store, &keys(0..200)), 100);
        drop(store);
        let again = options.repair(&path, OnDamage::NeverSeen).unwrap();
        assert!(again.is_whole());
    }
}
