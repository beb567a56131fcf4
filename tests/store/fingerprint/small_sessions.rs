//! What a session writes at closing follows what it brings, and not what the file has lost.

use std::path::Path;

use everseen::Kind;
use everseen::testing::Options;

use crate::support::counted::Counted;
use crate::support::files::{held, image, key, keys, place, small};
use crate::support::segments::{from, newest};
use crate::support::unsynced::Unsynced;

const PAGE: u64 = 4096;
/// Keys that were there before the session that was killed.
const STAYING: u64 = 450_000;
/// What a session of one key may write: 256 pages that closing moves, and what the key itself takes, twice.
const MOST: u64 = (256 + 2 * 40) * PAGE;

fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).fpr(1e-12).grows_to(1 << 20);
    // In one step, so that no room of before is free for what it writes.
    options
        .buffer(32 << 20)
        .segment_pages(16)
        .step_segments(1 << 20)
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// The bytes that the newest superblock names, and where they end.
fn named(path: &Path) -> (u64, u64) {
    let named = newest(&from(&std::fs::read(path).unwrap())).unwrap();
    let pages: u64 = named
        .pages
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    let end = named.pages.iter().map(|range| range.end).max().unwrap();
    (pages * PAGE, end * PAGE)
}

/// A checkpoint that changed every segment has left all room of before free, and a kill kept its session from closing the
/// file small.
#[test]
fn sessions_of_one_key_move_a_bounded_part_of_a_long_file_each_until_it_is_short() {
    let (_folder, path) = place();
    let store = options().least_run(u64::MAX).create(&path).unwrap();
    store.insert_batch(&keys(0..STAYING)).unwrap();
    store.checkpoint().unwrap();
    store
        .insert_batch(&keys(STAYING..STAYING + 30_000))
        .unwrap();
    store.checkpoint().unwrap();
    let (_copy, path) = image(&path);
    drop(store);
    let (bytes, end) = named(&path);
    assert!(
        bytes > 3 * MOST / 2 && end > bytes * 3 / 2,
        "{bytes} of {end}"
    );
    let disk = Counted::new();
    let mut before = length(&path);
    for session in 0..20 {
        let store = options().storage(disk.clone()).open(&path).unwrap();
        disk.counts.take();
        assert!(store.insert(key(3 * STAYING + session)).unwrap());
        store.close().unwrap();
        let (_, written) = disk.counts.take();
        assert!(written <= MOST, "{session}: {written} of {MOST}");
        let (bytes, end) = named(&path);
        assert_eq!(length(&path), end, "{session}");
        // A 64th may be free, beside the front of the file and what the session has written.
        let short = bytes + bytes / 60 + (32 + 40) * PAGE;
        assert!(
            end <= short || end + MOST / 2 < before,
            "{session}: {end} after {before}"
        );
        assert!(end <= short || session < 10, "{session}: {end} of {short}");
        before = end;
    }
    let store = options().open_read_only(&path).unwrap();
    assert_eq!(held(&store, &keys(0..STAYING)), STAYING as usize);
    assert!(store.verify().unwrap().is_ok());
}

/// The oldest run is one segment of nearly all the file. What its split leaves behind the end moves down in the same session.
#[test]
fn a_session_that_merges_a_large_segment_closes_short() {
    let (_folder, path) = place();
    let options = small().kind(Kind::Fingerprint).grows_to(1 << 36);
    let options = options.buffer(64 << 20).storage(Unsynced::new());
    options.create(&path).unwrap().close().unwrap();
    for brought in [0..1_000_000, 1_000_000..1_250_000] {
        let session = options.open(&path).unwrap();
        session.insert_batch(&keys(brought)).unwrap();
        session.close().unwrap();
    }
    let (bytes, end) = named(&path);
    assert_eq!(length(&path), end);
    assert!(end <= bytes + bytes / 8, "{end} for {bytes}");
}
