//! What FORMAT.md's prose says about numbers, once more, slow and obvious.

/// CRC-32 of the parts one after another, bit by bit ("Conventions").
pub(crate) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !crc
}

/// "Pages": the CRC of a page of a store with this header.
pub(crate) fn page_crc(header: &[u8], number: u64, page: &[u8]) -> u32 {
    let is_bound = header[32] & 4 != 0;
    let owner = if is_bound { &header[112..128] } else { &[] };
    crc32(&[owner, &number.to_le_bytes(), &page[4..]])
}

/// A little-endian number of up to 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    assert!(bytes.len() <= 8);
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// "Hash".
pub(crate) fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// "Hash": of a hash that a caller brought.
pub(crate) fn mix(raw: u64, seed: &[u8; 32]) -> u64 {
    finalise(raw ^ number(&seed[..8]))
}

/// "From hash to page".
pub(crate) fn page(hash: u64, pages: u64) -> u64 {
    ((u128::from(hash) * u128::from(pages)) >> 64) as u64
}

/// "Probes": bits of the payload.
pub(crate) fn probes(hash: u64, count: usize) -> Vec<usize> {
    let run_length = if count <= 20 { 3 } else { 2 };
    let mut draws = (1_u64..).flat_map(|turn| {
        let both = finalise(hash.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(turn)));
        [both & 0xFFFF_FFFF, both >> 32]
    });
    let mut below = |cells: usize| ((draws.next().unwrap() * cells as u64) >> 32) as usize;
    let mut bits: Vec<usize> = Vec::new();
    while count - bits.len() >= run_length {
        let first = below(32_640);
        let (start, end) = match first {
            0..384 => (0, 384),
            _ => (
                384 + (first - 384) / 512 * 512,
                896 + (first - 384) / 512 * 512,
            ),
        };
        let mut behind: Vec<usize> = Vec::new();
        for turn in 1..run_length {
            let mut draw = 1 + below(end - start - turn);
            if behind.first().is_some_and(|before| draw >= *before) {
                draw += 1;
            }
            behind.push(draw);
        }
        bits.push(first);
        bits.extend(
            behind
                .iter()
                .map(|behind| start + (first - start + behind) % (end - start)),
        );
    }
    while bits.len() < count {
        bits.push(below(32_640));
    }
    bits
}

/// "Conventions", bit order: whether a bit of a page's payload is set.
pub(crate) fn bit(page: &[u8], bit: usize) -> bool {
    page[16 + bit / 8] & (1 << (bit % 8)) != 0
}

#[test]
fn the_crc_is_the_customary_one() {
    assert_eq!(crc32(&[b"1234", b"56789"]), 0xCBF4_3926);
}
