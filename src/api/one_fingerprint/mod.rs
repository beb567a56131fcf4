//! Explores everything that can happen to one fingerprint: inserts, removes, exemptions, transactions of two handles,
//! rotations, checkpoints, kills, and look-ups that all of these overtake.
//!
//! Two hashes share the fingerprint, and one of them may be exempt. The code under test is the real store, with steps that
//! this drives by hand; a small [`Model`] says what each step and each look-up must answer. The explorer walks over the real
//! store. A place is a state of the model together with what the buffers say, and each step is taken once from each place
//! that can be reached.
//!
//! `EVERSEEN_ALL=1` takes more kinds of steps. A failure prints the way from the last opened store.

mod model;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::Model;
use world::World;

/// Only at every so manieth place everything is killed.
const PLACES_OF_A_KILL: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Change(usize, usize, bool),
    Commit(usize),
    /// Closes a handle, which gives up what it has not committed, and opens another.
    Reopen(usize),
    Exempt,
    Rotate,
    Checkpoint {
        from_log: bool,
    },
    /// Kills all handles.
    Kill,
    /// The first handle looks for a hash, and others do things at a point of that look-up.
    Overtake(usize, Point, Script),
    /// The first handle looks for a hash before it inserts that, and others do things in between.
    InsertLate(usize, Script),
}

/// Where a look-up is overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    View,
    Active,
    Probed,
}

/// What overtakes it: one or two steps.
type Script = [Option<Between>; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    Change(usize, bool),
    Commit,
    Reopen,
    Rotate,
    Checkpoint,
}

impl Between {
    fn step(self) -> Step {
        match self {
            Between::Change(hash, is_insert) => Step::Change(1, hash, is_insert),
            Between::Commit => Step::Commit(1),
            Between::Reopen => Step::Reopen(1),
            Between::Rotate => Step::Rotate,
            Between::Checkpoint => Step::Checkpoint { from_log: false },
        }
    }
}

/// Whether to take the larger setting. It takes minutes, which `.ci/run` does not have: that asks for a share of all.
fn all() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    is_set("EVERSEEN_ALL") && !is_set("EVERSEEN_SOME")
}

/// Returns the scripts of one step, and those of two steps of which the first is as wanted.
fn scripts(wanted: Between) -> Vec<Script> {
    let between = [
        Between::Change(0, true),
        Between::Change(0, false),
        Between::Reopen,
        Between::Commit,
        Between::Rotate,
        Between::Checkpoint,
        Between::Change(1, true),
    ];
    let between = if all() { &between[..] } else { &between[..6] };
    let mut scripts = Vec::new();
    for one in between {
        scripts.push([Some(*one), None]);
        for two in between {
            if all() || *one == wanted {
                scripts.push([Some(*one), Some(*two)]);
            }
        }
    }
    scripts
}

fn steps() -> Vec<Step> {
    let mut steps = vec![Step::Exempt, Step::Rotate];
    steps.extend([false, true].map(|from_log| Step::Checkpoint { from_log }));
    for handle in [0, 1] {
        steps.extend([Step::Commit(handle), Step::Reopen(handle)]);
        steps.push(Step::Change(handle, 0, false));
        steps.extend([0, 1].map(|hash| Step::Change(handle, hash, true)));
    }
    let overtake = |point, hash| move |script| Step::Overtake(hash, point, script);
    steps.extend(
        scripts(Between::Checkpoint)
            .into_iter()
            .map(overtake(Point::Active, 0)),
    );
    let insert = |hash| move |script| Step::InsertLate(hash, script);
    steps.extend(scripts(Between::Rotate).into_iter().map(insert(0)));
    if all() {
        for (point, hash) in [
            (Point::View, 0),
            (Point::Probed, 0),
            (Point::View, 1),
            (Point::Active, 1),
        ] {
            steps.extend(
                scripts(Between::Checkpoint)
                    .into_iter()
                    .map(overtake(point, hash)),
            );
        }
        steps.extend(scripts(Between::Rotate).into_iter().map(insert(1)));
        steps.extend([0, 1].map(|handle| Step::Change(handle, 1, false)));
    }
    steps.push(Step::Kill);
    steps
}

type Place = (Model, u8, bool);

/// What is known of the places: what is still to be taken from each, and where the steps taken lead.
#[derive(Default)]
struct Map {
    left: BTreeMap<Place, Vec<Step>>,
    ways: BTreeMap<Place, BTreeMap<Step, Place>>,
}

impl Map {
    /// Returns the first step of the shortest way to a place from which a step is left.
    fn way_on(&self, from: Place) -> Option<Step> {
        let mut queue = VecDeque::from([(from, None)]);
        let mut seen = BTreeSet::from([from]);
        while let Some((at, first)) = queue.pop_front() {
            if self.left.get(&at).is_some_and(|left| !left.is_empty()) {
                return first;
            }
            for (step, to) in self.ways.get(&at).into_iter().flatten() {
                if seen.insert(*to) {
                    queue.push_back((*to, first.or(Some(*step))));
                }
            }
        }
        None
    }
}

/// Returns the steps to take from the next place. A kill takes long.
fn steps_from(steps: &[Step], places: usize) -> Vec<Step> {
    let mut steps = steps.to_vec();
    if !all() && !places.is_multiple_of(PLACES_OF_A_KILL) {
        steps.retain(|step| *step != Step::Kill);
    }
    steps
}

/// Prints the way to a failure.
struct Way(Vec<Step>);

impl Drop for Way {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "the last steps: {:#?}",
                &self.0[self.0.len().saturating_sub(30)..]
            );
        }
    }
}

#[test]
fn everything_that_can_happen_to_one_fingerprint() {
    let (steps, mut map) = (steps(), Map::default());
    let (mut world, mut way) = (World::new(), Way(Vec::new()));
    let (mut at, mut taken, mut known) = (world.place(), 0_u64, 0);
    map.left.insert(at, steps.clone());
    loop {
        let step = match map.left.get_mut(&at).and_then(Vec::pop) {
            Some(step) => {
                known = 0;
                step
            }
            None => match map.way_on(at) {
                Some(step) => step,
                None => break,
            },
        };
        // A place that leaves out what decides would lead in circles.
        known += 1;
        assert!(known < 1000, "no way on from {at:?}");
        way.0.push(step);
        taken += 1;
        if !world.take(step) {
            continue;
        }
        let (to, places) = (world.place(), map.left.len());
        map.left
            .entry(to)
            .or_insert_with(|| steps_from(&steps, places));
        map.ways.entry(at).or_default().insert(step, to);
        at = to;
    }
    println!("{} places, {taken} steps", map.left.len());
    assert!(map.left.len() > 100, "{} places are few", map.left.len());
}
