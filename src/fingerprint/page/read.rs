//! Reading a page.
//!
//! A page is hostile until [`check`] has passed it. [`decode`] reads nothing outside of the page and ends soon whatever it
//! holds, but what it returns means something only for a page that was checked.

use std::ops::Range;

use super::bits::{LOADED, load};
use super::{
    AGE_BITS_OFFSET, BASE_OFFSET, DIRECTORY_OFFSET, FIRST_OFFSET, FRONT_BYTES, GROUP_PARTS,
    HIGH_COUNT_OFFSET, LOW_BITS_OFFSET, Layout, MOST_BITS, MOST_LOW_BITS,
};
use crate::codec::u64_at;
use crate::page::{PAGE_BYTES, occupancy};
use crate::sys::simd::dispatch::{Cpu, Work, run_wide};

/// One load has all of a low part, wherever it begins.
const _: () = assert!(MOST_LOW_BITS as usize <= LOADED);

/// A page whose bytes are no list of fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FingerprintFault {
    /// The page begins with another fingerprint than its owner says.
    First { expected: u64, got: u64 },
    /// The low part is wider than any, or the high part doesn't cover the page's range exactly.
    Parts,
    /// A group begins outside of the page, or ends before it begins, or its length is none that a group can have.
    Directory,
    /// A group's unary bits or its low parts are none that the encoder writes.
    Group,
    /// There are more or fewer fingerprints than the page's header says.
    Count,
    /// Its ages have another number of bits than the store's, or a fingerprint has two.
    Ages,
    /// There are bits behind the last group.
    Rest,
}

/// `2^32 / (low_bits + 1)`, rounded up, for each width of the low part. The product with a number of up to 16 bits has the
/// quotient in its high half.
const RECIPROCALS: [u64; MOST_LOW_BITS as usize + 1] = {
    let mut all = [0; MOST_LOW_BITS as usize + 1];
    let mut low_bits = 0;
    while low_bits < all.len() {
        all[low_bits] = (1_u64 << 32).div_ceil(low_bits as u64 + 1);
        low_bits += 1;
    }
    all
};

/// One group of a page.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The bit at which it begins.
    begin: usize,
    /// The offsets in it.
    count: usize,
}

impl Group {
    #[inline(always)]
    fn of(begin: usize, end: usize, low_bits: u32) -> Option<Self> {
        let ones_and_lows = end.checked_sub(begin + GROUP_PARTS)?;
        let count = ((ones_and_lows as u64 * RECIPROCALS[low_bits as usize]) >> 32) as usize;
        Some(Self { begin, count })
    }

    #[inline(always)]
    fn in_page(page: &[u8; PAGE_BYTES], group: usize, low_bits: u32) -> Option<Self> {
        let ends = load(page, directory_byte(group) * 8) as usize;
        Self::of(ends & 0xFFFF, ends >> 16 & 0xFFFF, low_bits)
    }

    /// Returns the bit at which its low parts begin.
    #[inline(always)]
    fn lows(self) -> usize {
        self.begin + GROUP_PARTS + self.count
    }
}

/// Returns the place of the directory's number of a group.
#[inline(always)]
fn directory_byte(group: usize) -> usize {
    DIRECTORY_OFFSET + 2 * group
}

/// Returns the first fingerprint that the page may hold.
#[inline]
pub(crate) fn first(page: &[u8; PAGE_BYTES]) -> u64 {
    u64_at(page, FIRST_OFFSET)
}

/// Returns the step from which the page's ages are counted back; `None` unless they have so many bits.
#[inline]
pub(crate) fn age_base(page: &[u8; PAGE_BYTES], bits: u32) -> Option<u64> {
    let base = u64_at(page, BASE_OFFSET);
    (u32::from(page[AGE_BITS_OFFSET]) == bits && (bits > 0 || base == 0)).then_some(base)
}

/// Returns whether the page's directory ends within the first [`FRONT_BYTES`].
pub(crate) fn has_short_front(page: &[u8; PAGE_BYTES]) -> bool {
    let (_, high_count) = parts(u64_at(page, HIGH_COUNT_OFFSET));
    directory_byte(high_count.div_ceil(GROUP_PARTS) + 1) <= FRONT_BYTES
}

/// Returns the width of the low part and the number of values of the high part.
#[inline(always)]
fn parts(word: u64) -> (u32, usize) {
    let low_bits = (word >> 16 & 0xFF) as u32;
    (low_bits.min(MOST_LOW_BITS), (word & 0xFFFF) as usize)
}

/// Appends the page's fingerprints to `out`: its offsets, to which `first` is added. Returns `None` if it finds that the
/// page is none.
#[inline(always)]
pub(crate) fn decode(
    page: &[u8; PAGE_BYTES],
    first: u64,
    out: &mut Vec<u64>,
    cpu: impl Cpu,
) -> Option<()> {
    let (low_bits, high_count) = parts(u64_at(page, HIGH_COUNT_OFFSET));
    for group in 0..high_count.div_ceil(GROUP_PARTS) {
        let found = Group::in_page(page, group, low_bits)?;
        if found.lows() > MOST_BITS {
            return None;
        }
        let base = first.wrapping_add(((group * GROUP_PARTS) as u64) << low_bits);
        let begin = out.len();
        out.resize(begin + found.count, base);
        // Two loops, neither of which waits for the other.
        add_highs(page, found, low_bits, &mut out[begin..], cpu)?;
        add_lows(page, found, low_bits, &mut out[begin..], cpu);
    }
    Some(())
}

/// Adds the high parts of a group to as many numbers as it has; `None` if it has fewer ones.
#[inline(always)]
fn add_highs(
    page: &[u8; PAGE_BYTES],
    group: Group,
    low_bits: u32,
    mut numbers: &mut [u64],
    cpu: impl Cpu,
) -> Option<()> {
    let (mut bit, mut high) = (group.begin, 0_u64);
    while !numbers.is_empty() {
        if bit >= group.lows() {
            return None;
        }
        let mut word = load(page, bit) & ((1 << LOADED) - 1);
        let ones = (word.count_ones() as usize).min(numbers.len());
        let (own, rest) = numbers.split_at_mut(ones);
        if !cpu.add_places(word, high, low_bits, own) {
            for (turn, number) in own.iter_mut().enumerate() {
                // Each one before takes a bit.
                let place = u64::from(word.trailing_zeros()).wrapping_sub(turn as u64);
                *number = number.wrapping_add(high.wrapping_add(place) << low_bits);
                word &= word.wrapping_sub(1);
            }
        }
        high = high.wrapping_sub(ones as u64);
        numbers = rest;
        bit += LOADED;
        high = high.wrapping_add(LOADED as u64);
    }
    Some(())
}

/// Adds the low parts of a group to as many numbers as it has.
#[inline(always)]
fn add_lows(
    page: &[u8; PAGE_BYTES],
    group: Group,
    low_bits: u32,
    numbers: &mut [u64],
    cpu: impl Cpu,
) {
    let done = cpu.add_equal(page, group.lows(), low_bits, numbers);
    let mask = (1 << low_bits) - 1;
    let mut bit = group.lows() + done * low_bits as usize;
    for number in &mut numbers[done..] {
        *number = number.wrapping_add(load(page, bit) & mask);
        bit += low_bits as usize;
    }
}

/// Appends the fingerprints of a page, whose CRC was checked before. Returns whether it holds as many of its range, in order,
/// as it says; what was appended is meaningless otherwise. Unlike [`check`], it doesn't look at bits that hold none.
pub(crate) struct ReadWhole<'a>(
    pub(crate) &'a [u8; PAGE_BYTES],
    pub(crate) Range<u64>,
    pub(crate) &'a mut Vec<u64>,
);

impl Work for ReadWhole<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> bool {
        let ReadWhole(page, range, list) = self;
        let before = list.len();
        let whole = decode(page, range.start, list, cpu).is_some();
        let own = &list[before..];
        let pairs = own.windows(2);
        let rising = pairs.fold(true, |rising, pair| rising & (pair[0] < pair[1]));
        let inside = [own.first(), own.last()].into_iter().flatten();
        whole
            && rising
            && inside.into_iter().all(|one| range.contains(one))
            && own.len() == occupancy(page) as usize
    }
}

/// Checks that a page, whose CRC was checked before, holds fingerprints of this range, as many as its header says, and as
/// the encoder writes them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(page: &[u8; PAGE_BYTES], range: Range<u64>) -> Result<(), FingerprintFault> {
    if first(page) != range.start {
        return Err(FingerprintFault::First {
            expected: range.start,
            got: first(page),
        });
    }
    let width = range.end.saturating_sub(range.start);
    let layout = check_parts(page, width)?;
    let end = check_groups(page, layout)?;
    let mut list = Vec::with_capacity(occupancy(page) as usize);
    if !run_wide(ReadWhole(page, range, &mut list)) {
        return Err(FingerprintFault::Group);
    }
    let between = &page[DIRECTORY_OFFSET + 2 * (layout.groups() + 1)..layout.begin() / 8];
    let behind = &page[end.div_ceil(8)..BASE_OFFSET];
    let partial = page[end / 8] >> (end % 8);
    let age_bits = page[AGE_BITS_OFFSET].into();
    let is_once = |pair: &[u64]| pair[0] >> age_bits < pair[1] >> age_bits;
    if !list.windows(2).all(is_once) || first(page).trailing_zeros() < age_bits {
        return Err(FingerprintFault::Ages);
    }
    match (end.is_multiple_of(8) || partial == 0)
        && age_base(page, age_bits).is_some()
        && between.iter().chain(behind).all(|byte| *byte == 0)
    {
        true => Ok(()),
        false => Err(FingerprintFault::Rest),
    }
}

/// Checks how a page of this width is divided.
fn check_parts(page: &[u8; PAGE_BYTES], width: u64) -> Result<Layout, FingerprintFault> {
    let (low_bits, high_count) = parts(u64_at(page, HIGH_COUNT_OFFSET));
    let layout = Layout {
        low_bits,
        high_count,
    };
    if u32::from(page[LOW_BITS_OFFSET]) > MOST_LOW_BITS
        || page[AGE_BITS_OFFSET] > page[LOW_BITS_OFFSET]
        || width == 0
        || high_count == 0
        || (width - 1) >> low_bits != high_count as u64 - 1
    {
        return Err(FingerprintFault::Parts);
    }
    match layout.begin() <= MOST_BITS {
        true => Ok(layout),
        false => Err(FingerprintFault::Directory),
    }
}

/// Checks that the groups follow each other without gaps and hold as many offsets as the page's header says. Returns the
/// bit behind the last.
fn check_groups(page: &[u8; PAGE_BYTES], layout: Layout) -> Result<usize, FingerprintFault> {
    let (mut end, mut total) = (layout.begin(), 0);
    for group in 0..layout.groups() {
        let found = Group::in_page(page, group, layout.low_bits);
        let found = found.ok_or(FingerprintFault::Directory)?;
        if found.begin != end {
            return Err(FingerprintFault::Directory);
        }
        end = found.lows() + found.count * layout.low_bits as usize;
        if end > MOST_BITS {
            return Err(FingerprintFault::Directory);
        }
        check_unary(page, found)?;
        total += found.count;
    }
    if load(page, directory_byte(layout.groups()) * 8) & 0xFFFF != end as u64 {
        return Err(FingerprintFault::Directory);
    }
    match total == occupancy(page) as usize {
        true => Ok(end),
        false => Err(FingerprintFault::Count),
    }
}

/// Checks that a group has as many ones as offsets, and a zero behind the last of them.
fn check_unary(page: &[u8; PAGE_BYTES], group: Group) -> Result<(), FingerprintFault> {
    let (mut bit, end, mut ones) = (group.begin, group.lows(), 0);
    while bit < end {
        let some = (end - bit).min(LOADED);
        ones += (load(page, bit) & ((1 << some) - 1)).count_ones() as usize;
        bit += some;
    }
    match ones == group.count && load(page, end - 1) & 1 == 0 {
        true => Ok(()),
        false => Err(FingerprintFault::Group),
    }
}
