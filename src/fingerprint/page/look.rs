//! Looking for fingerprints in pages, one in each lane, each in a page of its own.
//!
//! A look has three steps, each of which reads words that the one before has told of. All lanes take the same steps. Only
//! where some have more to do than nearly all looks is there a branch; looks that turn out to be in vain go on without
//! doing harm.
//!
//! Nothing outside of the page is read, whatever it holds. What a look says means something only for a page that was
//! checked.

use super::bits::select;
use super::{BASE_OFFSET, DIRECTORY_OFFSET, GROUP_PARTS, HIGH_COUNT_OFFSET, MOST_LOW_BITS};
use crate::page::ages::Remembered;
use crate::sys::simd::dispatch::Cpu;
use crate::sys::simd::lanes::{Lanes, Mask};

/// Words behind the first in which zeros are counted at once. The unary bits of nearly all groups lie in so many.
const COUNTED: usize = 4;
/// Bits by which a group's ones may lie behind where they would be if all were spread evenly, nearly always.
const UNEVEN: u64 = 12;
/// Bits that are counted at once where the words behind the first were not enough.
const COUNTED_SLOWLY: u64 = 32;

/// The pages of looks, one for each lane.
pub(crate) trait LookPages<V: Lanes>: Copy {
    /// Returns a word of each page, the one with this index, modulo the words of a page.
    fn word(self, index: V) -> V;

    /// Returns eight bytes of each page, from `byte` on; any where `byte` is none of the page or one of the last seven.
    fn bytes(self, byte: V) -> V;

    /// Returns `count` bits of each page from `bit` on, at most 57, and any bits behind them. Reads no word behind the last
    /// that is needed, which may be in another line of the processor's cache.
    #[inline(always)]
    fn bits(self, bit: V, count: V) -> V {
        let is_in_word = ((bit & V::of(63)) + count).is_below(V::of(65));
        let word = bit & V::of(!63);
        let from = word.where_or(is_in_word, bit & V::of(!7));
        self.bytes(from.shr(V::of(3))).shr(bit - from)
    }
}

/// Looks on their way, once the front of their pages was read: what unary bits they need. Places are bits of the page.
#[derive(Clone, Copy)]
pub(crate) struct Unary<V: Lanes> {
    /// The lanes whose fingerprint may be there.
    may_be: V::Mask,
    low: V,
    low_bits: V,
    /// Where the group begins.
    begin: V,
    /// The group's offsets.
    count: V,
    /// The offset's ones are most likely here or before.
    likely: V,
    /// The zeros before the offset's ones.
    zeros: V,
}

/// Looks on their way, once the unary bits were read: the low parts of all offsets with the same high part. Places are
/// bits of the page.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<V: Lanes> {
    /// The lanes that have candidates.
    are_any: V::Mask,
    low: V,
    low_bits: V,
    /// Where the first of the ones is, and three bits from there on.
    bit: V,
    ones: V,
    /// Where the low part is that belongs to it, and that of the second one. Where there is none, something that is read
    /// anyway.
    first: V,
    second: V,
    /// The group's offsets from there on.
    left: V,
}

impl<V: Lanes> Unary<V> {
    /// Returns what is known of looks that have not begun.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        let none = V::of(0);
        Self {
            may_be: V::Mask::NONE,
            low: none,
            low_bits: none,
            begin: none,
            count: none,
            likely: none,
            zeros: none,
        }
    }

    /// Finds the groups of offsets.
    #[inline(always)]
    pub(crate) fn of(pages: impl LookPages<V>, offset: V) -> Self {
        let header = pages.word(V::of(HIGH_COUNT_OFFSET as u64 / 8));
        let low_bits = (header.shr(V::of(16)) & V::of(0xFF)).min(V::of(MOST_LOW_BITS.into()));
        let high = offset.shr(low_bits);
        let is_inside = high.is_below(header & V::of(0xFFFF));
        let high = high.where_or(is_inside, V::of(0));
        let group = high.shr(V::of(GROUP_PARTS.ilog2().into()));
        let byte = V::of(DIRECTORY_OFFSET as u64) + group + group;
        let ends = pages.bits(byte.shl(V::of(3)), V::of(32));
        let begin = ends & V::of(0xFFFF);
        let end = ends.shr(V::of(16)) & V::of(0xFFFF);
        let unary_end = begin + V::of(GROUP_PARTS as u64);
        let ones_and_lows = (end - unary_end) & V::of(0xFFFF);
        let count = ones_and_lows.divided_by(low_bits + V::of(1));
        let zeros = high & V::of(GROUP_PARTS as u64 - 1);
        let before = count.times(zeros).shr(V::of(GROUP_PARTS.ilog2().into()));
        let likely = begin + zeros + before + V::of(UNEVEN);
        Self {
            may_be: is_inside & !end.is_below(unary_end),
            low: offset & (V::of(1).shl(low_bits) - V::of(1)),
            low_bits,
            begin,
            count,
            likely: likely.min(unary_end + count),
            zeros,
        }
    }

    /// Returns where the group's low parts begin.
    #[inline(always)]
    fn lows(&self) -> V {
        self.begin + V::of(GROUP_PARTS as u64) + self.count
    }

    /// Returns the words between which the bits lie, most likely, for prefetches.
    #[inline(always)]
    pub(crate) fn words(&self) -> [V; 2] {
        let log2 = V::of(6);
        [self.begin.shr(log2), self.likely.shr(log2)]
    }

    /// Returns the place behind as many zeros as come before each offset's ones.
    ///
    /// Counts in all words at once and then chooses one: how many to pass by is nothing that a processor could foresee.
    /// Words behind the likely place are not read, since they may lie in another line.
    #[inline(always)]
    fn after_zeros(&self, pages: impl LookPages<V>, cpu: impl Cpu) -> V {
        let (one, zeros) = (V::of(1), self.zeros);
        let [first, last] = self.words();
        let mut chosen = !pages.word(first) & V::of(u64::MAX).shl(self.begin & V::of(63));
        let (mut at, mut before, mut index) = (first, V::of(0), first);
        let mut counted = chosen.count_ones();
        for _ in 0..COUNTED {
            index = index + one;
            let next = !pages.word(index.min(last));
            let is_behind = counted.is_below(zeros);
            chosen = next.where_or(is_behind, chosen);
            before = counted.where_or(is_behind, before);
            at = index.where_or(is_behind, at);
            counted = counted + next.count_ones();
        }
        let is_far = counted.is_below(zeros) | last.is_below(at);
        let place = nth_one(chosen, zeros - before, cpu);
        let behind = at.shl(V::of(6)) + place + one;
        let found = self.begin.where_or(zeros.is_equal(V::of(0)), behind);
        match (is_far & self.may_be).any() {
            true => self.after_more_zeros(pages, is_far, found, cpu),
            false => found,
        }
    }

    /// Does the same for some lanes, some bits at once, and leaves the others.
    #[inline(always)]
    fn after_more_zeros(
        &self,
        pages: impl LookPages<V>,
        lanes: V::Mask,
        mut found: V,
        cpu: impl Cpu,
    ) -> V {
        let step = V::of(COUNTED_SLOWLY);
        let (mut bit, mut zeros) = (self.begin, self.zeros);
        let mut todo = lanes & V::of(0).is_below(zeros);
        found = self.lows().where_or(todo, found);
        while todo.any() {
            let some = !pages.bits(bit, step) & V::of((1 << COUNTED_SLOWLY) - 1);
            let count = some.count_ones();
            let is_behind = count.is_below(zeros);
            let place = bit + nth_one(some, zeros, cpu) + V::of(1);
            found = place.where_or(todo & !is_behind, found);
            zeros = zeros - count;
            bit = bit + step;
            todo = todo & is_behind & bit.is_below(self.lows());
        }
        found
    }

    /// Finds the offsets with the same high part.
    #[inline(always)]
    pub(crate) fn candidates(&self, pages: impl LookPages<V>, cpu: impl Cpu) -> Candidates<V> {
        let bit = self.after_zeros(pages, cpu);
        // Each zero before belongs to no offset, each one to one.
        let place = (bit - self.begin - self.zeros) & V::of(0xFFFF);
        let ones = pages.bits(bit, V::of(3));
        let is_one = (ones & V::of(1)).is_equal(V::of(1));
        let are_any = self.may_be & is_one & place.is_below(self.count);
        let left = self.count - place;
        let are_two = are_any & (ones & V::of(3)).is_equal(V::of(3)) & V::of(1).is_below(left);
        let first = (self.lows() + place.times(self.low_bits)).where_or(are_any, bit);
        Candidates {
            are_any,
            low: self.low,
            low_bits: self.low_bits,
            bit,
            ones,
            first,
            second: (first + self.low_bits).where_or(are_two, first),
            left,
        }
    }
}

/// Returns the place of the one with this number in each word, counted from 1; any where there is none.
#[inline(always)]
fn nth_one<V: Lanes>(mut word: V, number: V, cpu: impl Cpu) -> V {
    if V::COUNT == 1 {
        return V::each(|lane| {
            let (word, rank) = (word.lane(lane), number.lane(lane).wrapping_sub(1));
            match u64::from(word.count_ones()) > rank {
                true => {
                    let place = cpu.select(word, rank as u32);
                    place.unwrap_or_else(|| select(word, rank as u32)).into()
                }
                false => 0,
            }
        });
    }
    let (mut place, mut number) = (V::of(0), number);
    for log2 in (0..6).rev() {
        let half = 1 << log2;
        let count = (word & V::of((1 << half) - 1)).count_ones();
        let is_behind = count.is_below(number);
        number = (number - count).where_or(is_behind, number);
        word = word.shr(V::of(half)).where_or(is_behind, word);
        place = (place + V::of(half)).where_or(is_behind, place);
    }
    place
}

impl<V: Lanes> Candidates<V> {
    /// Returns what is known of looks that have not begun.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        let none = V::of(0);
        Self {
            are_any: V::Mask::NONE,
            low: none,
            low_bits: none,
            bit: none,
            ones: none,
            first: none,
            second: none,
            left: none,
        }
    }

    /// Returns the words between which the first low parts lie, for prefetches.
    #[inline(always)]
    pub(crate) fn words(&self) -> [V; 2] {
        let end = self.second + self.low_bits;
        [self.first.shr(V::of(6)), end.shr(V::of(6))]
    }

    /// Returns the lanes where one of the low parts is that of the offset, and young enough.
    #[inline(always)]
    pub(crate) fn contain(&self, pages: impl LookPages<V>, remembered: Remembered) -> V::Mask {
        let mut wanted = Wanted {
            unit: remembered.unit(),
            forgotten: None,
        };
        let found = self.find(pages, wanted);
        if !remembered.has_ages() || !found.any() {
            return found;
        }
        // The base lies in a line of its own: only what is there needs it.
        let base = pages.word(V::of(BASE_OFFSET as u64 / 8));
        wanted.forgotten = Some(remembered.first_forgotten(base));
        found & self.find(pages, wanted)
    }

    /// Returns the lanes where one of the low parts is wanted.
    ///
    /// Nearly always there are one or two of them. Both are compared, since nothing foretells which it is.
    #[inline(always)]
    fn find(&self, pages: impl LookPages<V>, wanted: Wanted<V>) -> V::Mask {
        let is_one_of_two =
            self.is_at(pages, self.first, wanted) | self.is_at(pages, self.second, wanted);
        let found = self.are_any & is_one_of_two;
        let left = self.are_any & !found & (self.ones & V::of(7)).is_equal(V::of(7));
        match left.any() {
            true => found | self.find_more(pages, wanted, left),
            false => found,
        }
    }

    /// Returns the lanes where the low part at a place is that of the offset but for its age, and the age is wanted.
    #[inline(always)]
    fn is_at(&self, pages: impl LookPages<V>, place: V, wanted: Wanted<V>) -> V::Mask {
        let mask = V::of(1).shl(self.low_bits) - wanted.unit;
        let low = pages.bits(place, self.low_bits);
        let is_same = (low & mask).is_equal(self.low);
        match wanted.forgotten {
            Some(forgotten) => is_same & (low & (wanted.unit - V::of(1))).is_below(forgotten),
            None => is_same,
        }
    }

    /// Does the same as [`find`](Self::find) for some lanes and any number of low parts, from the third on.
    #[inline(always)]
    fn find_more(&self, pages: impl LookPages<V>, wanted: Wanted<V>, mut todo: V::Mask) -> V::Mask {
        let (one, mut found) = (V::of(1), V::Mask::NONE);
        let mut turn = one + one;
        let (mut bit, mut at) = (self.bit + turn, self.second + self.low_bits);
        while todo.any() {
            let is_one = (pages.bits(bit, one) & one).is_equal(one);
            todo = todo & is_one & turn.is_below(self.left);
            // The other lanes look where they have looked before: elsewhere nothing was asked for.
            let is_here = todo & self.is_at(pages, at.where_or(todo, self.first), wanted);
            found = found | is_here;
            todo = todo & !is_here;
            (turn, bit, at) = (turn + one, bit + one, at + self.low_bits);
        }
        found
    }
}

/// Which of the low parts with the right high part are wanted.
#[derive(Clone, Copy)]
struct Wanted<V> {
    /// How many ages there are: 1 in a store that does not forget.
    unit: V,
    /// The first age that is too old; `None` if every age will do.
    forgotten: Option<V>,
}

/// A page whose words a function returns, and anything beyond them.
#[cfg(any(test, fuzzing, feature = "stages"))]
#[derive(Clone, Copy)]
struct OnePage<W>(W);

#[cfg(any(test, fuzzing, feature = "stages"))]
impl<V: Lanes, W: Fn(usize) -> u64 + Copy> LookPages<V> for OnePage<W> {
    #[inline(always)]
    fn word(self, index: V) -> V {
        V::each(|lane| self.0(index.lane(lane) as usize))
    }

    #[inline(always)]
    fn bytes(self, byte: V) -> V {
        V::each(|lane| super::bits::load_words(self.0, byte.lane(lane) as usize * 8))
    }
}

/// Returns whether a page holds an offset, where `word` returns the page's words and anything beyond them.
#[cfg(any(test, fuzzing, feature = "stages"))]
#[inline(always)]
pub(crate) fn contains(
    word: impl Fn(usize) -> u64 + Copy,
    offset: u64,
    remembered: Remembered,
) -> bool {
    use crate::sys::simd::{dispatch::Baseline, lanes::Single};
    let page = OnePage(word);
    let unary = Unary::<Single>::of(page, Lanes::of(offset));
    unary.candidates(page, Baseline).contain(page, remembered)
}
