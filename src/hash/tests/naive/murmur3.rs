//! MurmurHash3 x64-128 by Austin Appleby.

use super::u64_at;

const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;

/// Returns the two halves `(h1, h2)` of the 128-bit hash.
pub(crate) fn x64_128(seed: u32, data: &[u8]) -> (u64, u64) {
    let scramble1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let scramble2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (mut h1, mut h2) = (u64::from(seed), u64::from(seed));

    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 = (h1 ^ scramble1(u64_at(block, 0)))
            .rotate_left(27)
            .wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 = (h2 ^ scramble2(u64_at(block, 8)))
            .rotate_left(31)
            .wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }

    // Scrambled zeros are zeros, so padding the tail with them does what the original does in two cases.
    let mut tail = blocks.remainder().to_vec();
    tail.resize(16, 0);
    h1 ^= scramble1(u64_at(&tail, 0)) ^ data.len() as u64;
    h2 ^= scramble2(u64_at(&tail, 8)) ^ data.len() as u64;

    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (mix(h1), mix(h2));
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

fn mix(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    k = (k ^ (k >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    k ^ (k >> 33)
}
