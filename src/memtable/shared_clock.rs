//! A time in a word of shared memory, which anything may have written.
//!
//! A time that is wrongly late makes a store forget what it has. So a word has a check, and one that fails tells no time. The
//! check is below the time: the later of two words is the greater.

/// How many of the lowest bits are the check. One in 65,536 other words passes.
const CHECK_BITS: u32 = 16;

/// The latest time that a word tells, in the year 10889: later ones are told as this.
pub(crate) const LATEST: u64 = u64::MAX >> CHECK_BITS;

/// An odd number without a pattern, so that each bit of a time changes its check.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the word of a time in milliseconds. That of 0 is 0: memory that nobody wrote to tells no later time.
pub(crate) fn pack(clock: u64) -> u64 {
    let clock = clock.min(LATEST);
    clock << CHECK_BITS | check(clock)
}

/// Returns the time of a word, or `None` if nobody has packed it.
#[inline]
pub(crate) fn unpack(word: u64) -> Option<u64> {
    let clock = word >> CHECK_BITS;
    (check(clock) == word & ((1 << CHECK_BITS) - 1)).then_some(clock)
}

#[inline]
fn check(clock: u64) -> u64 {
    clock.wrapping_mul(MIX) >> (u64::BITS - CHECK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_tell_their_times_in_order(one: u64, other: u64, shift in 0..64u32) {
            let [one, other] = [one >> shift, other >> shift];
            prop_assert_eq!(unpack(pack(one)), Some(one.min(LATEST)));
            prop_assert_eq!(pack(one).cmp(&pack(other)), one.min(LATEST).cmp(&other.min(LATEST)));
        }

        #[test]
        fn a_word_with_another_bit_tells_none(clock: u64, bit in 0..u64::BITS) {
            prop_assert_eq!(unpack(pack(clock) ^ 1 << bit), None);
        }

        #[test]
        fn a_word_that_is_a_little_off_tells_none(clock: u64, off in 1..=64u64) {
            let word = pack(clock);
            prop_assert_eq!(unpack(word.wrapping_add(off)), None);
            prop_assert_eq!(unpack(word.wrapping_sub(off)), None);
        }
    }

    #[test]
    fn memory_that_nobody_wrote_to_tells_the_earliest_time() {
        assert_eq!((pack(0), unpack(0)), (0, Some(0)));
        assert_eq!([1 << 60, i64::MAX as u64, u64::MAX].map(unpack), [None; 3]);
    }
}
