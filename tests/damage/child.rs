//! The process that opens damaged images.

use std::collections::BTreeMap;

use super::flips::{self, Flips};
use super::judge::Reading;
use super::memory;
use super::mutation::Mutation;
use super::random;
use super::scenarios;
use super::segments;
use super::trial::{Bench, Outcome};

/// Tells the child what to do.
pub const VARIABLE: &str = "EVERSEEN_DAMAGE";
/// Before each image it tells the number, and at the end the sums.
pub const BEGINS: &str = "@begins ";
pub const SUM: &str = "@sum ";
pub const PEAK: &str = "@peak ";
/// What is wrong with an image.
pub const WRONG: &str = "@wrong ";

/// What to do to the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Random mutations.
    Mutate = 0,
    /// Flips of the bytes that matter most, each one way.
    FlipSome = 1,
    /// Flips of all bytes that mean something, each both ways.
    FlipAll = 2,
    /// Mutations of stores of fingerprints.
    Segments = 3,
}

/// A child's share of a run.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub work: Work,
    pub seed: u64,
    pub first: u64,
    pub end: u64,
    pub step: u64,
}

impl Task {
    pub fn encode(&self) -> String {
        let Self {
            work,
            seed,
            first,
            end,
            step,
        } = self;
        format!("{} {seed} {first} {end} {step}", *work as u64)
    }

    fn decode(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|part| part.parse().unwrap()).collect();
        let [work, seed, first, end, step] = numbers[..] else {
            panic!("{text}");
        };
        let all = [Work::Mutate, Work::FlipSome, Work::FlipAll, Work::Segments];
        Self {
            work: all[work as usize],
            seed,
            first,
            end,
            step,
        }
    }
}

/// Which mutations an image gets.
pub struct Plan {
    /// The number of the scenario.
    pub scenario: usize,
    pub mutations: Vec<Mutation>,
}

#[test]
#[ignore = "started by the other tests, with a task"]
fn work() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let task = Task::decode(&task);
    if task.work == Work::Segments {
        return segments::work(&task);
    }
    let scenarios = scenarios::all();
    let images: Vec<_> = scenarios.iter().map(|one| one.image.clone()).collect();
    let readings: Vec<_> = images
        .iter()
        .map(|image| Reading::of(image).unwrap())
        .collect();
    let flips = Flips::new(&images, &readings, task.work == Work::FlipAll);
    let end = match task.work {
        Work::Mutate => task.end,
        _ => task.end.min(flips.count()),
    };
    let bench = Bench::new();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for number in (task.first..end).step_by(task.step as usize) {
        println!("{BEGINS}{number}");
        let plan = match task.work {
            Work::Mutate => random::plan(&images, task.seed, number),
            _ => flips.plan(task.seed, number),
        };
        let scenario = &scenarios[plan.scenario];
        let mut image = scenario.image.clone();
        let mut known = Some(&readings[plan.scenario]);
        for mutation in &plan.mutations {
            mutation.apply(&mut image, &images);
            known = known.filter(|_| !mutation.replaces_store());
        }
        let tried = bench.run(&image, scenario, known, number % 4 < 2);
        let tried = tried.and_then(|outcome| match task.work {
            Work::Mutate => Ok(outcome),
            _ => flips::check(&plan, &outcome).map(|()| outcome),
        });
        match tried {
            Ok(outcome) => add(&mut sums, scenario.name, &outcome),
            Err(wrong) => {
                println!(
                    "{WRONG}{number} {}: {:?}: {wrong}",
                    scenario.name, plan.mutations
                );
                return;
            }
        }
    }
    println!("{PEAK}{}", memory::peak());
    for (what, count) in sums {
        println!("{SUM}{count} {what}");
    }
}

fn add(sums: &mut BTreeMap<String, u64>, scenario: &str, outcome: &Outcome) {
    let mut count = |what: String, by: u64| *sums.entry(what).or_default() += by;
    count("images".to_owned(), 1);
    count(format!("images of {scenario}"), 1);
    match outcome.refused {
        Some(error) => count(format!("images refused: {error}"), 1),
        None => count("images opened".to_owned(), 1),
    }
    if outcome.damaged > 0 {
        count("images with keys in damaged pages".to_owned(), 1);
    }
    for (why, keys) in &outcome.excused {
        count(format!("images with keys excused: {why:?}"), 1);
        count(format!("keys excused: {why:?}"), *keys);
    }
}
