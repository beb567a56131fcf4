//! Calls of workloads of stores that forget fail, one at a time, as those of other stores do.

use everseen::ForgetBy;

use super::ages::forgetting;
use super::every_call::{each, killed_at_a_checkpoint, sweep};
use super::run::{Run, Step};
use crate::support::ages::{BEGIN, within};

/// Steps that pass, keys that come again, those that are forgotten and come as new, and checkpoints that drop keys: one by
/// one, and whole runs.
fn life(transactional: bool, by: ForgetBy) {
    use Step::{Again, Checkpoint, Commit, Insert, Kill, Pass, Purge, Remove, Renew, Reopen};
    let steps = [
        Insert(0..300),
        Commit,
        Pass(3),
        Insert(300..700),
        Commit,
        Again(100..200),
        Renew(200..280),
        Commit,
        Checkpoint,
        // An age that counts from the commit.
        Remove(600..650),
        Insert(700..900),
        Pass(1),
        Insert(900..1100),
        Commit,
        Kill,
        Pass(10),
        Again(300..350),
        Commit,
        // Now those of the first step are forgotten, unless they came again.
        Pass(2),
        Insert(0..100),
        Commit,
        Reopen,
        Insert(1600..2600),
        Commit,
        Pass(4),
        Purge,
        Insert(2600..3600),
        Commit,
        Pass(1),
        Insert(3600..4600),
        Commit,
        Pass(15),
        Checkpoint,
        Insert(4600..5600),
        Commit,
        Checkpoint,
        // And now all of them.
        Pass(16),
        Insert(5600..5700),
        Commit,
        Checkpoint,
    ];
    let setup = forgetting(transactional, by);
    sweep(|rule| each(&steps, Run::create(&setup, rule)?));
}

#[test]
fn the_life_of_a_store_that_forgets() {
    life(false, ForgetBy::First);
}

#[test]
fn the_life_of_a_transactional_store_that_forgets() {
    life(true, ForgetBy::First);
}

#[test]
fn the_life_of_a_store_that_renews() {
    life(false, ForgetBy::Last);
}

#[test]
fn the_life_of_a_transactional_store_that_renews() {
    life(true, ForgetBy::Last);
}

/// A process that died at a checkpoint is followed by one of a later step.
fn recovery(transactional: bool, by: ForgetBy) {
    use Step::{Again, Commit, Insert, Kill, Pass, Purge, Reopen};
    let setup = forgetting(transactional, by);
    let (folder, numbers) = killed_at_a_checkpoint(&setup.options.clone().clock(within(BEGIN)));
    let killed = &folder.path().join("store");
    let steps = [
        Pass(2),
        Insert(1000..1300),
        Commit,
        Kill,
        Again(0..100),
        Commit,
        Pass(14),
        Insert(500..600),
        Reopen,
        Purge,
    ];
    sweep(|rule| each(&steps, Run::recover(&setup, killed, numbers.clone(), rule)?));
}

#[test]
fn the_recovery_of_a_store_that_forgets() {
    recovery(false, ForgetBy::First);
}

#[test]
fn the_recovery_of_a_transactional_store_that_renews() {
    recovery(true, ForgetBy::Last);
}
