//! The worked vectors: key, hash, page, bits.

use std::fmt::Write;
use std::num::NonZero;

use everseen::Hash;
use everseen::hash::{HashedKey, KeyHasher};
use everseen::testing::{LEAST_BUFFER, Options};
use tempfile::TempDir;

use super::bytes::{bit, finalise, mix, page, probes};
use super::doc::{check_block, section, table};
use super::seed;

const PAGES: u64 = 3;
const PROBES: usize = 7;
const KEYS: [&str; 3] = ["", "a", "https://example.com/"];
const RAW: [u64; 3] = [0, 1, 0xDEAD_BEEF];
const HEADING: [&str; 5] = ["hash", "key", "64 bits", "page", "bits"];

fn row(out: &mut String, hash: &str, key: &str, bits: u64) {
    let probed: Vec<_> = probes(bits, PROBES)
        .iter()
        .map(ToString::to_string)
        .collect();
    let page = page(bits, PAGES);
    writeln!(
        out,
        "| {hash} | {key} | `{bits:#018x}` | {page} | {} |",
        probed.join(", ")
    )
    .unwrap();
}

#[test]
fn vectors_are_what_the_rules_give() {
    let mut block = format!("| {} |\n|---|---|---|---|---|\n", HEADING.join(" | "));
    for hash in [Hash::Highway, Hash::Xxh3, Hash::Murmur3] {
        let hasher = KeyHasher::new(hash, &seed());
        for key in KEYS {
            row(
                &mut block,
                hash.name(),
                &format!("`\"{key}\"`"),
                hasher.hash(key.as_bytes()),
            );
        }
    }
    for raw in RAW {
        row(
            &mut block,
            "`insert_hash`",
            &format!("`{raw:#x}`"),
            mix(raw, &seed()),
        );
    }
    check_block("vectors", &block);
    let state = 0x907A_56DE_22C2_6E53_u64.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let both = finalise(state);
    let first = ((both & 0xFFFF_FFFF) * 32_640) >> 32;
    let start = first - (first - 384) % 512;
    let second = 1 + (((both >> 32) * 511) >> 32);
    let steps = format!(
        "state = {state:#018x}, `finalise` of it = {both:#018x}: first = low half {:#010x} × 32640 >> 32 = {first},\n\
         in the line of bits {start} to {}; second = 1 + (high half {:#010x} × 511 >> 32) = {second} behind it, which is {}",
        both as u32,
        start + 511,
        both >> 32,
        start + (first - start + second) % 512,
    );
    check_block(
        "steps",
        &format!(
            "First steps for `\"\"` under highway: page = (0x907a56de22c26e53 × 3) >> 64 = 1;\n{steps}.\n"
        ),
    );
}

/// Keys of lengths at which the algorithms take another way, one by one and in a batch, which hashes two at once.
#[test]
fn hashes_of_keys_of_some_lengths_are_the_librarys() {
    const LENGTHS: [usize; 8] = [16, 31, 32, 33, 64, 200, 241, 2000];
    let keys = LENGTHS.map(|length| (0..length).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
    let hashers =
        [Hash::Highway, Hash::Xxh3, Hash::Murmur3].map(|hash| KeyHasher::new(hash, &seed()));
    let mut block = "| bytes | highway | xxh3 | murmur3 |\n|---|---|---|---|\n".to_owned();
    for (length, key) in LENGTHS.iter().zip(&keys) {
        let [highway, xxh3, murmur3] = hashers.each_ref().map(|hasher| hasher.hash(key));
        writeln!(
            block,
            "| {length} | `{highway:#018x}` | `{xxh3:#018x}` | `{murmur3:#018x}` |"
        )
        .unwrap();
    }
    check_block("lengths", &block);
    for hasher in hashers {
        let mut batch = Vec::new();
        hasher.keys(keys.iter().map(Vec::as_slice), &mut batch);
        let batch: Vec<u64> = batch.iter().map(|key| key.bits()).collect();
        assert_eq!(batch, keys.each_ref().map(|key| hasher.hash(key)));
    }
}

/// The vectors as they stand in FORMAT.md: hash or raw value, key, 64 bits, page, bits.
fn documented() -> Vec<(String, String, u64, u64, Vec<usize>)> {
    let plain = |cell: &str| cell.trim_matches('`').to_owned();
    let rows = table(&section("Worked vectors"), &HEADING);
    rows.iter()
        .map(|row| {
            let bits = plain(&row[2]);
            (
                plain(&row[0]),
                plain(&row[1]),
                u64::from_str_radix(bits.trim_start_matches("0x"), 16).unwrap(),
                row[3].parse().unwrap(),
                row[4].split(", ").map(|bit| bit.parse().unwrap()).collect(),
            )
        })
        .collect()
}

/// Each vector, as a reader of FORMAT.md finds it, against the library and a store's own pages.
#[test]
fn vectors_are_what_a_store_does() {
    let folder = TempDir::new().unwrap();
    let vectors = documented();
    assert_eq!(vectors.len(), 3 * KEYS.len() + RAW.len());
    for (index, (name, key, hash, page, bits)) in vectors.iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let algorithm: Hash = name.parse().unwrap_or_default();
        let hasher = KeyHasher::new(algorithm, &seed());
        let options = Options::new()
            .buffer(LEAST_BUFFER)
            .seed(seed())
            .hash(algorithm);
        let store = options.capacity(10_000).fpr(0.01).create(&path).unwrap();
        let layer = store.stats().unwrap().layers[0];
        assert_eq!((layer.pages, layer.k as usize), (PAGES, PROBES));
        let raw = (name == "insert_hash")
            .then(|| u64::from_str_radix(key.trim_start_matches("0x"), 16).unwrap());
        let key = key.trim_matches('"').as_bytes();
        let (got, new) = match raw {
            Some(raw) => (hasher.mix(raw), store.insert(raw)),
            None => (hasher.hash(key), store.insert(key)),
        };
        assert!(new.unwrap());
        assert_eq!(got, *hash, "{name} {key:?}");
        store.close().unwrap();
        let file = std::fs::read(&path).unwrap();
        for number in 0..PAGES {
            let bytes = &file[131_072 + number as usize * 4096..][..4096];
            let set: Vec<_> = (0..32_640).filter(|index| bit(bytes, *index)).collect();
            let mut expected = if number == *page {
                bits.clone()
            } else {
                Vec::new()
            };
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(set, expected, "{name} {key:?}, page {number}");
        }
    }
}

/// "From hash to shard", as this test computes it and as the library does.
#[test]
fn shards_are_what_the_rule_gives() {
    let mut block =
        "| 64 bits | of 1 | of 3 | of 64 | of 256 |\n|---|---|---|---|---|\n".to_owned();
    let hasher = KeyHasher::new(Hash::Highway, &seed());
    let keys = KEYS.map(|key| hasher.hash(key.as_bytes()));
    for bits in keys.into_iter().chain([0, u64::MAX]) {
        let mixed = u128::from(finalise(bits ^ 0xA54F_F53A_5F1D_36F1));
        write!(block, "| `{bits:#018x}` |").unwrap();
        for shards in [1, 3, 64, 256] {
            let shard = (mixed * u128::from(shards)) >> 64;
            let count = NonZero::new(shards).unwrap();
            assert_eq!(
                u128::from(HashedKey::from_bits(bits).shard(count)),
                shard,
                "{bits:#x} of {shards}"
            );
            write!(block, " {shard} |").unwrap();
        }
        block.push('\n');
    }
    check_block("shards", &block);
}
