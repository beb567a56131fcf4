//! The first write buffer of a session is reserved, and its memory comes with the keys: those of a few pages for a few
//! keys, all of it once they are many. Its checkpoint takes few keys from the log, and many from the buffer.

use everseen::testing::Options;
use everseen::{ClaimOptions, Kind, Precheck, Store, Verdict};

use crate::support::files::{held, key, keys, place};

const KINDS: [Kind; 4] = [
    Kind::Bloom,
    Kind::Counting,
    Kind::Scalable,
    Kind::Fingerprint,
];

/// Around the number from which on all memory is there, and around a 256th of the keys that a default buffer has room
/// for, some 8,060.
const COUNTS: [u64; 6] = [1, 4095, 4096, 4097, 8000, 8200];

fn options(kind: Kind, transactional: bool) -> Options {
    let options = Options::new().kind(kind).capacity(100_000).fpr(1e-9);
    options.seed([7; 32]).transactional(transactional)
}

/// Each has its own numbers, so that no key was there before.
fn numbers_of(round: u64, count: u64) -> std::ops::Range<u64> {
    let first = round * 10_000;
    first..first + count
}

fn insert_one_by_one(store: &Store, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(store.insert(key(number)).unwrap(), "{number}");
    }
}

fn insert_together(store: &Store, numbers: std::ops::Range<u64>) {
    let count = (numbers.end - numbers.start) as usize;
    let new = store.insert_batch(&keys(numbers)).unwrap();
    assert_eq!(new, vec![true; count]);
}

/// Some keys, and then more of them, so that the number of keys passes all bounds in a batch, too.
fn insert_in_two(store: &Store, numbers: std::ops::Range<u64>) {
    let middle = numbers.start + (numbers.end - numbers.start) / 2;
    insert_together(store, numbers.start..middle);
    insert_together(store, middle..numbers.end);
}

/// Whether the session is the only one decides whether the buffer is a file.
fn no_key_is_lost(kind: Kind, transactional: bool, exclusive: bool) {
    let (_folder, path) = place();
    let options = options(kind, transactional).exclusive(exclusive);
    options.create(&path).unwrap().close().unwrap();
    let mut round = 0;
    for insert in [insert_one_by_one, insert_together, insert_in_two] {
        for count in COUNTS {
            let told = format!("{kind} {transactional} {exclusive} {round} {count}");
            let store = options.open(&path).unwrap();
            let numbers = numbers_of(round, count);
            insert(&store, numbers.clone());
            assert_eq!(
                held(&store, &keys(numbers.clone())),
                count as usize,
                "{told}"
            );
            assert!(!store.insert(key(numbers.start)).unwrap() || kind == Kind::Counting);
            store.commit().unwrap();
            store.close().unwrap();
            let store = options.open_read_only(&path).unwrap();
            assert_eq!(held(&store, &keys(numbers)), count as usize, "{told}");
            assert!(store.verify().unwrap().is_ok(), "{told}");
            round += 1;
        }
    }
    let all = COUNTS.iter().sum::<u64>() * 3;
    let again = if kind == Kind::Counting { round } else { 0 };
    let stats = options.open_read_only(&path).unwrap().stats().unwrap();
    assert_eq!(
        stats.keys,
        all + again,
        "{kind} {transactional} {exclusive}"
    );
}

#[test]
fn no_key_is_lost_where_the_buffer_gets_its_memory() {
    for kind in KINDS {
        no_key_is_lost(kind, false, false);
    }
}

#[test]
fn no_key_is_lost_in_transactional_and_exclusive_sessions() {
    no_key_is_lost(Kind::Fingerprint, true, false);
    no_key_is_lost(Kind::Bloom, true, true);
}

/// Removes and what was given up are in the log as they are in the buffer.
#[test]
fn few_and_many_keys_that_come_and_go_leave_the_same() {
    for (few, count) in [(true, 1000), (false, 9000)] {
        let (_folder, path) = place();
        let options = options(Kind::Fingerprint, true);
        let store = options.create(&path).unwrap();
        insert_together(&store, 0..count);
        store.commit().unwrap();
        store.close().unwrap();
        let [one, other] = [(); 2].map(|()| options.open(&path).unwrap());
        let part = count / 4;
        assert_eq!(
            one.remove_batch(&keys(0..2 * part)).unwrap(),
            vec![true; 2 * part as usize]
        );
        insert_together(&one, 0..part);
        one.commit().unwrap();
        // What is not committed never happened.
        insert_together(&other, 20_000..20_000 + part);
        assert!(other.remove(key(count - 1)).unwrap());
        other.close().unwrap();
        one.close().unwrap();
        let store = options.open_read_only(&path).unwrap();
        let left = (count - part) as usize;
        assert_eq!(held(&store, &keys(0..count)), left, "few: {few}");
        assert_eq!(held(&store, &keys(part..2 * part)), 0, "few: {few}");
        assert_eq!(held(&store, &keys(20_000..20_000 + part)), 0, "few: {few}");
        assert_eq!(store.stats().unwrap().keys, left as u64, "few: {few}");
        assert!(store.verify().unwrap().is_ok());
    }
}

#[cfg(target_os = "linux")]
mod memory {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sparse::memory::place;

    const MIB: u64 = 1 << 20;

    /// The bytes that this process has mapped of the first buffer, and has in memory.
    fn mapped(store: &Path) -> (u64, u64) {
        let name = format!("{}-shm.", store.to_str().unwrap());
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let lines = maps.lines().skip_while(|line| !line.contains(&name));
        let field = |name: &str| {
            let line = lines.clone().find(|line| line.starts_with(name)).unwrap();
            let kib = line.split_whitespace().nth(1).unwrap();
            kib.parse::<u64>().unwrap() << 10
        };
        (field("Size:"), field("Rss:"))
    }

    #[test]
    #[cfg_attr(everseen_portable, ignore = "no file holds the buffer")]
    fn a_few_keys_take_a_few_pages_of_their_buffer_and_many_take_all() {
        for kind in KINDS {
            let Some((_folder, path)) = place() else {
                return;
            };
            let store = options(kind, false).create(&path).unwrap();
            let (size, begun) = mapped(&path);
            // The small one of fingerprints gets a page with the first keys for each of its pages.
            let is_small = kind == Kind::Fingerprint;
            let expected = if is_small { MIB } else { 28 * MIB };
            assert_eq!(size.next_multiple_of(MIB), expected, "{kind}");
            assert!(begun < MIB / 2, "{kind}: {begun} of {size}");
            insert_one_by_one(&store, 0..1);
            insert_together(&store, 1..100);
            let few = mapped(&path).1;
            assert!(few < MIB, "{kind}: {few} of {size}");
            insert_one_by_one(&store, 100..4095);
            assert!(
                is_small || mapped(&path).1 < size,
                "{kind}: {few} of {size}"
            );
            insert_one_by_one(&store, 4095..4096);
            assert_eq!(mapped(&path).1, size, "{kind}");
        }
    }

    /// However small the part of them is that comes first. To take the buffer in one piece is cheaper.
    #[test]
    #[cfg_attr(everseen_portable, ignore = "no file holds the buffer")]
    fn a_precheck_of_many_new_keys_takes_the_whole_buffer_with_the_first_of_them() {
        for kind in [Kind::Bloom, Kind::Fingerprint] {
            for (count, takes_all) in [(1000, false), (5000, true)] {
                let Some((_folder, path)) = place() else {
                    return;
                };
                let store = options(kind, true).create(&path).unwrap();
                let hasher = store.hasher();
                let keys: Vec<_> = keys(0..count).iter().map(|key| hasher.key(key)).collect();
                let mut precheck = Precheck::for_claims(&store, &keys).unwrap();
                let claimed = precheck.claim(&store, &keys, 0..8, ClaimOptions::new());
                assert_eq!(claimed.unwrap(), [Verdict::New; 8]);
                let (size, taken) = mapped(&path);
                assert_eq!(
                    taken == size,
                    takes_all,
                    "{kind} {count}: {taken} of {size}"
                );
            }
        }
    }

    /// To take it in one piece is cheaper.
    #[test]
    #[cfg_attr(everseen_portable, ignore = "no file holds the buffer")]
    fn a_first_batch_of_many_keys_takes_the_whole_buffer_at_once() {
        for kind in KINDS {
            let Some((_folder, path)) = place() else {
                return;
            };
            let options = options(kind, false);
            let store = options.create(&path).unwrap();
            let rest = store.insert_batch(&keys(0..4096)).unwrap();
            assert!(rest.iter().all(|new| *new));
            let (size, taken) = mapped(&path);
            assert_eq!(taken, size, "{kind}");
            assert_eq!(held(&store, &keys(0..4096)), 4096, "{kind}");
            store.close().unwrap();
            // Those that are there already bring nothing.
            let store = options.open(&path).unwrap();
            let few = [keys(0..4096), keys(5000..5100)].concat();
            let new = store.insert_batch(&few).unwrap();
            let new = new.iter().filter(|new| **new).count();
            let taken = mapped(&path).1;
            match kind {
                // A multiset takes each again.
                Kind::Counting => assert_eq!(taken, size),
                _ => assert!(
                    new == 100 && taken < MIB,
                    "{kind}: {new}, {taken} of {size}"
                ),
            }
        }
    }
}

/// The buffers below grow from 1 MiB, which has room for 73,728 keys, by one of fourteen to the size that a handle's share
/// follows from. With what another handle has not committed, this fills the second one however late a checkpoint ends.
const SHARE_FILLED: u64 = 1_020_000;

fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
    // Odd, so no two are the same.
    numbers
        .map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect()
}

#[test]
fn a_transaction_goes_through_small_buffers() {
    let (_folder, path) = place();
    let bloom = options(Kind::Bloom, true).create(path.with_extension("bloom"));
    let share = bloom.unwrap().uncommitted().unwrap().most;
    let options = options(Kind::Fingerprint, true).capacity(10_000_000);
    let store = options.create(&path).unwrap();
    let other = options.open(&path).unwrap();
    let mut numbers = 0..0;
    let mut sizes = Vec::new();
    while numbers.end < SHARE_FILLED {
        assert_eq!(store.uncommitted().unwrap().most, share);
        numbers = numbers.end..numbers.end + 10_000;
        let new = store.insert_batch(&hashes(numbers.clone())).unwrap();
        assert!(new.iter().all(|new| *new), "{numbers:?}");
        // What others have not committed is carried over with the rest.
        let theirs = 1 << 32 | numbers.start;
        let new = other.insert_batch(&hashes(theirs..theirs + 4000)).unwrap();
        assert!(new.iter().all(|new| *new), "{numbers:?}");
        sizes.push(store.fullness().unwrap().buffer_bytes);
    }
    sizes.dedup();
    assert!(sizes.len() >= 3, "{sizes:?}");
    assert!(sizes[0] < 2 << 20, "{sizes:?}");
    assert_eq!(store.uncommitted().unwrap().keys, SHARE_FILLED);
    store.commit().unwrap();
    // It drops its own, of every buffer.
    other.close().unwrap();
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    assert_eq!(store.stats().unwrap().keys, SHARE_FILLED);
    assert!(
        store
            .contains_batch(&hashes(0..SHARE_FILLED))
            .unwrap()
            .iter()
            .all(|is| *is)
    );
    let dropped = hashes(1 << 32..(1 << 32) + 4000);
    assert!(!store.contains_batch(&dropped).unwrap().contains(&true));
    // The next session begins small again.
    assert!(store.fullness().unwrap().buffer_bytes < 2 << 20);
    store.close().unwrap();
}

/// A death in a session whose buffer has grown is one like any other.
#[test]
fn what_a_grown_buffer_held_is_recovered() {
    let (_folder, path) = place();
    let options = options(Kind::Fingerprint, true).capacity(10_000_000);
    // A log that a checkpoint removes meanwhile is in no image.
    let options = options.background(false);
    let store = options.create(&path).unwrap();
    let numbers = 0..100_000;
    store.insert_batch(&hashes(numbers.clone())).unwrap();
    store.commit().unwrap();
    store.insert_batch(&hashes(200_000..300_000)).unwrap();
    let (_copy, killed) = crate::support::files::image(&path);
    let store = options.open(&killed).unwrap();
    assert_eq!(store.stats().unwrap().keys, 100_000);
    let new = store.insert_batch(&hashes(90_000..110_000)).unwrap();
    assert_eq!(new.iter().filter(|new| **new).count(), 10_000);
    store.close().unwrap();
}
