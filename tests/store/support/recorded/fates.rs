//! Which of the events that were not durable a power cut keeps.

use super::Remark;
use super::disk::Event;
use crate::support::numbers::Random;

/// What becomes of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Whole,
    Lost,
    /// Of a write that made the file longer, the length alone.
    Length,
    /// Of a write, so many sectors of eight, chosen by a generator with this seed.
    Sectors {
        seed: u64,
        of_eight: u64,
    },
}

/// The ways to choose: those in which everything but one thing goes well or ill find most.
const STRATEGIES: [&str; 13] = [
    "all kept",
    "none kept",
    "last lost",
    "one kept",
    "one lost",
    "each kept or lost",
    "each torn",
    "each kept, lost or torn",
    "first ones kept, one torn",
    "last ones kept",
    "names kept, others mixed",
    "files kept, names mixed",
    "each file kept or lost",
];

/// Chooses a fate for each event and tells by which strategy.
pub fn choose<R: Remark>(events: &[&Event<R>], random: &mut Random) -> (&'static str, Vec<Keep>) {
    let strategy = STRATEGIES[random.below(STRATEGIES.len() as u64) as usize];
    let count = events.len();
    let chosen = random.below(count.max(1) as u64) as usize;
    let salt = random.next();
    let fates = events
        .iter()
        .enumerate()
        .map(|(place, event)| {
            let fate = match strategy {
                "all kept" => Keep::Whole,
                "none kept" => lost(random),
                "last lost" if place + 1 < count => Keep::Whole,
                "one kept" if place == chosen => Keep::Whole,
                "one kept" => lost(random),
                "one lost" if place != chosen => Keep::Whole,
                "last lost" | "one lost" => lost_or_torn(random),
                "each kept or lost" => either(random),
                "each torn" => torn(random),
                "first ones kept, one torn" if place < chosen => Keep::Whole,
                "first ones kept, one torn" if place == chosen => torn(random),
                "first ones kept, one torn" => lost(random),
                "last ones kept" if place >= chosen => Keep::Whole,
                "last ones kept" => lost(random),
                "names kept, others mixed" if event.names() => Keep::Whole,
                "files kept, names mixed" if event.names() => either(random),
                "files kept, names mixed" => Keep::Whole,
                "each file kept or lost" => {
                    let mut coin = Random::new(salt ^ event.inode() as u64);
                    either(&mut coin)
                }
                _ => mixed(random),
            };
            fit(fate, event, random)
        })
        .collect();
    (strategy, fates)
}

/// Only writes can be kept in part.
fn fit<R>(fate: Keep, event: &Event<R>, random: &mut Random) -> Keep {
    match (fate, event) {
        (fate, Event::Write { .. }) => fate,
        (Keep::Sectors { .. }, _) => match random.below(2) {
            0 => Keep::Whole,
            _ => Keep::Lost,
        },
        (Keep::Length, _) => Keep::Lost,
        (fate, _) => fate,
    }
}

fn lost(random: &mut Random) -> Keep {
    match random.below(4) {
        0 => Keep::Length,
        _ => Keep::Lost,
    }
}

fn torn(random: &mut Random) -> Keep {
    Keep::Sectors {
        seed: random.next(),
        of_eight: [1, 4, 4, 7][random.below(4) as usize],
    }
}

fn lost_or_torn(random: &mut Random) -> Keep {
    match random.below(2) {
        0 => lost(random),
        _ => torn(random),
    }
}

fn either(random: &mut Random) -> Keep {
    match random.below(2) {
        0 => lost(random),
        _ => Keep::Whole,
    }
}

fn mixed(random: &mut Random) -> Keep {
    match random.below(3) {
        0 => lost(random),
        1 => torn(random),
        _ => Keep::Whole,
    }
}
