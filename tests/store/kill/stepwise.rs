//! Kills before every call to the file system, and in the middle of every write: at one in 24 of these steps, with
//! `EVERSEEN_ALL=1` at each.

use everseen::Kind;

use super::parent::{Moment, run, with_stores};
use super::survivor::{Ledger, copy_of};
use super::task::{MOST_WORKERS, Task, Work};
use crate::support::segments::count;
use crate::support::share::{Share, all_or};

/// Steps between two first kills whose recovery is killed in turn, and between those kills.
fn strides() -> (usize, usize) {
    (17, all_or(4, 24))
}

const LONG: (usize, usize) = (5, 1);

/// One step in so many is killed at.
const FEW: u64 = 24;

/// Kills a script at its steps, then the recovery from some of these kills at some of its own.
fn kill_stepwise(kind: Kind, transactional: bool, strides: (usize, usize), mut share: Share) {
    let (mut kills, mut again, mut steps) = (0, 0, 0_usize);
    for stop in 0.. {
        if !share.takes() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::default();
        let mut task = Task {
            kind,
            transactional,
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
        (task.next, task.gone) = (held.next, held.gone);
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
        "{kind}, transactional {transactional}: killed at {kills} steps, and {again} times more while that was \
         recovered"
    );
}

#[test]
fn kills_at_each_step_of_a_bloom_store() {
    kill_stepwise(Kind::Bloom, false, strides(), Share::between(FEW, 8));
}

#[test]
fn kills_at_each_step_of_a_transactional_bloom_store() {
    kill_stepwise(Kind::Bloom, true, strides(), Share::between(FEW, 8));
}

#[test]
fn kills_at_each_step_of_a_scalable_store() {
    kill_stepwise(Kind::Scalable, false, strides(), Share::between(FEW, 8));
}

#[test]
fn kills_at_each_step_of_a_transactional_scalable_store() {
    kill_stepwise(Kind::Scalable, true, strides(), Share::between(FEW, 8));
}

#[test]
fn kills_at_each_step_of_a_store_of_fingerprints() {
    kill_stepwise(Kind::Fingerprint, false, strides(), Share::between(FEW, 8));
}

#[test]
fn kills_at_each_step_of_a_transactional_store_of_fingerprints() {
    kill_stepwise(Kind::Fingerprint, true, strides(), Share::between(FEW, 8));
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_each_step"]
fn long_each_step_and_each_step_of_recoveries() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            kill_stepwise(kind, transactional, LONG, Share::one_in(1));
        }
    }
}
