//! Deltas that are not what was written: every byte that is changed is noticed, every field out of range has its
//! error, and the copy is as it was.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{DeltaError, Error, Kind, SuperblockFault};
use tempfile::TempDir;

use super::setting::{insert, options, store};
use crate::support::files::beside;

pub(super) const HEADER: usize = 96;

pub(super) struct Forge {
    _folder: TempDir,
    pub(super) copy: PathBuf,
    before: Vec<u8>,
    pub(super) forged: PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Forge {
    pub(super) fn new(kind: Kind) -> Self {
        let (folder, path, store) = store(&options(kind), 0..100);
        let copy = beside(&path, "-copy");
        store.snapshot(&copy).unwrap();
        insert(&store, 100..104);
        let delta = beside(&path, "-delta");
        store.snapshot_since(&delta, &copy).unwrap();
        Self {
            before: fs::read(&copy).unwrap(),
            forged: beside(&path, "-forged"),
            bytes: fs::read(&delta).unwrap(),
            copy,
            _folder: folder,
        }
    }

    /// Returns the error of a delta with these bytes, which must leave the copy as it was.
    #[track_caller]
    pub(super) fn refused(&self, bytes: &[u8]) -> DeltaError {
        fs::write(&self.forged, bytes).unwrap();
        let outcome = Options::new().apply(&self.forged, &self.copy);
        let is_left = |path: &Path| fs::read(path).unwrap() == self.before;
        assert!(is_left(&self.copy), "the copy has changed");
        match outcome {
            Err(Error::Delta { source, .. }) => source,
            other => panic!("{other:?}"),
        }
    }

    /// The delta with some bytes of its header changed, and its CRCs right.
    #[track_caller]
    fn refused_with(&self, at: usize, bytes: &[u8]) -> DeltaError {
        let mut forged = self.bytes.clone();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut forged);
        self.refused(&forged)
    }
}

/// Makes both CRCs right.
pub(super) fn seal(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..92]);
    bytes[92..96].copy_from_slice(&crc.to_le_bytes());
    let end = bytes.len() - 16;
    bytes[end + 8..end + 12].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&bytes[HEADER..end + 12]);
    bytes[end + 12..].copy_from_slice(&crc.to_le_bytes());
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn every_changed_byte_and_every_cut_is_noticed() {
    for kind in [Kind::Scalable, Kind::Fingerprint] {
        notices_each_byte_and_cut(&Forge::new(kind));
    }
}

fn notices_each_byte_and_cut(forge: &Forge) {
    let length = forge.bytes.len();
    // Of pages some bytes, of the rest all.
    let pages = HEADER + 392..length - 16;
    for at in (0..length).filter(|at| !pages.contains(at) || at % 97 == 0) {
        let mut forged = forge.bytes.clone();
        forged[at] ^= 0x10;
        forge.refused(&forged);
    }
    for cut in (0..length).filter(|cut| !pages.contains(cut) || cut % 997 == 0) {
        forge.refused(&forge.bytes[..cut]);
    }
    let mut longer = forge.bytes.clone();
    longer.push(0);
    assert_eq!(
        forge.refused(&longer),
        DeltaError::Length {
            expected: length as u64,
            got: length as u64 + 1,
        }
    );
    assert!(Options::new().apply(&forge.forged, &forge.copy).is_err());
    fs::write(&forge.forged, &forge.bytes).unwrap();
    Options::new().apply(&forge.forged, &forge.copy).unwrap();
}

#[test]
fn each_field_out_of_range_has_its_error() {
    let forge = Forge::new(Kind::Scalable);
    let bytes = &forge.bytes;
    assert_eq!(
        forge.refused_with(0, b"EVERDATA"),
        DeltaError::NotADelta {
            got: b"EVERDATA".to_vec()
        }
    );
    assert_eq!(
        forge.refused(b"EVE"),
        DeltaError::NotADelta {
            got: b"EVE".to_vec()
        }
    );
    assert_eq!(
        forge.refused_with(8, &2_u32.to_le_bytes()),
        DeltaError::UnsupportedVersion {
            expected: 1,
            got: 2
        }
    );
    let field = |at: usize, value: u64| match forge.refused_with(at, &value.to_le_bytes()) {
        DeltaError::Field { field, got, .. } => (field, got),
        other => panic!("{other:?}"),
    };
    for length in [312_u32, 388, 57_352] {
        let wrong = forge.refused_with(12, &length.to_le_bytes());
        let DeltaError::Field { field, got, .. } = wrong else {
            panic!("{wrong:?}");
        };
        assert_eq!((field, got), ("superblock_length", length.into()));
    }
    let to = u64_at(bytes, 40);
    assert_eq!(field(32, 0), ("from_generation", 0));
    assert_eq!(field(32, to + 1), ("from_generation", to + 1));
    assert_eq!(field(40, (1 << 60) + 1), ("to_generation", (1 << 60) + 1));
    assert_eq!(field(40, to + 1), ("to_generation", to + 1));
    assert_eq!(field(64, (1 << 50) + 1), ("pages", (1 << 50) + 1));
    assert_eq!(field(84, 1).0, "reserved");
    let wrong = forge.refused_with(64, &(1_u64 << 50).to_le_bytes());
    assert!(matches!(wrong, DeltaError::Length { .. }), "{wrong:?}");
    let wrong = forge.refused_with(16, &[9; 16]);
    assert!(
        matches!(wrong, DeltaError::WrongStore { expected, .. } if expected == [9; 16]),
        "{wrong:?}"
    );
    let wrong = forge.refused_with(48, &[9; 8]);
    assert!(
        matches!(wrong, DeltaError::WrongContent { .. }),
        "{wrong:?}"
    );
    let wrong = forge.refused_with(56, &[9; 8]);
    let expected = u64_at(&[9; 8], 0);
    let got = u64_at(bytes, 56);
    assert_eq!(wrong, DeltaError::WrongContent { expected, got });
    // Its superblock, its pages, and which these are.
    let wrong = forge.refused_with(HEADER + 20, &[9]);
    assert!(
        matches!(
            wrong,
            DeltaError::Superblock(SuperblockFault::Checksum { .. })
        ),
        "{wrong:?}"
    );
    let first = HEADER + 392;
    let number = |value: u64| match forge.refused_with(first, &value.to_le_bytes()) {
        DeltaError::Field { field, got, .. } => (field, got),
        other => panic!("{other:?}"),
    };
    assert_eq!(number(31), ("number", 31));
    assert_eq!(number(1 << 49), ("number", 1 << 49));
    let again = u64_at(bytes, first);
    let second = u64_at(bytes, first + 4096);
    assert_eq!(number(second + 1).0, "number");
    let mut twice = bytes.clone();
    twice[first + 4096..first + 4104].copy_from_slice(&again.to_le_bytes());
    seal(&mut twice);
    assert!(matches!(
        forge.refused(&twice),
        DeltaError::Field {
            field: "number",
            ..
        }
    ));
    let wrong = forge.refused_with(first + 100, &[0xFF; 8]);
    assert!(
        matches!(wrong, DeltaError::WrongContent { .. }),
        "{wrong:?}"
    );
    // CRCs that are wrong by themselves.
    let mut wrong = bytes.clone();
    wrong[40] ^= 1;
    let error = forge.refused(&wrong);
    assert!(
        matches!(error, DeltaError::Checksum { part: "header", .. }),
        "{error:?}"
    );
    let mut wrong = bytes.clone();
    wrong[first + 99] ^= 1;
    let error = forge.refused(&wrong);
    assert!(
        matches!(
            error,
            DeltaError::Checksum {
                part: "content",
                ..
            }
        ),
        "{error:?}"
    );
}
