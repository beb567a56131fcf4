//! What lies in the sections of sampled and of lost keys, against sets in memory.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, Kind, OnDamage, Store};

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, image, place};
use crate::support::forge::{self, SUPERBLOCKS, u32_at, u64_at};
use crate::support::numbers::key;

const SEED: [u8; 32] = [7; 32];
const RARITY: u32 = 12;

/// FORMAT.md, "Samples": whether a mixed hash is sampled.
fn is_sampled(hash: u64) -> bool {
    (hash ^ 0x0707_0707_0707_0707).is_multiple_of(1 << RARITY)
}

/// So many keys whose hashes are sampled.
fn sampled_keys(store: &Store, count: usize) -> Vec<u64> {
    let keys = (0..).map(key);
    let sampled = keys.filter(|key| is_sampled(store.hasher().mix(*key)));
    sampled.take(count).collect()
}

/// The hashes of each section of a kind in a closed store.
fn sections(path: &Path, kind: u32) -> Vec<Vec<u64>> {
    let file = std::fs::read(path).unwrap();
    let place = &file[SUPERBLOCKS[forge::newest(path)]..];
    // Layers, or one directory.
    let tables = (u32_at(place, 308) as usize).max(1);
    let entries = place[320 + tables * 64..].chunks_exact(32);
    let entries = entries.take(u32_at(place, 316) as usize);
    let own = entries.filter(|entry| u32_at(entry, 0) == kind);
    let hashes = |entry: &[u8]| {
        let begins = u64_at(entry, 8) as usize * 4096 + 8;
        let hashes = file[begins..][..u64_at(entry, 16) as usize * 8].chunks_exact(8);
        hashes.map(|bytes| u64_at(bytes, 0)).collect()
    };
    own.map(hashes).collect()
}

/// The hashes of all of them, none of which is there twice.
fn section(path: &Path, kind: u32) -> Option<BTreeSet<u64>> {
    let sections = sections(path, kind);
    let all: BTreeSet<u64> = sections.iter().flatten().copied().collect();
    assert_eq!(all.len(), sections.iter().map(Vec::len).sum());
    (!sections.is_empty()).then_some(all)
}

fn options(kind: Kind) -> Options {
    let options = Options::new().kind(kind).fpr(0.3).seed(SEED).measured(true);
    let options = options
        .buffer(everseen::testing::LEAST_BUFFER)
        .background(false);
    match kind {
        Kind::Scalable => options.capacity(2000),
        _ => options.capacity(60_000),
    }
}

/// All sampled keys and no others, each with its true fate, across buffers that overflow, kills and handles of several
/// kinds.
#[test]
fn sampled_keys_are_in_one_section_or_the_other() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        for transactional in [false, true] {
            // In several parts, or in one.
            let least = if transactional { 8 } else { 1 << 20 };
            let options = options(kind)
                .transactional(transactional)
                .least_part(least)
                .storage(FaultStorage::without_syncs().shared());
            let (mut _folder, mut path) = place();
            let mut store = options.create(&path).unwrap();
            let rare = sampled_keys(&store, 3200);
            let (rare, spare) = rare.split_at(3000);
            let mut spare = spare.chunks(20);
            let (mut inserted, mut lost) = (BTreeSet::new(), BTreeSet::new());
            let mut most_parts = 0;
            let mut other = 1 << 50;
            for (round, keys) in rare.chunks(150).enumerate() {
                // Others make the store full and wrong.
                let others: Vec<u64> = (other..other + 2500).map(key).collect();
                other += 2500;
                for part in others.chunks(500) {
                    store.insert_batch(part).unwrap();
                    store.commit().unwrap();
                }
                let (single, batch) = keys.split_at(30);
                let mut answers: Vec<(u64, bool)> = Vec::new();
                for key in single {
                    answers.push((*key, store.insert(*key).unwrap()));
                }
                let new = store.insert_batch(batch).unwrap();
                answers.extend(batch.iter().copied().zip(new));
                // Again, which is nothing new to anybody.
                store.insert_batch(batch).unwrap();
                store.insert(keys[0]).unwrap();
                store.commit().unwrap();
                for (key, new) in answers {
                    let hash = store.hasher().mix(key);
                    match new {
                        true => inserted.insert(hash),
                        false => lost.insert(hash),
                    };
                }
                match round % 4 {
                    0 => store.checkpoint().unwrap(),
                    1 => {
                        store.close().unwrap();
                        most_parts = most_parts.max(sections(&path, 2).len());
                        store = options.open(&path).unwrap();
                    }
                    2 => {
                        // Killed: the log has what is not in the sections yet, and what was not committed.
                        for key in spare.next().unwrap().iter().filter(|_| transactional) {
                            if !store.insert(*key).unwrap() {
                                lost.insert(store.hasher().mix(*key));
                            }
                        }
                        let (folder, left) = image(&path);
                        drop(store);
                        (_folder, path) = (folder, left);
                        store = options.open(&path).unwrap();
                    }
                    _ => {}
                }
            }
            let sampled = |hash: &u64| is_sampled(*hash);
            let others = (1 << 50..other).map(|number| store.hasher().mix(key(number)));
            let others: BTreeSet<u64> = others.filter(sampled).collect();
            store.close().unwrap();
            assert_eq!(most_parts > 1, transactional, "{most_parts} parts");
            let mut both = section(&path, 2).unwrap();
            assert!(both.is_superset(&inserted) && both.len() > 100);
            let lost_ones = section(&path, 3).unwrap();
            assert!(lost_ones.is_superset(&lost), "{kind}");
            assert!(lost.len() > 20, "{} lost", lost.len());
            assert!(both.is_disjoint(&lost_ones));
            both.extend(&lost_ones);
            let mut all = &inserted | &lost;
            all.extend(others);
            assert_eq!(both, all, "{kind}, transactional: {transactional}");
            let measured = Options::new().open_read_only(&path).unwrap();
            let measured = measured.stats().unwrap().measured.unwrap();
            assert_eq!(measured.false_positives, lost_ones.len() as u64);
            assert_eq!(measured.sampled, (all.len() - lost_ones.len()) as u64);
            assert_eq!(measured.one_in, 4096);
        }
    }
}

/// Whichever part has it.
#[test]
fn a_sampled_key_that_was_removed_and_comes_again_counts_once() {
    let (_folder, path) = place();
    let options = Options::new().kind(Kind::Fingerprint).seed(SEED);
    let options = options.measured(true).least_part(4).least_run(16);
    let store = options.create(&path).unwrap();
    let rare = sampled_keys(&store, 900);
    for part in [&rare[..800], &rare[800..860], &rare[860..866]] {
        store.insert_batch(part).unwrap();
        store.checkpoint().unwrap();
    }
    let of_each = [rare[0], rare[810], rare[861]];
    for key in of_each {
        assert!(store.remove(key).unwrap());
    }
    store.checkpoint().unwrap();
    assert_eq!(store.insert_batch(&of_each).unwrap(), [true; 3]);
    store.insert_batch(&rare[866..]).unwrap();
    let parts = || store.stats().unwrap().measured.unwrap().sampled;
    assert_eq!(parts(), 866);
    store.close().unwrap();
    let lengths: Vec<usize> = sections(&path, 2).iter().map(Vec::len).collect();
    assert_eq!(lengths, [800, 100]);
    assert_eq!(section(&path, 2).unwrap().len(), 900);
}

/// A checkpoint that only adds a part reads the others all the same: with one of them damaged, the sample says nothing.
#[test]
fn a_sample_with_a_damaged_part_is_given_up() {
    let (_folder, path) = place();
    let options = options(Kind::Bloom).least_part(4);
    let store = options.create(&path).unwrap();
    let rare = sampled_keys(&store, 800);
    store.insert_batch(&rare[..700]).unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&rare[700..730]).unwrap();
    store.close().unwrap();
    assert_eq!(sections(&path, 2).len(), 2);
    for part in 0..2 {
        let (_other, left) = image(&path);
        let file = std::fs::read(&left).unwrap();
        let entry = SUPERBLOCKS[forge::newest(&left)] + 320 + 64 + 32 * part;
        let begins = u64_at(&file, entry + 8) as usize * 4096;
        forge::patch(&left, begins + 8, &[0xEE; 8]);
        let reader = Options::new().open_read_only(&left).unwrap();
        assert_eq!(reader.verify().unwrap().sections.len(), 1);
        assert_eq!(reader.stats().unwrap().measured, None);
        drop(reader);
        let gives_up = options.clone().on_damage(OnDamage::Seen);
        let store = gives_up.open(&left).unwrap();
        store.insert_batch(&rare[730..]).unwrap();
        store.close().unwrap();
        assert_eq!(sections(&left, 2).len(), 0, "part {part}");
    }
}

/// Handles side by side note each lost key, and it is counted once.
#[test]
fn two_handles_count_a_lost_key_once() {
    let options = options(Kind::Bloom);
    let (_folder, path) = place();
    let first = options.create(&path).unwrap();
    let others: Vec<u64> = (1 << 50..(1 << 50) + 50_000).map(key).collect();
    first.insert_batch(&others).unwrap();
    let second = options.open(&path).unwrap();
    let rare = sampled_keys(&first, 2000);
    let new = first.insert_batch(&rare).unwrap();
    let lost = new.iter().filter(|new| !**new).count() as u64;
    assert!(lost > 50, "{lost}");
    assert!(second.insert_batch(&rare).unwrap().iter().all(|new| !*new));
    // And one that is exempted and inserted is lost no more, but was.
    let gone = rare.iter().zip(&new).find(|(_, new)| !**new).unwrap().0;
    first.exempt(&[*gone]).unwrap();
    assert!(second.insert(*gone).unwrap());
    second.close().unwrap();
    first.checkpoint().unwrap();
    let before = first.stats().unwrap().measured.unwrap().false_positives;
    assert!(before >= lost);
    first.insert_batch(&rare).unwrap();
    first.checkpoint().unwrap();
    let after = first.stats().unwrap().measured.unwrap().false_positives;
    assert_eq!(after, before);
    first.close().unwrap();
    assert!(section(&path, 3).unwrap().len() as u64 == after);
}

/// What waits for its checkpoint is in a buffer, and in no sample yet.
#[test]
fn keys_of_a_frozen_buffer_are_not_lost() {
    let storage = FaultStorage::without_syncs();
    let options = options(Kind::Bloom).fpr(1e-6).storage(storage.shared());
    let (_folder, path) = place();
    let store = options.create(&path).unwrap();
    let rare = sampled_keys(&store, 400);
    store.insert_batch(&rare[..300]).unwrap();
    let full = Fault::Fails(Failure::NoSpace);
    storage.arm(Rule::from(1, full).on(Call::Write).on_store());
    let error = store.checkpoint().unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
    assert!(
        store
            .insert_batch(&rare[..300])
            .unwrap()
            .iter()
            .all(|new| !*new)
    );
    assert!(!store.insert(rare[0]).unwrap());
    assert!(
        store
            .insert_batch(&rare[300..])
            .unwrap()
            .iter()
            .all(|new| *new)
    );
    assert!(!store.insert(rare[300]).unwrap());
    storage.heal();
    store.checkpoint().unwrap();
    let measured = store.stats().unwrap().measured.unwrap();
    assert_eq!((measured.sampled, measured.false_positives), (400, 0));
}

#[test]
fn copies_are_measured_and_unions_are_not() {
    let options = options(Kind::Bloom);
    let (_folder, path) = place();
    let store = options.create(&path).unwrap();
    let keys: Vec<u64> = (0..40_000).map(key).collect();
    store.insert_batch(&keys[..20_000]).unwrap();
    let [copy, delta, out] = ["-copy", "-delta", "-out"].map(|name| beside(&path, name));
    store.snapshot(&copy).unwrap();
    store.insert_batch(&keys[20_000..]).unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    options.apply(&delta, &copy).unwrap();
    let expected = store.stats().unwrap().measured;
    assert!(expected.unwrap().sampled > 0);
    let copied = Options::new().open_read_only(&copy).unwrap();
    assert_eq!(copied.stats().unwrap().measured, expected);
    let merge = Options::new().fpr(0.5).merge();
    merge.union(&out, &[&copy]).unwrap();
    let union = Options::new().open_read_only(&out).unwrap();
    assert_eq!(union.stats().unwrap().measured, None);
}

#[test]
fn a_damaged_sample_is_given_up_with_all_that_it_tells() {
    for kind in [2, 3] {
        let options = options(Kind::Bloom);
        let (_folder, path) = place();
        let store = options.create(&path).unwrap();
        let others: Vec<u64> = (1 << 50..(1 << 50) + 50_000).map(key).collect();
        store.insert_batch(&others).unwrap();
        let rare = sampled_keys(&store, 500);
        store.insert_batch(&rare).unwrap();
        store.close().unwrap();
        let file = std::fs::read(&path).unwrap();
        let place = SUPERBLOCKS[forge::newest(&path)];
        let entry = place + 320 + 64 + 32 * (kind - 2);
        assert_eq!(u32_at(&file, entry), kind as u32);
        forge::patch(
            &path,
            u64_at(&file, entry + 8) as usize * 4096 + 8,
            &[0xEE; 8],
        );
        let damaged = Options::new().open_read_only(&path).unwrap();
        assert_eq!(damaged.verify().unwrap().sections.len(), 1);
        drop(damaged);
        let (_other, left) = image(&path);
        // By a repair, or by a handle that gives up what is damaged.
        let report = Options::new().repair(&path, OnDamage::Seen).unwrap();
        assert!(report.sample && report.exemptions == 0, "{report:?}");
        let store = options
            .clone()
            .on_damage(OnDamage::Seen)
            .open(&left)
            .unwrap();
        assert!(store.insert_batch(&rare).unwrap().iter().all(|new| !*new));
        store
            .insert_batch(&(0..8000).map(key).collect::<Vec<_>>())
            .unwrap();
        // It tells nothing that may be wrong.
        assert_eq!(store.stats().unwrap().measured, None);
        store.insert_batch(&sampled_keys(&store, 900)).unwrap();
        store.close().unwrap();
        let reopened = Options::new().open_read_only(&left).unwrap();
        assert_eq!(reopened.stats().unwrap().measured, None);
        if kind == 2 {
            // Written anew, it would have been half of what it is.
            assert_eq!((section(&left, 2), section(&left, 3)), (None, None));
        }
        let mended = options.open(&path).unwrap();
        assert_eq!(mended.stats().unwrap().measured, None);
        mended.insert_batch(&rare).unwrap();
        mended.close().unwrap();
        assert_eq!(section(&path, 3), None);
    }
}

/// A reader need not check that parts have no hash in common, so a checkpoint can't rely on it.
#[test]
fn forged_parts_with_a_hash_in_common_are_merged() {
    let (_folder, path) = place();
    let options = options(Kind::Bloom);
    let store = options.clone().least_part(4).create(&path).unwrap();
    let rare = sampled_keys(&store, 800);
    for part in [&rare[..700], &rare[700..730]] {
        store.insert_batch(part).unwrap();
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    let [first, mut second] = sections(&path, 2).try_into().unwrap();
    let next = second[1];
    second[0] = *first.iter().rfind(|hash| **hash < next).unwrap();
    let file = std::fs::read(&path).unwrap();
    let slot = forge::newest(&path);
    let entry = 320 + 64 + 32;
    let begins = u64_at(&file, SUPERBLOCKS[slot] + entry + 8) as usize * 4096;
    let mut forged = file[begins..begins + 8].to_vec();
    forged.extend(second.iter().flat_map(|hash| hash.to_le_bytes()));
    forge::patch(&path, begins, &forged);
    let crc = crc32fast::hash(&forged).to_le_bytes();
    forge::superblock(&path, slot, entry + 24, &crc);
    assert_eq!(sections(&path, 2)[1], second);
    let store = options.least_part(1 << 20).open(&path).unwrap();
    store.insert_batch(&rare[730..]).unwrap();
    store.close().unwrap();
    let sampled = section(&path, 2).unwrap();
    let expected: BTreeSet<u64> = first.iter().chain(&second).copied().collect();
    assert!(sampled.is_superset(&expected));
    assert_eq!(sections(&path, 2).len(), 1);
}
