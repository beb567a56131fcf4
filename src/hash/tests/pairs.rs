//! Compares the hashes of two keys at once, and of one, with the crate's. Without AVX2 they are the same routine.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{ALGORITHMS, counting_seed};
use crate::hash::{Hash, HashedKey, KeyHasher};

/// Returns both ways to hash many keys: the second is that of processors without AVX2.
fn both_ways(hash: Hash, seed: &[u8; 32]) -> [KeyHasher; 2] {
    let hasher = KeyHasher::new(hash, seed);
    [hasher.clone(), hasher.without_pairs()]
}

/// Covers each length of a rest, after no packet, one and more, beside each other one: the first key may take another
/// path than the second.
#[test]
fn any_two_lengths_agree_with_one_at_a_time() {
    let data: Vec<u8> = (0..1000_u32).map(|i| (i * i / 8) as u8).collect();
    let lengths = || (0..=67).chain([95, 96, 97, 111, 112, 127, 128, 129, 255, 256, 257, 300, 999]);
    let [hasher, crates] = both_ways(Hash::Highway, &counting_seed());
    for first in lengths() {
        for second in lengths() {
            let keys = [&data[..first], &data[data.len() - second..]];
            let expected = keys.map(|key| crates.hash(key));
            assert_eq!(
                hasher.hash_two(keys),
                expected,
                "{first} and {second} bytes"
            );
        }
    }
}

#[test]
fn every_length_agrees_with_one_at_a_time() {
    let data: Vec<u8> = (0..4200_u32).map(|i| (i * i / 8) as u8).collect();
    let [hasher, crates] = both_ways(Hash::Highway, &counting_seed());
    for length in 0..data.len() {
        let key = &data[..length];
        let expected = crates.hash(key);
        assert_eq!(hasher.hash(key), expected, "{length} bytes");
        assert_eq!(hasher.hash_two([key; 2]), [expected; 2], "{length} bytes");
    }
}

/// A processor with AVX2 uses it; otherwise the tests above would compare the crate with itself.
#[cfg(target_arch = "x86_64")]
#[test]
fn pairs_are_used_where_they_can_be() {
    let has = is_x86_feature_detected!("avx2") && cfg!(not(everseen_cpu = "baseline"));
    assert_eq!(crate::sys::Pairs::new([0; 4]).is_some(), has);
}

proptest! {
    /// Covers any number of keys, of any lengths, at any addresses.
    #[test]
    fn many_keys_agree_with_one_at_a_time(
        seed in any::<[u8; 32]>(),
        data in vec(any::<u8>(), 700),
        places in vec((any::<Index>(), 0..=300_usize), 0..12),
    ) {
        let key = |(from, length): &(Index, usize)| &data[from.index(400)..][..*length];
        for hash in ALGORITHMS {
            for hasher in both_ways(hash, &seed) {
                // Earlier contents stay.
                let mut keys = vec![hasher.key(b"before")];
                let mut expected = keys.clone();
                let [_, crates] = both_ways(hash, &seed);
                expected.extend(places.iter().map(|place| crates.key(key(place))));
                for place in &places {
                    prop_assert_eq!(hasher.hash(key(place)), crates.hash(key(place)));
                }
                hasher.keys(places.iter().map(key), &mut keys);
                prop_assert_eq!(keys, expected, "{}", hash);
            }
        }
    }

    /// Covers keys of a few bytes, each of which may end in another way.
    #[test]
    fn many_short_keys_agree_with_one_at_a_time(
        seed in any::<[u8; 32]>(),
        keys in vec(vec(any::<u8>(), 0..34), 0..50),
    ) {
        let [_, crates] = both_ways(Hash::Highway, &seed);
        let expected: Vec<HashedKey> = keys.iter().map(|key| crates.key(key)).collect();
        for hasher in both_ways(Hash::Highway, &seed) {
            let mut got = Vec::new();
            hasher.keys(keys.iter().map(Vec::as_slice), &mut got);
            let one_at_a_time: Vec<HashedKey> = keys.iter().map(|key| hasher.key(key)).collect();
            prop_assert_eq!(&one_at_a_time, &expected);
            prop_assert_eq!(&got, &expected);
        }
    }
}
