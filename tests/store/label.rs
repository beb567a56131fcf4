//! The label: a store keeps it, whatever becomes of the store, and never takes it for a commit.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, OnDamage, Store, SuperblockFault};

use crate::merge::pages::{Bench, merge};
use crate::support::files::{format_error, held, image, keys, place, small};
use crate::support::forge;

const LABEL: &[u8] = b"rules 7\0\xFF";
/// The name of the label's entry (FORMAT.md, "Label").
const ENTRY: &str = "everseen.label";

fn kinds() -> [Options; 3] {
    let fixed = small().capacity(5000).fpr(0.01).label(LABEL);
    [
        fixed.clone(),
        fixed.clone().kind(Kind::Counting),
        fixed.kind(Kind::Scalable).transactional(true),
    ]
}

/// The label of a store that is opened to be read, and to be written.
#[track_caller]
fn label(path: &Path) -> Option<Vec<u8>> {
    let labels = [small().open_read_only(path), small().open(path)].map(|store| {
        let store = store.unwrap();
        let label = store.label().map(<[u8]>::to_vec);
        store.close().unwrap();
        label
    });
    assert_eq!(labels[0], labels[1]);
    labels[0].clone()
}

fn commits(store: &Store) -> Vec<(String, Vec<u8>)> {
    let commits = store.stats().unwrap().commits;
    commits
        .into_iter()
        .map(|commit| (commit.writer, commit.tag))
        .collect()
}

#[test]
fn a_label_is_there_from_the_first_handle_on_and_is_no_commit() {
    for options in kinds() {
        let (_folder, path) = place();
        let store = options.create(&path).unwrap();
        assert_eq!(store.label(), Some(LABEL));
        assert!(commits(&store).is_empty());
        store.insert_batch(&keys(0..500)).unwrap();
        store.commit_with(b"tag").unwrap();
        // Those that join have it too, and what a crash leaves.
        let other = small().open(&path).unwrap();
        assert_eq!(other.label(), Some(LABEL));
        let expected = [("default".to_owned(), b"tag".to_vec())];
        for store in [&store, &other] {
            assert_eq!(commits(store), expected);
            assert_eq!(store.last_commit(ENTRY).unwrap(), None);
        }
        let (_copies, copied) = image(&path);
        assert_eq!(label(&copied).as_deref(), Some(LABEL));
        other.close().unwrap();
        store.checkpoint().unwrap();
        assert_eq!(commits(&store), expected);
        store.close().unwrap();
        assert_eq!(label(&path).as_deref(), Some(LABEL));
        let store = small().open(&path).unwrap();
        assert_eq!(commits(&store), expected);
        assert_eq!(held(&store, &keys(0..500)), 500);
    }
}

#[test]
fn a_store_without_a_label_has_none() {
    for options in [small(), small().label(b"")] {
        let (_folder, path) = place();
        assert_eq!(options.create(&path).unwrap().label(), None);
        // Of an existing store, options change nothing.
        let opened = small().label(LABEL).open_or_create(&path).unwrap();
        assert_eq!(opened.label(), None);
        opened.close().unwrap();
        assert_eq!(fs::read(&path).unwrap()[16..24], [0; 8]);
    }
}

#[test]
fn copies_deltas_and_repair_keep_it() {
    let bench = Bench::new();
    let path = bench.make("store", &kinds()[0], &keys(0..500));
    let copy = bench.path("copy");
    let delta = bench.path("delta");
    let store = small().open(&path).unwrap();
    store.snapshot(&copy).unwrap();
    let copied = small().open_read_only(&copy).unwrap();
    assert_eq!(copied.label(), Some(LABEL));
    drop(copied);
    store.insert_batch(&keys(500..900)).unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    small().apply(&delta, &copy).unwrap();
    assert_eq!(label(&copy).as_deref(), Some(LABEL));
    assert_eq!(held(&small().open(&copy).unwrap(), &keys(0..900)), 900);
    store.close().unwrap();

    // The header is restored from a superblock's copy, with the bit that says that there is a label.
    forge::patch(&path, 100, &[0xFF; 8]);
    assert!(small().repair(&path, OnDamage::Seen).unwrap().header);
    assert_eq!(label(&path).as_deref(), Some(LABEL));
    // The newest superblock is lost.
    let slot = forge::newest(&path);
    forge::patch(&path, forge::SUPERBLOCKS[slot] + 8, &[0xFF; 4]);
    assert!(small().repair(&path, OnDamage::Seen).unwrap().superblock);
    assert_eq!(label(&path).as_deref(), Some(LABEL));
}

#[test]
fn stores_like_another_take_its_label_over() {
    let bench = Bench::new();
    let none = &keys(0..0);
    for (name, options) in ["bloom", "counting", "scalable"].iter().zip(kinds()) {
        let model = bench.make(name, &options, none);
        let like = || small().like(&model);
        let made = |which: &str, options: &Options| {
            label(&bench.make(&format!("{name}-{which}"), options, none))
        };
        assert_eq!(made("same", &like()).as_deref(), Some(LABEL));
        let other = like().label(b"other");
        assert_eq!(made("other", &other).as_deref(), Some(&b"other"[..]));
        assert_eq!(made("none", &like().label(b"")), None);
    }
}

#[test]
fn a_merged_store_has_the_label_of_all() {
    let bench = Bench::new();
    for (round, options) in kinds().into_iter().enumerate() {
        if round == 1 {
            continue;
        }
        let name = |name: &str| format!("{name}-{round}");
        let one = bench.make(&name("one"), &options, &keys(0..300));
        let two = bench.like(&name("two"), &one, 1, &keys(300..600));
        let bare = small().like(&one).label(b"");
        let bare = bench.make(&name("bare"), &bare, &keys(600..900));
        let other = small().like(&one).label(b"other");
        let other = bench.make(&name("other"), &other, &keys(600..900));

        let out = |which: &str| bench.path(&name(which));
        for (inputs, expected) in [
            (vec![&one, &two], Some(LABEL)),
            (vec![&two], Some(LABEL)),
            (vec![&one, &bare], None),
            (vec![&bare, &one], None),
            (vec![&bare], None),
        ] {
            let path = out("union");
            merge().union(&path, &inputs).unwrap();
            assert_eq!(label(&path).as_deref(), expected, "{inputs:?}");
            assert!(commits(&small().open(&path).unwrap()).is_empty());
            fs::remove_file(path).unwrap();
        }
        let error = merge()
            .union(out("refused"), &[&bare, &one, &other])
            .unwrap_err();
        match error {
            Error::Mismatch {
                path,
                other: first,
                field,
                expected,
                got,
            } => {
                assert_eq!((path, first), (other, one.clone()));
                let wrong = (field, &*expected, &*got);
                assert_eq!(wrong, ("label", r#""rules 7\x00\xff""#, r#""other""#));
            }
            error => panic!("{error:?}"),
        }
        assert!(!out("refused").exists());
    }
    let large = small().capacity(300_000).fpr(0.01).foldable(1).label(LABEL);
    let large = bench.make("large", &large, &keys(0..300));
    merge().fold(&large, bench.path("half"), 2).unwrap();
    assert_eq!(label(&bench.path("half")).as_deref(), Some(LABEL));
}

#[test]
fn a_label_may_be_so_long_and_no_longer() {
    let (_folder, path) = place();
    let longest = vec![b'x'; 4096];
    let store = small().label(&longest).create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.commit_with(&[b'y'; 4096]).unwrap();
    store.close().unwrap();
    assert_eq!(label(&path), Some(longest));

    let (_folder, path) = place();
    let error = small().label(&[b'x'; 4097]).create(&path).unwrap_err();
    assert_invalid(&error, "label", "4097 bytes");
    assert!(!path.exists());
}

#[test]
fn no_handle_commits_under_the_name_of_the_label() {
    let (_folder, path) = place();
    kinds()[0].create(&path).unwrap().close().unwrap();
    for error in [
        small().writer(ENTRY).open(&path).unwrap_err(),
        small().writer(ENTRY).open_or_create(&path).unwrap_err(),
    ] {
        assert_invalid(&error, "writer", ENTRY);
    }
}

#[track_caller]
fn assert_invalid(error: &Error, wrong: &str, value: &str) {
    match error {
        Error::InvalidOption { option, got, .. } => assert_eq!((*option, &**got), (wrong, value)),
        error => panic!("{error:?}"),
    }
}

/// The header says that there is a label, and no superblock has one.
#[test]
fn a_label_that_is_missing_is_a_fault_of_the_superblock() {
    let (_folder, path) = place();
    let options = small().capacity(1000);
    options.create(&path).unwrap().close().unwrap();
    forge::header(&path, 16, &1_u64.to_le_bytes());
    let error = format_error(options.open(&path), &path);
    let FormatError::NoSuperblock { b, .. } = error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(b, SuperblockFault::Field { field: "label", .. }),
        "{b:?}"
    );
}

/// A build that knows no labels merges a single store so: the entry goes along and the bit does not.
#[test]
fn without_the_bit_the_entry_is_a_commit_like_others() {
    let (_folder, path) = place();
    kinds()[0].create(&path).unwrap().close().unwrap();
    forge::header(&path, 16, &0_u64.to_le_bytes());
    assert_eq!(label(&path), None);
    let store = small().open(&path).unwrap();
    assert_eq!(commits(&store), [(ENTRY.to_owned(), LABEL.to_vec())]);
}
