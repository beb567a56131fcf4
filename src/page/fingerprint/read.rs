//! Reading a page.
//!
//! A page is hostile until [`check`] has passed it. [`contains`] and [`decode`] read nothing outside of the page and end
//! soon whatever it holds, but what they return means something only for a page that was checked.

use std::ops::Range;

use super::bits::{LOADED, load, load_bits, load_words, select};
use super::{
    DIRECTORY_OFFSET, FIRST_OFFSET, GROUP_PARTS, HIGH_COUNT_OFFSET, LOW_BITS_OFFSET, Layout,
    MOST_BITS, MOST_LOW_BITS,
};
use crate::codec::u64_at;
use crate::page::{PAGE_BYTES, occupancy};
use crate::sys::cpu_dispatch::{Baseline, Cpu};

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

    #[inline(always)]
    fn in_words(word: impl Fn(usize) -> u64, group: usize, low_bits: u32) -> Option<Self> {
        // Both numbers lie in the same word, mostly, and the next may be in a line that nobody asked for.
        let number = |byte: usize| (word(byte / 8) >> (byte % 8 * 8)) as usize & 0xFFFF;
        let byte = directory_byte(group);
        Self::of(number(byte), number(byte + 2), low_bits)
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

/// Returns the width of the low part and the number of values of the high part.
#[inline(always)]
fn parts(word: u64) -> (u32, usize) {
    let low_bits = (word >> 16 & 0xFF) as u32;
    (low_bits.min(MOST_LOW_BITS), (word & 0xFFFF) as usize)
}

/// Words behind the first that [`after_zeros`] counts in at once. The unary bits of nearly all groups lie in so many.
const COUNTED: usize = 4;
/// Bits by which a group's ones may lie behind where they would be if all were spread evenly, nearly always.
const UNEVEN: u32 = 12;

/// Returns the place behind the zero with `zeros` zeros before it, counted from `begin` on; `None` if there is none before
/// `end`. Most likely it is at `likely` or before.
///
/// Counts in all words at once and then chooses one: how many to pass by is nothing that a processor could foresee. Words
/// behind the likely place are not read, since they may lie in another line.
#[inline(always)]
fn after_zeros(
    word: impl Fn(usize) -> u64 + Copy,
    begin: usize,
    end: usize,
    likely: usize,
    zeros: u32,
    cpu: impl Cpu,
) -> Option<usize> {
    let (first, last) = (begin / 64, likely / 64);
    let mut chosen = !word(first) & (u64::MAX << (begin % 64));
    let (mut skipped, mut before) = (0, 0);
    let mut counted = chosen.count_ones();
    for index in 1..=COUNTED {
        let next = !word((first + index).min(last));
        let is_behind = zeros >= counted;
        chosen = if is_behind { next } else { chosen };
        before = if is_behind { counted } else { before };
        skipped += usize::from(is_behind);
        counted += next.count_ones();
    }
    if zeros >= counted || first + skipped > last {
        return after_more_zeros(word, begin, end, zeros);
    }
    let rank = zeros - before;
    let place = cpu.select(chosen, rank);
    let place = place.unwrap_or_else(|| select(chosen, rank));
    Some((first + skipped) * 64 + place as usize + 1)
}

/// Does the same word by word.
#[cold]
fn after_more_zeros(
    word: impl Fn(usize) -> u64 + Copy,
    mut bit: usize,
    end: usize,
    mut zeros: u32,
) -> Option<usize> {
    while bit < end {
        let some = !load_words(word, bit);
        let count = some.count_ones();
        if zeros < count {
            return Some(bit + select(some, zeros) as usize + 1);
        }
        zeros -= count;
        bit += 64;
    }
    None
}

/// Returns whether a page holds an offset, where `word` returns the page's words and anything beyond them.
#[cfg(any(test, fuzzing, feature = "stages"))]
#[inline(always)]
pub(crate) fn contains(word: impl Fn(usize) -> u64 + Copy, offset: u64) -> bool {
    Unary::of(word, offset).is_some_and(|unary| {
        let (candidates, are_any) = unary.candidates(word, Baseline);
        are_any && candidates.contain(word)
    })
}

/// A look-up on its way, once the front of the page was read: what unary bits it needs. Places are bits of the page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unary {
    low: u64,
    begin: u32,
    lows: u32,
    /// The offset's ones are most likely here or before.
    likely: u32,
    low_bits: u16,
    /// The zeros before the offset's ones.
    zeros: u16,
}

/// A look-up on its way, once the unary bits were read: the low parts of all offsets with the same high part. Places are
/// bits of the page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Candidates {
    low: u64,
    low_bits: u32,
    /// Where the first of the ones is.
    bit: u32,
    /// Where the low part is that belongs to it.
    at: u32,
    /// The group's offsets from there on.
    left: u32,
    /// Three bits from `bit` on, and others.
    ones: u64,
}

impl Unary {
    /// Returns `None` if the page can't hold the offset.
    #[inline(always)]
    pub(crate) fn of(word: impl Fn(usize) -> u64 + Copy, offset: u64) -> Option<Self> {
        let (low_bits, high_count) = parts(word(HIGH_COUNT_OFFSET / 8));
        let high = offset >> low_bits;
        if high >= high_count as u64 {
            return None;
        }
        let (group, zeros) = (high as usize / GROUP_PARTS, high as usize % GROUP_PARTS);
        let found = Group::in_words(word, group, low_bits)?;
        let before = (found.count * zeros / GROUP_PARTS) as u32;
        let (begin, lows) = (found.begin as u32, found.lows() as u32);
        Some(Self {
            low: offset & ((1 << low_bits) - 1),
            begin,
            lows,
            likely: (begin + zeros as u32 + before + UNEVEN).min(lows),
            low_bits: low_bits as u16,
            zeros: zeros as u16,
        })
    }

    /// Returns the group's offsets.
    #[inline(always)]
    fn count(&self) -> u32 {
        self.lows - self.begin - GROUP_PARTS as u32
    }

    /// Returns the words between which the bits lie, most likely, for prefetches.
    #[inline(always)]
    pub(crate) fn words(&self) -> [usize; 2] {
        [self.begin as usize / 64, self.likely as usize / 64]
    }

    /// Returns the offsets with the same high part, and whether there are any.
    #[inline(always)]
    pub(crate) fn candidates(
        self,
        word: impl Fn(usize) -> u64 + Copy,
        cpu: impl Cpu,
    ) -> (Candidates, bool) {
        let (begin, lows) = (self.begin as usize, self.lows as usize);
        let likely = self.likely as usize;
        let bit = match self.zeros {
            0 => Some(begin),
            zeros => after_zeros(word, begin, lows, likely, u32::from(zeros) - 1, cpu),
        };
        let bit = bit.unwrap_or(lows) as u32;
        // Each zero before belongs to no offset, each one to one.
        let place = bit - self.begin - u32::from(self.zeros);
        let ones = load_bits(word, bit as usize, 3);
        let low_bits = u32::from(self.low_bits);
        let found = Candidates {
            low: self.low,
            low_bits,
            bit,
            at: self.lows + place * low_bits,
            left: self.count().saturating_sub(place),
            ones,
        };
        (found, ones & 1 == 1 && found.left > 0)
    }
}

impl Candidates {
    /// Returns the word with the first low part, for a prefetch.
    #[inline(always)]
    pub(crate) fn word(&self) -> usize {
        self.at as usize / 64
    }

    /// Returns whether one of the low parts is that of the offset.
    ///
    /// Nearly always there are one or two of them. Both are compared, since nothing foretells which it is.
    #[inline(always)]
    pub(crate) fn contain(self, word: impl Fn(usize) -> u64 + Copy) -> bool {
        let mask = (1 << self.low_bits) - 1;
        let both = (2 * self.low_bits).min(64) as usize;
        let first = load_bits(word, self.at as usize, both);
        let second = match self.low_bits <= 32 {
            true => first >> self.low_bits,
            false => load_words(word, (self.at + self.low_bits) as usize),
        };
        let has_second = self.ones & 2 != 0 && self.left > 1;
        let found = (first & mask == self.low) | (has_second & (second & mask == self.low));
        found || (self.ones & 7 == 7 && self.contain_more(word))
    }

    /// Does the same for any number.
    #[cold]
    fn contain_more(self, word: impl Fn(usize) -> u64 + Copy) -> bool {
        let mask = (1 << self.low_bits) - 1;
        let (mut bit, mut at, mut left) = (self.bit as usize, self.at as usize, self.left);
        loop {
            let run = load_words(word, bit).trailing_ones();
            for _ in 0..run.min(left) {
                if load_words(word, at) & mask == self.low {
                    return true;
                }
                at += self.low_bits as usize;
            }
            left = left.saturating_sub(run);
            if run < 64 || left == 0 {
                return false;
            }
            bit += 64;
        }
    }
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
    let mut offsets = Vec::with_capacity(occupancy(page) as usize);
    decode(page, 0, &mut offsets, Baseline).ok_or(FingerprintFault::Group)?;
    let is_below = offsets.last().is_none_or(|last| *last < width);
    if !is_below || !offsets.is_sorted_by(|one, next| one < next) {
        return Err(FingerprintFault::Group);
    }
    let between = &page[DIRECTORY_OFFSET + 2 * (layout.groups() + 1)..layout.begin() / 8];
    let behind = &page[end.div_ceil(8)..];
    let partial = page[end / 8] >> (end % 8);
    match (end.is_multiple_of(8) || partial == 0)
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
        || page[LOW_BITS_OFFSET + 1] != 0
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
