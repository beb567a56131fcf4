//! XXH3-64 with a seed, after the XXH3 chapters of `doc/xxhash_spec.md` in Cyan4973/xxHash.

use super::{fold_multiply, u32_at, u64_at};

const P32_1: u64 = 0x9E37_79B1;
const P32_2: u64 = 0x85EB_CA77;
const P32_3: u64 = 0xC2B2_AE3D;
const P64_1: u64 = 0x9E37_79B1_85EB_CA87;
const P64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P64_3: u64 = 0x1656_67B1_9E37_79F9;
const P64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const P64_5: u64 = 0x27D4_EB2F_1656_67C5;
const MX1: u64 = 0x1656_6791_9E37_79F9;
const MX2: u64 = 0x9FB2_1C65_1E98_DF25;

/// The default secret, as the 24 big-endian words that its bytes spell.
const SECRET: [u64; 24] = [
    0xB8FE_6C39_23A4_4BBE,
    0x7C01_812C_F721_AD1C,
    0xDED4_6DE9_8390_97DB,
    0x7240_A4A4_B7B3_671F,
    0xCB79_E64E_CCC0_E578,
    0x825A_D07D_CCFF_7221,
    0xB808_4674_F743_248E,
    0xE035_90E6_813A_264C,
    0x3C28_52BB_91C3_00CB,
    0x88D0_658B_1B53_2EA3,
    0x7164_4897_A20D_F94E,
    0x3819_EF46_A9DE_ACD8,
    0xA8FA_763F_E39C_343F,
    0xF9DC_BBC7_C70B_4F1D,
    0x8A51_E04B_CDB4_5931,
    0xC89F_7EC9_D978_7364,
    0xEAC5_AC83_34D3_EBC3,
    0xC581_A0FF_FA13_63EB,
    0x170D_DD51_B7F0_DA49,
    0xD316_5526_29D4_689E,
    0x2B16_BE58_7D47_A1FC,
    0x8FF8_B8D1_7AD0_31CE,
    0x45CB_3A8F_9516_0428,
    0xAFD7_FBCA_BB4B_407E,
];

pub(crate) fn hash64(seed: u64, data: &[u8]) -> u64 {
    let secret: Vec<u8> = SECRET.into_iter().flat_map(u64::to_be_bytes).collect();
    match data.len() {
        0 => avalanche_xxh64(seed ^ u64_at(&secret, 56) ^ u64_at(&secret, 64)),
        1..=3 => up_to_3(seed, data, &secret),
        4..=8 => up_to_8(seed, data, &secret),
        9..=16 => up_to_16(seed, data, &secret),
        17..=128 => up_to_128(seed, data, &secret),
        129..=240 => up_to_240(seed, data, &secret),
        _ => large(data, &derive_secret(seed, &secret)),
    }
}

fn up_to_3(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    let len = data.len();
    let combined = u32::from_le_bytes([data[len - 1], len as u8, data[0], data[len / 2]]);
    let flip = u64::from(u32_at(secret, 0) ^ u32_at(secret, 4));
    avalanche_xxh64(flip.wrapping_add(seed) ^ u64::from(combined))
}

fn up_to_8(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    let len = data.len();
    let first = u64::from(u32_at(data, 0));
    let last = u64::from(u32_at(data, len - 4));
    let seed = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
    let flip = (u64_at(secret, 8) ^ u64_at(secret, 16)).wrapping_sub(seed);
    let mut x = flip ^ (first << 32 | last);
    x = (x ^ x.rotate_left(49) ^ x.rotate_left(24)).wrapping_mul(MX2);
    x = (x ^ (x >> 35).wrapping_add(len as u64)).wrapping_mul(MX2);
    x ^ (x >> 28)
}

fn up_to_16(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    let len = data.len();
    let flip1 = (u64_at(secret, 24) ^ u64_at(secret, 32)).wrapping_add(seed);
    let flip2 = (u64_at(secret, 40) ^ u64_at(secret, 48)).wrapping_sub(seed);
    let low = flip1 ^ u64_at(data, 0);
    let high = flip2 ^ u64_at(data, len - 8);
    let sum = (len as u64)
        .wrapping_add(low.swap_bytes())
        .wrapping_add(high);
    avalanche(sum.wrapping_add(fold_multiply(low, high)))
}

fn up_to_128(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    let len = data.len();
    let mut acc = (len as u64).wrapping_mul(P64_1);
    for i in 0..=(len - 1) / 32 {
        let (start, end) = (&data[16 * i..], &data[len - 16 * i - 16..]);
        acc = acc.wrapping_add(mix_step(seed, start, &secret[32 * i..]));
        acc = acc.wrapping_add(mix_step(seed, end, &secret[32 * i + 16..]));
    }
    avalanche(acc)
}

fn up_to_240(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    let len = data.len();
    let mut acc = (len as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix_step(seed, &data[16 * i..], &secret[16 * i..]));
    }
    acc = avalanche(acc);
    for i in 8..len / 16 {
        let secret = &secret[16 * (i - 8) + 3..];
        acc = acc.wrapping_add(mix_step(seed, &data[16 * i..], secret));
    }
    avalanche(acc.wrapping_add(mix_step(seed, &data[len - 16..], &secret[119..])))
}

/// Processes blocks of 16 stripes of 64 bytes, scrambling the accumulators between blocks.
fn large(data: &[u8], secret: &[u8]) -> u64 {
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    // A stripe that ends with the data is the last one, which is read from the end.
    let stripes = (data.len() - 1) / 64;
    for n in 0..stripes {
        accumulate(&mut acc, &data[64 * n..], &secret[8 * (n % 16)..]);
        if n % 16 == 15 {
            scramble(&mut acc, &secret[128..]);
        }
    }
    accumulate(&mut acc, &data[data.len() - 64..], &secret[121..]);

    let mut result = (data.len() as u64).wrapping_mul(P64_1);
    for i in 0..4 {
        let word = |j: usize| acc[j] ^ u64_at(secret, 11 + 8 * j);
        result = result.wrapping_add(fold_multiply(word(2 * i), word(2 * i + 1)));
    }
    avalanche(result)
}

fn accumulate(acc: &mut [u64; 8], stripe: &[u8], secret: &[u8]) {
    for i in 0..8 {
        let word = u64_at(stripe, 8 * i);
        let value = word ^ u64_at(secret, 8 * i);
        acc[i ^ 1] = acc[i ^ 1].wrapping_add(word);
        acc[i] = acc[i].wrapping_add((value & 0xFFFF_FFFF) * (value >> 32));
    }
}

fn scramble(acc: &mut [u64; 8], secret: &[u8]) {
    for (i, a) in acc.iter_mut().enumerate() {
        *a = (*a ^ (*a >> 47) ^ u64_at(secret, 8 * i)).wrapping_mul(P32_1);
    }
}

fn derive_secret(seed: u64, secret: &[u8]) -> Vec<u8> {
    let shift = |i: usize, word: u64| match i % 2 {
        0 => word.wrapping_add(seed),
        _ => word.wrapping_sub(seed),
    };
    (0..24)
        .flat_map(|i| shift(i, u64_at(secret, 8 * i)).to_le_bytes())
        .collect()
}

fn mix_step(seed: u64, data: &[u8], secret: &[u8]) -> u64 {
    fold_multiply(
        u64_at(data, 0) ^ u64_at(secret, 0).wrapping_add(seed),
        u64_at(data, 8) ^ u64_at(secret, 8).wrapping_sub(seed),
    )
}

fn avalanche(mut x: u64) -> u64 {
    x = (x ^ (x >> 37)).wrapping_mul(MX1);
    x ^ (x >> 32)
}

fn avalanche_xxh64(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(P64_2);
    x = (x ^ (x >> 29)).wrapping_mul(P64_3);
    x ^ (x >> 32)
}
