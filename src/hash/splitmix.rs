//! The splitmix64 finaliser.

/// Spreads every bit of `x` over all 64: David Stafford's mixer no. 13, the output function of splitmix64
/// (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
///
/// It is a bijection, and `finalise(0) == 0`.
#[inline]
pub(crate) fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
