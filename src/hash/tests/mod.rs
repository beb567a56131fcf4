//! Compares the fast routines with the published values and with their naive twins.

mod naive;
mod pairs;
mod vectors;

use highway::{HighwayHash, Key, PortableHash};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Hash, KeyHasher, finalise};

type Routine = fn(Hash, &[u8; 32], &[u8]) -> u64;
type Murmur3 = fn(u32, &[u8]) -> (u64, u64);

/// All ways to hash. Every published value is checked against each, so the twin is known to be right before it serves
/// as a reference.
const ROUTINES: [(&str, Routine); 4] = [
    ("KeyHasher", |hash, seed, key| {
        KeyHasher::new(hash, seed).hash(key)
    }),
    ("the first of two", |hash, seed, key| {
        KeyHasher::new(hash, seed).hash_two([key, b"other"])[0]
    }),
    ("the second of two", |hash, seed, key| {
        KeyHasher::new(hash, seed).hash_two([b"other", key])[1]
    }),
    ("naive", naive::hash),
];

const ALGORITHMS: [Hash; 3] = [Hash::Highway, Hash::Xxh3, Hash::Murmur3];

/// Returns `00 01 02 … 1f`.
fn counting_seed() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

/// Returns a seed that begins with these bytes; the rest must not matter.
fn seed_of(first: &[u8]) -> [u8; 32] {
    let mut seed = [0xEE; 32];
    seed[..first.len()].copy_from_slice(first);
    seed
}

#[test]
fn highway_gives_the_published_values() {
    let data: Vec<u8> = (0..64).collect();
    let small_words = std::array::from_fn(|i| if i % 8 == 0 { 1 + i as u8 / 8 } else { 0 });
    let from_128: Vec<u8> = (128..161).collect();
    for (name, hash) in ROUTINES {
        for (len, expected) in vectors::HIGHWAY.into_iter().enumerate() {
            let got = hash(Hash::Highway, &counting_seed(), &data[..len]);
            assert_eq!(got, expected, "{name}, {len} bytes");
        }
        let got = [&from_128[..], &[0xFF]].map(|key| hash(Hash::Highway, &small_words, key));
        assert_eq!(got, vectors::HIGHWAY_1234, "{name}");
    }
}

#[test]
fn xxh3_gives_the_published_values() {
    let mut state = vectors::XXH3_START;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        let byte = (state >> 56) as u8;
        state = state.wrapping_mul(vectors::XXH3_SEED);
        byte
    })
    .take(2367)
    .collect();
    let other = seed_of(&vectors::XXH3_SEED.to_le_bytes());
    for (name, hash) in ROUTINES {
        for (len, unseeded, seeded) in vectors::XXH3 {
            let got = hash(Hash::Xxh3, &seed_of(&[0; 8]), &data[..len]);
            assert_eq!(got, unseeded, "{name}, {len} bytes, seed 0");
            let got = hash(Hash::Xxh3, &other, &data[..len]);
            assert_eq!(got, seeded, "{name}, {len} bytes");
        }
    }
}

#[test]
fn murmur3_gives_the_published_values() {
    for (seed, key, h1, h2) in vectors::MURMUR3 {
        for (name, hash) in ROUTINES {
            let got = hash(Hash::Murmur3, &seed_of(&seed.to_le_bytes()), key.as_bytes());
            assert_eq!(got, h1, "{name}, {key:?}");
        }
        assert_eq!(naive::murmur3::x64_128(seed, key.as_bytes()), (h1, h2));
    }
}

/// SMHasher's own check: the hashes of `{}`, `{0}`, `{0, 1}` … under the seeds 256, 255 … are concatenated and hashed.
/// It needs all 128 bits of each, and a `KeyHasher` returns 64. The crate behind it and the twin therefore run through
/// the check, and the `KeyHasher` is compared on the way.
#[test]
fn murmur3_passes_the_verification_of_smhasher() {
    let key: Vec<u8> = (0..=255).collect();
    let routines: [Murmur3; 2] = [
        |seed, key| mur3::murmurhash3_x64_128(key, seed),
        naive::murmur3::x64_128,
    ];
    for hash in routines {
        let mut hashes = Vec::new();
        for i in 0..256 {
            let seed = 256 - i as u32;
            let (h1, h2) = hash(seed, &key[..i]);
            let hasher = KeyHasher::new(Hash::Murmur3, &seed_of(&seed.to_le_bytes()));
            assert_eq!(hasher.hash(&key[..i]), h1, "{i} bytes");
            hashes.extend([h1, h2].into_iter().flat_map(u64::to_le_bytes));
        }
        assert_eq!(hash(0, &hashes).0 as u32, vectors::MURMUR3_VERIFICATION);
    }
}

#[test]
fn finalise_gives_the_numbers_of_splitmix64() {
    let mut state = 1_234_567_u64;
    for expected in vectors::SPLITMIX {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        assert_eq!(finalise(state), expected);
    }
}

/// Covers every length at which an algorithm changes its method, and some past the blocks of XXH3, which are 1024
/// bytes.
#[test]
fn agrees_with_the_naive_twin_at_every_length() {
    let data: Vec<u8> = (0..4200_u32).map(|i| (i * i / 8) as u8).collect();
    let lengths = (0..=300)
        .chain(1000..=1100)
        .chain(2040..=2056)
        .chain(4080..=4200);
    for hash in ALGORITHMS {
        let hasher = KeyHasher::new(hash, &counting_seed());
        for len in lengths.clone() {
            let expected = naive::hash(hash, &counting_seed(), &data[..len]);
            assert_eq!(hasher.hash(&data[..len]), expected, "{hash}, {len} bytes");
        }
    }
}

/// A store moves between machines, and the crate chooses its routine by the machine.
#[test]
fn highway_is_the_same_on_every_machine() {
    let key = Key([1, u64::MAX, 0x0123_4567_89AB_CDEF, 1 << 63]);
    let data: Vec<u8> = (0..200_u32).map(|i| (i * 151) as u8).collect();
    for len in 0..=data.len() {
        let expected = naive::highway::hash64(key.0, &data[..len]);
        assert_eq!(PortableHash::new(key).hash64(&data[..len]), expected);
        #[cfg(target_arch = "x86_64")]
        {
            let sse = highway::SseHash::new(key).map(|hasher| hasher.hash64(&data[..len]));
            let avx = highway::AvxHash::new(key).map(|hasher| hasher.hash64(&data[..len]));
            assert!(
                sse.is_none_or(|got| got == expected),
                "SSE 4.1, {len} bytes"
            );
            assert!(avx.is_none_or(|got| got == expected), "AVX2, {len} bytes");
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_naive_twin(
        seed in any::<[u8; 32]>(),
        keys in vec(vec(any::<u8>(), 0..=300), 1..8),
    ) {
        for hash in ALGORITHMS {
            // One hasher for all keys: earlier hashes must leave no trace.
            let hasher = KeyHasher::new(hash, &seed);
            for key in &keys {
                prop_assert_eq!(hasher.hash(key), naive::hash(hash, &seed, key), "{}", hash);
            }
        }
    }

    /// A key is hashed in place, whatever its address.
    #[test]
    fn alignment_does_not_matter(
        seed in any::<[u8; 32]>(),
        bytes in vec(any::<u8>(), 64..300),
        skip in 0..64_usize,
    ) {
        let copy = bytes[skip..].to_vec();
        for hash in ALGORITHMS {
            let hasher = KeyHasher::new(hash, &seed);
            prop_assert_eq!(hasher.hash(&bytes[skip..]), hasher.hash(&copy));
        }
    }
}
