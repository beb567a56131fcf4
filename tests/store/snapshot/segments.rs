//! Deltas of fingerprint stores against their slow twins, and against pages that are damaged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{DeltaError, Error, FormatError, Kind, Store};
use proptest::prelude::*;

use super::setting::assert_same;
use crate::support::fault::FaultStorage;
use crate::support::files::{beside, place, small};
use crate::support::forge::u64_at;
use crate::support::numbers::Random;

pub(super) fn options() -> Options {
    small().kind(Kind::Fingerprint).fpr(1e-9).capacity(1 << 20)
}

/// Fails unless the file is a clean store that holds these hashes, and nothing else below `end`.
#[track_caller]
fn assert_holds(path: &Path, held: &BTreeSet<u64>, end: u64) {
    let copy = Options::new().open_read_only(path).unwrap();
    assert!(copy.verify().unwrap().is_ok());
    assert_eq!(copy.stats().unwrap().keys, held.len() as u64);
    let wrong =
        (0..end).find(|number| copy.contains(spread(*number)).unwrap() != held.contains(number));
    assert_eq!(wrong, None);
}

fn insert(store: &Store, numbers: std::ops::Range<u64>) {
    let hashes: Vec<u64> = numbers.map(spread).collect();
    store.insert_batch(&hashes).unwrap();
}

/// A hash for a number, by which the numbers spread over the space.
pub(super) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A step of a store's life before the next delta.
#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Remove(u64),
    Checkpoint,
    Commit,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..1500).prop_map(Step::Insert),
        2 => (0_u64..900).prop_map(Step::Remove),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

/// A store with the numbers that it holds, drawn from below `END`.
struct Life {
    path: PathBuf,
    options: Options,
    store: Option<Store>,
    held: BTreeSet<u64>,
    random: Random,
}

/// Numbers are drawn from below.
const END: u64 = 6000;

impl Life {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn live(&mut self, step: &Step) {
        match step {
            Step::Insert(count) => {
                for _ in 0..*count {
                    let number = self.random.below(END);
                    self.store().insert(spread(number)).unwrap();
                    self.held.insert(number);
                }
                // No transaction may grow on and on.
                self.store().commit().unwrap();
            }
            Step::Remove(count) => {
                for _ in 0..*count {
                    let number = self.random.below(END);
                    if self.held.remove(&number) {
                        self.store().remove(spread(number)).unwrap();
                    }
                }
            }
            Step::Checkpoint => self.store().checkpoint().unwrap(),
            Step::Commit => drop(self.store().commit_with(b"tag").unwrap()),
            Step::Reopen => {
                self.store().commit().unwrap();
                self.store.take().unwrap().close().unwrap();
                self.store = Some(self.options.open(&self.path).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn copies_kept_up_by_deltas_are_whole_copies(
        transactional in any::<bool>(),
        seed in any::<u64>(),
        rounds in prop::collection::vec(prop::collection::vec(step(), 0..6), 1..6),
    ) {
        let options = options()
            .transactional(transactional)
            .storage(FaultStorage::without_syncs().shared());
        let (_folder, path) = place();
        let store = options.create(&path).unwrap();
        let kept = beside(&path, "-kept");
        store.snapshot(&kept).unwrap();
        let mut life = Life {
            path: path.clone(),
            options: options.clone(),
            store: Some(store),
            held: BTreeSet::new(),
            random: Random::new(seed),
        };
        for (round, steps) in rounds.iter().enumerate() {
            steps.iter().for_each(|step| life.live(step));
            life.store().commit().unwrap();
            let delta = beside(&path, &format!("-delta{round}"));
            let whole = beside(&path, &format!("-whole{round}"));
            let made = life.store().snapshot_since(&delta, &kept).unwrap();
            life.store().snapshot(&whole).unwrap();
            prop_assert_eq!(made.bytes, delta.metadata().unwrap().len());
            let applied = options.apply(&delta, &kept).unwrap();
            let expected = (made.from, made.to, life.held.len() as u64, false);
            let got = (applied.from, applied.to, applied.keys, applied.resumed);
            prop_assert_eq!(got, expected);
            assert_same(&kept, &whole);
            assert_holds(&kept, &life.held, END);
            // Once more: it is there already.
            let again = options.apply(&delta, &kept).unwrap();
            prop_assert_eq!((again.to, again.pages), (made.to, 0));
            assert_same(&kept, &whole);
        }
        // A copy brought up to date is a store.
        let copy = Options::new().buffer(LEAST_BUFFER).open(&kept).unwrap();
        prop_assert!(copy.insert(spread(END)).unwrap());
        copy.commit().unwrap();
        copy.close().unwrap();
        life.held.insert(END);
        assert_holds(&kept, &life.held, END + 1);
    }
}

/// The number of the first page of the first segment of a store file, and the first page of each copy of the directory.
fn places(file: &[u8]) -> (u64, [u64; 2]) {
    let superblocks = [16_384, 73_728];
    let newest = superblocks
        .into_iter()
        .max_by_key(|at| u64_at(file, at + 16));
    let directory = newest.unwrap() + 320;
    let copies = [u64_at(file, directory), u64_at(file, directory + 8)];
    (u64_at(file, copies[0] as usize * 4096 + 16 + 8), copies)
}

/// Changes a byte of a page of a file.
fn flip(path: &Path, page: u64, at: usize) {
    let mut file = fs::read(path).unwrap();
    file[page as usize * 4096 + at] ^= 1;
    fs::write(path, file).unwrap();
}

#[test]
fn a_copy_whose_pages_are_not_what_they_were_is_refused() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    insert(&store, 0..3000);
    let [copy, delta, spoiled] = ["-copy", "-delta", "-spoiled"].map(|name| beside(&path, name));
    store.snapshot(&copy).unwrap();
    insert(&store, 3000..3100);
    store.snapshot_since(&delta, &copy).unwrap();
    let (segment, directories) = places(&fs::read(&copy).unwrap());
    let digest = u64_at(&fs::read(&delta).unwrap(), 48);
    // A page's CRC, its generation, and a copy of the directory.
    for (page, at) in [(segment, 0), (segment + 1, 9), (directories[1], 2)] {
        fs::copy(&copy, &spoiled).unwrap();
        flip(&spoiled, page, at);
        let before = fs::read(&spoiled).unwrap();
        let made = store.snapshot_since(beside(&path, "-made"), &spoiled);
        match made {
            Err(Error::Delta {
                path: named,
                source: DeltaError::WrongContent { expected, got },
            }) => {
                assert_eq!((named, expected), (spoiled.clone(), digest));
                assert_ne!(got, digest);
            }
            other => panic!("{other:?}"),
        }
        let applied = options().apply(&delta, &spoiled);
        assert!(
            matches!(
                applied,
                Err(Error::Delta {
                    source: DeltaError::WrongContent { .. },
                    ..
                })
            ),
            "{applied:?}"
        );
        assert!(before == fs::read(&spoiled).unwrap());
    }
    options().apply(&delta, &copy).unwrap();
}

#[test]
fn a_damaged_segment_is_not_put_into_a_delta() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    insert(&store, 0..3000);
    store.checkpoint().unwrap();
    let (segment, _) = places(&fs::read(&path).unwrap());
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let at = segment * 4096 + 100;
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xA5; 3], at).unwrap();
    let delta = beside(&path, "-delta");
    match store.snapshot_since(&delta, &copy).unwrap_err() {
        Error::Format {
            path: named,
            source: FormatError::SegmentDamaged { page, .. },
        } => assert_eq!((named, page), (path.clone(), segment)),
        other => panic!("{other:?}"),
    }
    assert!(!delta.exists() && !beside(&delta, "-part").exists());
    store.repair(everseen::OnDamage::NeverSeen).unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    options().apply(&delta, &copy).unwrap();
    assert!(
        Options::new()
            .open_read_only(&copy)
            .unwrap()
            .verify()
            .unwrap()
            .is_ok()
    );
}

/// Nothing keeps a reader of the copy out. It may get errors, but no wrong answer.
#[test]
fn a_reader_of_the_copy_has_ended_when_a_delta_is_applied() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    insert(&store, 0..3000);
    let [copy, delta] = ["-copy", "-delta"].map(|name| beside(&path, name));
    store.snapshot(&copy).unwrap();
    let reader = Options::new().open_read_only(&copy).unwrap();
    let hashes: Vec<u64> = (0..6000).map(spread).collect();
    assert!(
        hashes[..3000]
            .iter()
            .all(|hash| reader.contains(*hash).unwrap())
    );
    insert(&store, 3000..6000);
    store.checkpoint().unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    options().apply(&delta, &copy).unwrap();
    for hash in &hashes {
        let ended = reader.contains(*hash);
        assert!(matches!(ended, Err(Error::Ended)), "{ended:?}");
    }
    let reader = Options::new().open_read_only(&copy).unwrap();
    assert!(hashes.iter().all(|hash| reader.contains(*hash).unwrap()));
}

/// A map of a file that becomes shorter is no longer one of all its pages: to read it would end the process.
#[test]
fn a_copy_that_becomes_shorter_has_no_reader() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    insert(&store, 0..20_000);
    let [copy, delta, whole] = ["-copy", "-delta", "-whole"].map(|name| beside(&path, name));
    store.snapshot(&copy).unwrap();
    let before = fs::read(&copy).unwrap();
    for number in 500..20_000 {
        assert!(store.remove(spread(number)).unwrap());
    }
    store.checkpoint_full().unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    store.snapshot(&whole).unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    assert!(fs::metadata(&whole).unwrap().len() < before.len() as u64);
    let reader = Options::new().open_read_only(&copy).unwrap();
    let refused = options().apply(&delta, &copy);
    assert!(
        matches!(&refused, Err(Error::Locked { path }) if *path == copy),
        "{refused:?}"
    );
    assert!(fs::read(&copy).unwrap() == before);
    assert!((0..20_000).all(|number| reader.contains(spread(number)).unwrap()));
    reader.close().unwrap();
    options().apply(&delta, &copy).unwrap();
    assert_same(&copy, &whole);
}

/// A store that goes on from a backup may name, by the same entry, other fingerprints than its former life did.
#[test]
fn segments_are_told_apart_by_their_pages() {
    let (_folder, path) = place();
    let names = ["-backup", "-former", "-delta", "-whole"];
    let [backup, former, delta, whole] = names.map(|name| beside(&path, name));
    let store = options().create(&path).unwrap();
    insert(&store, 0..1000);
    store.snapshot(&backup).unwrap();
    store.close().unwrap();
    let live = |numbers: std::ops::Range<u64>| {
        fs::copy(&backup, &path).unwrap();
        let store = options().open(&path).unwrap();
        insert(&store, numbers);
        store.checkpoint().unwrap();
        store
    };
    let store = live(1000..1100);
    store.snapshot(&former).unwrap();
    store.close().unwrap();
    let store = live(2000..2100);
    store.snapshot(&whole).unwrap();
    let entry = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        let at = places(&bytes).1[0] as usize * 4096 + 16;
        bytes[at..at + 40].to_vec()
    };
    assert_eq!(entry(&former), entry(&whole));
    store.snapshot_since(&delta, &former).unwrap();
    options().apply(&delta, &former).unwrap();
    assert_same(&former, &whole);
    store.close().unwrap();
}
