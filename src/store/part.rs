//! Looking up the parts of a large batch: in the order of the pages, and what is not in memory by
//! many reads at a time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::batch::{BATCH, Stages};
use super::engine::View;
use crate::buffer::Presence;
use crate::file::FormatError;

/// From so many keys on it pays to look them up in the order of the pages.
const LARGE: usize = 8192;

/// Pages between two that are needed, at most, that are read along: one large read takes less time
/// than two small ones.
const GAP: u64 = 8;

/// Keys in about the order of the pages, and of the buffers' buckets: that of their hashes.
struct Ordered {
    hashes: Vec<u64>,
    /// Where each stood before.
    places: Vec<u32>,
}

impl Ordered {
    /// By their highest bits: as many as make for some dozens of keys that are alike in them, and for
    /// no more streams to write to than a processor's tables of pages have room for.
    fn of(hashes: &[u64]) -> Self {
        let bits = (hashes.len() / 64).max(2).ilog2().min(11);
        let group = |hash: u64| (hash >> (64 - bits)) as usize;
        let mut starts = vec![0_u32; 1 << bits];
        for hash in hashes {
            starts[group(*hash)] += 1;
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        let mut ordered = Self {
            hashes: vec![0; hashes.len()],
            places: vec![0; hashes.len()],
        };
        for (place, hash) in (0..).zip(hashes) {
            let at = &mut starts[group(*hash)];
            ordered.hashes[*at as usize] = *hash;
            ordered.places[*at as usize] = place;
            *at += 1;
        }
        ordered
    }
}

/// Whether look-ups wait for the disk, as far as their times tell. Then pages are asked for ahead,
/// which lets the disk work at many at once, and would only cost time where they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// 0: they don't. 1: once they did. More: so many times, less 1, pages are to be asked for; after
    /// that it is tried without.
    state: AtomicU32,
}

impl Cold {
    /// From so much a key on, somebody waited. A system that took the processor away in between
    /// looks the same, so it takes two in a row.
    const SLOW: Duration = Duration::from_micros(4);
    const TIMES: u32 = 256;

    fn asks(&self) -> bool {
        self.state.load(Ordering::Relaxed) > 1
    }

    /// Takes note of what looking up took. Threads may disturb each other here: it is all guessing.
    fn note(&self, asked: bool, taken: Duration, keys: usize) {
        if keys < BATCH {
            return;
        }
        let state = self.state.load(Ordering::Relaxed);
        let slow = taken > Self::SLOW * keys as u32;
        let next = match (asked, slow) {
            (true, _) if state > 2 => state - 1,
            (true, _) => 0,
            (false, false) => 0,
            (false, true) if state == 0 => 1,
            (false, true) => Self::TIMES,
        };
        if next != state {
            self.state.store(next, Ordering::Relaxed);
        }
    }
}

impl View {
    /// Looks up any number of keys, as [`probe_batch`](Self::probe_batch) does some. Ends early with
    /// `false` as soon as the view is not the newest any more: it keeps buffers that are past.
    pub(crate) fn probe_each<C: Fn(Presence) -> bool>(
        &self,
        hashes: &[u64],
        stages: Stages<'_, C>,
        cold: &Cold,
        is_current: impl Fn() -> bool,
        found: &mut [bool],
    ) -> Result<bool, FormatError> {
        if hashes.len() < LARGE {
            return self.probe_chunks(hashes, &stages, cold, |first, there| {
                found[first..][..there.len()].copy_from_slice(there);
                is_current()
            });
        }
        let Ordered { hashes, places } = Ordered::of(hashes);
        let stages = stages.in_order(hashes.len());
        self.probe_chunks(&hashes, &stages, cold, |first, there| {
            for (place, there) in places[first..].iter().zip(there) {
                found[*place as usize] = *there;
            }
            is_current()
        })
    }

    /// Hands over what was found in each chunk, with the place of its first key, and goes on for as long
    /// as the answer is `true`.
    fn probe_chunks<C: Fn(Presence) -> bool>(
        &self,
        hashes: &[u64],
        stages: &Stages<'_, C>,
        cold: &Cold,
        mut each: impl FnMut(usize, &[bool]) -> bool,
    ) -> Result<bool, FormatError> {
        let mut pages = Vec::new();
        let mut asked_to = 0;
        for (first, chunk) in (0..).step_by(BATCH).zip(hashes.chunks(BATCH)) {
            let asks = cold.asks();
            if asks {
                // This one, if that was not done yet, and the next.
                let end = hashes.len().min(first + 2 * BATCH);
                for chunk in hashes[asked_to.max(first)..end].chunks(BATCH) {
                    self.ask_for(chunk, &mut pages);
                }
                asked_to = end;
            }
            let mut there = [false; BATCH];
            let there = &mut there[..chunk.len()];
            let begun = Instant::now();
            self.probe_batch(chunk, stages, there)?;
            cold.note(asks, begun.elapsed(), chunk.len());
            if !each(first, there) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks the system for the pages of some keys, without waiting for them.
    fn ask_for(&self, hashes: &[u64], pages: &mut Vec<u64>) {
        for layer in self.layers_with_keys() {
            pages.clear();
            pages.extend(hashes.iter().map(|hash| layer.page_of(*hash)));
            pages.sort_unstable();
            for run in pages.chunk_by(|a, b| b - a <= GAP) {
                if let [first, .., last] | [first @ last] = run {
                    layer.ask_for(*first..*last + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin sorts by the same bits, and keeps the order of keys that are alike in them.
        #[test]
        fn ordered_keys_are_the_same_keys(hashes in prop::collection::vec(any::<u64>(), 1..2000)) {
            let ordered = Ordered::of(&hashes);
            let bits = (hashes.len() / 64).max(2).ilog2().min(11);
            let mut twin: Vec<u32> = (0..hashes.len() as u32).collect();
            twin.sort_by_key(|place| hashes[*place as usize] >> (64 - bits));
            let hash = |place: &u32| hashes[*place as usize];
            prop_assert_eq!(&ordered.hashes, &twin.iter().map(hash).collect::<Vec<_>>());
            prop_assert_eq!(&ordered.places, &twin);
        }
    }

    #[test]
    fn pages_are_asked_for_after_two_slow_looks_and_not_for_ever() {
        let cold = Cold::default();
        let slow = Cold::SLOW * 513;
        cold.note(false, slow, 512);
        assert!(!cold.asks());
        cold.note(false, Duration::ZERO, 512);
        cold.note(false, slow, 512);
        assert!(!cold.asks());
        cold.note(false, slow, 512);
        let mut times = 0;
        while cold.asks() {
            cold.note(true, slow, 512);
            times += 1;
        }
        assert_eq!(times, Cold::TIMES - 1);
    }
}
