//! What two processes see of each other.

use everseen::testing::{Appending, Options};
use std::path::PathBuf;
use std::time::Duration;

use everseen::testing::storage::HeldByte;
use everseen::{Error, Kind, Verdict};
use tempfile::TempDir;

use super::model::Model;
use super::parent::{CLOSED, Process, names};
use super::task::{Task, Told, Work, key, keys};
use crate::support::unsynced::Unsynced;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    (folder, path)
}

fn options(task: &Task) -> Options {
    task.options().writer("parent").storage(Unsynced::new())
}

fn is_open(told: &Told) -> bool {
    matches!(told, Told::Opened(_))
}

fn is_answer(told: &Told) -> bool {
    matches!(told, Told::Answer(_))
}

fn claimed(store: &everseen::Store, numbers: std::ops::Range<u64>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    store.claim_into(&keys(numbers), &mut verdicts).unwrap();
    verdicts
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn of_two_that_insert_the_same_keys_one_wins_each() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            let (_folder, path) = place();
            let task = Task::new(kind, transactional, 1 << 15, &path);
            options(&task).create(&path).unwrap().close().unwrap();
            let mut model = Model::new(transactional, task.keys, 2);
            let children = [0, 1].map(|slot| {
                Process::start(&Task {
                    slot,
                    seed: slot as u64,
                    background: slot == 0,
                    ..task.clone()
                })
            });
            // Both are read at once: one that waits for its pipe keeps the other one's keys pending.
            let told = children.map(|(mut process, lines)| {
                std::thread::spawn(move || {
                    let told: Vec<_> = lines.collect();
                    process.ended_by(9);
                    told
                })
            });
            let told = told.map(|reading| reading.join().unwrap());
            for (slot, told) in told.into_iter().enumerate() {
                assert_eq!(told.last(), Some(&Told::End));
                told.into_iter().for_each(|told| model.note(slot, told));
            }
            let won = model.acknowledged();
            assert!(won.iter().copied().eq(0..task.keys));
            assert_eq!(names(&path), CLOSED);
            let store = options(&task).open(&path).unwrap();
            assert_eq!(model.check(&store), task.keys);
            assert!(store.verify().unwrap().is_ok());
        }
    }
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn what_one_has_inserted_another_sees_at_once() {
    let (_folder, path) = place();
    let task = Task::new(Kind::Bloom, false, 1 << 10, &path);
    let store = options(&task).create(&path).unwrap();
    let (mut child, mut lines) = Process::start(&Task {
        work: Work::Hold(500),
        ..task
    });
    lines.wait_for(is_answer);
    assert!(
        store
            .contains_batch(&keys(0..500))
            .unwrap()
            .iter()
            .all(|found| *found)
    );
    assert_eq!(claimed(&store, 0..500), [Verdict::Seen; 500]);
    assert!(!store.contains(key(500)).unwrap());
    child.kill();
    assert!(child.ended_by(9));
    assert_eq!(claimed(&store, 0..500), [Verdict::Seen; 500]);
    store.close().unwrap();
    assert_eq!(names(&path), CLOSED);
    let store = options(&Task::new(Kind::Bloom, false, 1 << 10, &path))
        .open(&path)
        .unwrap();
    assert_eq!(store.stats().unwrap().keys, 500);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn what_one_has_not_committed_is_pending_until_it_is_killed() {
    for rotate in [false, true] {
        let (_folder, path) = place();
        let task = Task::new(Kind::Bloom, true, 1 << 13, &path);
        let store = options(&task).create(&path).unwrap();
        let (mut child, mut lines) = Process::start(&Task {
            work: Work::Hold(500),
            ..task
        });
        lines.wait_for(is_answer);
        assert_eq!(claimed(&store, 0..500), [Verdict::Pending; 500]);
        if rotate {
            assert_eq!(claimed(&store, 1000..1500), [Verdict::New; 500]);
            store.checkpoint().unwrap();
            assert_eq!(claimed(&store, 0..500), [Verdict::Pending; 500]);
        }
        child.kill();
        assert!(child.ended_by(9));
        assert_eq!(claimed(&store, 0..400), [Verdict::New; 400]);
        if rotate {
            assert_eq!(claimed(&store, 1000..1500), [Verdict::Seen; 500]);
        }
        store.commit().unwrap();
        store.checkpoint().unwrap();
        let more = if rotate { 500 } else { 0 };
        assert_eq!(store.stats().unwrap().keys, 400 + more);
        store.close().unwrap();
        assert_eq!(names(&path), CLOSED);
    }
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_reader_follows_a_writer_in_another_process_to_its_end() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let (_folder, path) = place();
        // What it tells about so many keys is more than the pipe takes: it is still there when the reader comes.
        let task = Task::new(kind, false, 1 << 15, &path);
        let options = options(&task);
        options.create(&path).unwrap().close().unwrap();
        let (mut child, mut lines) = Process::start(&task);
        lines.wait_for(is_open);
        let reader = options.open_read_only(&path).unwrap();
        let mut claiming = Vec::new();
        let mut ended = false;
        // It may be far ahead of what is read here: then its end is known here before its last lines are.
        for told in lines.by_ref() {
            match told {
                Told::Begin(keys) => claiming = keys,
                Told::Answer(_) if !ended => {
                    match reader.contains_batch(&keys(claiming.drain(..))) {
                        Ok(found) => assert!(found.iter().all(|found| *found)),
                        Err(Error::Ended) => ended = true,
                        Err(error) => panic!("{error}"),
                    }
                }
                _ => {}
            }
        }
        assert!(!child.ended_by(9));
        let found = reader.contains(key(1));
        assert!(matches!(found, Err(Error::Ended)), "{found:?}");
        assert!(matches!(reader.insert(key(1)), Err(Error::ReadOnly)));
        let reader = options.open_read_only(&path).unwrap();
        assert!(reader.contains(key(1)).unwrap());
    }
}

#[test]
fn exclusive_is_exclusive_both_ways() {
    let (_folder, path) = place();
    let task = Task::new(Kind::Bloom, false, 1 << 10, &path);
    options(&task).create(&path).unwrap().close().unwrap();
    for exclusive in [false, true] {
        let (mut child, mut lines) = Process::start(&Task {
            exclusive,
            work: Work::Hold(10),
            ..task.clone()
        });
        lines.wait_for(is_answer);
        let options = options(&task);
        let alone = options.clone().exclusive(true).open(&path);
        assert!(matches!(alone, Err(Error::Locked { .. })), "{alone:?}");
        // Each process is exclusive where they can't share a store.
        if exclusive || cfg!(everseen_portable) {
            let shared = options.open(&path);
            assert!(matches!(shared, Err(Error::Locked { .. })), "{shared:?}");
            let reader = options.open_read_only(&path);
            assert!(matches!(reader, Err(Error::Locked { .. })), "{reader:?}");
        }
        child.kill();
        assert!(child.ended_by(9));
        let alone = options.clone().exclusive(true).open(&path).unwrap();
        assert!(alone.contains(key(9)).unwrap());
        assert!(matches!(options.open(&path), Err(Error::Locked { .. })));
        alone.close().unwrap();
        assert_eq!(names(&path), CLOSED);
    }
}

const HUNG: Duration = Duration::from_secs(600);

/// The locks of a store file: FORMAT.md, "Locks and concurrent readers".
const GATE: u64 = 1 << 62;
const PRESENCE: u64 = GATE + 1;

/// A process that is killed lets go of its locks one after the other: the gate may be free while the
/// lock that shuts everybody out is not.
#[test]
fn an_opener_outlasts_the_lock_of_a_dying_process() {
    let (_folder, path) = place();
    let task = Task::new(Kind::Bloom, false, 1 << 10, &path);
    options(&task).create(&path).unwrap().close().unwrap();
    for read_only in [false, true].repeat(10) {
        let presence = HeldByte::take(&path, PRESENCE).unwrap();
        assert!(presence.is_some());
        // However long this thread takes to let go of the lock.
        let options = options(&task).timeout(HUNG).dying(HUNG);
        let from = path.clone();
        let opener = std::thread::spawn(move || match read_only {
            true => options.open_read_only(&from),
            false => options.open(&from),
        });
        // Inside of the gate it meets the lock.
        while !opener.is_finished() && HeldByte::take(&path, GATE).unwrap().is_some() {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            std::thread::yield_now();
        }
        drop(presence);
        opener.join().unwrap().unwrap().close().unwrap();
    }
}
