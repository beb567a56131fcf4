//! The process that opens damaged images.

use std::collections::BTreeMap;

use super::flips;
use super::memory;
use super::mutation::Mutation;
use super::random;
use super::scenarios;
use super::trial::{Bench, Outcome};
use super::judge::Reading;

/// Tells the child what to do.
pub const VARIABLE: &str = "EVERSEEN_DAMAGE";
/// Before each image it tells the number, and at the end the sums.
pub const BEGINS: &str = "@begins ";
pub const SUM: &str = "@sum ";
pub const PEAK: &str = "@peak ";
/// What is wrong with an image.
pub const WRONG: &str = "@wrong ";

/// A child's share of a run.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Flips, and how many to leave out between two; else random mutations.
    pub flips: bool,
    pub seed: u64,
    pub first: u64,
    pub end: u64,
    pub step: u64,
}

impl Task {
    pub fn encode(&self) -> String {
        let Self {
            flips,
            seed,
            first,
            end,
            step,
        } = self;
        format!("{} {seed} {first} {end} {step}", u64::from(*flips))
    }

    fn decode(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|part| part.parse().unwrap()).collect();
        let [flips, seed, first, end, step] = numbers[..] else {
            panic!("{text}");
        };
        Self {
            flips: flips != 0,
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
    let scenarios = scenarios::all();
    let images: Vec<_> = scenarios.iter().map(|one| one.image.clone()).collect();
    let readings: Vec<_> = images.iter().map(|image| Reading::of(image).unwrap()).collect();
    let places = flips::places(&images, &readings);
    let end = match task.flips {
        true => task.end.min(flips::count(&places)),
        false => task.end,
    };
    let bench = Bench::new();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for number in (task.first..end).step_by(task.step as usize) {
        println!("{BEGINS}{number}");
        let plan = match task.flips {
            true => flips::plan(&places, task.seed, number),
            false => random::plan(&images, task.seed, number),
        };
        let scenario = &scenarios[plan.scenario];
        let mut image = scenario.image.clone();
        let mut known = Some(&readings[plan.scenario]);
        for mutation in &plan.mutations {
            mutation.apply(&mut image, &images);
            known = known.filter(|_| !mutation.replaces_store());
        }
        let tried = bench.run(&image, scenario, known, number % 4 < 2);
        let tried = tried.and_then(|outcome| match task.flips {
            true => flips::check(&plan, &outcome).map(|()| outcome),
            false => Ok(outcome),
        });
        match tried {
            Ok(outcome) => add(&mut sums, scenario.name, &outcome),
            Err(wrong) => {
                println!("{WRONG}{number} {}: {:?}: {wrong}", scenario.name, plan.mutations);
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
