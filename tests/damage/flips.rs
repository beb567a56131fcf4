//! Each byte that means something, and a sample of those that don't, one at a time.

use super::child::{Plan, Task};
use super::excuse::Excuse;
use super::image::{Image, STORE};
use super::judge::Reading;
use super::mutation::Mutation;
use super::parent;
use super::trial::Outcome;
use crate::numbers::{Random, finalise};
use crate::support::forge::{SUPERBLOCKS, is_written, u32_at};

const PAGES: usize = 131_072;
/// Of bytes that mean nothing, one in so many.
const SAMPLE: usize = 499;
/// Two flips for each byte: one bit, and all of them.
const WAYS: u64 = 2;

/// A byte of a file of a scenario.
pub struct Place {
    scenario: usize,
    file: String,
    offset: usize,
}

/// All bytes to flip. Their number is the same in each run, and which they are too.
pub fn places(images: &[Image], readings: &[Reading<'_>]) -> Vec<Place> {
    let mut places = Vec::new();
    for (scenario, (image, reading)) in images.iter().zip(readings).enumerate() {
        let mut add = |file: &str, offsets: Vec<usize>| {
            places.extend(offsets.into_iter().map(|offset| Place {
                scenario,
                file: file.to_owned(),
                offset,
            }));
        };
        add(STORE, in_store(image.store(), reading));
        for (name, bytes) in image.0.iter().filter(|(name, _)| *name != STORE) {
            let generation = name.rsplit('.').next().unwrap().parse().unwrap();
            let end = reading.chains.get(&generation).map_or(4096, |chain| chain.end);
            add(name, with_sample(bytes.len(), &[0..64, 4096..end]));
        }
    }
    places
}

fn in_store(store: &[u8], reading: &Reading<'_>) -> Vec<usize> {
    let mut meaning = vec![0..256, 4096..4160, 8192..8256];
    for (slot, start) in SUPERBLOCKS.into_iter().enumerate() {
        let length = match is_written(store, slot) {
            true => u32_at(store, start + 12) as usize,
            false => 16,
        };
        meaning.push(start..start + length);
    }
    for layer in &reading.layers {
        for number in layer.first_page..layer.first_page + layer.pages {
            let start = number as usize * 4096;
            // The payload of the first and the last, the header of all.
            let whole = number == 32 || start + 4096 == store.len();
            meaning.push(start..start + if whole { 4096 } else { 16 });
        }
    }
    assert!(meaning.iter().any(|range| range.start == PAGES) || reading.layers.is_empty());
    with_sample(store.len(), &meaning)
}

/// All of these ranges, and a sample of what lies between them.
fn with_sample(length: usize, ranges: &[std::ops::Range<usize>]) -> Vec<usize> {
    let means = |offset: &usize| ranges.iter().any(|range| range.contains(offset));
    let between = (0..length).step_by(SAMPLE).filter(|offset| !means(offset));
    ranges.iter().cloned().flatten().chain(between).collect()
}

/// How many flips there are.
pub fn count(places: &[Place]) -> u64 {
    places.len() as u64 * WAYS
}

/// Flip number `number`.
pub fn plan(places: &[Place], seed: u64, number: u64) -> Plan {
    let place = &places[(number / WAYS) as usize];
    let bit = Random::new(finalise(seed) ^ number).below(8);
    Plan {
        scenario: place.scenario,
        mutations: vec![Mutation::Flip {
            file: place.file.clone(),
            offset: place.offset,
            mask: if number % WAYS == 0 { 1 << bit } else { 0xFF },
        }],
    }
}

/// One flip alone has less that excuses it.
pub fn check(plan: &Plan, outcome: &Outcome) -> Result<(), String> {
    let Some(Mutation::Flip { file, offset, .. }) = plan.mutations.first() else {
        return Ok(());
    };
    let in_store = file == STORE;
    let allowed: &[Excuse] = match in_store {
        true => &[Excuse::TornPage],
        false => &[Excuse::TornTail, Excuse::NeverCounted],
    };
    if let Some(why) = outcome.excused.keys().find(|why| !allowed.contains(why)) {
        return Err(format!("{why:?} excuses no single flip here"));
    }
    if in_store && *offset < 4096 && outcome.refused.is_none() {
        return Err("a header of other bytes is not refused".to_owned());
    }
    Ok(())
}

#[test]
fn each_flipped_byte_is_noticed_or_does_no_harm() {
    flip(5);
}

#[test]
#[ignore = "takes minutes"]
fn long_each_byte_flipped_both_ways() {
    flip(1);
}

fn flip(step: u64) {
    parent::share(Task {
        flips: true,
        seed: 1,
        first: 0,
        end: u64::MAX,
        step,
    });
}
