//! Deltas of segments whose CRCs are right and whose fields are not: each has its error, and the copy is as it was.

use everseen::{DeltaError, Kind};

use super::forged::{Forge, HEADER, seal, u64_at};
use crate::support::forge::page_crc;

/// Where the pages of the delta lie: the directory's, and behind it the only segment's.
const DIRECTORY: usize = HEADER + 392;
const SEGMENT: usize = DIRECTORY + 4096;
/// The only entry of the directory, and fields of it.
const ENTRY: usize = DIRECTORY + 16;
const FIRST_PAGE: usize = 8;
const KEYS: usize = 16;
const GENERATION: usize = 24;
const PAGES: usize = 32;

/// A delta that carries a segment of one page and its page of fences.
struct SegmentForge {
    forge: Forge,
    /// The number of the directory's page in the store.
    place: u64,
    /// The number of the segment's first page.
    first_page: u64,
}

impl SegmentForge {
    fn new() -> Self {
        let forge = Forge::new(Kind::Fingerprint);
        let bytes = &forge.bytes;
        assert_eq!(u64_at(bytes, 64), 3, "pages of a directory and a segment");
        assert_eq!(bytes.len(), SEGMENT + 2 * 4096 + 16);
        Self {
            place: u64_at(bytes, HEADER + 320),
            first_page: u64_at(bytes, ENTRY + FIRST_PAGE),
            forge,
        }
    }

    /// Returns the error of the delta once its bytes were changed, and its own CRCs set right.
    #[track_caller]
    fn refused(&self, change: impl Fn(&mut Vec<u8>)) -> DeltaError {
        let mut bytes = self.forge.bytes.clone();
        change(&mut bytes);
        seal(&mut bytes);
        self.forge.refused(&bytes)
    }

    /// The same, with an entry of the directory changed and the CRC of its page set right.
    #[track_caller]
    fn refused_entry(&self, at: usize, value: u64) -> DeltaError {
        self.refused(|bytes| {
            bytes[ENTRY + at..][..8].copy_from_slice(&value.to_le_bytes());
            seal_page(bytes, DIRECTORY, self.place);
        })
    }
}

/// Sets the CRC of a page right that has this number in the store.
fn seal_page(bytes: &mut [u8], at: usize, number: u64) {
    let header = &bytes[HEADER + 32..HEADER + 288];
    let crc = page_crc(header, number, &bytes[at..at + 4096]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Sets the number of pages in the header.
fn set_pages(bytes: &mut [u8], pages: u64) {
    bytes[64..72].copy_from_slice(&pages.to_le_bytes());
}

fn damaged(page: u64, reason: &str) -> DeltaError {
    DeltaError::SegmentDamaged {
        page,
        reason: reason.to_owned(),
    }
}

#[test]
fn a_page_with_a_wrong_checksum_is_refused() {
    let forge = SegmentForge::new();
    let (place, first_page) = (forge.place, forge.first_page);
    for (at, number) in [
        (DIRECTORY, place),
        (SEGMENT, first_page),
        (SEGMENT + 4096, first_page + 1),
    ] {
        let was = u32::from_le_bytes(forge.forge.bytes[at..at + 4].try_into().unwrap());
        let wrong = forge.refused(|bytes| bytes[at] ^= 1);
        let got = was ^ 1;
        let reason = format!("page {number} is damaged: CRC {got:08x}, expected {was:08x}");
        assert_eq!(wrong, damaged(number, &reason));
    }
    // A page of another place.
    let wrong = forge.refused(|bytes| seal_page(bytes, SEGMENT, first_page + 5));
    assert!(
        matches!(wrong, DeltaError::SegmentDamaged { page, .. } if page == first_page),
        "{wrong:?}"
    );
}

#[test]
fn a_directory_out_of_range_is_refused() {
    let forge = SegmentForge::new();
    let entry = |at, value, reason: &str| {
        assert_eq!(forge.refused_entry(at, value), damaged(0, reason));
    };
    let field = |at, value, name: &str, expected: &str| {
        let reason = format!("a segment's {name} is {value}, expected {expected}");
        entry(at, value, &reason);
    };
    field(0, 1, "first", "0 in the first segment");
    field(FIRST_PAGE, 31, "first_page", "within the file's pages");
    field(
        FIRST_PAGE,
        u64::MAX,
        "first_page",
        "within the file's pages",
    );
    field(KEYS, 1 << 20, "keys", "what its pages have room for");
    field(GENERATION, 0, "generation", "1 to 2^60");
    field(GENERATION, 1 << 60, "generation", "at most the directory's");
    field(PAGES, 0, "pages", "1 to 2040");
    // Other sums than the superblock has.
    let keys = u64_at(&forge.forge.bytes, ENTRY + KEYS);
    let reason = format!("a segment holds {} fingerprints, expected {keys}", keys + 1);
    entry(KEYS, keys + 1, &reason);
    // A segment where the directory is to lie.
    let reason = format!("two segments share page {}", forge.place);
    let shared = forge.refused_entry(FIRST_PAGE, forge.place);
    assert_eq!(shared, damaged(forge.place, &reason));
}

#[test]
fn segments_that_are_no_segments_of_the_directory_are_refused() {
    let forge = SegmentForge::new();
    let first = |got| DeltaError::Field {
        field: "first",
        expected: "a segment's, above the one before",
        got,
    };
    let wrong = forge.refused(|bytes| {
        bytes[SEGMENT + 16..][..8].copy_from_slice(&77_u64.to_le_bytes());
        seal_page(bytes, SEGMENT, forge.first_page);
    });
    assert_eq!(wrong, first(77));
    // The same one twice.
    let twice = forge.refused(|bytes| {
        let segment = bytes[SEGMENT..SEGMENT + 2 * 4096].to_vec();
        bytes.splice(SEGMENT..SEGMENT, segment);
        set_pages(bytes, 5);
    });
    assert_eq!(twice, first(0));
    // Pages that are no whole segment, or no directory.
    let pages = |got| DeltaError::Field {
        field: "pages",
        expected: "those of the directory and of whole segments",
        got,
    };
    let half = forge.refused(|bytes| {
        bytes.drain(SEGMENT + 4096..SEGMENT + 2 * 4096);
        set_pages(bytes, 2);
    });
    assert_eq!(half, pages(2));
    let none = forge.refused(|bytes| {
        bytes.drain(DIRECTORY..SEGMENT + 2 * 4096);
        set_pages(bytes, 0);
    });
    assert_eq!(none, pages(0));
    // Neither the copy nor the delta has it.
    let lacking = forge.refused(|bytes| {
        bytes.drain(SEGMENT..SEGMENT + 2 * 4096);
        set_pages(bytes, 1);
    });
    assert_eq!(lacking, DeltaError::SegmentMissing { first: 0 });
}

#[test]
fn segments_that_are_whole_and_not_those_of_the_moment_are_refused() {
    let forge = SegmentForge::new();
    let wrong = forge.refused(|bytes| {
        bytes[SEGMENT + 60] ^= 1;
        seal_page(bytes, SEGMENT, forge.first_page);
    });
    let expected = u64_at(&forge.forge.bytes, 56);
    let DeltaError::WrongContent { expected: to, got } = wrong else {
        panic!("{wrong:?}");
    };
    assert_eq!(to, expected);
    assert_ne!(got, expected);
}
