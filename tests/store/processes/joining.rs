//! A child that is alone at its store halts at each call to the file system in turn, and this process joins it there:
//! it has to wait for one that has the writer lock, which is no lock of a file, and to go on after its death.

use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, Kind, Store};

use super::model::Model;
use super::parent::{CLOSED, Lines, Process, names};
use super::task::{Counted, LEAVING, Task, Work, keys};
use crate::support::share::Share;
use crate::support::unsynced::Unsynced;

/// Keys that were there before: they fill the buffer nearly up.
const BEFORE: u64 = 2600;
const CHILDS: u64 = 950;

/// Where the child was met.
#[derive(Default, Debug)]
struct Met {
    outside: u32,
    with_the_lock: u32,
    opening_or_closing: u32,
}

/// Whether a handle has taken a place, as the shared memory tells (FORMAT.md does not: it is nobody's but the
/// library's).
fn is_taken(store: &Path, slot: usize) -> bool {
    let name = store.file_name().unwrap().to_str().unwrap();
    let words = std::fs::read(store.with_file_name(format!("{name}-shm"))).unwrap();
    let at = (64 + 8 * slot) * 8;
    words[at..at + 8].iter().any(|byte| *byte != 0)
}

/// Joins a child that has the writer lock and doesn't move, and kills it while this waits.
fn join_the_dying(options: &Options, path: &Path, child: &mut Process) -> Store {
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| options.open(path));
        // One that tried in vain before has given its place back.
        while !is_taken(path, 1) {
            assert!(!joining.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        child.kill();
        joining.join().unwrap().unwrap()
    })
}

fn meet(kind: Kind, transactional: bool, stop: u64, met: &mut Met) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let task = Task {
        work: Work::Script,
        stop: Some((Counted::Halt, stop)),
        ..Task::new(kind, transactional, BEFORE, &path)
    };
    println!("{kind}, transactional {transactional}, halt {stop}");
    let capacity = if kind != Kind::Scalable {
        BEFORE + CHILDS + 2000
    } else {
        1000
    };
    let options = task
        .options()
        .capacity(capacity)
        .writer("joins")
        .storage(Unsynced::new());
    options.create(&path).unwrap().close().unwrap();
    let (mut child, lines): (_, Lines) = Process::start(&task);
    if !child.halts() {
        assert!(!child.ended_by(9));
        return false;
    }
    let patient = options.clone();
    let store = match options.timeout(std::time::Duration::ZERO).open(&path) {
        Ok(store) => {
            met.outside += 1;
            Some(store)
        }
        Err(Error::Busy {
            what: "the writer lock",
            process,
            ..
        }) => {
            assert_eq!(process, Some(u64::from(child.id())));
            met.with_the_lock += 1;
            assert!(!is_taken(&path, 1), "its place is kept");
            Some(join_the_dying(&patient, &path, &mut child))
        }
        Err(Error::Busy { .. } | Error::Locked { .. }) => {
            met.opening_or_closing += 1;
            None
        }
        Err(error) => panic!("{error}"),
    };
    child.kill();
    assert!(child.ended_by(9));
    let store = store.unwrap_or_else(|| patient.open(&path).unwrap());
    let mut model = Model::new(transactional, BEFORE + CHILDS, 1);
    if kind == Kind::Fingerprint {
        model.passing.watch_all(LEAVING, false);
    }
    lines.for_each(|told| model.note(0, told));
    model.gone(0);
    // What a dead one left uncommitted is given up by whoever needs it.
    store.checkpoint().unwrap();
    let held = model.check(&store);
    let more = store
        .insert_batch(&keys(BEFORE + CHILDS..BEFORE + CHILDS + 900))
        .unwrap();
    assert!(more.iter().all(|new| *new));
    store.commit().unwrap();
    store.checkpoint().unwrap();
    let passing = model.passing.check(&store);
    assert_eq!(store.stats().unwrap().keys, held + passing + 900);
    assert!(store.verify().unwrap().is_ok());
    store.close().unwrap();
    assert_eq!(names(&path), CLOSED);
    true
}

/// One call in so many is halted at, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 16;

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn who_joins_waits_for_the_one_that_was_alone_and_outlives_it() {
    for (kind, transactional) in [
        (Kind::Bloom, false),
        (Kind::Scalable, true),
        (Kind::Fingerprint, false),
    ] {
        let mut met = Met::default();
        let mut share = Share::between(FEW, 4);
        let halts = (0..)
            .filter(|_| share.takes())
            .take_while(|stop| meet(kind, transactional, *stop, &mut met))
            .count();
        println!("{kind}, transactional {transactional}: {halts} halts, {met:?}");
        let enough = met.with_the_lock > 20 && met.outside > 0;
        assert!(enough || !share.is_all(), "{met:?}");
    }
}
