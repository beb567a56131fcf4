//! Stores that forget: ages, bases and clocks, from FORMAT.md's rules alone.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use everseen::testing::Options;
use everseen::{Error, FormatError, LogError};
use tempfile::TempDir;

use super::{encoded_at, put};
use crate::format::bytes::{crc32, mix, number, page};
use crate::format::doc::{Layout, check_block};
use crate::format::forged_segments::{options, seal, set};
use crate::format::log::log_path;
use crate::format::reader::run;
use crate::format::seed;
use crate::format::store_file::{newest_superblock, superblock_places};
use crate::support::files::image;

const DAY: u64 = 86_400_000;
const WINDOW: u64 = 30 * DAY;
const STEPS: u64 = 15;
const AGE_BITS: u32 = 4;
const SPACE: u64 = 1_000_000_000_000;
/// When the first of the keys comes, and how much later each does.
const BEGIN: u64 = 1_700_000_000_000;
const LATER: [u64; 3] = [0, 10 * DAY, 34 * DAY];

/// "Ages".
fn step(clock: u64) -> u64 {
    (u128::from(clock) * u128::from(STEPS) / u128::from(WINDOW)) as u64
}

fn forgetting(clock: u64) -> Options {
    let options = options().capacity(1_000_000).fpr(1e-6);
    let options = options.forget_after(Duration::from_millis(WINDOW));
    options.clock(UNIX_EPOCH + Duration::from_millis(clock))
}

/// The fingerprint of a hash that a caller brings.
fn fingerprint(raw: u64) -> u64 {
    page(mix(raw, &seed()), SPACE)
}

/// A store to which keys came, each in its step, and which has dropped the first; and what a kill before its last checkpoint
/// leaves.
fn made(folder: &Path) -> (PathBuf, TempDir, PathBuf) {
    let path = folder.join("store");
    let store = forgetting(BEGIN).create(&path).unwrap();
    for (raw, later) in (1..).zip(LATER) {
        let clock = UNIX_EPOCH + Duration::from_millis(BEGIN + later);
        store.advance_to(clock).unwrap();
        assert!(store.insert(raw).unwrap());
    }
    let (copy, killed) = image(&path);
    store.close().unwrap();
    (path, copy, killed)
}

#[test]
fn worked_ages_follow_from_the_rules() {
    let mut block =
        "| key | came at | step | fingerprint | in 34 days |\n|---|---|---|---|---|\n".to_owned();
    let base = step(BEGIN + LATER[2]);
    for (raw, later) in (1..).zip(LATER) {
        let (clock, fingerprint) = (BEGIN + later, fingerprint(raw));
        let step = step(clock);
        let then = match base - step {
            age @ ..=STEPS => format!("number {}, of age {age}", fingerprint << AGE_BITS | age),
            age => format!("gone: age {age}"),
        };
        writeln!(
            block,
            "| `insert_hash` {raw} | {clock} | {step} | {fingerprint} | {then} |"
        )
        .unwrap();
    }
    check_block("ages", &block);
}

/// The one page of fingerprints of a closed store: its number, and its bytes.
pub(crate) fn list_page(file: &[u8]) -> (u64, &[u8]) {
    let (_, superblock) = newest_superblock(file);
    let entry = &superblock[Layout::of("Superblocks").end()..];
    let directory = Layout::of("Directory entry");
    assert_eq!(directory.number(entry, "segments"), 1);
    let place = directory.number(entry, "place_a") as usize * 4096;
    let segment = Layout::of("Segment entry");
    let number = segment.number(&file[place + 16..], "first_page");
    (number, &file[number as usize * 4096..][..4096])
}

#[test]
fn the_pages_of_a_store_that_forgets_are_as_documented() {
    let folder = TempDir::new().unwrap();
    let (path, _copy, killed) = made(folder.path());
    let file = std::fs::read(&path).unwrap();
    let header = Layout::of("Header");
    assert_eq!(header.number(&file, "incompatible"), 15);
    assert_eq!(header.number(&file, "bits"), SPACE);
    assert_eq!(header.number(&file, "window"), WINDOW);
    assert_eq!(header.number(&file, "steps"), STEPS);

    let last = BEGIN + LATER[2];
    let (_, superblock) = newest_superblock(&file);
    let fixed = Layout::of("Superblocks");
    // `moment`, `clock` and `earliest`.
    assert_eq!(fixed.number(superblock, "flags"), 4 | 16 | 32);
    let behind_entry = &superblock[fixed.end() + 64 + 8..];
    assert_eq!(number(&behind_entry[..8]), last);
    assert_eq!(number(&behind_entry[8..16]), step(BEGIN + LATER[0]));

    let base = step(last);
    let ages = [(2, base - step(BEGIN + LATER[1])), (3, 0)];
    let mut numbers: Vec<u64> = ages
        .iter()
        .map(|(raw, age)| fingerprint(*raw) << AGE_BITS | age)
        .collect();
    numbers.sort_unstable();
    let (number_of_page, page) = list_page(&file);
    let list = Layout::of("Pages of fingerprints");
    let (low_bits, generation) = (
        list.number(page, "low_bits"),
        list.number(page, "generation"),
    );
    let range = 0..SPACE << AGE_BITS;
    let place = (number_of_page, generation);
    let (mut twin, _) = encoded_at(&numbers, range, low_bits as u32, place);
    let fields = Layout::of("Ages");
    put(&mut twin, &fields, "age_bits", AGE_BITS.into());
    put(&mut twin, &fields, "base", base);
    // The CRC goes on from that of the store's id.
    assert!(page[4..] == twin[4..]);

    // The log before: all of its header is under its CRC, and its clock is that of its keys.
    let log = std::fs::read(log_path(&killed, 3)).unwrap();
    let head = Layout::of("The log");
    assert_eq!(head.number(&log, "version"), 2);
    let crc = crc32(&[&log[..12], &log[16..72]]);
    assert_eq!(head.number(&log, "crc"), u64::from(crc));
    assert_eq!(Layout::of("Clocks").number(&log, "clock"), last);
}

/// Changes a store or a log and mends its CRC. The reader in another language must refuse it, too.
fn opened(path: &Path, harm: impl FnOnce(&mut Vec<u8>)) -> Error {
    let good = std::fs::read(path).unwrap();
    let mut file = good.clone();
    harm(&mut file);
    std::fs::write(path, &file).unwrap();
    let store = path.with_file_name("store");
    let reader = run(&store, &[]);
    let said = String::from_utf8_lossy(&reader.stderr);
    assert!(
        reader.status.code() == Some(2) && !said.contains("Traceback"),
        "{said}"
    );
    let error = match forgetting(BEGIN).open(&store) {
        Err(error) => error,
        Ok(store) => {
            assert!(!store.verify().unwrap().is_ok());
            store.contains(2).unwrap_err()
        }
    };
    std::fs::write(path, &good).unwrap();
    error
}

fn mend_log(log: &mut [u8], end: usize) {
    let crc = crc32(&[&log[..12], &log[16..end]]);
    set(log, "The log", "crc", crc.into());
}

#[test]
fn a_bad_field_of_a_store_that_forgets_has_the_error_of_its_line() {
    let folder = TempDir::new().unwrap();
    let (path, _copy, killed) = made(folder.path());
    // Pages: their age bits, and a base that no page without ages has.
    for (name, value) in [("age_bits", 0), ("age_bits", 3), ("age_bits", 5)] {
        let error = opened(&path, |file| {
            let (number, _) = list_page(file);
            set(
                &mut file[number as usize * 4096..][..4096],
                "Ages",
                name,
                value,
            );
            seal(file, number);
        });
        let damaged = |source: &FormatError| matches!(source, FormatError::SegmentDamaged { .. });
        assert!(
            matches!(&error, Error::Format { source, .. } if damaged(source)),
            "{error:?}"
        );
    }
    // Superblocks: a clock of 0, and one that is too late.
    for clock in [0, (1 << 56) + 1] {
        let error = opened(&path, |file| {
            for (offset, _) in superblock_places() {
                let fixed = Layout::of("Superblocks");
                let length = fixed.number(&file[offset..], "length") as usize;
                let bytes = &mut file[offset..offset + length];
                let place = fixed.end() + 64 + 8;
                bytes[place..place + 8].copy_from_slice(&u64::to_le_bytes(clock));
                let crc = crc32(&[&bytes[12..]]);
                set(bytes, "Superblocks", "crc", crc.into());
            }
        });
        let named = format!("{error:?}");
        assert!(named.contains("field: \"clock\""), "{named}");
    }
    // Logs: a clock that is too late, and a header of the other version.
    let log = log_path(&killed, 3);
    let is_header = |error: Error| {
        assert!(
            matches!(
                error,
                Error::Log {
                    source: LogError::Header,
                    ..
                }
            ),
            "{error:?}"
        );
    };
    is_header(opened(&log, |log| {
        set(log, "Clocks", "clock", (1 << 56) + 1);
        mend_log(log, 72);
    }));
    is_header(opened(&log, |log| {
        set(log, "The log", "version", 1);
        mend_log(log, 64);
    }));
}
