//! The stream: what is asked in each step of time. It is the same for all variants, whatever they answer.
//!
//! Each step brings as many new keys, in an order that is drawn, among keys that come again:
//!
//! ```text
//!  of the new keys of a step      come again
//!  the first eighth               once, when they are just past the window: one to two windows old
//!  the next few (TRACKED)         never: they are looked up until they are forgotten
//!  the others                     now and then, while they are under the window
//! ```

use anyhow::{Result, bail};
use everseen_benches::keys::{hash, shuffle};

/// Steps of a window. Everseen's own steps and those of other filters are whole numbers of them.
pub const STEPS: u64 = 60;
/// New keys of each step that are looked up until they are forgotten.
pub const TRACKED: u64 = 20;

/// Bytes of a key.
const KEY: usize = 20;

/// A key that is brought: in which step it was new, and which of that step's keys it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub born: u64,
    pub place: u64,
}

/// What is brought.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// New keys of a step.
    fresh: u64,
    /// How many of them come again past the window: a multiple of `STEPS`.
    late: u64,
}

impl Stream {
    /// A stream of which so many keys are new within a window.
    pub fn new(in_window: u64) -> Result<Self> {
        let fresh = in_window / STEPS;
        let late = fresh / 8 / STEPS * STEPS;
        if late == 0 {
            bail!("--live takes {} keys or more", STEPS * STEPS * 8);
        }
        Ok(Self { fresh, late })
    }

    /// The keys that a variant accepts within a window: new ones, and those that come again past it.
    pub fn accepted(&self) -> u64 {
        (self.fresh + self.late) * STEPS
    }

    /// New keys of a step.
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// How many keys are brought in a step, once the stream is older than two windows.
    pub fn asked(&self) -> u64 {
        self.fresh + self.fresh / 2 + self.late
    }

    /// How many keys that never come are looked up in a step.
    pub fn absent(&self) -> u64 {
        self.fresh / 2
    }

    /// The keys that are brought in a step, in their order.
    pub fn step(&self, step: u64) -> Vec<Key> {
        let mut brought: Vec<Key> = self.born(step).collect();
        brought.extend((0..self.fresh / 2).filter_map(|turn| self.under_window(step, turn)));
        let past = (STEPS + 1..=2 * STEPS).filter_map(|age| step.checked_sub(age));
        brought.extend(past.flat_map(|born| {
            let first = step - born - STEPS - 1;
            let places = (first..self.late).step_by(STEPS as usize);
            places.map(move |place| Key { born, place })
        }));
        let mut order: Vec<u64> = (0..brought.len() as u64).collect();
        shuffle(&mut order, step);
        order.iter().map(|at| brought[*at as usize]).collect()
    }

    /// The new keys of a step.
    pub fn born(&self, step: u64) -> impl Iterator<Item = Key> + use<> {
        (0..self.fresh).map(move |place| Key { born: step, place })
    }

    /// Those of them that are looked up until they are forgotten.
    pub fn tracked(&self, step: u64) -> impl Iterator<Item = Key> + use<> {
        let late = self.late;
        (late..late + TRACKED).map(move |place| Key { born: step, place })
    }

    /// A key of an earlier step that is under the window.
    fn under_window(&self, step: u64, turn: u64) -> Option<Key> {
        let draw = hash(hash(step) ^ turn);
        let born = step.checked_sub(1 + (draw >> 32) % (STEPS - 1))?;
        let first = self.late + TRACKED;
        let place = first + (draw & 0xFFFF_FFFF) % (self.fresh - first);
        Some(Key { born, place })
    }

    /// The text of a key.
    pub fn text(&self, key: Key) -> [u8; KEY] {
        text(key.born * self.fresh + key.place)
    }

    /// The text of a key that never comes.
    pub fn absent_text(&self, step: u64, place: u64) -> [u8; KEY] {
        text(1 << 63 | (step * self.absent() + place))
    }
}

/// A name of 20 bytes, different for each number.
fn text(number: u64) -> [u8; KEY] {
    let mut text = *b"0123456789abcdef.org";
    let digits = *b"0123456789abcdef";
    let noise = hash(number);
    for (at, byte) in text[..16].iter_mut().enumerate() {
        *byte = digits[(noise >> (4 * at) & 15) as usize];
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn each_key_comes_when_it_should() {
        let stream = Stream::new(60_000).unwrap();
        let tracked: HashSet<Key> = (0..250).flat_map(|step| stream.tracked(step)).collect();
        let mut texts = HashSet::new();
        let mut came: HashMap<Key, Vec<u64>> = HashMap::new();
        for step in 0..250 {
            for key in stream.step(step) {
                came.entry(key).or_default().push(step - key.born);
            }
        }
        assert_eq!(came.len(), 250 * 1000);
        let (mut late, mut again) = (0, 0);
        for (key, ages) in &came {
            assert!(texts.insert(stream.text(*key)));
            assert_eq!(ages[0], 0, "{key:?}");
            if key.place < 120 {
                assert!(ages.len() <= 2, "{key:?} {ages:?}");
                late += ages.len() - 1;
                let all_in = ages[1..].iter().all(|age| (61..=120).contains(age));
                assert!(all_in, "{key:?} {ages:?}");
                assert!(ages.len() == 2 || key.born + 120 >= 250, "{key:?}");
            } else if tracked.contains(key) {
                assert_eq!(ages.len(), 1, "{key:?}");
            } else {
                again += ages.len() - 1;
                assert!(ages[1..].iter().all(|age| (1..60).contains(age)));
            }
        }
        assert!(late > 130 * 120, "{late}");
        assert!(again > 190 * 500, "{again}");
        assert_eq!(stream.step(249).len() as u64, stream.asked());
        assert_eq!(stream.step(249), stream.step(249));
        assert!((0..500).all(|place| !texts.contains(&stream.absent_text(7, place))));
    }

    #[test]
    fn a_stream_that_is_too_thin_is_refused() {
        assert!(Stream::new(28_799).is_err());
        assert_eq!(Stream::new(28_800).unwrap().accepted(), 60 * 540);
    }
}
