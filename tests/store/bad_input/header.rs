//! What is wrong with the first bytes of a store file.

use std::fs::{self, OpenOptions};

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, Store};

use crate::support::files::{format_error, held, keys, names, place, small};
use crate::support::forge;
use crate::support::share::Share;

const PAGES: u64 = 131_072;

type Opens = [fn(&Options, &std::path::Path) -> everseen::Result<Store>; 2];

/// For writing and for reading.
const OPENS: Opens = [
    |options, path| options.open(path),
    |options, path| options.open_read_only(path),
];

/// A closed store of one layer.
fn closed() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = place();
    let store = small().capacity(1000).fpr(1e-9).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    (folder, path)
}

#[test]
fn what_does_not_begin_like_a_store() {
    let (_folder, path) = place();
    for text in ["#!/bin/sh\n", "EVERSEEM", "everseen is not a store"] {
        fs::write(&path, text).unwrap();
        let got = text.as_bytes()[..8].try_into().unwrap();
        for open in OPENS {
            let error = format_error(open(&small(), &path), &path);
            assert_eq!(error, FormatError::NotAStore { got });
        }
        assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
    }
    assert_eq!(names(&path), ["store"]);
}

#[test]
fn an_empty_file() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    for open in OPENS {
        match open(&small(), &path) {
            Err(Error::EmptyFile { path: got }) => assert_eq!(got, path),
            other => panic!("{other:?}"),
        }
    }
}

/// Every length up to where pages begin (unless `EVERSEEN_ALL=1` is set, one in eight), then page borders and the bytes
/// beside them.
#[test]
fn a_file_cut_short_at_every_length() {
    let (_folder, path) = closed();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let end = file.metadata().unwrap().len();
    assert!(end > PAGES);
    let borders = (PAGES..end)
        .filter(|length| matches!(length % 4096, 0 | 1 | 4095))
        .rev();
    let mut share = Share::one_in(8);
    let short = (0..PAGES).rev().filter(|_| share.takes());
    for length in borders.chain(short) {
        file.set_len(length).unwrap();
        let expected = FormatError::Truncated {
            expected: if length < PAGES { PAGES } else { end },
            got: length,
        };
        for open in OPENS {
            let outcome = open(&small(), &path);
            if matches!(length, 0 | 8) {
                // So a creator begins.
                let is_it = matches!(&outcome, Err(Error::EmptyFile { path: got }) if *got == path);
                assert!(is_it, "{length}: {outcome:?}");
                continue;
            }
            assert_eq!(format_error(outcome, &path), expected);
        }
    }
    assert_eq!(names(&path), ["store"]);
}

#[test]
fn every_flipped_byte_of_the_header_s_page() {
    let (_folder, path) = closed();
    let good = fs::read(&path).unwrap();
    let mut share = Share::one_in(8);
    for at in (0..4096).filter(|_| share.takes()) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        let expected = match at {
            0..8 => FormatError::NotAStore {
                got: bad[..8].try_into().unwrap(),
            },
            8..256 => FormatError::HeaderChecksum {
                expected: crc32fast::hash(&bad[..252]),
                got: forge::u32_at(&bad, 252),
            },
            _ => FormatError::HeaderField {
                field: "padding",
                expected: "zeros up to byte 4096",
                got: "something else".to_owned(),
            },
        };
        for open in OPENS {
            assert_eq!(format_error(open(&small(), &path), &path), expected);
        }
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(held(&small().open(&path).unwrap(), &keys(0..100)), 100);
}

/// Changes fields of a good store's header, in its copies too, and compares the error.
#[test]
fn fields_out_of_their_range_with_a_right_checksum() {
    let field = |field, expected, got: &str| FormatError::HeaderField {
        field,
        expected,
        got: got.to_owned(),
    };
    let rate = "above 0 and below 1";
    let bits = "a multiple of 32640, not 0";
    let kind = "1 to 4";
    let zeros = "zeros";
    let table: Vec<(usize, Vec<u8>, FormatError)> = vec![
        (
            8,
            vec![2, 0, 0, 0],
            FormatError::UnsupportedVersion {
                expected: 1,
                got: 2,
            },
        ),
        (
            8,
            vec![0xFF; 4],
            FormatError::UnsupportedVersion {
                expected: 1,
                got: u32::MAX,
            },
        ),
        (
            32,
            vec![0, 0, 0, 0, 0, 0, 0, 0x80],
            FormatError::IncompatibleFeatures { unknown: 1 << 63 },
        ),
        (
            12,
            vec![0xFF; 4],
            field("header_length", "256", "4294967295"),
        ),
        (40, vec![0, 32, 0, 0], field("page_size", "4096", "8192")),
        (40, vec![0xFF; 4], field("page_size", "4096", "4294967295")),
        (44, vec![5, 0], field("kind", kind, "5")),
        (44, vec![0xFF; 2], field("kind", kind, "65535")),
        (46, vec![4, 0], field("hash", "1, 2 or 3", "4")),
        (48, vec![2, 0, 0, 0], field("flags", "bit 0 alone", "2")),
        (52, vec![0; 4], field("probes", "1 to 64", "0")),
        (52, vec![65, 0, 0, 0], field("probes", "1 to 64", "65")),
        (52, vec![0xFF; 4], field("probes", "1 to 64", "4294967295")),
        (56, vec![0; 8], field("capacity", "at least 1", "0")),
        (64, 0_f64.to_le_bytes().to_vec(), field("fpr", rate, "0")),
        (64, 1_f64.to_le_bytes().to_vec(), field("fpr", rate, "1")),
        (
            64,
            (-0.5_f64).to_le_bytes().to_vec(),
            field("fpr", rate, "-0.5"),
        ),
        (
            64,
            f64::NAN.to_le_bytes().to_vec(),
            field("fpr", rate, "NaN"),
        ),
        (
            64,
            f64::INFINITY.to_le_bytes().to_vec(),
            field("fpr", rate, "inf"),
        ),
        (72, vec![0; 8], field("bits", bits, "0")),
        (
            72,
            vec![0xFF; 8],
            field("bits", bits, "18446744073709551615"),
        ),
        (
            136,
            vec![2, 0, 0, 0],
            field("growth", "0 in a fixed store", "2"),
        ),
        (140, vec![1], field("reserved", zeros, "something else")),
        (251, vec![1], field("reserved", zeros, "something else")),
    ];
    let (_folder, path) = closed();
    let good = fs::read(&path).unwrap();
    for (offset, bytes, expected) in table {
        fs::write(&path, &good).unwrap();
        forge::header(&path, offset, &bytes);
        for open in OPENS {
            let error = format_error(open(&small(), &path), &path);
            assert_eq!(error, expected, "{offset}: {bytes:?}");
        }
    }
}

#[test]
fn fields_of_a_growing_store_out_of_their_range() {
    let (_folder, path) = place();
    drop(small().kind(Kind::Scalable).create(&path).unwrap());
    let good = fs::read(&path).unwrap();
    let growth = "2 to 16, and tightening in (0, 1)";
    for (offset, bytes, field, expected, got) in [
        (52, vec![7], "probes", "0 in a store that grows", "7"),
        (72, vec![1], "bits", "0 in a store that grows", "1"),
        (136, vec![1], "growth", growth, "1 and 0.85"),
        (136, vec![17], "growth", growth, "17 and 0.85"),
        (
            144,
            f64::NAN.to_le_bytes().to_vec(),
            "growth",
            growth,
            "2 and NaN",
        ),
        (
            144,
            1_f64.to_le_bytes().to_vec(),
            "growth",
            growth,
            "2 and 1",
        ),
        (56, vec![0xFF; 8], "growth", growth, "2 and 0.85"),
    ] {
        fs::write(&path, &good).unwrap();
        forge::header(&path, offset, &bytes);
        for open in OPENS {
            let error = format_error(open(&small(), &path), &path);
            let got = got.to_owned();
            let expected = FormatError::HeaderField {
                field,
                expected,
                got,
            };
            assert_eq!(error, expected, "{offset}: {bytes:?}");
        }
    }
}

#[test]
fn a_feature_that_allows_reading_alone() {
    let (_folder, path) = closed();
    forge::header(&path, 24, &6_u64.to_le_bytes());
    let before = fs::read(&path).unwrap();
    let error = format_error(small().open(&path), &path);
    assert_eq!(error, FormatError::ReadOnlyFeatures { unknown: 6 });
    let store = small().open_read_only(&path).unwrap();
    assert_eq!(held(&store, &keys(0..100)), 100);
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_feature_that_may_be_ignored() {
    let (_folder, path) = closed();
    forge::header(&path, 16, &6_u64.to_le_bytes());
    let store = small().open(&path).unwrap();
    store.insert_batch(&keys(100..200)).unwrap();
    store.close().unwrap();
    assert_eq!(held(&small().open(&path).unwrap(), &keys(0..200)), 200);
    assert_eq!(fs::read(&path).unwrap()[16], 6);
}

/// Sizes that agree with each other and with every checksum, and exceed the file by far.
#[test]
fn absurd_sizes_are_held_against_the_file_before_anything_is_reserved() {
    for pages in [1_u64 << 20, 1 << 40, 1 << 49] {
        let (_folder, path) = closed();
        let length = fs::metadata(&path).unwrap().len();
        let slot = forge::newest(&path);
        let bits = pages * 32_640;
        forge::header(&path, 72, &bits.to_le_bytes());
        forge::superblock(&path, slot, 320 + 8, &pages.to_le_bytes());
        let expected = FormatError::Truncated {
            expected: PAGES + pages * 4096,
            got: length,
        };
        for open in OPENS {
            let error = format_error(open(&small(), &path), &path);
            assert_eq!(error, expected, "{pages}");
        }
    }
}
