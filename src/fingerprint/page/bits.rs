//! Bits of a page, at places that are no multiples of eight.

use crate::codec::{put_u64, u64_at};
use crate::page::PAGE_BYTES;
use crate::sys::simd::dispatch::Cpu;

/// Bits that [`load`] always returns.
pub(super) const LOADED: usize = 57;
/// Bits that [`BitWriter::put`] takes at once.
pub(super) const MOST_PUT: usize = 56;
/// The least bits of words that [`BitWriter::put_equal`] writes: more than a byte may have of the one before.
pub(super) const LEAST_EQUAL: usize = 8;

/// Returns the bits of a page from `bit` on, of which the first [`LOADED`] count; zeros beyond the page.
#[inline(always)]
pub(super) fn load(page: &[u8; PAGE_BYTES], bit: usize) -> u64 {
    let from = bit >> 3;
    match page.get(from..from + 8) {
        Some(word) => u64_at(word, 0) >> (bit & 7),
        None => 0,
    }
}

/// Returns 64 bits of a page from `bit` on, where `word` returns the page's words. Reads no word that is not needed.
#[cfg(any(test, fuzzing, feature = "stages"))]
#[inline(always)]
pub(super) fn load_words(word: impl Fn(usize) -> u64, bit: usize) -> u64 {
    let (first, last) = (word(bit / 64), word(bit.div_ceil(64)));
    let passed = bit % 64;
    first >> passed | last << 1 << (63 - passed)
}

/// Returns the place of the one with `rank` ones before it. There are more than `rank` ones in the word.
///
/// The sums of all bytes up to each are compared with `rank` at once; what is left is within one byte.
#[inline(always)]
pub(super) fn select(word: u64, rank: u32) -> u32 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    debug_assert!(rank < word.count_ones());
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0F0F_0F0F_0F0F_0F0F;
    let sums = bytes.wrapping_mul(EACH);
    let passed = ((u64::from(rank) * EACH) | HIGH).wrapping_sub(sums) & HIGH;
    let place = (passed >> 7).wrapping_mul(EACH) >> 56 << 3;
    let before = (sums << 8) >> place & 0xFF;
    let mut rest = (word >> place) & 0xFF;
    for _ in before..u64::from(rank) {
        rest &= rest.wrapping_sub(1);
    }
    place as u32 + rest.trailing_zeros()
}

/// Writes bits one behind the other, and zeros behind the last of them up to the end of a word.
///
/// Every write stores a whole word at a byte's place, so that no branch depends on how full a word is.
pub(super) struct BitWriter<'a> {
    page: &'a mut [u8; PAGE_BYTES],
    /// What the byte at `at` has so far, and what comes behind it.
    word: u64,
    /// Bits in `word`, fewer than 8 between two writes.
    filled: usize,
    at: usize,
}

impl<'a> BitWriter<'a> {
    /// Begins at `bit`, a multiple of 8.
    pub(super) fn at(page: &'a mut [u8; PAGE_BYTES], bit: usize) -> Self {
        debug_assert!(bit.is_multiple_of(8));
        Self {
            page,
            word: 0,
            filled: 0,
            at: bit / 8,
        }
    }

    /// Returns the place of the next bit.
    pub(super) fn bit(&self) -> usize {
        self.at * 8 + self.filled
    }

    /// Writes the low `count` bits of `bits`, at most [`MOST_PUT`], which has no others.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: usize) {
        debug_assert!(count <= MOST_PUT && bits >> count == 0);
        self.word |= bits << self.filled;
        put_u64(self.page, self.at, self.word);
        let filled = self.filled + count;
        self.at += filled / 8;
        self.word >>= filled & !7;
        self.filled = filled % 8;
    }

    /// Writes words of `count` bits each, [`LEAST_EQUAL`] to [`MOST_PUT`].
    ///
    /// Where a word lies, and what of the one before it is in its first byte, follows from its turn. So no write waits for
    /// another, as those of [`put`](Self::put) do.
    #[inline(always)]
    pub(super) fn put_equal(&mut self, words: impl Iterator<Item = u64>, count: usize) {
        debug_assert!((LEAST_EQUAL..=MOST_PUT).contains(&count));
        let mut bit = self.bit();
        let mut before = self.word << (count - self.filled);
        for word in words {
            debug_assert!(word >> count == 0);
            let filled = bit % 8;
            put_u64(
                self.page,
                bit / 8,
                word << filled | before >> (count - filled),
            );
            before = word;
            bit += count;
        }
        self.go_on_from(bit, before, count);
    }

    /// Writes the low `width` bits of numbers less `first`, as far as the processor has instructions for many of them. Two
    /// of them have [`LEAST_EQUAL`] to [`MOST_PUT`] bits. Returns how many that are, an even number.
    #[inline(always)]
    pub(super) fn put_lows(
        &mut self,
        numbers: &[u64],
        first: u64,
        width: u32,
        cpu: impl Cpu,
    ) -> usize {
        let pair = 2 * width as usize;
        debug_assert!((LEAST_EQUAL..=MOST_PUT).contains(&pair));
        let (bit, before) = (self.bit(), self.word << (pair - self.filled));
        let done = cpu.put_lows(self.page, bit, before, numbers, first, width);
        if let [.., one, last] = numbers[..done] {
            let [one, last] = [one, last].map(|number| (number - first) & ((1 << width) - 1));
            self.go_on_from(bit + done * width as usize, one | last << width, pair);
        }
        done
    }

    /// Goes on behind a word of `count` bits, at least [`LEAST_EQUAL`], that was written up to `bit`.
    #[inline(always)]
    fn go_on_from(&mut self, bit: usize, word: u64, count: usize) {
        debug_assert!(bit >= self.bit() && count >= LEAST_EQUAL);
        (self.at, self.filled) = (bit / 8, bit % 8);
        self.word = word >> (count - self.filled);
    }

    #[inline(always)]
    pub(super) fn put_zeros(&mut self, mut count: usize) {
        while count > MOST_PUT {
            self.put(0, MOST_PUT);
            count -= MOST_PUT;
        }
        self.put(0, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::simd::dispatch::{self, Work};

    /// What the processor has an instruction for.
    struct Select(u64, u32);

    impl Work for Select {
        type Output = Option<u32>;

        #[inline(always)]
        fn run<C: Cpu>(self, cpu: C) -> Option<u32> {
            cpu.select(self.0, self.1)
        }
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn select_is_a_walk_over_the_bits(word in any::<u64>(), few in any::<bool>()) {
            let word = if few { word & word.rotate_left(7) & word.rotate_left(29) } else { word };
            let ones: Vec<u32> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
            for (rank, place) in (0..).zip(&ones) {
                prop_assert_eq!(select(word, rank), *place);
                let instruction = dispatch::run(Select(word, rank));
                prop_assert_eq!(instruction.unwrap_or(*place), *place);
            }
        }

        #[test]
        fn what_was_written_is_loaded(
            parts in prop::collection::vec((0_usize..57, any::<u64>()), 0..300),
            begin in 0_usize..160,
        ) {
            let mut page = [0xFF; PAGE_BYTES];
            let mut writer = BitWriter::at(&mut page, begin * 8);
            for (count, bits) in &parts {
                writer.put(bits & ((1 << count) - 1), *count);
            }
            let end = writer.bit();
            let mut bit = begin * 8;
            for (count, bits) in &parts {
                let mask = (1 << count) - 1;
                prop_assert_eq!(load(&page, bit) & mask, bits & mask);
                let words = load_words(|index| u64_at(&page, index * 8), bit);
                prop_assert_eq!(words & mask, bits & mask);
                bit += count;
            }
            prop_assert_eq!(end, bit);
            prop_assert!(page[..begin].iter().all(|byte| *byte == 0xFF));
            let behind = load(&page, end) & ((1 << (7 - (end + 7) % 8)) - 1);
            prop_assert!(parts.is_empty() || behind == 0);
        }

        /// The slow twin writes one word after the other.
        #[test]
        fn equal_words_are_written_as_others_are(
            parts in prop::collection::vec((LEAST_EQUAL..=MOST_PUT, prop::collection::vec(any::<u64>(), 0..20), 0_usize..20), 0..8),
        ) {
            let [mut page, mut twin] = [[0xFF; PAGE_BYTES]; 2];
            let mut writer = BitWriter::at(&mut page, 0);
            let mut slow = BitWriter::at(&mut twin, 0);
            for (count, words, between) in &parts {
                let words = words.iter().map(|word| word & ((1 << count) - 1));
                writer.put_equal(words.clone(), *count);
                words.for_each(|word| slow.put(word, *count));
                prop_assert_eq!(writer.bit(), slow.bit());
                writer.put((1 << between) - 1, *between);
                slow.put((1 << between) - 1, *between);
            }
            let end = writer.bit().div_ceil(8);
            prop_assert_eq!(&page[..end], &twin[..end]);
        }

        #[test]
        fn zeros_are_as_many_as_asked_for(before in 0_usize..8, count in 0_usize..300) {
            let mut page = [0xFF; PAGE_BYTES];
            let mut writer = BitWriter::at(&mut page, 64);
            writer.put((1 << before) - 1, before);
            writer.put_zeros(count);
            writer.put(1, 1);
            prop_assert_eq!(writer.bit(), 64 + before + count + 1);
            let ones = (0..before + count + 1).filter(|bit| load(&page, 64 + bit) & 1 == 1);
            prop_assert_eq!(ones.collect::<Vec<_>>(), (0..before).chain([before + count]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn beyond_the_page_are_zeros() {
        let page = [0xFF; PAGE_BYTES];
        assert_eq!(load(&page, (PAGE_BYTES - 8) * 8 + 7), u64::MAX >> 7);
        assert_eq!(load(&page, (PAGE_BYTES - 7) * 8), 0);
        assert_eq!(load(&page, 1 << 40), 0);
    }
}
