//! Writing a page.

use std::ops::Range;

use super::bits::{BitWriter, LEAST_EQUAL, MOST_PUT};
use super::{
    AGE_BITS_OFFSET, BASE_OFFSET, DIRECTORY_OFFSET, FIRST_OFFSET, GROUP_PARTS, HIGH_COUNT_OFFSET,
    LOW_BITS_OFFSET, Layout, MOST_BITS, MOST_IN_PAGE,
};
use crate::codec::{put_u32, put_u64};
use crate::page::ages::Ages;
use crate::page::{OCCUPANCY_OFFSET, PAGE_BYTES, PAYLOAD_OFFSET};
use crate::sys::simd::dispatch::Cpu;

/// Returns whether a page has room for this many fingerprints in a range of this width.
#[inline]
pub(crate) fn fits(count: usize, width: u64, ages: Ages) -> bool {
    width > 0 && Layout::of(count, width, ages).is_some_and(|layout| layout.end(count) <= MOST_BITS)
}

/// Returns how many of the first fingerprints of a sorted list fit in a page that begins with the fingerprint `first` and
/// ends where the next one begins, or at `end`, behind the last fingerprint of all. With one more the page is too full.
/// `guess` is where the search begins.
pub(crate) fn longest(
    fingerprints: &[u64],
    (first, end): (u64, u64),
    ages: Ages,
    guess: usize,
) -> usize {
    let next = |count: usize| fingerprints.get(count).map(|one| ages.first_of(*one));
    let width = |count: usize| next(count).unwrap_or(end) - first;
    let fits = |count: usize| fits(count, width(count), ages);
    let mut count = near(fingerprints.len().min(MOST_IN_PAGE), ages, guess, width);
    while count < fingerprints.len() && fits(count + 1) {
        count += 1;
    }
    while count > 0 && !fits(count) {
        count -= 1;
    }
    count
}

/// Returns about how many fingerprints fill a page: a few steps, each as long as the room that is left suggests.
fn near(most: usize, ages: Ages, guess: usize, width: impl Fn(usize) -> u64) -> usize {
    /// What a fingerprint takes besides its low part.
    const BESIDE: usize = 2;
    const STEPS: usize = 4;
    let mut count = guess.min(most);
    for _ in 0..STEPS {
        let width = width(count);
        let layout = (width > 0).then(|| Layout::of(count, width, ages));
        let Some(layout) = layout.flatten() else {
            break;
        };
        let (bits, each) = (layout.end(count), layout.low_bits as usize + BESIDE);
        let better = match bits <= MOST_BITS {
            true => count + (MOST_BITS - bits) / each,
            false => count.saturating_sub((bits - MOST_BITS).div_ceil(each)),
        };
        let better = better.min(most);
        if better == count {
            break;
        }
        count = better;
    }
    count
}

/// Writes a page, whatever it held before, all but generation and CRC: the caller [seals](crate::page::Binding::seal) it with its
/// occupancy. The fingerprints are in order, each is there once, all are in `range`, and they fit.
///
/// # Panics
/// If they don't fit.
#[inline(always)]
pub(crate) fn encode(
    fingerprints: &[u64],
    (range, ages): (Range<u64>, Ages),
    page: &mut [u8; PAGE_BYTES],
    cpu: impl Cpu,
) {
    let (first, width) = (range.start, range.end - range.start);
    assert!(fingerprints.first().is_none_or(|one| *one >= first));
    debug_assert!(fingerprints.is_sorted_by(|one, next| one < next));
    debug_assert!(fingerprints.iter().all(|one| range.contains(one)));
    let count = fingerprints.len();
    // A look-up takes what ages are for a part of the low part.
    assert_eq!(ages.first_of(first), first);
    assert!(fits(count, width, ages), "{count} in {width}");
    let Some(layout) = Layout::of(count, width, ages) else {
        return;
    };
    // Groups overwrite all that lies between these zeros and those behind the last group.
    let begin = layout.begin() / 8;
    page[PAYLOAD_OFFSET..begin].fill(0);
    put_u32(page, OCCUPANCY_OFFSET, count as u32);
    put_u64(page, FIRST_OFFSET, first);
    page[HIGH_COUNT_OFFSET..][..2].copy_from_slice(&(layout.high_count as u16).to_le_bytes());
    page[LOW_BITS_OFFSET] = layout.low_bits as u8;
    page[AGE_BITS_OFFSET] = ages.bits() as u8;
    let mut writer = BitWriter::at(page, layout.begin());
    let mut begins = [0_u16; MOST_BITS / GROUP_PARTS + 1];
    let mut rest = fingerprints;
    for (group, begin) in begins[..layout.groups()].iter_mut().enumerate() {
        *begin = writer.bit() as u16;
        rest = put_group(rest, first, group, layout.low_bits, &mut writer, cpu);
    }
    let end = writer.bit();
    // A fingerprint that is left would be in no page.
    assert!(rest.is_empty(), "{} left of {count}", rest.len());
    assert_eq!(end, layout.end(count));
    begins[layout.groups()] = end as u16;
    page[end.div_ceil(8)..].fill(0);
    put_u64(page, BASE_OFFSET, ages.base());
    let directory = &mut page[DIRECTORY_OFFSET..][..2 * (layout.groups() + 1)];
    for (place, begin) in directory.chunks_exact_mut(2).zip(begins) {
        place.copy_from_slice(&begin.to_le_bytes());
    }
}

/// Fingerprints whose unary bits are written at once.
const UNARY_PARTS: usize = 4;

/// Writes the fingerprints of a group, its unary bits and its low parts, and returns those behind it.
#[inline(always)]
fn put_group<'a>(
    fingerprints: &'a [u64],
    first: u64,
    group: usize,
    low_bits: u32,
    writer: &mut BitWriter<'_>,
    cpu: impl Cpu,
) -> &'a [u64] {
    let mut high = (group * GROUP_PARTS) as u64;
    let end = high + GROUP_PARTS as u64;
    let mut count = 0;
    while let Some(eight) = fingerprints[count..].first_chunk() {
        let last = (eight[7] - first) >> low_bits;
        let bits = (last - high) as usize + eight.len();
        if last >= end || bits > MOST_PUT {
            break;
        }
        let Some(ones) = cpu.ones(eight, first, low_bits, high) else {
            break;
        };
        writer.put(ones, bits);
        (high, count) = (last, count + eight.len());
    }
    while let Some(some) = fingerprints[count..].first_chunk::<UNARY_PARTS>() {
        let own = some.map(|fingerprint| (fingerprint - first) >> low_bits);
        let last = own[UNARY_PARTS - 1];
        let bits = (last - high) as usize + UNARY_PARTS;
        if last >= end || bits > MOST_PUT {
            break;
        }
        let mut ones = 0;
        for (place, own) in own.iter().enumerate() {
            ones |= 1 << (own - high + place as u64);
        }
        writer.put(ones, bits);
        (high, count) = (last, count + UNARY_PARTS);
    }
    for fingerprint in &fingerprints[count..] {
        let own = (fingerprint - first) >> low_bits;
        if own >= end {
            break;
        }
        let zeros = (own - high) as usize;
        if zeros < MOST_PUT {
            writer.put(1 << zeros, zeros + 1);
        } else {
            writer.put_zeros(zeros);
            writer.put(1, 1);
        }
        high = own;
        count += 1;
    }
    writer.put_zeros((end - high) as usize);
    let (own, others) = fingerprints.split_at(count);
    put_lows(own, first, low_bits, writer, cpu);
    others
}

/// Writes low parts, two at once where that can be.
#[inline(always)]
fn put_lows(
    fingerprints: &[u64],
    first: u64,
    low_bits: u32,
    writer: &mut BitWriter<'_>,
    cpu: impl Cpu,
) {
    let mask = (1 << low_bits) - 1;
    let low = |fingerprint: u64| (fingerprint - first) & mask;
    let bits = low_bits as usize;
    let mut rest = fingerprints;
    if (LEAST_EQUAL..=MOST_PUT).contains(&(2 * bits)) {
        let done = writer.put_lows(rest, first, low_bits, cpu);
        let (pairs, odd) = rest[done..].as_chunks();
        let both = |[one, next]: &[u64; 2]| low(*one) | low(*next) << bits;
        writer.put_equal(pairs.iter().map(both), 2 * bits);
        rest = odd;
    }
    for one in rest {
        writer.put(low(*one), bits);
    }
}
