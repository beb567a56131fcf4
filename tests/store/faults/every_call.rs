//! Calls of two workloads fail, one at a time, in two of the ways in which they can, taken in turn; with
//! `EVERSEEN_WAYS=all` in every way. One call in sixteen fails, drawn at random; with `EVERSEEN_ALL=1` every call.

use std::fmt::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use everseen::testing::Options;
use everseen::{Error, Kind};
use tempfile::TempDir;

use super::run::{Outcome, Run, Step, setup};
use crate::support::fault::{Call, Event, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{image, keys, place};
use crate::support::share::Share;

/// One call or all calls from one on.
#[derive(Debug, Clone, Copy)]
enum Lasts {
    Once,
    UntilHealed,
}

/// All ways in which a call can go wrong.
fn ways(call: Call) -> Vec<(Lasts, Fault)> {
    let mut ways: Vec<(Lasts, Fault)> = vec![
        (Lasts::Once, Fault::Fails(Failure::NoSpace)),
        (Lasts::Once, Fault::Fails(Failure::Broken)),
        (Lasts::Once, Fault::Fails(Failure::Interrupted)),
        (Lasts::UntilHealed, Fault::Fails(Failure::NoSpace)),
    ];
    if matches!(call, Call::Read | Call::Write) {
        ways.push((Lasts::Once, Fault::Short));
    }
    if call == Call::Write {
        ways.push((Lasts::Once, Fault::Torn(Failure::NoSpace)));
        ways.push((Lasts::Once, Fault::Torn(Failure::Broken)));
    }
    if !matches!(call, Call::Exists | Call::Length | Call::Read | Call::Map) {
        ways.push((Lasts::Once, Fault::Lies(Failure::Broken)));
    }
    ways
}

/// Ways that one call fails in, unless `EVERSEEN_WAYS=all` is set. Neighbours fail in others.
const WAYS: u64 = 2;

fn chosen(nth: u64, call: Call) -> Vec<(Lasts, Fault)> {
    let ways = ways(call);
    if std::env::var("EVERSEEN_WAYS").is_ok_and(|ways| ways == "all") {
        return ways;
    }
    let turns = nth * WAYS..(nth + 1) * WAYS;
    let turns = turns.map(|turn| ways[turn as usize % ways.len()]);
    turns.collect()
}

/// One call in so many fails.
const FEW: u64 = 32;

/// Fails calls of a workload.
pub(super) fn sweep(workload: impl Fn(Option<Rule>) -> Outcome<Vec<Event>>) {
    let events = workload(None).unwrap();
    assert!(events.len() > 40, "{} calls are few", events.len());
    let (mut runs, mut failures, mut report) = (0, 0, String::new());
    let mut share = Share::one_in(FEW);
    for (nth, event) in (1..).zip(&events) {
        if !share.takes() {
            continue;
        }
        for (lasts, fault) in chosen(nth, event.call) {
            let rule = match lasts {
                Lasts::Once => Rule::nth(nth, fault),
                Lasts::UntilHealed => Rule::from(nth, fault),
            };
            runs += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| workload(Some(rule))));
            let wrong = match outcome {
                Ok(Ok(_)) => continue,
                Ok(Err(wrong)) => wrong,
                Err(_) => "a panic".to_owned(),
            };
            failures += 1;
            writeln!(report, "call {nth} ({event}) {fault:?} {lasts:?}: {wrong}").unwrap();
        }
    }
    println!("{runs} runs of {} calls", events.len());
    assert_eq!(failures, 0, "of {runs} runs\n{report}");
}

pub(super) fn each(steps: &[Step], mut run: Run) -> Outcome<Vec<Event>> {
    for (index, step) in steps.iter().enumerate() {
        run.step(step)
            .map_err(|wrong| format!("step {index} {step:?}: {wrong}"))?;
    }
    let events = run.events();
    run.finish()
        .map_err(|wrong| format!("at the end: {wrong}"))?;
    Ok(events)
}

/// The steps, with removals before some of them if the kind can remove.
fn with_removals(kind: Kind, steps: &[Step], removals: &[(usize, Range<u64>)]) -> Vec<Step> {
    let mut all = steps.to_vec();
    if kind == Kind::Fingerprint {
        for (place, keys) in removals.iter().rev() {
            all.insert(*place, Step::Remove(keys.clone()));
        }
    }
    all
}

/// Making, inserting, committing, checkpoints asked for and not, growth, closing, opening, a kill.
fn life(kind: Kind, transactional: bool) {
    use Step::{Checkpoint, Commit, Insert, Kill, Reopen};
    let steps = [
        Insert(0..300),
        Commit,
        Insert(300..301),
        Insert(301..700),
        Commit,
        Checkpoint,
        Insert(700..1100),
        Commit,
        Kill,
        Insert(1100..1500),
        Reopen,
        Insert(1600..2600),
        Commit,
        Insert(2600..3600),
        Commit,
        Insert(3600..4600),
        Commit,
        Insert(4600..5600),
        Commit,
        Insert(5600..5700),
    ];
    let mut steps = with_removals(kind, &steps, &[(6, 100..250), (8, 700..900), (12, 40..60)]);
    let setup = setup(kind, transactional);
    if kind == Kind::Fingerprint {
        // Most of what is there, so that segments merge.
        for first in (1600..5600).step_by(500) {
            steps.extend([Step::Remove(first..first + 500), Commit]);
        }
        let run = Run::create(&setup, None).unwrap();
        let seen = Arc::clone(&run.seen);
        each(&steps, run).unwrap();
        seen.expect_all();
    }
    sweep(|rule| each(&steps, Run::create(&setup, rule)?));
}

#[test]
fn the_life_of_a_bloom_store() {
    life(Kind::Bloom, false);
}

#[test]
fn the_life_of_a_transactional_bloom_store() {
    life(Kind::Bloom, true);
}

#[test]
fn the_life_of_a_growing_store() {
    life(Kind::Scalable, false);
}

#[test]
fn the_life_of_a_transactional_growing_store() {
    life(Kind::Scalable, true);
}

#[test]
fn the_life_of_a_store_of_fingerprints() {
    life(Kind::Fingerprint, false);
}

#[test]
fn the_life_of_a_transactional_store_of_fingerprints() {
    life(Kind::Fingerprint, true);
}

/// A store whose owner was killed in the middle of a checkpoint, with a second log begun. It holds
/// the keys of these numbers, committed.
pub(super) fn killed_at_a_checkpoint(options: &Options) -> (TempDir, Range<u64>) {
    let (folder, path) = place();
    let storage = FaultStorage::without_syncs();
    let options = options.clone().storage(storage.shared());
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..800)).unwrap();
    store.commit_with(&1_u64.to_le_bytes()).unwrap();
    let full = Fault::Torn(Failure::NoSpace);
    // The first write is of the cut's checkpoint's intent, the second of pages.
    storage.arm(Rule::from(2, full).on(Call::Write).on_store());
    let error = store.checkpoint().unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
    store.insert_batch(&keys(800..1000)).unwrap();
    store.commit_with(&1_u64.to_le_bytes()).unwrap();
    let (killed, _) = image(&path);
    storage.heal();
    drop(store);
    drop(folder);
    (killed, 0..1000)
}

fn recovery(kind: Kind, transactional: bool) {
    use Step::{Commit, Insert, Kill, Reopen};
    let setup = setup(kind, transactional);
    let (folder, numbers) = killed_at_a_checkpoint(&setup.options);
    let killed: &Path = &folder.path().join("store");
    let steps = [Insert(1000..1300), Commit, Kill, Insert(1300..1400), Reopen];
    let steps = with_removals(kind, &steps, &[(1, 0..40), (2, 700..900), (4, 80..90)]);
    sweep(|rule| {
        let run = Run::recover(&setup, killed, numbers.clone(), rule)?;
        each(&steps, run)
    });
}

#[test]
fn the_recovery_of_a_bloom_store() {
    recovery(Kind::Bloom, false);
}

#[test]
fn the_recovery_of_a_transactional_bloom_store() {
    recovery(Kind::Bloom, true);
}

#[test]
fn the_recovery_of_a_growing_store() {
    recovery(Kind::Scalable, false);
}

#[test]
fn the_recovery_of_a_transactional_growing_store() {
    recovery(Kind::Scalable, true);
}

#[test]
fn the_recovery_of_a_store_of_fingerprints() {
    recovery(Kind::Fingerprint, false);
}

#[test]
fn the_recovery_of_a_transactional_store_of_fingerprints() {
    recovery(Kind::Fingerprint, true);
}

/// Runs that drain, slice by slice.
#[test]
fn the_life_of_a_store_whose_runs_drain() {
    let mut steps = Vec::new();
    for first in (0..5000).step_by(1000) {
        steps.extend([Step::Insert(first..first + 1000), Step::Commit]);
    }
    steps.push(Step::Checkpoint);
    for first in (5000..6800).step_by(100) {
        let removed = first / 2..first / 2 + 10;
        steps.extend([Step::Insert(first..first + 70), Step::Remove(removed)]);
        steps.extend([Step::Commit, Step::Checkpoint]);
    }
    let setup = setup(Kind::Fingerprint, true);
    let run = Run::create(&setup, None).unwrap();
    let seen = Arc::clone(&run.seen);
    each(&steps, run).unwrap();
    seen.expect_slices();
    sweep(|rule| each(&steps, Run::create(&setup, rule)?));
}
