//! What is wrong with superblocks. One that is damaged leaves the other; what the other does not
//! know about is told, never lost in silence.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::{FormatError, Kind, LogError, OnDamage, SuperblockFault};
use tempfile::TempDir;

use crate::support::files::{
    format_error, held, image, key, keys, log_error, log_of, names, place, small,
};
use crate::support::forge::{self, SUPERBLOCKS};
use crate::support::share::Share;

/// A closed store: one superblock that expects the log, a newer one that does not.
fn closed() -> (TempDir, PathBuf) {
    let (folder, path) = place();
    let store = small().capacity(1000).fpr(1e-9).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit_with(b"tag").unwrap();
    store.close().unwrap();
    (folder, path)
}

/// Bytes of the superblock that count.
fn used(file: &[u8], slot: usize) -> usize {
    forge::u32_at(file, SUPERBLOCKS[slot] + 12) as usize
}

/// What is wrong with a superblock of which the byte `at` has been changed.
fn fault_at(file: &[u8], slot: usize, at: usize) -> SuperblockFault {
    let bytes = &file[SUPERBLOCKS[slot]..][..57_344];
    let length = forge::u32_at(bytes, 12);
    match at {
        0..8 => SuperblockFault::Magic {
            got: bytes[..8].try_into().unwrap(),
        },
        _ if !(320..=57_344).contains(&length) || !length.is_multiple_of(8) => {
            SuperblockFault::Length { got: length }
        }
        _ => SuperblockFault::Checksum {
            expected: crc32fast::hash(&bytes[12..length as usize]),
            got: forge::u32_at(bytes, 8),
        },
    }
}

#[test]
fn every_flipped_byte_of_the_newest_is_told_by_the_missing_log() {
    let (_folder, path) = closed();
    let good = fs::read(&path).unwrap();
    let slot = forge::newest(&path);
    for at in 0..used(&good, slot) {
        let mut bad = good.clone();
        bad[SUPERBLOCKS[slot] + at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        for outcome in [small().open(&path), small().open_read_only(&path)] {
            let error = log_error(outcome, &log_of(&path, 1));
            assert_eq!(error, LogError::Missing { generation: 1 }, "byte {at}");
        }
    }
    assert_eq!(names(&path), ["store"]);
}

#[test]
fn every_flipped_byte_of_the_older_one_does_no_harm() {
    let (_folder, path) = closed();
    let good = fs::read(&path).unwrap();
    let slot = 1 - forge::newest(&path);
    for at in 0..used(&good, slot) {
        let mut bad = good.clone();
        bad[SUPERBLOCKS[slot] + at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        let store = small().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..100)), 100, "byte {at}");
        assert_eq!(store.last_commit("default").unwrap().unwrap().tag, b"tag");
    }
}

/// With the log still there, the older superblock knows everything.
#[test]
fn every_flipped_byte_of_either_one_of_a_killed_store() {
    let (_folder, path) = place();
    let store = small().capacity(1000).fpr(1e-9).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let (_killed, path) = image(&path);
    let good = fs::read(&path).unwrap();
    let log = fs::read(log_of(&path, 1)).unwrap();
    let mut share = Share::one_in(8);
    for slot in [0, 1] {
        for at in (0..used(&good, slot)).filter(|_| share.takes()) {
            let mut bad = good.clone();
            bad[SUPERBLOCKS[slot] + at] ^= 0x04;
            fs::write(&path, &bad).unwrap();
            fs::write(log_of(&path, 1), &log).unwrap();
            let store = small().open_read_only(&path).unwrap();
            assert_eq!(held(&store, &keys(0..100)), 100, "{slot}: byte {at}");
            drop(store);
            let store = small().open(&path).unwrap();
            assert_eq!(held(&store, &keys(0..100)), 100, "{slot}: byte {at}");
        }
    }
}

/// A new store has one superblock.
#[test]
fn every_flipped_byte_of_the_only_one() {
    let (_folder, path) = place();
    small()
        .capacity(1000)
        .create(&path)
        .unwrap()
        .close()
        .unwrap();
    let good = fs::read(&path).unwrap();
    for at in 0..used(&good, 1) {
        let mut bad = good.clone();
        bad[SUPERBLOCKS[1] + at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        let expected = FormatError::NoSuperblock {
            a: SuperblockFault::Blank,
            b: fault_at(&bad, 1, at),
        };
        for outcome in [small().open(&path), small().open_read_only(&path)] {
            assert_eq!(format_error(outcome, &path), expected, "byte {at}");
        }
    }
}

#[test]
fn a_header_that_was_replaced_is_noticed() {
    let (_folder, path) = closed();
    // Another seed would make every key absent.
    forge::header_alone(&path, 80, &[1; 32]);
    let expected = FormatError::NoSuperblock {
        a: SuperblockFault::ForeignHeader,
        b: SuperblockFault::ForeignHeader,
    };
    assert_eq!(format_error(small().open(&path), &path), expected);
}

/// Opens a store whose only good superblock has had a field changed.
#[track_caller]
fn forged(good: &Path, offset: usize, bytes: &[u8], expected: SuperblockFault) {
    let (_folder, path) = image(good);
    let slot = forge::newest(&path);
    forge::superblock(&path, slot, offset, bytes);
    // The other one is no help.
    forge::patch(&path, SUPERBLOCKS[1 - slot], &[0; 8]);
    let faults = match slot {
        0 => (expected, SuperblockFault::Blank),
        _ => (SuperblockFault::Blank, expected),
    };
    let expected = FormatError::NoSuperblock {
        a: faults.0,
        b: faults.1,
    };
    for outcome in [small().open(&path), small().open_read_only(&path)] {
        assert_eq!(
            format_error(outcome, &path),
            expected,
            "{offset}: {bytes:?}"
        );
    }
}

/// The CRC is right, so a later version has written it. The other superblock, however good, may be of long before.
#[test]
fn an_unknown_flag_is_that_of_a_newer_version_and_no_damage() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        let (_folder, path) = place();
        let store = small().kind(kind).capacity(1000).create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.close().unwrap();
        let good = fs::read(&path).unwrap();
        for (slot, bit) in [(0, 6), (1, 6), (0, 31), (1, 17)] {
            fs::write(&path, &good).unwrap();
            let unknown = 1_u32 << bit;
            let flags = forge::u32_at(&good, SUPERBLOCKS[slot] + 304) | unknown;
            forge::superblock(&path, slot, 304, &flags.to_le_bytes());
            let forged = fs::read(&path).unwrap();
            let repaired = small().repair(&path, OnDamage::NeverSeen);
            let copied = place();
            let refused = [
                small().open(&path),
                small().open_read_only(&path),
                repaired.map(|report| panic!("{report:?}")),
                small()
                    .merge()
                    .union(&copied.1, &[&path])
                    .map(|report| panic!("{report:?}")),
            ];
            for outcome in refused {
                assert_eq!(
                    format_error(outcome, &path),
                    FormatError::SuperblockFlags { unknown },
                    "{kind} {slot} {bit}"
                );
            }
            assert!(fs::read(&path).unwrap() == forged);
        }
    }
}

#[test]
fn fields_out_of_their_range_with_a_right_checksum() {
    let field = |field, expected, got| SuperblockFault::Field {
        field,
        expected,
        got,
    };
    let (_folder, path) = closed();
    let file = fs::read(&path).unwrap();
    let length = used(&file, forge::newest(&path)) as u32;
    for bad in [0, 319, 321, 57_352, u32::MAX] {
        let got = bad;
        forged(
            &path,
            12,
            &bad.to_le_bytes(),
            SuperblockFault::Length { got },
        );
    }
    let shorter = length - 8;
    let cut = SuperblockFault::Length { got: shorter };
    forged(&path, 12, &shorter.to_le_bytes(), cut);
    let end = field("length", "the end of the last writer", u64::MAX);
    forged(&path, 312, &[0; 4], end);
    forged(
        &path,
        312,
        &[0xFF; 4],
        SuperblockFault::Length { got: length },
    );
    let max = u64::from(u32::MAX);
    let flags = "bits 0 and 2, and in a store of fingerprints 1 and 3 to 5";
    for wrong in [2, 3, 6] {
        forged(&path, 304, &[wrong], field("flags", flags, wrong.into()));
    }
    forged(&path, 316, &[9], field("section_count", "at most 8", 9));
    forged(&path, 24, &[0; 8], field("generation", "1 to 2^60", 0));
    forged(
        &path,
        308,
        &[0xFF; 4],
        field("layer_count", "at most 64", max),
    );
    forged(
        &path,
        288,
        &[7; 8],
        field("keys", "the sum over the layers", 0x0707_0707_0707_0707),
    );
    let layer = 320;
    let first = "a multiple of 16 behind the last";
    for bad in [0, 16, 33, 1 << 50, u64::MAX] {
        forged(
            &path,
            layer,
            &bad.to_le_bytes(),
            field("first_page", first, bad),
        );
    }
    let pages = "at least 1, below 2^50";
    for bad in [0, 1 << 50, u64::MAX] {
        forged(
            &path,
            layer + 8,
            &bad.to_le_bytes(),
            field("pages", pages, bad),
        );
    }
    forged(
        &path,
        layer + 16,
        &[0; 8],
        field("capacity", "at least 1", 0),
    );
    for bad in [0.0, 1.0, -1.0, f64::NAN] {
        let got = bad.to_bits();
        let expected = field("fpr", "above 0 and below 1", got);
        forged(&path, layer + 32, &bad.to_le_bytes(), expected);
    }
    forged(&path, layer + 40, &[0], field("probes", "1 to 64", 0));
    forged(&path, layer + 40, &[65], field("probes", "1 to 64", 65));
    forged(
        &path,
        layer + 44,
        &[2],
        field("layer_flags", "bit 0 alone", 2),
    );
    let expected = "that of a layer of so many probes";
    forged(&path, layer + 48, &[9], field("run_length", expected, 9));
    let of_counters = field("run_length", "that of the kind", 1);
    forged(&path, layer + 48, &[1], of_counters);
    forged(&path, layer + 52, &[3], field("layer_reserved", "0", 3));
    let same = "one layer, as the header says";
    forged(&path, layer + 8, &[9, 0], field("layers", same, 1));
    forged(&path, layer + 40, &[33], field("layers", same, 1));
    forged(&path, layer + 16, &[9], field("layers", same, 1));
    let writer = layer + 64;
    forged(
        &path,
        writer,
        &[9],
        field("commit_sequence", "at least every writer's", 1),
    );
    forged(
        &path,
        writer + 8,
        &[0, 0],
        field("writer_name", "1 to 255 bytes of UTF-8", 0),
    );
    forged(
        &path,
        writer + 16,
        &[0xFF],
        field("writer_name", "1 to 255 bytes of UTF-8", 7),
    );
}

#[test]
fn a_writer_s_name_twice_and_a_tag_too_long() {
    let (_folder, path) = place();
    for writer in ["a", "b"] {
        let options = small().capacity(1000).writer(writer);
        let store = options.open_or_create(&path).unwrap();
        store.commit_with(&[1; 4096]).unwrap();
        store.close().unwrap();
    }
    let field = |field, expected, got| SuperblockFault::Field {
        field,
        expected,
        got,
    };
    let second = 320 + 64 + (16 + 1 + 4096_usize).next_multiple_of(8);
    forged(
        &path,
        second + 16,
        b"a",
        field("writer_name", "each name once", 2),
    );
    let long = 4097_u16.to_le_bytes();
    forged(
        &path,
        second + 10,
        &long,
        field("tag_length", "at most 4096", 4097),
    );
}

/// Numbers at the end of their range, every checksum right. Whatever comes of it, it is an answer
/// or an error.
#[test]
fn counters_at_the_end_of_their_range_do_not_overflow() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        let (_folder, good) = place();
        let options = small().kind(kind).capacity(1000).fpr(1e-9);
        let store = options.create(&good).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.commit_with(b"tag").unwrap();
        store.close().unwrap();
        // Sequence, generation, commit sequence; keys and capacity of the layer.
        for offset in [16, 24, 296, 320 + 16, 320 + 24] {
            for value in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
                let (_folder, path) = image(&good);
                let slot = forge::newest(&path);
                forge::superblock(&path, slot, offset, &value.to_le_bytes());
                if offset == 320 + 24 {
                    forge::superblock(&path, slot, 288, &value.to_le_bytes());
                }
                let Ok(store) = options.open(&path) else {
                    continue;
                };
                let acknowledged = store.insert(key(100)).is_ok() && store.commit().is_ok();
                let stats = store.stats().unwrap();
                assert!(stats.keys > 0, "{offset} {value}");
                let closed = store.close();
                drop(store);
                if acknowledged && closed.is_ok() {
                    let store = options.open(&path).unwrap();
                    assert!(store.contains(key(100)).unwrap(), "{offset} {value}");
                }
            }
        }
    }
}
