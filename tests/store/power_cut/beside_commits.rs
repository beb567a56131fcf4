//! The power is cut after a commit during whose sync another handle has appended to the same log.
//!
//! That sync need not cover what was appended meanwhile. A note in the log that says it did would have recovery refuse a
//! log that has lost nothing acknowledged.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::model::{Event, Mark, Model, Recorder, Tape};
use crate::support::files::{held, keys, log_of, place, small};
use crate::support::forge::u64_at;
use crate::support::log;
use crate::support::recorded::disk::{Image, Player, write_image};
use crate::support::recorded::fates::Keep;
use crate::support::unsynced::Unsynced;

/// Where the note of a log has how far the log was durable (FORMAT.md, "The note").
const NOTED: usize = 520;

fn sorts() -> Vec<Options> {
    let fixed = small().capacity(20_000).fpr(1e-9);
    let fingerprint = fixed.clone().kind(Kind::Fingerprint);
    vec![
        fixed.clone().kind(Kind::Bloom),
        fixed.clone().kind(Kind::Bloom).transactional(true),
        fixed.kind(Kind::Counting),
        fingerprint.transactional(true),
    ]
}

/// A new store in which one handle commits, and another one that does something meanwhile.
fn pair(options: &Options, path: &Path) -> (Arc<Tape>, Store, Arc<Store>) {
    let tape = Tape::new(&Image::new(), None);
    let recorder = Recorder::new(&tape);
    let beside = Arc::new(recorder.beside());
    let store = options.clone().storage(Arc::new(recorder));
    let store = store.create(path).unwrap();
    let other = options.clone().storage(beside).open(path).unwrap();
    (tape, store, Arc::new(other))
}

/// Records commits of one handle: during the sync of each, another one inserts.
fn record(options: &Options, commits: u64) -> Vec<Event> {
    let (_folder, path) = place();
    let (tape, store, other) = pair(options, &path);
    for commit in 0..commits {
        store.insert_batch(&keys(own(commit))).unwrap();
        let (there, theirs) = (Arc::clone(&other), keys(beside_commit(commit)));
        tape.while_syncing(move || {
            there.insert_batch(&theirs).unwrap();
        });
        commit_on(&tape, &store, commit + 1);
        assert!(!tape.forget_meanwhile(), "another handle has inserted");
    }
    tape.take().0
}

/// Commits. Its syncs are told from others by the marks on the tape.
fn commit_on(tape: &Tape, store: &Store, sequence: u64) {
    tape.mark(&Mark::CommitBegun {
        writer: "store",
        sequence,
        tag: Arc::default(),
    });
    store.commit().unwrap();
    tape.mark(&Mark::Committed);
}

/// Keys of the handle that commits.
fn own(commit: u64) -> std::ops::Range<u64> {
    commit * 10..commit * 10 + 10
}

/// Keys of the other one.
fn beside_commit(commit: u64) -> std::ops::Range<u64> {
    1000 + commit * 10..1000 + commit * 10 + 7
}

#[test]
fn what_is_appended_during_the_sync_of_a_commit_is_not_noted_as_durable() {
    for options in sorts() {
        for commits in 1..=3 {
            let events = record(&options, commits);
            let mut player = Player::new(&Image::new(), Model::new(false), &events);
            player.advance(events.len());
            let pending = player.pending();
            // The other handle's record and the note, and some reserved room at times: every choice of what is kept.
            assert!((2..8).contains(&pending.len()), "{pending:?}");
            let mut shorter = 0;
            for kept in 0..1_u32 << pending.len() {
                let fates: Vec<_> = (0..pending.len())
                    .map(|place| match kept >> place & 1 {
                        0 => Keep::Lost,
                        _ => Keep::Whole,
                    })
                    .collect();
                let image = player.image(&pending, &fates);
                shorter += u32::from(has_lost_theirs(&options, &image, commits));
            }
            assert!(shorter > 0, "the other handle's keys are never lost");
        }
    }
}

/// Everything that was committed is there. Returns whether the note came to the disk, and the keys that the other handle
/// inserted during the last sync did not.
fn has_lost_theirs(options: &Options, image: &Image, commits: u64) -> bool {
    let folder = TempDir::new().unwrap();
    write_image(image, folder.path()).unwrap();
    let path = folder.path().join("store");
    let log = log_of(&path, 1);
    let (noted, end) = (u64_at(&fs::read(&log).unwrap(), NOTED), log::end(&log));
    assert!(noted <= end as u64, "{noted} is noted of {end} bytes");
    let committed: Vec<_> = (0..commits).flat_map(|commit| keys(own(commit))).collect();
    let options = options.clone().storage(Unsynced::new());
    let reader = options.open_read_only(&path).unwrap();
    assert_eq!(held(&reader, &committed), committed.len());
    drop(reader);
    let store = options.open(&path).unwrap();
    assert_eq!(held(&store, &committed), committed.len());
    noted == end as u64
}

#[test]
fn a_commit_that_returns_late_leaves_the_note_of_a_later_one() {
    for options in sorts() {
        let (_folder, path) = place();
        let (tape, store, other) = pair(&options, &path);
        // So that the handle has written a note of its own.
        store.insert_batch(&keys(0..10)).unwrap();
        commit_on(&tape, &store, 1);
        store.insert_batch(&keys(10..20)).unwrap();
        let there = Arc::clone(&other);
        tape.while_syncing(move || {
            there.insert_batch(&keys(20..30)).unwrap();
            there.commit().unwrap();
        });
        commit_on(&tape, &store, 2);
        assert!(!tape.forget_meanwhile(), "another handle has committed");
        let log = log_of(&path, 1);
        let noted = u64_at(&fs::read(&log).unwrap(), NOTED);
        assert_eq!(noted, log::end(&log) as u64);
    }
}
