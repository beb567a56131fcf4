//! Looking up the parts of a large batch: in the order of the pages, and what is not in memory by
//! many reads at a time.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::buffer::Presence;
use crate::error::Result;
use crate::hash::in_pairs;
use crate::store::engine::Engine;
use crate::store::prefetch::readahead::{Ahead, is_sweep};
use crate::store::read::staged::{BATCH, Places, Settled, Stages, Unsure};
use crate::store::view::View;

/// From so many keys on it pays to look them up in the order of the pages.
const LARGE: usize = 8192;

/// Groups of keys that are alike in their highest bits, at most, as a power of two: no more streams to write
/// to than a processor's tables of pages have room for.
pub(crate) const GROUPS_LOG2: u32 = 11;

/// The keys of a part, known by their places in it.
pub(crate) trait Keys {
    fn count(&self) -> usize;

    /// The hashes of the keys from a place on.
    fn hashes_from(&self, first: usize, out: &mut [u64]);

    /// The hashes of the keys at these places.
    fn hashes_at(&self, places: &[u32], out: &mut [u64]);
}

/// Keys that have been hashed.
impl Keys for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn hashes_from(&self, first: usize, out: &mut [u64]) {
        out.copy_from_slice(&self[first..][..out.len()]);
    }

    fn hashes_at(&self, places: &[u32], out: &mut [u64]) {
        for (place, out) in places.iter().zip(out) {
            *out = self[*place as usize];
        }
    }
}

/// Keys that are hashed whenever their hashes are needed: so many that these would take too much
/// memory.
pub(crate) struct Unhashed<'a, K, H> {
    pub(crate) keys: &'a [K],
    /// Of two keys at once.
    pub(crate) hash: H,
}

impl<'a, K, H: Fn([&K; 2]) -> [u64; 2]> Unhashed<'a, K, H> {
    fn hashes_of(&self, keys: impl IntoIterator<Item = &'a K>, out: &mut [u64]) {
        let mut out = out.iter_mut();
        let each = |hash| {
            if let Some(out) = out.next() {
                *out = hash;
            }
        };
        in_pairs(keys, &self.hash, each);
    }
}

impl<K, H: Fn([&K; 2]) -> [u64; 2]> Keys for Unhashed<'_, K, H> {
    fn count(&self) -> usize {
        self.keys.len()
    }

    fn hashes_from(&self, first: usize, out: &mut [u64]) {
        self.hashes_of(&self.keys[first..][..out.len()], out);
    }

    fn hashes_at(&self, places: &[u32], out: &mut [u64]) {
        let keys = places.iter().map(|place| &self.keys[*place as usize]);
        self.hashes_of(keys, out);
    }
}

/// The keys of a part from a place on.
pub(crate) struct Rest<'a> {
    pub(crate) keys: &'a dyn Keys,
    pub(crate) first: usize,
}

/// In which order the keys of a part are looked at, and their hashes.
pub(crate) struct Order<'a> {
    pub(crate) keys: &'a Rest<'a>,
    /// Their places; without, as they stand.
    pub(crate) places: Option<Vec<u32>>,
}

impl<'a> Order<'a> {
    /// If they are many, about the order of the pages and of the buffers' buckets, which is that of
    /// their hashes.
    fn of(keys: &'a Rest<'a>) -> Self {
        let places = (keys.count() >= LARGE).then(|| keys.by_highest_bits());
        Self { keys, places }
    }

    pub(crate) fn hashes(&self, range: Range<usize>, out: &mut [u64]) {
        match &self.places {
            Some(places) => self.keys.keys.hashes_at(&places[range], out),
            None => self
                .keys
                .keys
                .hashes_from(self.keys.first + range.start, out),
        }
    }

    /// Where the key that is looked at in this turn stands in the part.
    fn place(&self, turn: usize) -> usize {
        match &self.places {
            Some(places) => places[turn] as usize - self.keys.first,
            None => turn,
        }
    }
}

impl Rest<'_> {
    pub(crate) fn count(&self) -> usize {
        self.keys.count() - self.first
    }

    /// The places of the keys by their highest bits: as many as make for some dozens of keys that are
    /// alike in them.
    fn by_highest_bits(&self) -> Vec<u32> {
        let bits = (self.count() / 64).max(2).ilog2().min(GROUPS_LOG2);
        let group = |hash: u64| (hash >> (64 - bits)) as usize;
        let mut starts = vec![0_u32; 1 << bits];
        self.for_each(|_, hash| starts[group(hash)] += 1);
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        let mut places = vec![0; self.count()];
        self.for_each(|place, hash| {
            let at = &mut starts[group(hash)];
            places[*at as usize] = place as u32;
            *at += 1;
        });
        places
    }

    /// Goes through the hashes of the keys, with their places in the whole part.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        let mut hashes = [0; BATCH];
        let places = self.first..self.keys.count();
        for first in places.clone().step_by(BATCH) {
            let hashes = &mut hashes[..BATCH.min(places.end - first)];
            self.keys.hashes_from(first, hashes);
            for (place, hash) in (first..).zip(hashes) {
                each(place, *hash);
            }
        }
    }
}

/// What is looked into in one walk over the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    Buffers,
    Pages,
    Both,
}

impl Engine {
    /// Looks up the keys of a part and sets `found` for each that is there. `counts` tells whether a
    /// key that the active buffer has is; without it that buffer is not looked into.
    ///
    /// Answers the generation that was active when it began. Who is not found was then in no buffer
    /// but that generation's, if that was not looked into, nor in the pages; it may have come since,
    /// into that generation or a later one.
    ///
    /// # Errors
    /// The inner one is of something that one key alone should meet; then `found` means nothing.
    pub(crate) fn probe_part<C: Fn(Presence) -> bool>(
        &self,
        keys: &Rest<'_>,
        counts: Option<C>,
        found: &mut [bool],
    ) -> Result<Result<u64, Unsure>> {
        let view = Arc::clone(&*self.views.current()?);
        let generation = view.active.number();
        let order = Order::of(keys);
        let mut stages = Stages::new(self.shared.window(), counts);
        if order.places.is_some() {
            stages = stages.in_order(keys.count());
        }
        let walks: &[Walk] = match order.places.is_some() && self.hints.residency.asks() {
            // Long: a buffer that is past would be kept in memory meanwhile.
            true => &[Walk::Buffers, Walk::Pages],
            false => &[Walk::Both],
        };
        let (layers, exempt) = (view.layers.clone(), view.kept.exempt.clone());
        let settled = Settled {
            layers: &layers,
            exempt: exempt.as_deref(),
        };
        let mut view = Some(view);
        for walk in walks {
            if *walk == Walk::Pages {
                view = None;
            }
            let walked = self.walk(*walk, &order, view.as_deref(), settled, &stages, found);
            if let Err(error) = walked {
                return Ok(Err(error));
            }
        }
        Ok(Ok(generation))
    }

    fn walk<C: Fn(Presence) -> bool>(
        &self,
        walk: Walk,
        order: &Order<'_>,
        view: Option<&View>,
        settled: Settled<'_>,
        stages: &Stages<'_, C>,
        found: &mut [bool],
    ) -> Result<(), Unsure> {
        let count = order.keys.count();
        let sweeps = walk != Walk::Buffers && is_sweep(order, settled.layers);
        let counted = sweeps.then(|| {
            self.hints
                .residency
                .begin_walk(|offset| self.file.raw.is_cached(offset))
        });
        let leaves = counted.as_ref().is_some_and(|walk| walk.leaves);
        let mut ahead = Ahead::new(settled.layers, count, leaves, &*self.file.raw);
        let mut hashes = [0; BATCH];
        let mut look_from = |first: usize| -> Result<(), Unsure> {
            let end = count.min(first + BATCH);
            let asks = walk != Walk::Buffers && self.hints.residency.asks();
            if asks {
                ahead.ask(order, first);
            }
            let hashes = &mut hashes[..end - first];
            order.hashes(first..end, hashes);
            let mut there = [false; BATCH];
            let there = &mut there[..hashes.len()];
            let mut rest = Places::all(hashes.len());
            match walk {
                Walk::Pages => rest.drop_if(|turn| found[order.place(first + turn)]),
                _ => {
                    if let Some(view) = view {
                        view.probe_buffers(hashes, stages, &mut rest, there);
                    }
                }
            }
            if walk != Walk::Buffers {
                let begun = Instant::now();
                crate::store::read::staged::probe_layers(
                    settled, hashes, stages, &mut rest, there,
                )?;
                self.hints
                    .residency
                    .note(asks, begun.elapsed(), hashes.len());
            }
            for (turn, there) in (first..).zip(there) {
                found[order.place(turn)] |= *there;
            }
            Ok(())
        };
        let walked = (0..count).step_by(BATCH).try_for_each(&mut look_from);
        if let Some(counted) = counted {
            // However it went.
            self.hints.residency.end_walk(&counted, ahead.sample);
        }
        walked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::hash::KeyHasher;
    use crate::{Hash, Options, Store};
    use proptest::prelude::*;

    proptest! {
        /// The slow twin sorts by the same bits, and keeps the order of keys that are alike in them.
        #[test]
        fn ordered_keys_are_the_same_keys(
            hashes in prop::collection::vec(any::<u64>(), 1..2000),
            first in any::<prop::sample::Index>(),
        ) {
            let first = first.index(hashes.len());
            let rest = Rest { keys: &hashes, first };
            let bits = (rest.count() / 64).max(2).ilog2().min(11);
            let mut twin: Vec<u32> = (first as u32..hashes.len() as u32).collect();
            twin.sort_by_key(|place| hashes[*place as usize] >> (64 - bits));
            prop_assert_eq!(&rest.by_highest_bits(), &twin);
        }

        #[test]
        fn keys_hash_alike_kept_or_not(
            keys in prop::collection::vec(any::<u64>(), 1..200),
            first in any::<prop::sample::Index>(),
        ) {
            let hash = |key: &u64| key.rotate_left(7);
            let hashes: Vec<u64> = keys.iter().map(hash).collect();
            let unhashed = Unhashed {
                keys: &keys,
                hash: |keys: [&u64; 2]| keys.map(hash),
            };
            prop_assert_eq!(unhashed.count(), hashes.len());
            let first = first.index(keys.len());
            let places: Vec<u32> = (first as u32..keys.len() as u32).rev().collect();
            let mut got = [vec![0; keys.len() - first], vec![0; keys.len() - first]];
            hashes.hashes_from(first, &mut got[0]);
            unhashed.hashes_from(first, &mut got[1]);
            prop_assert_eq!(&got[0], &got[1]);
            prop_assert_eq!(&got[0], &hashes[first..]);
            hashes.hashes_at(&places, &mut got[0]);
            unhashed.hashes_at(&places, &mut got[1]);
            prop_assert_eq!(&got[0], &got[1]);
            prop_assert_eq!(got[0].last(), Some(&hashes[first]));
        }
    }

    /// Has the next look-ups go the way for pages that come from the disk.
    fn make_cold(store: &Store) {
        while !store.engine.hints.residency.asks() {
            store
                .engine
                .hints
                .residency
                .note(false, Duration::from_secs(1), BATCH);
        }
    }

    #[test]
    fn a_walk_is_sampled_from_end_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(2_000_000).fpr(1e-9);
        let store = options.create(folder.path().join("store")).unwrap();
        store.insert_hash_batch(&batch(0, 100_000)).unwrap();
        store.checkpoint().unwrap();
        let hasher = KeyHasher::new(Hash::Xxh3, &[7; 32]);
        let keys: Vec<u64> = (0..100_000).map(|key| hasher.mix(key)).collect();
        let view = store.engine.views.current().unwrap();
        let rest = Rest {
            keys: &keys,
            first: 0,
        };
        let order = Order::of(&rest);
        assert!(is_sweep(&order, &view.layers));
        let mut ahead = Ahead::new(&view.layers, keys.len(), false, &*store.engine.file.raw);
        for first in (0..keys.len()).step_by(BATCH) {
            ahead.ask(&order, first);
        }
        let mut sample = ahead.sample;
        sample.sort_unstable();
        let length = store.engine.file.raw.length().unwrap();
        assert!((60..70).contains(&sample.len()), "{}", sample.len());
        assert!(sample[0] < length / 10 && sample[59] > length / 10 * 8);
        assert!(sample.iter().all(|offset| *offset < length));
    }

    /// Keys from some million, so that most batches bring new ones and old ones, and the same twice.
    fn batch(seed: u64, keys: u64) -> Vec<u64> {
        let hasher = KeyHasher::new(Hash::Xxh3, &[7; 32]);
        let mut state = seed << 32;
        let draw = |_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            hasher.mix(state) % 1_000_000
        };
        (0..keys).map(draw).collect()
    }

    /// The slow twin is a set in memory. Buffers of two megabytes are rotated several times meanwhile,
    /// within the parts too.
    #[test]
    fn large_batches_out_of_memory_are_answered_as_any() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(2_000_000).fpr(1e-9).buffer(4 << 20);
        let store = options.create(folder.path().join("store")).unwrap();
        let mut twin = HashSet::new();
        for seed in 0..8 {
            make_cold(&store);
            let keys = batch(seed, 100_000);
            let answers = store.insert_hash_batch(&keys).unwrap();
            for (key, new) in keys.iter().zip(answers) {
                assert_eq!(new, twin.insert(*key), "key {key} of batch {seed}");
            }
            make_cold(&store);
            let keys = batch(1000 + seed, 100_000);
            let answers = store.contains_hash_batch(&keys).unwrap();
            for (key, there) in keys.iter().zip(answers) {
                assert_eq!(there, twin.contains(key), "key {key} after batch {seed}");
            }
            // However slow look-ups were: what they read is still in memory.
            assert!(!store.engine.hints.residency.is_tight());
        }
        assert!(store.stats().unwrap().generation > 2, "nothing was rotated");
    }

    /// Each key has one winner among handles whose parts outlast each other's rotations.
    #[test]
    fn large_batches_of_two_handles_have_one_winner_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().capacity(2_000_000).fpr(1e-9).buffer(4 << 20);
        let first = options.create(&path).unwrap();
        let handles = [first, options.open(&path).unwrap()];
        let mut won: Vec<u64> = std::thread::scope(|scope| {
            let insert = |(seed, store): (u64, &_)| {
                let mut won = Vec::new();
                for round in 0..6 {
                    make_cold(store);
                    let keys = batch(seed * 3 + round, 100_000);
                    let answers = store.insert_hash_batch(&keys).unwrap();
                    let new = keys.iter().zip(answers).filter(|(_, new)| *new);
                    won.extend(new.map(|(key, _)| *key));
                }
                won
            };
            let threads: Vec<_> = (0..)
                .zip(&handles)
                .map(|work| scope.spawn(move || insert(work)))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let all: HashSet<u64> = (0..9).flat_map(|seed| batch(seed, 100_000)).collect();
        won.sort_unstable();
        let winners = won.len();
        won.dedup();
        assert_eq!(winners, won.len(), "a key was won twice");
        assert_eq!(winners, all.len());
    }
}
