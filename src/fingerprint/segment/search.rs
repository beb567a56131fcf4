//! Search in numbers that are spread evenly.

/// Returns the last of `count` places, at least one, whose number is at most `asked`; the first place if there is none.
/// The numbers rise. `guess` is where the search begins; it goes twice as far with each step.
#[inline(always)]
pub(super) fn last_at_most(count: u64, guess: u64, number: impl Fn(u64) -> u64, asked: u64) -> u64 {
    debug_assert!(count > 0, "no place to find");
    let guess = guess.min(count - 1);
    let (mut low, mut high, mut step) = (0, count, 1);
    if number(guess) <= asked {
        low = guess;
        while step < high - low {
            if number(low + step) > asked {
                high = low + step;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess;
        while step < high {
            if number(high - step) <= asked {
                low = high - step;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match number(middle) <= asked {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin walks.
        #[test]
        fn equals_a_walk(
            numbers in prop::collection::btree_set(0_u64..300, 1..100),
            guess in 0_u64..120,
            asked in 0_u64..300,
        ) {
            let numbers: Vec<u64> = numbers.into_iter().collect();
            let count = numbers.len() as u64;
            let twin = numbers.iter().rposition(|number| *number <= asked).unwrap_or(0);
            let found = last_at_most(count, guess, |place| numbers[place as usize], asked);
            prop_assert_eq!(found, twin as u64);
        }

        /// Numbers that don't rise lead somewhere, and the search ends.
        #[test]
        fn numbers_without_order_do_no_harm(
            numbers in prop::collection::vec(any::<u64>(), 1..100),
            guess in any::<u64>(),
            asked in any::<u64>(),
        ) {
            let count = numbers.len() as u64;
            let found = last_at_most(count, guess, |place| numbers[place as usize], asked);
            prop_assert!(found < count);
        }
    }
}
