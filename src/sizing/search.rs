//! Search in a monotone predicate.

/// Returns the smallest `x` in `1..=most` for which `holds` is true, or `None` if there is none.
///
/// `holds` must be false up to some number and true from there on; `guess` should be near that number. The search calls
/// `holds` about twice the logarithm of the distance between guess and answer, in steps that begin at `guess / 256`.
pub(super) fn least(guess: u64, most: u64, mut holds: impl FnMut(u64) -> bool) -> Option<u64> {
    let guess = guess.clamp(1, most);
    let mut step = guess / 256 + 1;
    // `fails` is below the answer (0 stands for "nothing known to fail"), `holding` is the answer or above it.
    let (mut fails, mut holding);
    if holds(guess) {
        (fails, holding) = (guess, guess);
        while fails == holding {
            fails = holding.saturating_sub(step);
            if fails > 0 && holds(fails) {
                holding = fails;
                step = step.saturating_mul(2);
            }
        }
    } else {
        (fails, holding) = (guess, guess);
        while fails == holding {
            if fails == most {
                return None;
            }
            holding = fails.saturating_add(step).min(most);
            if !holds(holding) {
                fails = holding;
                step = step.saturating_mul(2);
            }
        }
    }
    debug_assert!(fails < holding && holding <= most);
    while holding - fails > 1 {
        let middle = fails + (holding - fails) / 2;
        if holds(middle) {
            holding = middle;
        } else {
            fails = middle;
        }
    }
    Some(holding)
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn every_answer_from_every_guess() {
        for most in 1..40 {
            for answer in 1..=most + 1 {
                for guess in 0..=most + 3 {
                    let found = least(guess, most, |x| x >= answer);
                    assert_eq!(
                        found,
                        (answer <= most).then_some(answer),
                        "most {most}, guess {guess}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_whole_range_without_overflow() {
        for answer in [1, 2, 1 << 40, u64::MAX - 1, u64::MAX] {
            for guess in [0, 1, 1 << 50, u64::MAX] {
                let mut calls = 0;
                let found = least(guess, u64::MAX, |x| {
                    calls += 1;
                    x >= answer
                });
                assert_eq!(found, Some(answer));
                assert!(calls <= 130, "{calls} calls");
            }
        }
    }
}
