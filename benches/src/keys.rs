//! Keys that look random and are the same in every run.

/// The finaliser of splitmix64: a bijection.
fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Key number `number` as a hash. Different numbers are different keys.
pub fn hash(number: u64) -> u64 {
    finalise(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Key number `number` as an address of 79 bytes.
pub fn url(number: u64) -> String {
    let noise = hash(number);
    format!(
        "https://www.example-{:04x}.org/archive/{:012x}/article-{number:016x}.html",
        noise >> 48,
        noise & 0xFFFF_FFFF_FFFF
    )
}

/// Puts numbers into an order of their own, which the seed tells.
pub fn shuffle(numbers: &mut [u64], seed: u64) {
    for last in (1..numbers.len()).rev() {
        let draw = hash(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ last as u64);
        let other = ((u128::from(draw) * (last as u128 + 1)) >> 64) as usize;
        numbers.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_79_bytes() {
        for number in [0, 1, 1 << 40, u64::MAX] {
            assert_eq!(url(number).len(), 79, "{}", url(number));
        }
    }

    #[test]
    fn shuffled_numbers_are_the_same_numbers() {
        let mut numbers: Vec<u64> = (0..1000).collect();
        shuffle(&mut numbers, 1);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }
}
