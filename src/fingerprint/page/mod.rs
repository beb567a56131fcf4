//! A page of fingerprints: a piece of a sorted list, packed.
//!
//! The list is Elias-Fano coded: the high parts in unary, the low parts in full. Groups of [`GROUP_PARTS`] values of the high
//! part stand one behind the other, each with its low parts right behind its unary bits, and a directory at the front of
//! the page says where each begins. So a look-up touches one line of the directory, one of unary bits, and one or two of
//! low parts.
//!
//! A page covers a range of fingerprints and has the first of them in it. What is packed are *offsets*: fingerprints less
//! that first one. Where the range ends, the page's owner knows.
//! Bytes: FORMAT.md, "Pages of fingerprints".

mod bits;
pub(crate) mod encode;
pub(crate) mod look;
pub(crate) mod read;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
#[cfg(any(test, fuzzing, feature = "stages"))]
pub(crate) mod work;

pub(crate) use encode::{encode, longest};
#[cfg(any(test, fuzzing, feature = "stages"))]
pub(crate) use look::contains;
pub(crate) use read::{age_base, check, decode, first, has_short_front};

use crate::page::ages::Ages;
use crate::page::{PAGE_BYTES, PAYLOAD_OFFSET};

/// Values of the high part in a group.
const GROUP_PARTS: usize = 128;
/// The widest low part. One unaligned load of eight bytes then holds it wherever it begins.
const MOST_LOW_BITS: u32 = 56;
/// Offset of the first fingerprint that the page may hold.
const FIRST_OFFSET: usize = PAYLOAD_OFFSET;
/// Offset of the number of values that the high part may have.
const HIGH_COUNT_OFFSET: usize = FIRST_OFFSET + 8;
/// Offset of the width of the low part, in bits.
const LOW_BITS_OFFSET: usize = HIGH_COUNT_OFFSET + 2;
/// Offset of the number of bits that ages take: 0 in a store that does not forget.
const AGE_BITS_OFFSET: usize = LOW_BITS_OFFSET + 1;
/// Offset of the step that ages are counted back from: behind all groups.
const BASE_OFFSET: usize = PAGE_BYTES - 8;
/// Offset of the directory: where each group begins, and where the last one ends, in bits from the page's begin.
const DIRECTORY_OFFSET: usize = AGE_BITS_OFFSET + 1;
/// Bytes at a page's begin that a processor's cache holds together.
const FRONT_BYTES: usize = 64;
/// The most fingerprints that a page has room for: all of its range.
pub(crate) const MOST_IN_PAGE: usize = 15_232;
/// Bits that groups may reach to. Eight bytes can be loaded from wherever a group's bit lies.
const MOST_BITS: usize = (PAGE_BYTES - 8) * 8;

const _: () = assert!(MOST_BITS <= u16::MAX as usize && MOST_BITS <= BASE_OFFSET * 8);
const _: () = assert!(MOST_LOW_BITS as usize <= bits::MOST_PUT);
const _: () = assert!(DIRECTORY_OFFSET.is_multiple_of(4));
const _: () = assert!(
    HIGH_COUNT_OFFSET.is_multiple_of(8),
    "a look-up reads it with its word"
);
const _: () = assert!(
    GROUP_PARTS.is_power_of_two(),
    "a look-up divides by it with a shift"
);

/// How a list of offsets is divided into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    low_bits: u32,
    /// Values that the high part may have.
    high_count: usize,
}

impl Layout {
    /// Returns a layout that takes little room for `count` offsets below `width`, which is at least 1; `None` if no page
    /// has room for its high parts. Ages lie in low parts.
    fn of(count: usize, width: u64, ages: Ages) -> Option<Self> {
        // The low part gets a bit more each time that offsets are on average 2^0.25 times as far apart as it reaches.
        let apart = u128::from(width) * 1024 / (count.max(1) as u128 * 1218);
        let low_bits = apart.max(1).ilog2().min(MOST_LOW_BITS).max(ages.bits());
        let high_count = usize::try_from((width - 1) >> low_bits).ok()?;
        let high_count = high_count.checked_add(1)?;
        (high_count <= MOST_BITS).then_some(Self {
            low_bits,
            high_count,
        })
    }

    fn groups(self) -> usize {
        self.high_count.div_ceil(GROUP_PARTS)
    }

    /// Returns the bit at which the first group begins.
    fn begin(self) -> usize {
        let directory = DIRECTORY_OFFSET + 2 * (self.groups() + 1);
        directory.next_multiple_of(8) * 8
    }

    /// Returns the bit behind the last group, with this many offsets.
    fn end(self, count: usize) -> usize {
        self.begin() + self.groups() * GROUP_PARTS + count * (1 + self.low_bits as usize)
    }
}
