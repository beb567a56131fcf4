//! Each algorithm once more, slow and obvious, written from its specification alone: the reference for the fast ones.

pub(crate) mod highway;
pub(crate) mod murmur3;
pub(crate) mod xxh3;

use crate::hash::Hash;

/// Returns what `KeyHasher::new(hash, seed).hash(key)` must be.
pub(crate) fn hash(hash: Hash, seed: &[u8; 32], key: &[u8]) -> u64 {
    match hash {
        Hash::Highway => highway::hash64([0, 8, 16, 24].map(|at| u64_at(seed, at)), key),
        Hash::Xxh3 => xxh3::hash64(u64_at(seed, 0), key),
        Hash::Murmur3 => murmur3::x64_128(u32_at(seed, 0), key).0,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |n, i| n | u32::from(bytes[at + i]) << (8 * i))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    (0..8).fold(0, |n, i| n | u64::from(bytes[at + i]) << (8 * i))
}

/// Returns the 128-bit product of two words with its halves XORed.
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
