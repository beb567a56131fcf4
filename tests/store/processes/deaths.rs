//! A child dies at each call to the file system in turn, and this process, which has the store open, goes on.

use everseen::testing::Appending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::{Kind, Store, Verdict};

use super::hooked::{Call, Hook, Hooked, Point};
use super::model::Model;
use super::parent::{CLOSED, Process, names};
use super::task::{Counted, LEAVING, Task, Told, Work, keys, writer};
use crate::support::segments::{Guard, count};
use crate::support::share::Share;
use crate::support::unsynced::Unsynced;

/// Keys that were there before the child came, in part uncommitted.
const BEFORE: u64 = 2600;
const COMMITTED: u64 = 2400;
/// Keys that the child tries to add, from [`BEFORE`] on.
const CHILDS: u64 = 950;
/// Keys that come after its death.
const AFTER: u64 = 4000;
const ALL: u64 = BEFORE + CHILDS + AFTER;

fn claim(store: &Store, numbers: std::ops::Range<u64>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    store.claim_into(&keys(numbers), &mut verdicts).unwrap();
    verdicts
}

fn all_new(store: &Store, numbers: std::ops::Range<u64>) {
    for from in numbers.clone().step_by(500) {
        let verdicts = claim(store, from..(from + 500).min(numbers.end));
        let new = |verdict: &Verdict| *verdict == Verdict::New;
        assert!(verdicts.iter().all(new), "from {from}: {verdicts:?}");
        if from + 500 < numbers.end {
            store.commit().unwrap();
        }
    }
}

/// Fills the buffer nearly up. Commits in between, so that states of transactions are not what they are in the next.
fn prepare(store: &Store, kind: Kind) {
    if kind == Kind::Fingerprint {
        // Some are in the pages when they are removed, some in the buffer.
        let middle = LEAVING.start + 100;
        all_new(store, LEAVING.start..middle);
        store.commit().unwrap();
        store.checkpoint().unwrap();
        all_new(store, middle..LEAVING.end);
    }
    all_new(store, 0..COMMITTED);
    store.commit().unwrap();
    all_new(store, COMMITTED..BEFORE);
}

/// Runs the child up to its `stop`th point; answers whether it came to it.
fn run(task: &Task, model: &mut Model) -> bool {
    let (mut child, lines) = Process::start(task);
    lines.for_each(|told| model.note(0, told));
    model.gone(0);
    child.ended_by(6)
}

/// What was the child's is there or free again, and everything goes on.
fn go_on(store: &Store, task: &Task, model: &mut Model) {
    if task.kind == Kind::Fingerprint && !task.transactional {
        // This takes over from the dead one. What a key is from now on it stays, though nobody was told: its change is in
        // the log, or it is not.
        store.commit().unwrap();
        model.passing.check(store);
    }
    // So does this. The dead one's last commit may be in the log and known to nobody before.
    let verdicts = claim(store, BEFORE..BEFORE + CHILDS);
    let last = store.last_commit(&writer(0)).unwrap();
    let last = last.map_or(0, |commit| {
        u64::from_le_bytes(commit.tag.try_into().unwrap())
    });
    model.note(0, Told::Opened(last));
    let won = model.acknowledged();
    for (key, verdict) in (BEFORE..).zip(verdicts) {
        if won.contains(&key) {
            assert_eq!(verdict, Verdict::Seen, "key {key}");
        } else if task.transactional {
            assert_eq!(verdict, Verdict::New, "key {key}");
        }
    }
    let found = store.contains_batch(&keys(0..BEFORE + CHILDS)).unwrap();
    let lost = found.iter().position(|found| !found);
    assert_eq!(lost, None);
    store.commit().unwrap();
    all_new(store, BEFORE + CHILDS..ALL);
    store.commit().unwrap();
}

/// Notices whether this process has synced the store file since a death, and whether it removed a
/// log without having done so: what makes that log needless may be in the page cache alone.
#[derive(Default)]
struct Care {
    synced: AtomicBool,
    careless: AtomicBool,
}

impl Care {
    fn hook(self: &Arc<Self>, store: &Path) -> Hook {
        let (care, store) = (Arc::clone(self), store.to_owned());
        Arc::new(move |point: Point<'_>| {
            if point.call == Call::Sync && point.path == store {
                care.synced.store(true, Ordering::SeqCst);
            }
            let settles = || {
                let name = point.path.to_str().unwrap();
                let (stem, number) = name.rsplit_once('.').unwrap();
                let next = number.parse::<u64>().unwrap() + 1;
                // Without a next one it is itself a next one, which never counted.
                Path::new(&format!("{stem}.{next}")).exists()
            };
            let removes_log = point.call == Call::Remove && point.is_log();
            if removes_log && !care.synced.load(Ordering::SeqCst) && settles() {
                care.careless.store(true, Ordering::SeqCst);
            }
        })
    }

    fn somebody_died(&self) {
        self.synced.store(false, Ordering::SeqCst);
    }
}

/// One call in so many is the last of a child, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 16;

fn die_stepwise(kind: Kind, transactional: bool, counted: Counted) {
    // Records are few, and a death behind one is hard to meet by chance.
    let few = if counted == Counted::Records { 1 } else { FEW };
    let mut share = Share::one_in(few);
    let (mut deaths, mut stop) = (0, 0);
    loop {
        if !share.takes() {
            stop += 1;
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let task = Task {
            work: Work::Script,
            stop: Some((counted, stop)),
            ..Task::new(kind, transactional, BEFORE, &path)
        };
        println!("{kind}, transactional {transactional}, {counted:?} {stop}");
        let options = task.options().capacity(if kind == Kind::Scalable {
            1000
        } else {
            ALL + 400
        });
        let care = Arc::new(Care::default());
        let storage = Hooked::new(Guard::new(Unsynced::new()), care.hook(&path));
        let options = options.writer("survivor").storage(storage);
        let store = options.create(&path).unwrap();
        prepare(&store, kind);
        let mut model = Model::new(transactional, ALL, 1);
        if kind == Kind::Fingerprint {
            model.passing.watch_all(LEAVING, true);
        }
        let died = run(&task, &mut model);
        care.somebody_died();
        if counted == Counted::Pages {
            // The dead one's checkpoint is brought to its end.
            store.checkpoint().unwrap();
            let report = store.verify().unwrap();
            assert!(report.is_ok(), "{:?}", report.damaged);
        }
        go_on(&store, &task, &mut model);
        store.close().unwrap();
        let careless = care.careless.load(Ordering::SeqCst);
        assert!(
            !careless,
            "a log is removed, and what makes it needless not durable"
        );
        assert_eq!(names(&path), CLOSED);
        let store = options.open_read_only(&path).unwrap();
        let found = store.contains_batch(&keys(0..ALL)).unwrap();
        let lost = found.iter().position(|found| !found);
        assert_eq!(lost, None, "after closing");
        let held = ALL + model.passing.check(&store);
        assert_eq!(store.stats().unwrap().keys, held);
        assert!(store.verify().unwrap().is_ok());
        assert!(kind != Kind::Fingerprint || count(&path) > 1);
        if !died {
            break;
        }
        deaths += 1;
        stop += 1;
    }
    let least = if counted == Counted::Records { 8 } else { 20 };
    assert!(stop > least, "{stop}");
    eprintln!("{kind}, transactional {transactional}, {counted:?}: {deaths} deaths survived");
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_bloom_store() {
    die_stepwise(Kind::Bloom, false, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_transactional_bloom_store() {
    die_stepwise(Kind::Bloom, true, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_scalable_store() {
    die_stepwise(Kind::Scalable, false, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_transactional_scalable_store() {
    die_stepwise(Kind::Scalable, true, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_store_of_fingerprints() {
    die_stepwise(Kind::Fingerprint, false, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_call_at_a_transactional_store_of_fingerprints() {
    die_stepwise(Kind::Fingerprint, true, Counted::All);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_behind_each_record_of_a_store_of_fingerprints() {
    for transactional in [false, true] {
        die_stepwise(Kind::Fingerprint, transactional, Counted::Records);
    }
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_death_at_each_write_of_a_checkpoint() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            die_stepwise(kind, transactional, Counted::Pages);
        }
    }
}
