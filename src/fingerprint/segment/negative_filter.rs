//! A filter in memory that proves most absent fingerprints absent with one line of the processor's cache. A look into a
//! page takes three.

use std::io;

use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::Region;
use crate::sys::sync::{AtomicU64, Ordering};

/// Fingerprints that are sifted together.
pub(crate) const FILTERED_AT_ONCE: usize = 512;
/// Fingerprints whose words are fetched ahead of the one that is looked at: enough for a word to arrive. In groups of 64,
/// all fetched at once, a fingerprint took half as long again on an AMD EPYC.
const SIFT_AHEAD: usize = 32;
/// If the filter holds back less than a fourth of so many, it isn't asked about those behind them: most are there.
const SIFT_SAMPLE: usize = 64;

const _: () = assert!(FILTERED_AT_ONCE <= 1 << 16, "a turn takes 16 bits");
const _: () = assert!(SIFT_SAMPLE <= FILTERED_AT_ONCE);

/// Spreads the low bits of a fingerprint, in which those of one word differ, over the high ones (the golden ratio).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A set of fingerprints that contains all of certain segments, and perhaps others.
///
/// Each fingerprint has up to four bits in one word, and words lie in the order of fingerprints: a checkpoint, which
/// merges in that order, fills them one after the other. With 12 bits for each fingerprint it lets one in 80 absent ones
/// through, with 6 bits one in 14.
#[derive(Debug)]
pub(crate) struct NegativeFilter {
    words: Region,
    /// Words for each fingerprint of the space, times 2^64.
    scale: u64,
    /// The bits of a number that are not its age.
    mask: u64,
    /// How many fingerprints were added, each time that one was.
    added: AtomicU64,
}

impl NegativeFilter {
    /// Returns a filter without any fingerprint, of `bytes` bytes or less.
    pub(crate) fn empty(space: FingerprintSpace, bytes: u64) -> io::Result<Self> {
        let words = (bytes / 8).clamp(1, space.count());
        let scale = (u128::from(words) << 64) / u128::from(space.count());
        Ok(Self {
            words: Region::private(words)?,
            // It is 2^64 if there is a word for each fingerprint.
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
            mask: space.mask(),
            added: AtomicU64::new(0),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.words.words().len() as u64 * 8
    }

    /// Returns how many fingerprints were added, those counted again that were added again.
    pub(crate) fn added(&self) -> u64 {
        self.added.load(Ordering::Relaxed)
    }

    /// Adds fingerprints, which rise. Others may look meanwhile, and other threads may add those of other ranges.
    pub(crate) fn add(&self, fingerprints: &[u64]) {
        debug_assert!(fingerprints.is_sorted());
        let (Some(first), Some(last)) = (fingerprints.first(), fingerprints.last()) else {
            return;
        };
        self.added
            .fetch_add(fingerprints.len() as u64, Ordering::Relaxed);
        let ends = [self.place(*first), self.place(*last)];
        let is_shared = |fingerprint: &u64| ends.contains(&self.place(*fingerprint));
        let words = self.words.words();
        let after = fingerprints.iter().take_while(|one| is_shared(one)).count();
        let (shared, rest) = fingerprints.split_at(after);
        let before = rest.iter().rev().take_while(|one| is_shared(one)).count();
        let (own, also_shared) = rest.split_at(rest.len() - before);
        // A word at the border may be another range's too, whose thread sets its bits at the same time.
        for fingerprint in shared.iter().chain(also_shared) {
            words[self.place(*fingerprint)].fetch_or(self.bits(*fingerprint), Ordering::Relaxed);
        }
        // For the others a plain store will do. How many fingerprints a word has is not predictable: no branch asks.
        for fingerprint in own {
            let word = &words[self.place(*fingerprint)];
            let bits = word.load(Ordering::Relaxed) | self.bits(*fingerprint);
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// Returns whether a fingerprint may have been added. Never returns `false` for one whose addition happened before this
    /// call.
    #[inline(always)]
    pub(crate) fn may_contain(&self, fingerprint: u64) -> bool {
        has(
            &self.words.words()[self.place(fingerprint)],
            self.bits(fingerprint),
        )
    }

    /// Returns the turns of those fingerprints that may have been added, in order; `None` if most of the first
    /// [`SIFT_SAMPLE`] may, so that it isn't worth asking about the rest. There are at most [`FILTERED_AT_ONCE`] fingerprints.
    pub(crate) fn sift<'t>(
        &self,
        mut fingerprints: impl ExactSizeIterator<Item = u64>,
        turns: &'t mut [u16; FILTERED_AT_ONCE],
    ) -> Option<&'t [u16]> {
        // Those behind would be taken for absent.
        debug_assert!(fingerprints.len() <= FILTERED_AT_ONCE);
        let mut probes = [(0, 0); FILTERED_AT_ONCE];
        let sample = fingerprints.len().min(SIFT_SAMPLE);
        let first = fingerprints.by_ref().take(sample);
        let mut left = self.sift_some(first, 0, &mut probes, turns);
        if left > SIFT_SAMPLE / 4 * 3 && fingerprints.len() > 0 {
            return None;
        }
        left += self.sift_some(fingerprints, sample, &mut probes, &mut turns[left..]);
        Some(&turns[..left])
    }

    /// Writes the turns of those fingerprints that may have been added, the first of which has the turn `first`. Returns how
    /// many there are. `probes` is where their places and bits may be put.
    #[inline(always)]
    fn sift_some(
        &self,
        fingerprints: impl Iterator<Item = u64>,
        first: usize,
        probes: &mut [(usize, u64); FILTERED_AT_ONCE],
        turns: &mut [u16],
    ) -> usize {
        // All of them first: the fewer instructions lie between two fetches, the more addresses the processor translates at
        // a time.
        let mut count = 0;
        for (probe, fingerprint) in probes.iter_mut().zip(fingerprints) {
            *probe = (self.place(fingerprint), self.bits(fingerprint));
            count += 1;
        }
        let (words, probes) = (self.words.words(), &probes[..count]);
        let fetch = |turn: usize| {
            if let Some((place, _)) = probes.get(turn) {
                crate::sys::prefetch(&words[*place]);
            }
        };
        (0..SIFT_AHEAD).for_each(fetch);
        let mut left = 0;
        for (turn, (place, mask)) in probes.iter().enumerate() {
            fetch(turn + SIFT_AHEAD);
            turns[left] = (first + turn) as u16;
            left += usize::from(has(&words[*place], *mask));
        }
        left
    }

    /// Asks for the line of the processor's cache in which a fingerprint's word lies.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fingerprint: u64) {
        crate::sys::prefetch(&self.words.words()[self.place(fingerprint)]);
    }

    #[inline(always)]
    fn place(&self, fingerprint: u64) -> usize {
        ((u128::from(fingerprint & self.mask) * u128::from(self.scale)) >> 64) as usize
    }

    /// Returns the bits of a number's fingerprint in its word: at most four.
    #[inline(always)]
    fn bits(&self, number: u64) -> u64 {
        let spread = (number & self.mask).wrapping_mul(SPREAD);
        let bit = |shift: u32| 1 << (spread >> shift & 63);
        bit(58) | bit(52) | bit(46) | bit(40)
    }
}

/// Returns whether a word has all bits of a fingerprint.
#[inline(always)]
fn has(word: &AtomicU64, mask: u64) -> bool {
    word.load(Ordering::Relaxed) & mask == mask
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::hash::finalise;

    fn spaces() -> impl Strategy<Value = FingerprintSpace> {
        (0_u32..63, any::<u64>()).prop_map(|(bits, more)| {
            FingerprintSpace::new((1 << bits) + more % (1 << bits)).unwrap()
        })
    }

    proptest! {
        /// The slow twin is a set.
        #[test]
        fn what_was_added_may_be_there(
            space in spaces(),
            bytes in 0_u64..4096,
            added in prop::collection::vec(any::<u64>(), 0..700),
            others in prop::collection::vec(any::<u64>(), 0..700),
        ) {
            let filter = NegativeFilter::empty(space, bytes).unwrap();
            prop_assert!(filter.bytes() <= bytes.max(8));
            let ends = [0, u64::MAX];
            let mut added: Vec<u64> = added.iter().chain(&ends).map(|hash| space.fingerprint(*hash)).collect();
            for half in added.chunks_mut(300) {
                half.sort_unstable();
                filter.add(half);
            }
            filter.add(&[]);
            let twin: BTreeSet<u64> = added.iter().copied().collect();
            let asked: Vec<u64> = added.iter().copied()
                .chain(others.iter().map(|hash| space.fingerprint(*hash)))
                .collect();
            for some in asked.chunks(FILTERED_AT_ONCE) {
                let mut turns = [0; FILTERED_AT_ONCE];
                let Some(left) = filter.sift(some.iter().copied(), &mut turns) else {
                    let sample = some[..SIFT_SAMPLE].iter();
                    let left = sample.filter(|one| filter.may_contain(**one)).count();
                    prop_assert!(left > SIFT_SAMPLE / 4 * 3 && some.len() > SIFT_SAMPLE);
                    continue;
                };
                prop_assert!(left.is_sorted_by(|one, next| one < next));
                for (turn, one) in some.iter().enumerate() {
                    let is_left = left.contains(&(turn as u16));
                    prop_assert!(is_left || !twin.contains(one), "{one} of {space:?} was held back");
                    prop_assert!(is_left || !filter.may_contain(*one));
                    prop_assert!(filter.may_contain(*one) || !twin.contains(one));
                }
            }
        }
    }

    fn spread(number: u64, space: FingerprintSpace) -> u64 {
        space.fingerprint(finalise(number))
    }

    fn sorted(numbers: Range<u64>, space: FingerprintSpace) -> Vec<u64> {
        let mut all: Vec<u64> = numbers.map(|number| spread(number, space)).collect();
        all.sort_unstable();
        all
    }

    /// Threads that add the fingerprints of adjacent ranges, which share a word at each border.
    #[test]
    fn threads_lose_nothing_at_the_borders_of_their_ranges() {
        let space = FingerprintSpace::new(1 << 40).unwrap();
        let all = sorted(0..100_000, space);
        for _ in 0..10 {
            let filter = NegativeFilter::empty(space, 8 << 13).unwrap();
            let ranges: Vec<_> = all.chunks(20).collect();
            let next = [AtomicU64::new(0), AtomicU64::new(0)];
            std::thread::scope(|scope| {
                for own in 0..2 {
                    let (filter, ranges, next) = (&filter, &ranges, &next);
                    scope.spawn(move || {
                        for (turn, some) in ranges.iter().skip(own).step_by(2).enumerate() {
                            // Both come to the border at the same time.
                            next[own].store(turn as u64, Ordering::SeqCst);
                            while next[1 - own].load(Ordering::SeqCst) < turn as u64 {
                                std::thread::yield_now();
                            }
                            filter.add(some);
                        }
                        next[own].store(u64::MAX, Ordering::SeqCst);
                    });
                }
            });
            assert!(all.iter().all(|one| filter.may_contain(*one)));
        }
    }

    #[test]
    fn as_many_absent_ones_pass_as_the_documentation_says() {
        const KEYS: u64 = 100_000;
        let space = FingerprintSpace::new(1 << 44).unwrap();
        for (bits, one_in) in [(12, 80), (6, 14)] {
            let filter = NegativeFilter::empty(space, KEYS * bits / 8).unwrap();
            filter.add(&sorted(0..KEYS, space));
            let absent = (KEYS..2 * KEYS).map(|key| spread(key, space));
            let passed = absent.filter(|key| filter.may_contain(*key)).count() as u64;
            let expected = KEYS / one_in;
            assert!(
                (expected * 9 / 10..=expected * 11 / 10).contains(&passed),
                "{passed} of {KEYS} with {bits} bits"
            );
        }
    }

    /// Where most of the first are there. What comes behind them is left to the pages, and what is not there is held back
    /// if there is nothing behind.
    #[test]
    fn the_filter_is_not_asked_where_most_are_there() {
        let space = FingerprintSpace::new(1 << 44).unwrap();
        let filter = NegativeFilter::empty(space, 1 << 20).unwrap();
        let there = sorted(0..1000, space);
        filter.add(&there);
        let absent = (1000..)
            .map(|key| spread(key, space))
            .find(|key| !filter.may_contain(*key))
            .unwrap();
        let mut asked: Vec<u64> = there[..FILTERED_AT_ONCE].to_vec();
        let limit = SIFT_SAMPLE / 4 * 3;
        for (absent_ones, is_asked) in [(0, false), (1, false), (SIFT_SAMPLE - limit, true)] {
            asked[..absent_ones].fill(absent);
            let mut turns = [0; FILTERED_AT_ONCE];
            let left = filter.sift(asked.iter().copied(), &mut turns);
            let expected = FILTERED_AT_ONCE - absent_ones;
            assert_eq!(left.map(<[_]>::len), is_asked.then_some(expected));
            let few = asked[..SIFT_SAMPLE].iter().copied();
            let left = filter.sift(few, &mut turns).unwrap();
            assert!(
                left.iter()
                    .map(|turn| usize::from(*turn))
                    .eq(absent_ones..SIFT_SAMPLE)
            );
        }
    }
}
