//! Which keys a sealed buffer may have: a Bloom filter of one probe, for those who ask it for very many.
//!
//! A look into the table waits for a line of memory and for its page table, and most keys of a window are in no buffer. The
//! bits take a tenth of the table's room, so more of them, or all, stay in a processor's cache.

use super::Buffer;

/// Bits for each key, rounded up to a power of two: at most one key in so many is looked up in vain.
const BITS_A_KEY: u64 = 8;

/// So many times fewer look-ups than the buffer has keys are worth a walk over its table, which goes through it in order.
const WORTH: u64 = 8;

/// A bit for each range of hashes. It is set if the buffer may have a key in the range.
pub(crate) struct KeyBitmap<'b> {
    buffer: &'b Buffer,
    bits: Vec<u64>,
    shift: u32,
}

impl<'b> KeyBitmap<'b> {
    /// Reads the keys of a buffer into which no more come, if that is worth it for so many look-ups and there is memory.
    pub(crate) fn for_looks(buffer: &'b Buffer, looks: usize) -> Option<Self> {
        match looks as u64 >= buffer.used() / WORTH {
            true => Self::of(buffer),
            false => None,
        }
    }

    fn of(buffer: &'b Buffer) -> Option<Self> {
        // The word comes from shared memory, and may be any. The table has room for no more.
        let keys = buffer.used().min(buffer.limit());
        let count = (keys * BITS_A_KEY).next_power_of_two().max(64);
        let mut bits = Vec::new();
        let words = usize::try_from(count / 64).ok()?;
        bits.try_reserve_exact(words).ok()?;
        bits.resize(words, 0);
        let shift = 64 - count.ilog2();
        buffer.for_each_in(&(0..=u64::MAX), |hash, _| {
            let place = hash >> shift;
            bits[(place / 64) as usize] |= 1 << (place % 64);
        });
        Some(Self {
            buffer,
            bits,
            shift,
        })
    }

    /// Returns whether the buffer may have a key, in whatever state.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let place = self.buffer.canonical(hash) >> self.shift;
        self.bits[(place / 64) as usize] >> (place % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::{COMMITTED, Claim, limit_of};
    use crate::page::KeyModel;
    use crate::page::fingerprint_space::FingerprintSpace;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_key_of_the_buffer_is_missed_and_few_others_are_found(
            hashes in prop::collection::hash_set(any::<u64>(), 0..3000),
            others in prop::collection::vec(any::<u64>(), 1000),
            is_rounded in any::<bool>(),
        ) {
            let mut buffer = Buffer::private(1 << 16, 1).unwrap();
            if is_rounded {
                buffer.model = KeyModel::Set(FingerprintSpace::new(1 << 40).unwrap());
            }
            for hash in hashes.iter().take(limit_of(1 << 16) as usize) {
                if let Claim::Claimed(slot) = buffer.claim(*hash) {
                    buffer.publish(slot, COMMITTED);
                }
            }
            if let Some(few) = (buffer.used() / WORTH).checked_sub(1) {
                prop_assert!(KeyBitmap::for_looks(&buffer, few as usize).is_none());
            }
            let bitmap = KeyBitmap::for_looks(&buffer, others.len()).unwrap();
            let held = |hash: &&u64| buffer.is_held(**hash);
            prop_assert!(hashes.iter().filter(held).all(|hash| bitmap.may_contain(*hash)));
            let found = others.iter().filter(|hash| bitmap.may_contain(**hash)).count();
            prop_assert!(found <= 200, "{found}");
        }
    }
}
