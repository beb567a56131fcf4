//! Each byte that means something, and a sample of those that don't, one at a time.

use std::ops::Range;

use super::child::{Plan, Task, Work};
use super::excuse::Excuse;
use super::image::{Image, STORE};
use super::judge::Reading;
use super::mutation::Mutation;
use super::parent;
use super::random::number;
use super::trial::Outcome;
use crate::support::forge::{SUPERBLOCKS, is_written, u32_at};
use crate::support::log::INSERT;
use crate::support::numbers::{Random, finalise};
use crate::support::share::all_some_or;

const PAGES: usize = 131_072;
/// Of bytes that mean nothing, one in so many.
const SAMPLE: usize = 499;
/// Of keys in logs and pages, unless all are asked for.
const THIN: usize = 29;
/// Scenarios, by their number, of which all else is flipped even then; of others one byte in `SHARE`.
const WHOLE: [usize; 4] = [0, 2, 7, 10];
const SHARE: usize = 4;

/// A byte of a file of a scenario.
struct Place {
    scenario: usize,
    file: String,
    offset: usize,
    /// Which bits to flip; else it depends on the number of the flip.
    mask: Option<u8>,
}

/// All bytes to flip. Their number is the same in each run, and which they are too.
pub struct Flips {
    places: Vec<Place>,
    /// One bit, and all of them; else by turns.
    both_ways: bool,
}

impl Flips {
    pub fn new(images: &[Image], readings: &[Reading<'_>], all: bool) -> Self {
        let mut places = Vec::new();
        for (scenario, (image, reading)) in images.iter().zip(readings).enumerate() {
            for (name, bytes) in &image.0 {
                let parts = match name.rsplit_once('.') {
                    None => in_store(bytes, reading, scenario == 0),
                    Some((_, number)) => in_log(reading, number.parse().unwrap()),
                };
                let shares = all || WHOLE.contains(&scenario);
                let mine = |offset: &usize| shares || (offset + scenario).is_multiple_of(SHARE);
                let place = |offset, mask| Place {
                    scenario,
                    file: name.clone(),
                    offset,
                    mask,
                };
                for offset in parts.lengths.clone() {
                    places.extend((0..8).map(|bit| place(offset, Some(1 << bit))));
                }
                let offsets = parts.offsets(bytes.len(), all);
                places.extend(offsets.filter(mine).map(|offset| place(offset, None)));
            }
        }
        Self {
            places,
            both_ways: all,
        }
    }

    /// How many flips there are.
    pub fn count(&self) -> u64 {
        self.places.len() as u64 * if self.both_ways { 2 } else { 1 }
    }

    /// Flip number `number`.
    pub fn plan(&self, seed: u64, number: u64) -> Plan {
        let index = if self.both_ways { number / 2 } else { number };
        let place = &self.places[index as usize];
        let bit = Random::new(finalise(seed) ^ number).below(8);
        let by_turns = match number.is_multiple_of(2) {
            true => 1 << bit,
            false => 0xFF,
        };
        Plan {
            scenario: place.scenario,
            mutations: vec![Mutation::Flip {
                file: place.file.clone(),
                offset: place.offset,
                mask: place.mask.unwrap_or(by_turns),
            }],
        }
    }
}

/// The parts of a file that mean something.
#[derive(Default)]
struct Parts {
    /// Those on which others depend.
    bones: Vec<Range<usize>>,
    /// Keys.
    flesh: Vec<Range<usize>>,
    /// Lengths, of which each bit is flipped.
    lengths: Vec<usize>,
}

impl Parts {
    fn offsets(self, length: usize, all: bool) -> impl Iterator<Item = usize> {
        let Self { bones, flesh, .. } = self;
        let thin = if all { 1 } else { THIN };
        (0..length).filter(move |offset| {
            let within = |ranges: &[Range<usize>]| ranges.iter().any(|one| one.contains(offset));
            within(&bones) || offset % if within(&flesh) { thin } else { SAMPLE } == 0
        })
    }
}

fn in_store(store: &[u8], reading: &Reading<'_>, whole: bool) -> Parts {
    let mut parts = Parts {
        bones: vec![0..256, 4096..4160, 8192..8256],
        ..Parts::default()
    };
    for (slot, start) in SUPERBLOCKS.into_iter().enumerate() {
        let length = match is_written(store, slot) {
            true => u32_at(store, start + 12) as usize,
            false => 16,
        };
        parts.bones.push(start..start + length);
        parts.lengths.extend(start + 12..start + 16);
    }
    for layer in &reading.layers {
        for number in layer.first_page..layer.first_page + layer.pages {
            let start = number as usize * 4096;
            parts.bones.push(start..start + 16);
            // The first page and the last, of one store.
            if whole && (start == PAGES || start + 4096 == store.len()) {
                parts.flesh.push(start + 16..start + 4096);
            }
        }
    }
    parts
}

fn in_log(reading: &Reading<'_>, generation: u64) -> Parts {
    let mut parts = Parts::default();
    parts.bones.push(0..64);
    let chain = reading.chains.get(&generation);
    let records = chain.map_or(&[][..], |chain| &chain.records);
    for (number, record) in records.iter().enumerate() {
        let payload = record.offset + 24;
        let end = payload + record.payload.len();
        parts.bones.push(record.offset..payload);
        match record.kind {
            INSERT => parts.flesh.push(payload..end),
            _ => parts.bones.push(payload..end),
        }
        if number < 2 {
            parts.lengths.extend(record.offset + 8..record.offset + 12);
        }
    }
    parts
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

/// One flip in so many is made, unless `EVERSEEN_ALL=1` is set, with `EVERSEEN_SOME` one in seven; `EVERSEEN_SEED` says where
/// to begin. Each is odd, so that both ways to flip a byte occur.
const FEW: u64 = 15;

#[test]
fn each_flipped_byte_is_noticed_or_does_no_harm() {
    flip(Work::FlipSome, all_some_or(1, 7, FEW));
}

#[test]
#[ignore = "takes minutes"]
fn long_each_byte_flipped_both_ways() {
    flip(Work::FlipAll, 1);
}

fn flip(work: Work, step: u64) {
    let seed = number("EVERSEEN_SEED").unwrap_or(1);
    println!("EVERSEEN_SEED={seed}, one flip in {step}");
    parent::share(Task {
        work,
        seed,
        first: seed % step,
        end: u64::MAX,
        step,
    });
}
