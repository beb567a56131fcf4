//! Kills before every call to the file system, and in the middle of every write: at one in 24 of these steps, with
//! `EVERSEEN_ALL=1` at each.

use everseen::Kind;

use super::parent::{Moment, run, with_stores};
use super::survivor::{Ledger, copy_of};
use super::task::{MOST_WORKERS, Task, Work};
use crate::support::ages::BEGIN;
use crate::support::segments::count;
use crate::support::share::{Share, all_or};

/// Steps between two first kills whose recovery is killed in turn, and between those kills.
fn strides() -> (usize, usize) {
    (17, all_or(4, 24))
}

const LONG: (usize, usize) = (5, 1);

/// One step in so many is killed at.
const FEW: u64 = 24;

/// Stores whose processes are killed.
#[derive(Debug, Clone, Copy)]
struct Stores {
    kind: Kind,
    transactional: bool,
    forgets: bool,
}

impl Stores {
    fn of(kind: Kind, transactional: bool) -> Self {
        Self {
            kind,
            transactional,
            forgets: false,
        }
    }

    /// Stores of fingerprints with ages.
    fn that_forget(transactional: bool) -> Self {
        Self {
            forgets: true,
            ..Self::of(Kind::Fingerprint, transactional)
        }
    }
}

/// Kills a script at its steps, then the recovery from some of these kills at some of its own.
fn kill_stepwise(stores: Stores, strides: (usize, usize), mut share: Share) {
    let Stores {
        kind,
        transactional,
        forgets,
    } = stores;
    let (mut kills, mut again, mut steps) = (0, 0, 0_usize);
    for stop in 0.. {
        if !share.takes() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::begin();
        let mut task = Task {
            kind,
            transactional,
            forgets,
            clock: BEGIN,
            ages: Default::default(),
            background: false,
            synced: false,
            workers: 1,
            work: Work::Script,
            seed: 1,
            next: [0; MOST_WORKERS],
            gone: [0; MOST_WORKERS],
            stop: Some(stop),
            path: folder.path().join("store"),
        };
        let killed = run(&task, Moment::Stopped, &mut ledger);
        println!("{task:?}, killed {killed}, {ledger:?}");
        let due = steps.is_multiple_of(strides.0);
        steps += 1;
        let held = with_stores(|| ledger.look(&task, everseen::testing::LEAST_BUFFER, due));
        ledger.hand_on(&mut task, held);
        if !killed {
            assert!(kind != Kind::Fingerprint || count(&task.path) > 1);
            break;
        }
        kills += 1;
        if !due {
            continue;
        }
        for second in (stop as usize % strides.1..).step_by(strides.1) {
            let (_folder, path) = copy_of(&task.path);
            let mut ledger = ledger.clone();
            let task = Task {
                work: Work::Short,
                stop: Some(second as u64),
                path,
                ..task.clone()
            };
            let killed = run(&task, Moment::Stopped, &mut ledger);
            println!("{task:?}, killed {killed}, {ledger:?}");
            with_stores(|| ledger.look(&task, everseen::testing::LEAST_BUFFER, false));
            if !killed {
                break;
            }
            again += 1;
        }
    }
    assert!(kills > 150 || !share.is_all(), "{kills} steps are few");
    eprintln!(
        "{stores:?}: killed at {kills} steps, and {again} times more while that was \
         recovered"
    );
}

#[test]
fn kills_at_each_step_of_a_bloom_store() {
    kill_stepwise(
        Stores::of(Kind::Bloom, false),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_transactional_bloom_store() {
    kill_stepwise(
        Stores::of(Kind::Bloom, true),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_scalable_store() {
    kill_stepwise(
        Stores::of(Kind::Scalable, false),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_transactional_scalable_store() {
    kill_stepwise(
        Stores::of(Kind::Scalable, true),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_store_of_fingerprints() {
    kill_stepwise(
        Stores::of(Kind::Fingerprint, false),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_transactional_store_of_fingerprints() {
    kill_stepwise(
        Stores::of(Kind::Fingerprint, true),
        strides(),
        Share::between(FEW, 8),
    );
}

#[test]
fn kills_at_each_step_of_a_store_that_forgets() {
    let share = || Share::between(FEW, 8);
    for transactional in [false, true] {
        kill_stepwise(Stores::that_forget(transactional), strides(), share());
    }
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_each_step"]
fn long_each_step_and_each_step_of_recoveries() {
    for transactional in [false, true] {
        let kinds = [Kind::Bloom, Kind::Scalable, Kind::Fingerprint];
        let stores = kinds.map(|kind| Stores::of(kind, transactional));
        for stores in stores
            .into_iter()
            .chain([Stores::that_forget(transactional)])
        {
            kill_stepwise(stores, LONG, Share::one_in(1));
        }
    }
}
