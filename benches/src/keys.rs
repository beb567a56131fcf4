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

/// Writes addresses as lines, ten times as fast as [`url`] makes them: a pipe must not wait for its feeder.
#[derive(Debug)]
pub struct Url {
    line: [u8; 80],
}

/// Where the last 20 bytes of an address begin: they tell addresses apart.
pub const NAME: usize = 59;

impl Default for Url {
    fn default() -> Self {
        let mut line = [b'\n'; 80];
        line[..79].copy_from_slice(url(0).as_bytes());
        Self { line }
    }
}

impl Url {
    /// Key number `number` as an address with a line feed behind it.
    pub fn line(&mut self, number: u64) -> &[u8; 80] {
        let noise = hash(number);
        self.hex(20..24, noise >> 48);
        self.hex(37..49, noise & 0xFFFF_FFFF_FFFF);
        self.hex(58..74, number);
        &self.line
    }

    fn hex(&mut self, place: std::ops::Range<usize>, mut value: u64) {
        for byte in self.line[place].iter_mut().rev() {
            *byte = b"0123456789abcdef"[(value & 15) as usize];
            value >>= 4;
        }
    }
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
    fn lines_are_the_addresses() {
        let mut lines = Url::default();
        for number in [0, 1, 77, 1 << 40, u64::MAX] {
            let expected = url(number) + "\n";
            assert_eq!(lines.line(number)[..], *expected.as_bytes());
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
