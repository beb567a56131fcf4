//! What the rest of the world may rely on in `everseen::hash`: ids, names and values that never change.

use std::num::NonZero;

use everseen::hash::{Hash, HashedKey, KeyHasher};
use proptest::prelude::*;

const ALGORITHMS: [Hash; 3] = [Hash::Highway, Hash::Xxh3, Hash::Murmur3];

/// `00 01 02 … 1f`.
fn counting_seed() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

/// The same keys must give the same bits for ever: a store made today is opened by every later version. If this test
/// fails, the format has changed, and the code is wrong, not the table.
///
/// The numbers are not from this crate: the C code of google/highwayhash gave the first column, the Python packages
/// `xxhash` 4.1.0 and `mmh3` 5.3.1 the others.
#[test]
fn values_never_change() {
    let url = b"https://www.example.org/archive/2015/06/22/the-power-of-evil-choices?page=1";
    assert_eq!(url.len(), 75);
    let counting: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> = (0..3000).map(|i| (i * 7) as u8).collect();
    let golden: [(&[u8], [u64; 3]); 6] = [
        (
            b"",
            [
                0x907A_56DE_22C2_6E53,
                0x2821_7112_654C_42F2,
                0xF86E_42BD_2FC1_C701,
            ],
        ),
        (
            b"a",
            [
                0x89F8_E0C3_7E45_B0B0,
                0xAFE2_FF70_445A_BBC8,
                0x383B_5709_6CBC_A448,
            ],
        ),
        (
            b"https://example.com/",
            [
                0xA1DE_3A5A_9353_B121,
                0x5B1F_6D8F_4153_EEBE,
                0x2912_A8ED_B8AE_7A21,
            ],
        ),
        (
            url,
            [
                0x48E2_4A71_AF2A_8B40,
                0xEA57_D2E2_D197_6944,
                0x18CE_A3B4_8814_1E57,
            ],
        ),
        (
            &counting,
            [
                0x7C9B_5358_595F_015F,
                0xBA6C_C0E9_C0FC_6DC5,
                0x3A98_397D_48AB_32C3,
            ],
        ),
        (
            &long,
            [
                0x2F69_E3A9_6A2C_C690,
                0x7C54_C063_2783_62AD,
                0xCF23_83B5_5472_1698,
            ],
        ),
    ];
    for (key, expected) in golden {
        let got = ALGORITHMS.map(|hash| KeyHasher::new(hash, &counting_seed()).hash(key));
        assert_eq!(got, expected, "{} bytes", key.len());
    }
    for (column, hash) in ALGORITHMS.into_iter().enumerate() {
        let mut keys = Vec::new();
        KeyHasher::new(hash, &counting_seed()).keys(golden.map(|(key, _)| key), &mut keys);
        let got: Vec<u64> = keys.iter().map(|key| key.bits()).collect();
        let expected = golden.map(|(_, expected)| expected[column]);
        assert_eq!(got, expected, "{hash}, many at once");
    }
}

#[test]
fn mixed_values_never_change() {
    let golden = [
        (0, 0x6E06_8E3B_28B7_6F49),
        (1, 0x3EDD_7BC7_2049_6C22),
        (0xDEAD_BEEF, 0xC054_8735_E9D1_961C),
        (0x0706_0504_0302_0100, 0),
        (u64::MAX, 0x5046_3E1C_B6AB_4D86),
    ];
    for hash in ALGORITHMS {
        let hasher = KeyHasher::new(hash, &counting_seed());
        for (raw, expected) in golden {
            assert_eq!(hasher.mix(raw), expected, "{hash}, {raw:#x}");
        }
    }
}

#[test]
fn ids_and_names_never_change() {
    let known = [
        (Hash::Highway, 1, "highway"),
        (Hash::Xxh3, 2, "xxh3"),
        (Hash::Murmur3, 3, "murmur3"),
    ];
    for (hash, id, name) in known {
        assert_eq!(hash.id(), id);
        assert_eq!(hash.name(), name);
        assert_eq!(hash.to_string(), name);
        assert_eq!(name.parse(), Ok(hash));
    }
    for id in 0..=u16::MAX {
        let expected = known
            .iter()
            .find(|known| known.1 == id)
            .map(|known| known.0);
        assert_eq!(Hash::from_id(id), expected, "id {id}");
    }
    assert_eq!(Hash::default(), Hash::Highway);
    assert_eq!(
        format!("{:>9}|{:<5}|", Hash::Highway, Hash::Xxh3),
        "  highway|xxh3 |"
    );
}

#[test]
fn an_unknown_name_is_told_what_there_is() {
    for name in ["", "Highway", "xxh3 ", "xxh64", "murmur", "sip\nhash"] {
        let error = name.parse::<Hash>().unwrap_err();
        assert_eq!(error.got, name);
        let message = error.to_string();
        assert!(message.contains(&format!("{name:?}")), "{message}");
        for hash in ALGORITHMS {
            assert!(message.contains(hash.name()), "{message}");
        }
    }
}

#[test]
fn debug_keeps_the_seed_to_itself() {
    for seed in [counting_seed(), [0xAB; 32]] {
        let hasher = KeyHasher::new(Hash::Highway, &seed);
        assert_eq!(format!("{hasher:?}"), "KeyHasher { hash: Highway, .. }");
    }
}

#[test]
fn threads_share_a_hasher() {
    let hasher = KeyHasher::new(Hash::default(), &counting_seed());
    let expected = hasher.clone().hash(b"key");
    std::thread::scope(|scope| {
        let threads = [0; 4].map(|_| scope.spawn(|| hasher.hash(b"key")));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

/// All 32 bytes of the seed are HighwayHash's key; the others take as many as their own seed has.
#[test]
fn each_algorithm_reads_its_part_of_the_seed() {
    for (hash, seed_bytes) in [(Hash::Highway, 32), (Hash::Xxh3, 8), (Hash::Murmur3, 4)] {
        let hasher = KeyHasher::new(hash, &counting_seed());
        for i in 0..32 {
            let mut seed = counting_seed();
            seed[i] ^= 0x80;
            let other = KeyHasher::new(hash, &seed);
            let key = b"https://example.com/";
            assert_eq!(
                hasher.hash(key) != other.hash(key),
                i < seed_bytes,
                "{hash}, byte {i}"
            );
            assert_eq!(hasher.mix(1) != other.mix(1), i < 8, "{hash}, byte {i}");
        }
    }
}

proptest! {
    /// `mix` can be undone, from both sides: no two raw values become one.
    #[test]
    fn mix_is_a_bijection(seed in any::<[u8; 32]>(), x in any::<u64>(), y in any::<u64>()) {
        let hasher = KeyHasher::new(Hash::default(), &seed);
        prop_assert_eq!(unmix(&seed, hasher.mix(x)), x);
        prop_assert_eq!(hasher.mix(unmix(&seed, y)), y);
    }

    /// Why `Hash::Murmur3` is for trusted input: two keys that collide, whatever the seed. A difference of one bit,
    /// placed so that it reaches the top of the state, where neither carries nor factors move it, can be cancelled by
    /// a second one. A keyed hash tells the two keys apart.
    #[test]
    fn murmur3_keys_collide_under_every_seed(seed in any::<[u8; 32]>(), a in any::<[u64; 4]>()) {
        // Block 1: bit 36 of the first word reaches bit 63 of h1, bit 32 of the second cancels it in h2.
        // Block 2: bit 63 of the first word cancels it in h1.
        let flips = [1 << 36, 1 << 32, 1 << 63, 0];
        let bytes = |flips: [u64; 4]| -> Vec<u8> {
            let word = |i| if i % 2 == 0 { unscramble1(a[i] ^ flips[i]) } else { unscramble2(a[i] ^ flips[i]) };
            (0..4).flat_map(|i| word(i).to_le_bytes()).collect()
        };
        let (one, two) = (bytes([0; 4]), bytes(flips));
        prop_assert_ne!(&one, &two);
        let collides = |hash| KeyHasher::new(hash, &seed).hash(&one) == KeyHasher::new(hash, &seed).hash(&two);
        prop_assert!(collides(Hash::Murmur3));
        prop_assert!(!collides(Hash::Highway));
    }
}

/// The inverse of `KeyHasher::mix`.
fn unmix(seed: &[u8; 32], mut y: u64) -> u64 {
    y = unshift(y, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    y = unshift(y, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    unshift(y, 30) ^ u64::from_le_bytes(seed[..8].try_into().unwrap())
}

/// The `x` of `y = x ^ (x >> shift)`: each round makes `shift` more bits right, from the top.
fn unshift(y: u64, shift: u32) -> u64 {
    (0..64 / shift).fold(y, |x, _| y ^ (x >> shift))
}

/// The inverse of an odd factor modulo 2^64: each of Newton's rounds doubles the bits that are right, 3 at first.
fn inverse(factor: u64) -> u64 {
    let round = |x: u64| x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x)));
    (0..5).fold(factor, |x, _| round(x))
}

/// What MurmurHash3 does to the first word of a block before it enters the state, undone.
fn unscramble1(k: u64) -> u64 {
    k.wrapping_mul(inverse(0x4CF5_AD43_2745_937F))
        .rotate_right(31)
        .wrapping_mul(inverse(0x87C3_7B91_1142_53D5))
}

/// The same for the second word.
fn unscramble2(k: u64) -> u64 {
    k.wrapping_mul(inverse(0x87C3_7B91_1142_53D5))
        .rotate_right(33)
        .wrapping_mul(inverse(0x4CF5_AD43_2745_937F))
}

/// Shards are alike in size, and the keys of each lie in all pages, and are sampled, as those of a whole set would be.
#[test]
fn a_shard_fills_all_pages() {
    const KEYS: u64 = 64_000;
    const SHARDS: u32 = 8;
    const PARTS: u64 = 16;
    let shards = NonZero::new(SHARDS).unwrap();
    let hasher = KeyHasher::new(Hash::Highway, &counting_seed());
    let mut pages = [[0_u64; PARTS as usize]; SHARDS as usize];
    let mut samples = pages;
    for key in 0..KEYS {
        let key = hasher.key(&key.to_le_bytes());
        let shard = key.shard(shards) as usize;
        let page = ((u128::from(key.bits()) * u128::from(PARTS)) >> 64) as usize;
        pages[shard][page] += 1;
        samples[shard][(key.bits() % PARTS) as usize] += 1;
        let twice = NonZero::new(2 * SHARDS).unwrap();
        assert_eq!(key.shard(twice) as usize / 2, shard);
    }
    let expected = KEYS / u64::from(SHARDS) / PARTS;
    for count in pages.iter().chain(&samples).flatten() {
        // 500 are expected, with a standard deviation of 22.
        assert!(count.abs_diff(expected) < 6 * 22, "{count} of {expected}");
    }
    assert_eq!(HashedKey::from_bits(7).shard(NonZero::<u32>::MIN), 0);
}
