//! Sections that are not what was written, and entries out of range.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, OnDamage, SuperblockFault};
use tempfile::TempDir;

use super::setting::{assert_seen, false_positives, filled, hashes, options};
use crate::support::files::{beside, image, small};
use crate::support::forge::{self, SUPERBLOCKS, u64_at};

/// The entry of the section in a superblock of one layer.
const ENTRY: usize = 320 + 64;

/// A closed store with 900 exemptions, and these.
fn closed() -> (TempDir, PathBuf, Vec<u64>) {
    let (folder, path, store) = filled(&options(Kind::Bloom), 20_000);
    let wrong = false_positives(&store, 900);
    store.exempt(&wrong).unwrap();
    store.close().unwrap();
    (folder, path, wrong)
}

/// Where the section begins in the file.
fn section(path: &Path) -> usize {
    let file = fs::read(path).unwrap();
    let entry = SUPERBLOCKS[forge::newest(path)] + ENTRY;
    u64_at(&file, entry + 8) as usize * 4096
}

#[track_caller]
fn refused(good: &Path, offset: usize, bytes: &[u8]) -> (&'static str, u64) {
    let (_folder, path) = image(good);
    let slot = forge::newest(&path);
    forge::superblock(&path, slot, offset, bytes);
    forge::patch(&path, SUPERBLOCKS[1 - slot], &[0; 8]);
    for outcome in [small().open(&path), small().open_read_only(&path)] {
        let Err(Error::Format {
            source: FormatError::NoSuperblock { a, b },
            ..
        }) = outcome
        else {
            panic!("{outcome:?}");
        };
        for fault in [a, b] {
            match fault {
                SuperblockFault::Blank => {}
                SuperblockFault::Field { field, got, .. } => return (field, got),
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("no fault");
}

#[test]
fn each_field_of_an_entry_out_of_range_has_its_fault() {
    let (_folder, path, _) = closed();
    let number = |value: u64| value.to_le_bytes();
    let field = |at: usize, bytes: &[u8]| refused(&path, ENTRY + at, bytes);
    assert_eq!(refused(&path, 316, &[9]), ("section_count", 9));
    assert_eq!(field(0, &[0]), ("section_kind", 0));
    assert_eq!(field(0, &[99]), ("section_kind", 99));
    assert_eq!(field(4, &[1]), ("rarity", 1));
    assert_eq!(field(8, &number(16)), ("section_page", 16));
    assert_eq!(field(8, &number(0)), ("section_page", 0));
    let page = section(&path) as u64 / 4096;
    assert_eq!(field(8, &number(page + 1)), ("section_page", page + 1));
    assert_eq!(field(8, &number(1 << 50)), ("section_page", 1 << 50));
    // Over the layer.
    assert_eq!(field(8, &number(32)), ("section_page", 32));
    assert_eq!(field(16, &number(0)), ("hashes", 0));
    assert_eq!(field(16, &number(1 << 59)), ("hashes", 1 << 59));
    assert_eq!(field(16, &number(u64::MAX)), ("hashes", u64::MAX));
    assert_eq!(field(28, &[1]), ("section_reserved", 1));
}

#[test]
fn a_file_that_ends_before_its_section_is_cut_short() {
    let (_folder, path, _) = closed();
    let file = fs::read(&path).unwrap();
    fs::write(&path, &file[..file.len() - 4096]).unwrap();
    let outcome = small().open(&path);
    let expected = FormatError::Truncated {
        expected: file.len() as u64,
        got: file.len() as u64 - 4096,
    };
    match outcome {
        Err(Error::Format { source, .. }) => assert_eq!(source, expected),
        other => panic!("{other:?}"),
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Format {
            source: FormatError::SectionDamaged {
                section: "exempt",
                hashes: 900,
                ..
            },
            ..
        }
    )
}

/// Any byte that counts; what fills the last page does not.
#[test]
fn every_flipped_byte_is_noticed() {
    let (_folder, path, wrong) = closed();
    let begins = section(&path);
    let good = fs::read(&path).unwrap();
    for at in (0..8 + 900 * 8).step_by(37).chain([7, 8, 7207]) {
        let mut bad = good.clone();
        bad[begins + at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        let store = Options::new().open_read_only(&path).unwrap();
        let report = store.verify().unwrap();
        assert!(!report.is_ok() && report.sections.len() == 1, "byte {at}");
        let error = store.contains(wrong[0]).unwrap_err();
        assert!(is_damage(&error), "byte {at}: {error:?}");
    }
    let mut padded = good.clone();
    padded[begins + 8192 - 1] ^= 1;
    fs::write(&path, &padded).unwrap();
    let store = Options::new().open_read_only(&path).unwrap();
    assert!(store.verify().unwrap().is_ok());
}

/// Two hashes that have changed places, under a right checksum.
#[test]
fn hashes_that_do_not_rise_are_damage() {
    let (_folder, path, wrong) = closed();
    let begins = section(&path);
    let mut file = fs::read(&path).unwrap();
    let (a, b) = (begins + 8 + 80, begins + 8 + 160);
    for byte in 0..8 {
        file.swap(a + byte, b + byte);
    }
    let crc = crc32fast::hash(&file[begins..begins + 8 + 7200]);
    fs::write(&path, &file).unwrap();
    for slot in [0, 1] {
        if u64_at(&file, SUPERBLOCKS[slot] + ENTRY + 8) as usize * 4096 == begins {
            forge::superblock(&path, slot, ENTRY + 24, &crc.to_le_bytes());
        }
    }
    let store = small().open(&path).unwrap();
    assert!(is_damage(&store.contains(wrong[0]).unwrap_err()));
    assert_eq!(store.verify().unwrap().sections.len(), 1);
}

#[test]
fn what_damage_means_is_the_handles_own_choice() {
    for on in [OnDamage::Error, OnDamage::NeverSeen, OnDamage::Seen] {
        let (_folder, path, wrong) = closed();
        let begins = section(&path);
        forge::patch(&path, begins + 100, &[0xFF; 8]);
        let store = options(Kind::Bloom).on_damage(on).open(&path).unwrap();
        // What the pages don't have needs no exemption, and what a buffer has is there.
        let absent = super::setting::ABSENT * 8;
        let absent: Vec<_> = hashes(absent..absent + 300)
            .into_iter()
            .filter(|key| matches!(store.contains(*key), Ok(false)))
            .collect();
        assert!(absent.len() > 100);
        assert!(store.insert(absent[0]).unwrap());
        assert!(store.contains(absent[0]).unwrap());
        if on == OnDamage::Error {
            for error in [
                store.contains(wrong[0]).unwrap_err(),
                store.contains_batch(&wrong).unwrap_err(),
                store.insert(wrong[0]).unwrap_err(),
                *store.insert_batch(&wrong).unwrap_err().error,
                store.exempt(&wrong).unwrap_err(),
                store.exemptions().find_map(Result::err).unwrap(),
                store.checkpoint().unwrap_err(),
                store.snapshot(beside(&path, "-copy")).unwrap_err(),
            ] {
                assert!(is_damage(&error), "{error:?}");
            }
            // Nothing acknowledged is lost.
            assert!(store.close().is_err());
            let store = options(Kind::Bloom).on_damage(OnDamage::Seen).open(&path);
            assert!(store.unwrap().contains(absent[0]).unwrap());
            continue;
        }
        // The exemptions are given up: the pages have the last word.
        assert_seen(&store, &wrong, true);
        store.checkpoint().unwrap();
        assert_seen(&store, &wrong, true);
        assert_eq!(store.stats().unwrap().exempt, 0);
        assert!(store.verify().unwrap().is_ok());
        store.exempt(&wrong).unwrap();
        assert_seen(&store, &wrong, false);
    }
}

#[test]
fn a_repair_gives_a_damaged_section_up_and_says_so() {
    let (_folder, path, wrong) = closed();
    let begins = section(&path);
    forge::patch(&path, begins, &[1]);
    let report = Options::new().repair(&path, OnDamage::NeverSeen).unwrap();
    assert_eq!(report.exemptions, 900);
    assert!(!report.is_whole() && report.pages.is_empty() && !report.superblock);
    let store = small().open(&path).unwrap();
    assert!(store.verify().unwrap().is_ok());
    assert_eq!(store.stats().unwrap().exempt, 0);
    assert_seen(&store, &wrong, true);
    assert_seen(&store, &hashes(0..20_000), true);
    store.close().unwrap();
    let again = Options::new().repair(&path, OnDamage::NeverSeen).unwrap();
    assert!(again.is_whole());
}

/// The older superblock's exemptions are older than the pages: some of them were inserted since.
#[test]
fn a_repair_that_goes_back_gives_exemptions_up() {
    let (_folder, path, wrong) = closed();
    let store = options(Kind::Bloom).open(&path).unwrap();
    store.insert_batch(&wrong[..50]).unwrap();
    store.close().unwrap();
    let newest = forge::newest(&path);
    forge::patch(&path, SUPERBLOCKS[newest] + 20, &[0x55; 8]);
    let report = Options::new().repair(&path, OnDamage::NeverSeen).unwrap();
    assert!(report.rolled_back && report.exemptions > 0, "{report:?}");
    let store = small().open(&path).unwrap();
    assert_seen(&store, &wrong, true);
    assert_eq!(store.stats().unwrap().exempt, 0);
}
