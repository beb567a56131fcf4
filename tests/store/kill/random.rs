//! Kills at random moments, many in a row on the same store.

use everseen::Kind;

use super::parent::{Moment, run, with_stores};
use super::survivor::Ledger;
use super::task::{MOST_WORKERS, Task, Told, Work, key_of, tag};
use crate::support::ages::BEGIN;
use crate::support::numbers::Random;
use crate::support::segments::count;

/// Kills of each of the eight tests here, unless this variable says how many all together.
const KILLS: u64 = 10;
const VARIABLE: &str = "EVERSEEN_KILLS";

fn kills() -> u64 {
    std::env::var(VARIABLE).map_or(KILLS, |all| all.parse::<u64>().unwrap().div_ceil(8))
}

fn kind_seed(kind: Kind) -> u64 {
    match kind {
        Kind::Scalable => 1,
        Kind::Fingerprint => 4,
        _ => 0,
    }
}

fn moment(random: &mut Random) -> Moment {
    let told = match random.below(8) {
        // While it starts, opens, recovers.
        0 => 0,
        1 | 2 => 1,
        _ => {
            let most = 1 << random.below(9);
            2 + random.below(most)
        }
    };
    // A turn takes some 10 ns, a start some milliseconds.
    let most = 1 << random.below(if told == 0 { 19 } else { 15 });
    Moment::After {
        told,
        turns: random.below(most),
    }
}

/// Makes a store of several segments, and has the ledger know of its keys.
fn fill(task: &mut Task, ledger: &mut Ledger) {
    with_stores(|| {
        let store = task.options().create(&task.path).unwrap();
        let count = 5000;
        for next in (500..=count).step_by(500) {
            let keys: Vec<_> = (next - 500..next).map(|index| key_of(0, index)).collect();
            store.insert_batch(&keys).unwrap();
            ledger.note(Told::Inserted { worker: 0, next }, task.transactional);
            ledger.note(Told::Committing { next, gone: 0 }, task.transactional);
            let sequence = store.commit_with(&tag(next, 0)).unwrap();
            ledger.note(Told::Committed { sequence }, task.transactional);
        }
        task.next[0] = count;
        store.close().unwrap();
    });
}

/// Kills children at work on stores of one kind.
fn kill_often(kind: Kind, transactional: bool, forgets: bool) {
    let kills = kills();
    let mut random =
        Random::new(u64::from(transactional) * 2 + u64::from(forgets) * 8 + kind_seed(kind));
    let mut killed = 0;
    let (mut keys, mut stores, mut while_opening, mut segments) = (0, 0, 0, 0);
    while killed < kills {
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
            work: Work::Random,
            seed: 0,
            next: [0; MOST_WORKERS],
            gone: [0; MOST_WORKERS],
            stop: None,
            path: folder.path().join("store"),
        };
        if !transactional && random.below(2) == 0 {
            task.workers = 2;
        }
        stores += 1;
        if kind == Kind::Fingerprint && stores % 2 == 1 {
            fill(&mut task, &mut ledger);
        }
        while killed < kills && task.next.iter().sum::<u64>() < task.limit() / 10 * 9 {
            task.background = random.below(2) == 0;
            task.synced = random.below(8) == 0;
            task.seed = random.next();
            let moment = moment(&mut random);
            let before = ledger.clone();
            run(&task, moment, &mut ledger);
            while_opening += u64::from(!ledger.opened());
            let keep = random.below(3) > 0;
            let buffer = everseen::testing::LEAST_BUFFER << random.below(4);
            // Printed when it fails.
            println!(
                "kill {killed}: {moment:?} {task:?}, keep {keep}, from {before:?} to {ledger:?}"
            );
            let held = with_stores(|| ledger.look(&task, buffer, keep));
            ledger.hand_on(&mut task, held);
            killed += 1;
            if task.path.exists() {
                segments = segments.max(count(&task.path));
            }
        }
        keys += task.next.iter().sum::<u64>();
    }
    assert!(kind != Kind::Fingerprint || segments > 2, "{segments}");
    eprintln!(
        "{kind}, transactional {transactional}, forgets {forgets}: {killed} kills, {while_opening} of them before the store was open, \
         {stores} stores, {keys} keys, none lost"
    );
}

#[test]
fn kills_of_a_bloom_store() {
    kill_often(Kind::Bloom, false, false);
}

#[test]
fn kills_of_a_transactional_bloom_store() {
    kill_often(Kind::Bloom, true, false);
}

#[test]
fn kills_of_a_scalable_store() {
    kill_often(Kind::Scalable, false, false);
}

#[test]
fn kills_of_a_transactional_scalable_store() {
    kill_often(Kind::Scalable, true, false);
}

#[test]
fn kills_of_a_store_of_fingerprints() {
    kill_often(Kind::Fingerprint, false, false);
}

#[test]
fn kills_of_a_transactional_store_of_fingerprints() {
    kill_often(Kind::Fingerprint, true, false);
}

#[test]
fn kills_of_a_store_that_forgets() {
    kill_often(Kind::Fingerprint, false, true);
}

#[test]
fn kills_of_a_transactional_store_that_forgets() {
    kill_often(Kind::Fingerprint, true, true);
}
