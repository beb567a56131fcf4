//! Ages beside fingerprints, in a store that forgets (FORMAT.md, "Ages").
//!
//! Time is counted in *steps*, so many in a window. A list of such a store holds numbers: fingerprints, each with its age in
//! the lowest bits. A page says from which step its ages are counted back, so that nothing in a store that rests grows old
//! by another number: only what writes a page again gives it a new base.

use crate::sys::simd::lanes::Lanes;

/// The most steps of a window.
pub(crate) const MOST_WINDOW_STEPS: u32 = 255;
/// The shortest and the longest window, in milliseconds: a second and a thousand years.
pub(crate) const LEAST_WINDOW: u64 = 1000;
pub(crate) const MOST_WINDOW: u64 = 1000 * 366 * 86_400_000;
/// The highest time of a store, in milliseconds since 1970. Steps then lie below 2^55.
pub(crate) const MOST_CLOCK: u64 = 1 << 56;

/// The highest step.
pub(crate) const MOST_STEP: u64 = 1 << 55;

const _: () = assert!(
    (MOST_CLOCK as u128 * MOST_WINDOW_STEPS as u128 / LEAST_WINDOW as u128) < MOST_STEP as u128
);

/// How long a store remembers a key: a window of time, and the steps in which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    milliseconds: u64,
    steps: u32,
}

impl Window {
    /// Returns `None` unless both are within their bounds.
    pub(crate) fn new(milliseconds: u64, steps: u32) -> Option<Self> {
        let is_possible = (LEAST_WINDOW..=MOST_WINDOW).contains(&milliseconds)
            && (1..=MOST_WINDOW_STEPS).contains(&steps);
        is_possible.then_some(Self {
            milliseconds,
            steps,
        })
    }

    pub(crate) fn milliseconds(self) -> u64 {
        self.milliseconds
    }

    pub(crate) fn steps(self) -> u32 {
        self.steps
    }

    /// Returns the step of a time.
    pub(crate) fn step_of(self, clock: u64) -> u64 {
        assert!(clock <= MOST_CLOCK, "{clock}");
        (u128::from(clock) * u128::from(self.steps) / u128::from(self.milliseconds)) as u64
    }

    /// Returns the first time of a step, at most the highest of a store.
    pub(crate) fn begin_of(self, step: u64) -> u64 {
        let product = u128::from(step) * u128::from(self.milliseconds);
        let begin = product.div_ceil(u128::from(self.steps));
        u64::try_from(begin).map_or(MOST_CLOCK, |begin| begin.min(MOST_CLOCK))
    }

    /// Returns the first step whose keys are still remembered at a time.
    pub(crate) fn remembered_since(self, clock: u64) -> u64 {
        self.step_of(clock).saturating_sub(self.steps.into())
    }

    /// Returns how many bits an age takes: the greatest is that of all steps.
    pub(crate) fn age_bits(self) -> u32 {
        self.steps.ilog2() + 1
    }
}

/// How the numbers of a list are written: with ages of keys that are counted back from a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ages {
    /// How many bits of each number its age takes.
    bits: u32,
    /// The step that ages are counted back from.
    base: u64,
    /// The greatest age that is kept.
    most: u64,
}

impl Ages {
    /// In a store that does not forget, a number is a fingerprint.
    pub(crate) const NONE: Self = Self {
        bits: 0,
        base: 0,
        most: 0,
    };

    /// Returns those of lists of which only the fingerprints matter: each number becomes its fingerprint's first, and none is
    /// too old.
    pub(crate) fn left_out(bits: u32) -> Self {
        Self {
            bits,
            base: 0,
            most: 0,
        }
    }

    /// Returns those of pages that are written at a time.
    pub(crate) fn at(window: Window, clock: u64) -> Self {
        Self {
            bits: window.age_bits(),
            base: window.step_of(clock),
            most: window.steps.into(),
        }
    }

    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    pub(crate) fn base(self) -> u64 {
        self.base
    }

    /// Returns whether what came in a step is too old for pages that are written now.
    pub(crate) fn have_forgotten(self, step: u64) -> bool {
        self.are_any() && step.saturating_add(self.most) < self.base
    }

    /// Returns the first step that pages written now may have.
    pub(crate) fn earliest(self) -> u64 {
        self.base.saturating_sub(self.most)
    }

    /// Returns whether numbers have ages.
    #[inline(always)]
    pub(crate) fn are_any(self) -> bool {
        self.bits > 0
    }

    /// Returns a fingerprint's first number: the number without its age.
    #[inline(always)]
    pub(crate) fn first_of(self, number: u64) -> u64 {
        number & !((1 << self.bits) - 1)
    }

    /// Counts the ages of numbers, which rise and are counted back from `base`, from this base on, and drops those that are
    /// too old.
    pub(crate) fn bring(self, base: u64, numbers: &mut Vec<u64>) {
        if !self.are_any() || base == self.base {
            return;
        }
        numbers.retain_mut(|number| {
            let first = self.first_of(*number);
            let step = base.saturating_sub(*number - first);
            let age = self.base.saturating_sub(step);
            *number = first | age;
            age <= self.most
        });
    }

    /// Of numbers that rise, keeps the first of each fingerprint: the youngest. Returns how many there are.
    pub(crate) fn keep_youngest(self, numbers: &mut [u64]) -> usize {
        if !self.are_any() {
            return numbers.len();
        }
        let (mut kept, mut last) = (0, None);
        for at in 0..numbers.len() {
            let number = numbers[at];
            let first = self.first_of(number);
            if last != Some(first) {
                numbers[kept] = number;
                kept += 1;
                last = Some(first);
            }
        }
        kept
    }
}

/// What a look-up takes for present in pages with ages of so many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    bits: u32,
    since: u64,
}

impl Remembered {
    /// In a store that does not forget, all that is there.
    #[cfg(any(test, fuzzing, feature = "stages"))]
    pub(crate) const ALL: Self = Self { bits: 0, since: 0 };

    /// Keys from a step on.
    pub(crate) fn since(bits: u32, since: u64) -> Self {
        Self { bits, since }
    }

    #[inline(always)]
    pub(crate) fn has_ages(self) -> bool {
        self.bits > 0
    }

    /// Returns the number of ages.
    #[inline(always)]
    pub(crate) fn unit<V: Lanes>(self) -> V {
        V::of(1 << self.bits)
    }

    /// Returns the first age that is too old in each lane, whose page counts back from `base`.
    #[inline(always)]
    pub(crate) fn first_forgotten<V: Lanes>(self, base: V) -> V {
        let (since, behind) = (V::of(self.since), base + V::of(1));
        let is_any = since.is_below(behind);
        (behind - since).where_or(is_any, V::of(0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The slow twin divides durations.
    #[test]
    fn a_key_is_remembered_for_the_window_and_no_step_longer() {
        for (window, steps) in [(1000, 1), (1000, 3), (3_600_000, 15), (2_592_000_000, 255)] {
            let window = Window::new(window, steps).unwrap();
            let (long, most) = (window.milliseconds, u64::from(steps));
            let step = long.div_ceil(most);
            for accepted in [0, 1, 17, long - 1, 1_700_000_000_123] {
                let of = window.step_of(accepted);
                let begin = window.begin_of(of);
                assert!(begin <= accepted && window.step_of(begin) == of);
                assert!(begin == 0 || window.step_of(begin - 1) < of);
                let is_there = |at: u64| of >= window.remembered_since(at);
                assert!(is_there(accepted + long - 1));
                assert!(!is_there(accepted + long + step + 1));
            }
        }
        assert_eq!(Window::new(1000, 0), None);
        assert_eq!(Window::new(1000, 256), None);
        assert_eq!(Window::new(999, 1), None);
        assert_eq!(Window::new(MOST_WINDOW + 1, 1), None);
        let bits = |steps| Window::new(1000, steps).unwrap().age_bits();
        assert_eq!([1, 2, 3, 4, 15, 16, 255].map(bits), [1, 2, 2, 3, 4, 5, 8]);
    }

    proptest! {
        /// The slow twin keeps the step of each fingerprint in a map.
        #[test]
        fn ages_are_brought_to_another_base(
            keys in prop::collection::btree_map(0_u64..1000, 0_u64..=15, 0..100),
            others in prop::collection::btree_map(0_u64..1000, 0_u64..=15, 0..100),
            base in 15_u64..60,
            later in 0_u64..40,
        ) {
            let window = Window::new(15_000, 15).unwrap();
            let old = Ages::at(window, base * 1000);
            let new = Ages::at(window, (base + later) * 1000);
            prop_assert_eq!(old.base(), base);
            let numbers = |keys: &BTreeMap<u64, u64>| -> Vec<u64> {
                keys.iter().map(|(one, age)| one << 4 | age).collect()
            };
            let mut brought = numbers(&keys);
            new.bring(old.base(), &mut brought);
            let mut twin: BTreeMap<u64, u64> = keys.iter().map(|(one, age)| (*one, age + later)).collect();
            twin.retain(|_, age| *age <= 15);
            prop_assert_eq!(&brought, &numbers(&twin));
            let mut all: Vec<u64> = brought.into_iter().chain(numbers(&others)).collect();
            all.sort_unstable();
            let kept = new.keep_youngest(&mut all);
            for (one, age) in others {
                let older = twin.entry(one).or_insert(age);
                *older = age.min(*older);
            }
            prop_assert_eq!(&all[..kept], numbers(&twin));
        }
    }
}
