//! The counting filter inside one page: a counter of four bits for each of a key's probes.
//!
//! An insert of a key increments each of its counters, and a removal decrements them. A counter that reaches [`STUCK`]
//! stays there: the number of decrements it would need is no longer known. Counting is not idempotent, so nothing here
//! may be applied to a page twice; the page's generation says whether it has been applied. Bytes: FORMAT.md,
//! "Counting".

use super::uniform_probes;
#[cfg(test)]
use crate::page::count_counters_where;
use crate::page::{PAYLOAD_BITS, PAYLOAD_OFFSET, count_counters};

/// Counters in a page.
pub(crate) const COUNTERS: u64 = PAYLOAD_BITS / 4;
/// The value at which a counter sticks.
pub(crate) const STUCK: u8 = 15;
/// The index of counter 0, counted from the page's first half-byte.
const FIRST_COUNTER: usize = PAYLOAD_OFFSET * 2;
const MOST_PROBES: usize = crate::sizing::MAX_PROBES as usize;

const _: () = assert!(COUNTERS * 4 == PAYLOAD_BITS && COUNTERS <= u16::MAX as u64);

/// Returns an upper bound of the key's count: the smallest of its counters, where `word` returns the page's 64-bit
/// words. [`STUCK`] stands for that count or more.
#[inline]
pub(crate) fn count(word: impl Fn(usize) -> u64, probes: u32, hash: u64) -> u8 {
    let mut least = STUCK;
    // The first counters rule out most absent keys.
    let is_there = uniform_probes::all(COUNTERS, hash, probes, |counter| {
        let at = FIRST_COUNTER + counter;
        let counted = (word(at / 16) >> (at % 16 * 4)) as u8 & 0xF;
        least = least.min(counted);
        counted > 0
    });
    if is_there { least } else { 0 }
}

/// Returns the share of absent keys whose counters are all above 0, in a page with `occupancy` such counters.
pub(crate) fn rate(occupancy: u32, probes: u32) -> f64 {
    let fill = f64::from(occupancy) / COUNTERS as f64;
    fill.min(1.0).powf(f64::from(probes))
}

/// Calls `each` with the words of its page in which the key's counters lie, for a prefetch.
#[inline]
pub(crate) fn each_word(hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    uniform_probes::each(COUNTERS, hash, probes, |counter| {
        each((FIRST_COUNTER + counter) / 16)
    });
}

/// Returns the words of its page in which the key's first two counters lie, for a prefetch.
#[inline]
pub(crate) fn first_words(hash: u64) -> [usize; 2] {
    let mut words = [0; 2];
    let mut next = words.iter_mut();
    uniform_probes::each(COUNTERS, hash, 2, |counter| {
        if let Some(word) = next.next() {
            *word = (FIRST_COUNTER + counter) / 16;
        }
    });
    words
}

/// Returns the new value of a counter, or of the smallest of several, after a key was inserted `net` more times than
/// removed.
pub(crate) fn after(counter: u8, net: i64) -> u8 {
    if counter == STUCK {
        return STUCK;
    }
    // Below 0 only if keys were removed that had never been inserted.
    i64::from(counter)
        .saturating_add(net)
        .clamp(0, STUCK.into()) as u8
}

/// Changes each key's counters by its inserts minus its removes, in the given order, which is that of the hashes.
/// Returns how many counters are above 0 afterwards.
pub(crate) fn apply(page: &mut [u8], probes: u32, nets: &[(u64, i64)]) -> u32 {
    for (hash, net) in nets {
        let mut drawn = [0; MOST_PROBES];
        for counter in distinct(*hash, probes, &mut drawn) {
            let at = FIRST_COUNTER + usize::from(*counter);
            let byte = &mut page[at / 2];
            let shift = at % 2 * 4;
            let counted = after((*byte >> shift) & 0xF, *net);
            *byte = *byte & !(0xF << shift) | counted << shift;
        }
    }
    count_counters(page)
}

/// Returns a key's counters without duplicates: draws may repeat.
fn distinct(hash: u64, probes: u32, drawn: &mut [u16; MOST_PROBES]) -> &[u16] {
    // A counter that is left out would be counted down without having been counted up.
    debug_assert!((1..=MOST_PROBES).contains(&(probes as usize)));
    let mut count = 0;
    uniform_probes::each(COUNTERS, hash, probes, |counter| {
        let counter = counter as u16;
        if count < MOST_PROBES && !drawn[..count].contains(&counter) {
            drawn[count] = counter;
            count += 1;
        }
    });
    &drawn[..count]
}

/// Returns how many counters are stuck.
#[cfg(test)]
fn stuck(page: &[u8]) -> u32 {
    count_counters_where(page, |word| word & word >> 1 & word >> 2 & word >> 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::uniform_probes::twin::cells;
    use crate::codec::u64_at;
    use crate::page::PAGE_BYTES;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn word(page: &[u8]) -> impl Fn(usize) -> u64 + '_ {
        |index| u64_at(page, index * 8)
    }

    fn counters(page: &[u8]) -> Vec<u8> {
        let bytes = &page[PAYLOAD_OFFSET..];
        bytes
            .iter()
            .flat_map(|byte| [byte & 15, byte >> 4])
            .collect()
    }

    fn page_of(counters: &[u8]) -> Vec<u8> {
        let mut page = vec![0; PAYLOAD_OFFSET];
        page.extend(counters.chunks_exact(2).map(|two| two[0] | two[1] << 4));
        page
    }

    proptest! {
        /// The slow twin has a byte for each counter, and a set for each key's counters.
        #[test]
        fn equals_counters_of_their_own(
            nets in prop::collection::vec((0_u64..40, -20_i64..20), 0..200),
            before in prop::collection::vec((0..COUNTERS as usize, 0_u8..16), 0..500),
            probes in 1_u32..=64,
        ) {
            let mut twin = vec![0; COUNTERS as usize];
            for (counter, value) in before {
                twin[counter] = value;
            }
            let mut page = page_of(&twin);
            let own = |key: u64| cells(COUNTERS, key).take(probes as usize).collect::<BTreeSet<_>>();
            for (key, net) in &nets {
                for counter in own(*key) {
                    let value = &mut twin[counter];
                    *value = match (*value, i64::from(*value) + net) {
                        (15, _) => 15,
                        (_, sum) if sum < 0 => 0,
                        (_, sum) if sum > 15 => 15,
                        (_, sum) => sum as u8,
                    };
                }
            }
            let above_zero = apply(&mut page, probes, &nets);
            prop_assert_eq!(&counters(&page), &twin);
            prop_assert_eq!(above_zero as usize, twin.iter().filter(|value| **value > 0).count());
            prop_assert_eq!(stuck(&page) as usize, twin.iter().filter(|value| **value == 15).count());
            for key in 0..50 {
                let least = own(key).into_iter().map(|counter| twin[counter]).min();
                prop_assert_eq!(Some(count(word(&page), probes, key)), least);
            }
            for key in 0..50 {
                let words: Vec<_> = cells(COUNTERS, key).take(2).map(|at| (FIRST_COUNTER + at) / 16).collect();
                prop_assert_eq!(&first_words(key)[..], &words[..]);
            }
        }

        #[test]
        fn what_was_inserted_is_found_and_what_was_removed_leaves_nothing(
            keys in prop::collection::btree_set(any::<u64>(), 0..300),
            probes in 1_u32..40,
        ) {
            let mut page = vec![0; PAGE_BYTES];
            let nets = |net| keys.iter().map(|key| (*key, net)).collect::<Vec<_>>();
            apply(&mut page, probes, &nets(1));
            for key in &keys {
                prop_assert!(count(word(&page), probes, *key) > 0);
            }
            prop_assert_eq!(apply(&mut page, probes, &nets(-1)), stuck(&page));
        }
    }

    #[test]
    fn a_counter_ends_at_fifteen_and_stays() {
        assert_eq!(after(14, 1), STUCK);
        assert_eq!(after(3, i64::MAX), STUCK);
        assert_eq!(after(STUCK, -1), STUCK);
        assert_eq!(after(14, -15), 0);
        assert_eq!(after(14, i64::MIN), 0);
        let mut page = vec![0; PAGE_BYTES];
        apply(&mut page, 5, &[(9, 15), (9, -15)]);
        assert_eq!(count(word(&page), 5, 9), STUCK);
        assert_eq!(stuck(&page), 5);
    }
}
