//! The golden store that forgets: keys of several steps, in pages that an early build wrote and in a log.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::Kind;
use everseen::testing::{Appending, Options};

use super::ages::list_page;
use crate::format::golden::{LOOKED_UP, golden, key, options};
use crate::format::golden_dump::dump;
use crate::format::golden_fingerprints::some_fields;
use crate::format::snapshot::copy;
use crate::format::store_file::newest_superblock;

pub(crate) const NAME: &str = "forgetting.ever";

const DAY: u64 = 86_400_000;
/// When its first keys came, in milliseconds since 1970.
const BEGIN: u64 = 1_700_000_000_000;
/// When its last ones did: the time of its log.
pub(crate) const NOW: u64 = BEGIN + 34 * DAY;

pub(crate) fn time(clock: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(clock)
}

fn forgetting() -> Options {
    let options = options().kind(Kind::Fingerprint).transactional(true);
    options
        .capacity(1 << 20)
        .fpr(1e-6)
        .forget_after(Duration::from_millis(30 * DAY))
}

/// Keys come every ten days, and some go; those of the last time are in the log alone, of which the first ones come again.
pub(crate) fn make(path: &Path, folder: &Path) {
    let store = forgetting().clock(time(BEGIN)).create(path).unwrap();
    let keys = |numbers: std::ops::Range<u64>| numbers.map(key).collect::<Vec<_>>();
    let insert = |numbers| store.insert_batch(&keys(numbers)).unwrap();
    insert(0..1000);
    store.commit_with(b"first").unwrap();
    store.advance_to(time(BEGIN + 10 * DAY)).unwrap();
    // What is there stays as old as it is.
    insert(900..2000);
    store.commit_with(b"ten days").unwrap();
    store.advance_to(time(BEGIN + 20 * DAY)).unwrap();
    insert(2000..3000);
    let mut removed = Vec::new();
    store.remove_into(&keys(1000..1100), &mut removed).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    store.commit_with(b"twenty days").unwrap();
    store.checkpoint().unwrap();
    store.advance_to(time(NOW)).unwrap();
    insert(0..500);
    insert(3000..3500);
    store.commit_with(b"34 days").unwrap();
    // These were lost with the process.
    insert(3500..3600);
    copy(path, folder);
}

/// Which keys are there so many days after the first came, at the end of a step.
fn is_there(number: u64, days: u64) -> bool {
    match number {
        0..500 => days < 65,
        1100..2000 => days < 41,
        2000..3000 => days < 51,
        3000..3500 => days < 65,
        _ => false,
    }
}

#[test]
fn the_golden_store_that_forgets_is_what_was_put_in() {
    for (days, writes) in [
        (0, false),
        (34, true),
        (40, false),
        (41, true),
        (51, true),
        (65, false),
    ] {
        let (_work, path) = golden(NAME);
        let options = forgetting().clock(time(BEGIN + days * DAY));
        let store = match writes {
            false => options.open_read_only(&path).unwrap(),
            true => options.open(&path).unwrap(),
        };
        for number in 0..LOOKED_UP {
            // Time never runs backwards.
            let expected = is_there(number, days.max(34));
            let found = store.contains(key(number)).unwrap();
            assert_eq!(found, expected, "{number} after {days} days");
        }
        let stats = store.stats().unwrap();
        let forgetting = stats.forgetting.unwrap();
        assert_eq!(forgetting.window, Duration::from_millis(30 * DAY));
        assert_eq!(forgetting.steps, 15);
        assert_eq!(forgetting.now, time(BEGIN + days.max(34) * DAY));
        assert_eq!(stats.commits[0].tag, b"34 days");
        assert!(store.verify().unwrap().is_ok());
    }
}

#[test]
fn the_golden_store_that_forgets_goes_on() {
    let (_work, path) = golden(NAME);
    let store = forgetting().open(&path).unwrap();
    assert!(store.insert(key(600)).unwrap() && !store.insert(key(0)).unwrap());
    assert!(store.remove(key(1)).unwrap());
    store.commit().unwrap();
    store.checkpoint().unwrap();
    store.advance_to(time(BEGIN + 52 * DAY)).unwrap();
    assert!(store.insert(key(2500)).unwrap());
    store.commit().unwrap();
    store.close().unwrap();
    for (days, young) in [(51, true), (66, false)] {
        let options = forgetting().clock(time(BEGIN + days * DAY));
        let store = options.open_read_only(&path).unwrap();
        for number in 0..LOOKED_UP {
            let expected = match number {
                1 => false,
                600 => young,
                2500 => true,
                _ => is_there(number, days),
            };
            assert_eq!(store.contains(key(number)).unwrap(), expected, "{number}");
        }
        assert!(store.verify().unwrap().is_ok());
    }
}

pub(crate) fn dump_store(out: &mut String, folder: &Path) {
    let file = std::fs::read(folder.join(NAME)).unwrap();
    *out += "\nforgetting.ever: of its header\n";
    let names = ["incompatible", "bits", "window", "steps"];
    some_fields(out, &file, 0, "Header", &names);
    *out += "of its newest superblock\n";
    let (superblock, bytes) = newest_superblock(&file);
    let names = ["generation", "flags"];
    some_fields(out, &file, superblock, "Superblocks", &names);
    let clock = (BEGIN + 20 * DAY).to_le_bytes();
    let place = bytes.windows(8).position(|bytes| bytes == clock).unwrap();
    dump(out, &clock, superblock + place, "clock");
    *out += "of its first page of fingerprints\n";
    let (number, _) = list_page(&file);
    let page = number as usize * 4096;
    some_fields(
        out,
        &file,
        page,
        "Pages of fingerprints",
        &["first", "low_bits"],
    );
    some_fields(out, &file, page, "Ages", &["age_bits", "base"]);
    let log = std::fs::read(crate::format::log::log_path(&folder.join(NAME), 5)).unwrap();
    *out += "of its log\n";
    some_fields(out, &log, 0, "The log", &["version", "crc", "generation"]);
    some_fields(out, &log, 0, "Clocks", &["clock"]);
}
