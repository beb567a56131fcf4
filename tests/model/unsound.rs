//! Broken protocols, one step at a time: the model must find what each breaks.
//!
//! A step whose loss is not missed is either redundant or beyond the model; those that are known to
//! be the former are listed in the last test, with the reason.

use super::explorer::{Trace, explore};
use super::setting::{Broken, Setting};
use super::settings::{CARRIED, COMMIT, FIRST_LOG, LEASES, LOOK_UP, RACE, TRANSACTIONS, TWO_KEYS};

/// Explores a broken protocol and answers the way to what it breaks.
fn assert_missed(broken: Broken, setting: &Setting, expected: &str) -> Trace {
    let found = explore(&setting.breaking(broken));
    let Some(trace) = found.violation else {
        panic!("{broken:?} is not missed in {}", setting.name);
    };
    println!(
        "{broken:?} in {}: {}, {} steps, after {} states",
        setting.name,
        trace.violation.0,
        trace.steps.len(),
        found.states
    );
    assert_eq!(trace.violation.0, expected, "{broken:?}");
    trace
}

fn assert_missed_and_told(broken: Broken, setting: &Setting, expected: &str) {
    let trace = assert_missed(broken, setting, expected);
    println!("{trace}");
    assert!(trace.steps.len() > 4, "{trace}");
}

const NOT_FOUND: &str = "I1: a key that is there was not found";
const NOWHERE: &str = "I1: a key is nowhere to be found";
const CLAIMED_AGAIN: &str = "I2: a key that is there is claimed";
const KILLED: &str = "I3: a kill lost a key";
const STUCK: &str = "I3: nobody can go on, and not all is done";
const LOST: &str = "I4: a committed key is lost";
const MISSING: &str = "I4: recovery misses a log that is expected";
const NO_SUCCESSOR: &str = "I4: recovery misses the log behind a closed one";
const TORN: &str = "I3: a torn page that no intent names";

/// Its buffers are those of the moment. In a view of its own a look-up finds the sealed buffer to
/// the end: see [`what_is_redundant`].
#[test]
fn pages_looked_at_before_buffers() {
    assert_missed_and_told(Broken::PagesFirstNoView, &LOOK_UP, NOT_FOUND);
    assert_missed_and_told(Broken::PagesFirstNoView, &FIRST_LOG, NOT_FOUND);
}

#[test]
fn generations_not_looked_at_again() {
    assert_missed_and_told(Broken::NoSecondLook, &CARRIED, NOT_FOUND);
}

#[test]
fn the_frozen_buffer_dropped_before_the_superblock_is_durable() {
    assert_missed_and_told(Broken::DropBeforeSuperblock, &LOOK_UP, NOWHERE);
    assert_missed_and_told(Broken::DropBeforeSuperblock, &COMMIT, STUCK);
    let second = "I4: recovery finds a second closed log";
    assert_missed_and_told(Broken::DropBeforeSync, &COMMIT, second);
}

/// What this model found in the protocol when it was first run, and is mended since.
#[test]
fn what_was_found() {
    assert_missed_and_told(Broken::TrustSuperblock, &FIRST_LOG, MISSING);
    assert_missed_and_told(Broken::TrustFirstLog, &FIRST_LOG, MISSING);
    assert_missed_and_told(Broken::AppliedBeforeSealed, &RACE, NO_SUCCESSOR);
}

#[test]
fn any_step_of_a_checkpoint() {
    assert_missed(Broken::LogGoesFirst, &COMMIT, MISSING);
    assert_missed(Broken::NoPageSync, &COMMIT, TORN);
    assert_missed(Broken::NoIntent, &COMMIT, TORN);
    let open = "I4: a checkpoint began, and its log is open";
    assert_missed(Broken::NoClosedSync, &COMMIT, open);
}

#[test]
fn any_step_of_an_insert_or_commit() {
    assert_missed(Broken::PublishFirst, &RACE, KILLED);
    assert_missed(Broken::NoLookUnderLock, &RACE, CLAIMED_AGAIN);
    assert_missed(Broken::NoPagesUnderLock, &RACE, CLAIMED_AGAIN);
    assert_missed(Broken::NoCommitSync, &COMMIT, LOST);
    let follows = "I4: a commit follows on a log that is open";
    assert_missed(Broken::NoFrozenSync, &COMMIT, follows);
}

#[test]
fn any_step_of_a_rotation() {
    assert_missed(Broken::CutFirst, &COMMIT, NO_SUCCESSOR);
    assert_missed(Broken::CutBeforeName, &COMMIT, NO_SUCCESSOR);
    assert_missed(Broken::NoCarryLog, &TRANSACTIONS, KILLED);
    assert_missed(Broken::NoCarryBuffer, &TRANSACTIONS, NOWHERE);
}

#[test]
fn any_step_after_a_death() {
    assert_missed(Broken::NoMendedRotation, &COMMIT, NO_SUCCESSOR);
    assert_missed(Broken::NoRetract, &TWO_KEYS, NOWHERE);
    let pending = "I3: a claim is pending for a handle that died";
    assert_missed(Broken::NoDrop, &LEASES, pending);
}

#[test]
fn any_step_of_the_writer_lock() {
    assert_missed_and_told(Broken::StealFromLiving, &RACE, NOWHERE);
    assert_missed(Broken::NoSteal, &RACE, STUCK);
    assert_missed(Broken::NoTakeOver, &TWO_KEYS, NOWHERE);
}

#[test]
fn any_step_of_a_recovery() {
    let durable = "I4: a mark calls durable what is not";
    assert_missed(Broken::NoRewrite, &COMMIT, durable);
    assert_missed(Broken::NoIdentitySync, &COMMIT, MISSING);
    let uncommitted = "I12: a key is there that nobody committed";
    assert_missed(Broken::SameNumber, &TRANSACTIONS, uncommitted);
}

/// Not missed, and why that is right.
#[test]
fn what_is_redundant() {
    let redundant: [(Broken, &[Setting]); 4] = [
        // The view keeps the sealed buffer, and no buffer loses a key that is settled in it.
        (Broken::PagesFirst, &[FIRST_LOG, RACE, CARRIED]),
        // In a plain store keys are never carried over: the view shows all that was there when it
        // was taken, and what came later may be missed.
        (Broken::NoSecondLook, &[FIRST_LOG, RACE]),
        // Nor need there be a view, where keys are looked for in the order in which they flow.
        (Broken::NoView, &[FIRST_LOG, RACE]),
        // Whoever rotates next makes that log anew; only a closed store would keep it for good.
        (Broken::NoRemoval, &[FIRST_LOG, TRANSACTIONS]),
    ];
    for (broken, settings) in redundant {
        for setting in settings {
            let found = explore(&setting.breaking(broken));
            if let Some(trace) = found.violation {
                panic!("{broken:?} in {}:\n{trace}", setting.name);
            }
        }
    }
}
