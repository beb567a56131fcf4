//! Moments of superblocks and logs, computed as FORMAT.md says.

use everseen::Kind;
use everseen::testing::Options;
use tempfile::TempDir;

use super::bytes::{finalise, number};
use super::doc::Layout;
use super::log::{interrupted, log_path};
use super::snapshot::copy;
use super::store_file::newest_superblock;

/// The moment that follows from a log.
fn next_moment(log: &[u8]) -> u64 {
    let layout = Layout::of("The log");
    let salt = layout.bytes(log, "salt");
    let mixed = finalise(layout.number(log, "moment"));
    let mixed = finalise(mixed.wrapping_add(number(&salt[..8])));
    finalise(mixed.wrapping_add(number(&salt[8..]))).max(1)
}

/// The moment of the newest superblock, which is its last field.
fn moment(file: &[u8]) -> u64 {
    let (_, superblock) = newest_superblock(file);
    match Layout::of("Superblocks").number(superblock, "flags") & 4 {
        0 => 0,
        _ => number(&superblock[superblock.len() - 8..]),
    }
}

#[test]
fn each_moment_follows_from_the_log_before() {
    for kind in [
        Kind::Bloom,
        Kind::Counting,
        Kind::Scalable,
        Kind::Fingerprint,
    ] {
        let options = Options::new().kind(kind).measured(false);
        let options = match kind {
            Kind::Bloom | Kind::Counting => options.capacity(1000),
            _ => options,
        };
        let (folder, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let path = folder.path().join("store");
        options.create(&path).unwrap().close().unwrap();
        let mut expected = 0;
        for generation in 1..4 {
            assert_eq!(moment(&std::fs::read(&path).unwrap()), expected, "{kind}");
            let store = options.open(&path).unwrap();
            store.insert(generation).unwrap();
            let killed = copy(&path, copies.path());
            let log = std::fs::read(log_path(&killed, generation)).unwrap();
            assert_eq!(Layout::of("The log").number(&log, "moment"), expected);
            assert_eq!(moment(&std::fs::read(&killed).unwrap()), expected);
            expected = next_moment(&log);
            store.close().unwrap();
        }
    }
}

#[test]
fn of_two_logs_the_second_has_what_follows_from_the_first() {
    let copies = TempDir::new().unwrap();
    let path = interrupted(Kind::Bloom, false, 2, copies.path());
    let logs = [1, 2].map(|generation| std::fs::read(log_path(&path, generation)).unwrap());
    let second = Layout::of("The log").number(&logs[1], "moment");
    assert_eq!(second, next_moment(&logs[0]));
}
