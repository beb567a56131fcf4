//! Steps of reading, merging and packing sorted lists for eight numbers at once, on processors with AVX-512.
//!
//! [`Cpu`](super::dispatch::Cpu) says what each does; the portable twins are in `fingerprint::page` and
//! `segment::merge`. Vectors have 512 bits: processors that can take bytes out of a vector by a mask hardly lower their
//! clock for that.

use std::arch::x86_64::*;

/// Numbers in a vector.
const VECTOR_NUMBERS: usize = 8;
/// Bytes in a vector.
const VECTOR_BYTES: usize = 64;

/// The place of each byte of a vector.
const PLACES: [u8; VECTOR_BYTES] = {
    let mut places = [0; VECTOR_BYTES];
    let mut place = 0;
    while place < VECTOR_BYTES {
        places[place] = place as u8;
        place += 1;
    }
    places
};

#[inline]
#[target_feature(enable = "avx512f")]
fn of(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

/// Returns a number for each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(numbers: &[u64; VECTOR_NUMBERS]) -> __m512i {
    // SAFETY: the load reads 64 bytes, all of `numbers`, which need not be aligned.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_bytes(bytes: &[u8; VECTOR_BYTES]) -> __m512i {
    // SAFETY: the load reads 64 bytes, all of `bytes`, which need not be aligned.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(numbers: &mut [u64; VECTOR_NUMBERS], vector: __m512i) {
    // SAFETY: the store writes 64 bytes, all of `numbers`, which need not be aligned.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), vector) };
}

/// Returns 0 to 7 times a number.
#[inline]
#[target_feature(enable = "avx512f")]
fn multiples(number: u64) -> __m512i {
    let turns: [u64; VECTOR_NUMBERS] = std::array::from_fn(|turn| turn as u64);
    load(&turns.map(|turn| turn * number))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
pub(super) fn add_places(word: u64, high: u64, shift: u32, numbers: &mut [u64]) {
    let mut places = [0; VECTOR_BYTES];
    let ones = _mm512_maskz_compress_epi8(word, load_bytes(&PLACES));
    // SAFETY: the store writes 64 bytes, all of `places`, which need not be aligned.
    unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), ones) };
    let shift = _mm_cvtsi64_si128(shift.into());
    let mut before = _mm512_sub_epi64(of(high), multiples(1));
    let (places, _) = places.as_chunks::<VECTOR_NUMBERS>();
    for (some, places) in numbers.chunks_mut(VECTOR_NUMBERS).zip(places) {
        let place = _mm_cvtsi64_si128(i64::from_le_bytes(*places));
        let part = _mm512_add_epi64(_mm512_cvtepu8_epi64(place), before);
        let lanes = (u8::MAX) >> (VECTOR_NUMBERS - some.len());
        let number = some.as_mut_ptr().cast();
        // SAFETY: the load reads and the store writes as many lanes as `some` has numbers, which need not be aligned.
        unsafe {
            let old = _mm512_maskz_loadu_epi64(lanes, number);
            let sum = _mm512_add_epi64(old, _mm512_sll_epi64(part, shift));
            _mm512_mask_storeu_epi64(number, lanes, sum);
        }
        before = _mm512_sub_epi64(before, of(VECTOR_NUMBERS as u64));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi")]
pub(super) fn add_equal(bytes: &[u8], bit: usize, width: u32, numbers: &mut [u64]) -> usize {
    /// The eight bytes from a place on, in a lane that has the place in each byte.
    const NEXT: u64 = 0x0706_0504_0302_0100;
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Eight parts take as many bytes as one has bits. So all eights begin at the same bit of a byte.
    let begins = _mm512_add_epi64(of(bit as u64 % 8), multiples(width.into()));
    let bytes_of = _mm512_mullo_epi64(_mm512_srli_epi64::<3>(begins), of(EACH));
    let chosen = _mm512_add_epi64(bytes_of, of(NEXT));
    let passed = _mm512_and_si512(begins, of(7));
    let mask = of((1 << width) - 1);
    let (eights, _) = numbers.as_chunks_mut::<VECTOR_NUMBERS>();
    let mut at = bit / 8;
    let mut count = 0;
    for eight in eights {
        let Some(bytes) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            break;
        };
        let words = _mm512_permutexvar_epi8(chosen, load_bytes(bytes));
        let parts = _mm512_and_si512(_mm512_srlv_epi64(words, passed), mask);
        let sum = _mm512_add_epi64(load(eight), parts);
        store(eight, sum);
        at += width as usize;
        count += VECTOR_NUMBERS;
    }
    count
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn count_below(run: &[u64; VECTOR_NUMBERS], other: u64) -> (u32, u32) {
    let (run, other) = (load(run), of(other));
    let below = _mm512_cmplt_epu64_mask(run, other);
    let passed = _mm512_cmple_epu64_mask(run, other);
    (below.count_ones(), passed.count_ones())
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn ones(numbers: &[u64; VECTOR_NUMBERS], first: u64, shift: u32, high: u64) -> u64 {
    let offsets = _mm512_sub_epi64(load(numbers), of(first));
    let parts = _mm512_srl_epi64(offsets, _mm_cvtsi64_si128(shift.into()));
    let places = _mm512_sub_epi64(_mm512_add_epi64(parts, multiples(1)), of(high));
    _mm512_reduce_or_epi64(_mm512_sllv_epi64(of(1), places)).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) fn put_lows(
    bytes: &mut [u8],
    bit: usize,
    before: u64,
    numbers: &[u64],
    first: u64,
    width: u32,
) -> usize {
    const PAIRS: usize = VECTOR_NUMBERS / 2;
    let pair = 2 * u64::from(width);
    let begins: [u64; PAIRS] = std::array::from_fn(|turn| bit as u64 % 8 + turn as u64 * pair);
    let of_four = |[one, two, three, four]: [u64; PAIRS]| {
        let [one, two, three, four] = [one, two, three, four].map(u64::cast_signed);
        _mm256_setr_epi64x(one, two, three, four)
    };
    let filled = of_four(begins.map(|begin| begin % 8));
    let left = _mm256_sub_epi64(_mm256_set1_epi64x(pair.cast_signed()), filled);
    let (first, mask) = (of(first), of((1 << width) - 1));
    let shift = _mm_cvtsi64_si128(width.into());
    let even = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 1, 3, 5, 7);
    let mut last = _mm256_set1_epi64x(before.cast_signed());
    let (mut at, mut count) = (bit / 8, 0);
    for eight in numbers.as_chunks().0 {
        let Some(room) = bytes.get_mut(at..at + width as usize + 8) else {
            break;
        };
        let lows = _mm512_and_si512(_mm512_sub_epi64(load(eight), first), mask);
        let half = |lanes| _mm512_castsi512_si256(_mm512_permutexvar_epi64(lanes, lows));
        let words = _mm256_or_si256(half(even), _mm256_sll_epi64(half(odd), shift));
        let earlier = _mm256_alignr_epi64::<3>(words, last);
        let words_left = _mm256_srlv_epi64(earlier, left);
        let whole = _mm256_or_si256(_mm256_sllv_epi64(words, filled), words_left);
        let mut stored = [0; PAIRS];
        // SAFETY: the store writes 32 bytes, all of `stored`, which need not be aligned.
        unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), whole) };
        for (begin, word) in begins.iter().zip(stored) {
            let begin = (begin / 8) as usize;
            room[begin..begin + 8].copy_from_slice(&u64::to_le_bytes(word));
        }
        last = words;
        at += width as usize;
        count += VECTOR_NUMBERS;
    }
    count
}
