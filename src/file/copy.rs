//! The mark of a copy: it identifies the store and the moment that the copy shows (FORMAT.md, "Copy mark").
//!
//! A marked file that was not written to since can serve as the base of a delta, and a delta can be applied to it.

use super::layout::{COPY_MARK_OFFSET, MAX_COUNTER, SECTOR_BYTES};
use super::{FormatError, Header, Superblock};
use crate::codec::{Decoder, Encoder, put_u32, u32_at, u64_at};
use crate::hash::finalise;
use crate::page::PAYLOAD_OFFSET;

pub(crate) const COPY_MAGIC: [u8; 8] = *b"EVERCOPY";
const COPY_CRC_OFFSET: usize = 8;
pub(crate) const COPY_MARK_BYTES: usize = 96;
/// A sector is written whole or not at all, and so is the mark.
const _: () = assert!(COPY_MARK_BYTES <= SECTOR_BYTES);
const _: () = assert!(COPY_MARK_OFFSET.is_multiple_of(SECTOR_BYTES as u64));
/// Bytes in a page's header, which represents the page's content in the digest.
pub(crate) const PAGE_HEADER: usize = 16;
const _: () = assert!(PAGE_HEADER == PAYLOAD_OFFSET);

const STATE_WHOLE: u32 = 0;
const STATE_APPLYING: u32 = 1;

/// The contents of a store's pages at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The pages hold all logs below this generation.
    pub(crate) generation: u64,
    /// The digest of all pages.
    pub(crate) digest: u64,
}

/// The mark of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyMark {
    pub(crate) store_id: [u8; 16],
    pub(crate) moment: Moment,
    /// The sequence of the superblock that was written with the mark.
    pub(crate) sequence: u64,
    /// The target moment, while a delta is being applied.
    pub(crate) next: Option<Moment>,
}

impl CopyMark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.moment.generation.max(self.sequence) <= MAX_COUNTER);
        let mut bytes = Vec::with_capacity(COPY_MARK_BYTES);
        let next = self.next.unwrap_or(Moment {
            generation: 0,
            digest: 0,
        });
        Encoder::new(&mut bytes)
            .bytes(&COPY_MAGIC)
            .u32(0)
            .u32(match self.next {
                None => STATE_WHOLE,
                Some(_) => STATE_APPLYING,
            })
            .bytes(&self.store_id)
            .u64(self.moment.generation)
            .u64(self.moment.digest)
            .u64(self.sequence)
            .u64(next.generation)
            .u64(next.digest)
            .pad_to(COPY_MARK_BYTES);
        let crc = crc32fast::hash(&bytes[COPY_CRC_OFFSET + 4..]);
        put_u32(&mut bytes, COPY_CRC_OFFSET, crc);
        bytes
    }

    /// Returns `None` if the bytes hold no mark of a copy of this store.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Option<Self> {
        let bytes = bytes.get(..COPY_MARK_BYTES)?;
        let crc = crc32fast::hash(&bytes[COPY_CRC_OFFSET + 4..]);
        if bytes[..8] != COPY_MAGIC || u32_at(bytes, COPY_CRC_OFFSET) != crc {
            return None;
        }
        let mut input = Decoder::new(&bytes[COPY_CRC_OFFSET + 4..]);
        let state = input.u32()?;
        let store_id = input.array()?;
        let moment = |input: &mut Decoder<'_>| {
            let (generation, digest) = (input.u64()?, input.u64()?);
            Some(Moment { generation, digest })
        };
        let held = moment(&mut input)?;
        let sequence = input.u64()?;
        let next = moment(&mut input)?;
        let next = match state {
            STATE_WHOLE => None,
            STATE_APPLYING => Some(next),
            _ => return None,
        };
        let highest = held.generation.max(sequence);
        let known = store_id == header.store_id && highest <= MAX_COUNTER && input.rest_is_zero();
        known.then_some(Self {
            store_id,
            moment: held,
            sequence,
            next,
        })
    }

    /// Returns whether this superblock is the one that was written with the mark. A process that writes to the copy as
    /// to a store first writes another superblock.
    pub(crate) fn fits(&self, superblock: &Superblock) -> bool {
        superblock.sequence == self.sequence && self.is_own(superblock)
    }

    fn is_own(&self, superblock: &Superblock) -> bool {
        superblock.generation == self.moment.generation && !superblock.log_expected
    }

    /// Returns the error that keeps a copy with this newest superblock (if any is left) from being opened: a delta was
    /// being applied, and its own superblock was not written yet.
    pub(crate) fn half_applied(&self, newest: Option<&Superblock>) -> Option<FormatError> {
        let to = self.next?.generation;
        let left = |superblock: &Superblock| {
            let sequences = [self.sequence, self.sequence.saturating_sub(1)];
            sequences.contains(&superblock.sequence) && self.is_own(superblock)
        };
        let from = self.moment.generation;
        newest
            .is_none_or(left)
            .then_some(FormatError::HalfApplied { from, to })
    }
}

/// Returns a page's contribution to the digest of its store, which is the sum of all contributions modulo 2^64.
/// `header` is the beginning of the page.
pub(crate) fn digest_of(number: u64, header: &[u8]) -> u64 {
    let (low, high) = (u64_at(header, 0), u64_at(header, 8));
    if (low, high) == (0, 0) {
        return 0;
    }
    let mixed = finalise(finalise(number).wrapping_add(low));
    finalise(mixed.wrapping_add(high))
}

/// Returns the superblocks of a copy: the store's newest one, which expects no log, and a duplicate as its predecessor,
/// so that damage to one loses nothing. They differ in [`slot`](Superblock::slot).
pub(crate) fn superblocks_of(store: &Superblock) -> [Superblock; 2] {
    let first_named = store.set_version();
    let newest = Superblock {
        // The older one must not precede the superblock that first named its segments.
        sequence: store.sequence.max(1 + first_named),
        log_expected: false,
        partly_merged: None,
        ..store.clone()
    };
    let older = Superblock {
        sequence: newest.sequence - 1,
        ..newest.clone()
    };
    assert!(older.sequence >= first_named, "a directory of the future");
    [older, newest]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use crate::page::{Binding, Kind, PAGE_BYTES, PAYLOAD_BITS};
    use proptest::prelude::*;

    fn header(store_id: [u8; 16]) -> Header {
        Header {
            kind: Kind::Bloom,
            hash: Hash::Highway,
            transactional: false,
            probes: 7,
            capacity: 1000,
            fpr: 0.01,
            bits: PAYLOAD_BITS,
            seed: [7; 32],
            store_id,
            created: 1,
            growth: 0,
            tightening: 0.0,
            window: None,
            compatible: 0,
            read_only_compatible: 0,
            locks_itself: true,
            has_bound_pages: true,
        }
    }

    fn moment() -> impl Strategy<Value = Moment> {
        (0..=MAX_COUNTER, any::<u64>())
            .prop_map(|(generation, digest)| Moment { generation, digest })
    }

    proptest! {
        #[test]
        fn marks_go_there_and_back_unless_a_bit_is_flipped(
            store_id in any::<[u8; 16]>(),
            moment in moment(),
            sequence in 0..=MAX_COUNTER,
            next in prop::option::of(moment()),
            bit in 0..COPY_MARK_BYTES * 8,
        ) {
            let mark = CopyMark { store_id, moment, sequence, next };
            let mut bytes = mark.encode();
            prop_assert_eq!(bytes.len(), COPY_MARK_BYTES);
            prop_assert_eq!(CopyMark::decode(&bytes, &header(store_id)), Some(mark));
            let mut other = store_id;
            other[0] ^= 1;
            prop_assert_eq!(CopyMark::decode(&bytes, &header(other)), None);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(CopyMark::decode(&bytes, &header(store_id)), None);
        }

        #[test]
        fn a_digest_tells_pages_apart_and_does_not_know_their_order(
            numbers in prop::collection::btree_set(0_u64..1 << 50, 2..20),
            generation in 1_u64..1 << 50,
        ) {
            let mut page = vec![0; PAGE_BYTES];
            let of = |number, generation, page: &mut Vec<u8>| {
                Binding::NONE.seal(number, generation, 0, page);
                digest_of(number, page)
            };
            let each: Vec<_> = numbers.iter().map(|number| of(*number, generation, &mut page)).collect();
            let sum = |each: &[u64]| each.iter().fold(0_u64, |sum, one| sum.wrapping_add(*one));
            let reversed: Vec<_> = each.iter().rev().copied().collect();
            prop_assert_eq!(sum(&each), sum(&reversed));
            let number = *numbers.first().unwrap();
            let mut later = each.clone();
            later[0] = of(number, generation + 1, &mut page);
            prop_assert_ne!(sum(&each), sum(&later));
            prop_assert_ne!(sum(&each), sum(&each[1..]));
        }
    }

    #[test]
    fn a_blank_page_adds_nothing() {
        assert_eq!(digest_of(77, &[0; PAGE_HEADER]), 0);
    }
}
