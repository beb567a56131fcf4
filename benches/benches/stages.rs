//! What each stage of a key's way costs, alone: the hash, a page, the write buffer, a layer of
//! pages; and the way through all of them.
//!
//! `cargo bench -p everseen-benches`. Times are for as many keys as the group's throughput says.
//! Without `--bench`, as in `cargo test --workspace --bench stages`, everything runs once on a small filter.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use everseen::Store;
use everseen::hash::{Hash, KeyHasher};
use everseen::sizing::Plan;
use everseen::stages::{Fingerprints, PAGE_BYTES, Pages, Segments, Table, apply, is_whole, seal};
use everseen::testing::Options;
use everseen_benches::keys::{hash, url};

/// Keys that a measurement takes at a time.
const KEYS: u64 = 4096;
/// How many keys are fetched together.
const GROUP: usize = 32;
/// From here on nothing was inserted.
const ABSENT: u64 = 1 << 40;
const SEED: [u8; 32] = [7; 32];

/// Whether this is for measuring.
fn measures() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Keys in the filters that are looked into.
fn filled() -> u64 {
    if measures() { 20_000_000 } else { 20_000 }
}

fn hashes(from: u64) -> Vec<u64> {
    (from..from + KEYS).map(hash).collect()
}

/// Does something for each key, each fetched a group before, as the store does.
fn ahead(keys: &[u64], fetch: impl Fn(u64), mut each: impl FnMut(u64)) {
    let mut groups = keys.chunks(GROUP).peekable();
    keys[..GROUP].iter().for_each(|key| fetch(*key));
    while let Some(group) = groups.next() {
        if let Some(next) = groups.peek() {
            next.iter().for_each(|key| fetch(*key));
        }
        group.iter().for_each(|key| each(*key));
    }
}

fn hashing(criterion: &mut Criterion) {
    let urls: Vec<Vec<u8>> = (0..KEYS).map(|number| url(number).into_bytes()).collect();
    let cut = |length: usize| {
        urls.iter()
            .map(move |url| url[url.len() - length..].to_vec())
    };
    let mixed = (0..)
        .zip(&urls)
        .map(|(number, url)| url[hash(number) as usize % 72..].to_vec());
    for (title, keys) in [
        ("hash of 8 bytes", cut(8).collect()),
        ("hash of 20 bytes", cut(20).collect()),
        ("hash of 75 bytes", cut(75).collect()),
        ("hash of 8 to 79 bytes", mixed.collect::<Vec<_>>()),
    ] {
        let mut group = criterion.benchmark_group(title);
        group.throughput(Throughput::Elements(KEYS));
        for algorithm in [Hash::Highway, Hash::Xxh3, Hash::Murmur3] {
            let hasher = KeyHasher::new(algorithm, &SEED);
            group.bench_function(format!("{algorithm}, one at a time"), |bencher| {
                let mut hashed = Vec::with_capacity(keys.len());
                bencher.iter(|| {
                    hashed.clear();
                    hashed.extend(keys.iter().map(|key| hasher.key(key)));
                    black_box(&mut hashed);
                });
            });
            group.bench_function(format!("{algorithm}, many"), |bencher| {
                let mut hashed = Vec::with_capacity(keys.len());
                bencher.iter(|| {
                    hashed.clear();
                    hasher.keys(keys.iter().map(Vec::as_slice), &mut hashed);
                    black_box(&mut hashed);
                });
            });
        }
        group.finish();
    }
}

fn page(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page");
    // Too many for the processor to learn them.
    let keys: Vec<u64> = (0..160 * 1024).map(hash).collect();
    let mut page = vec![0; PAGE_BYTES];
    for probes in [7, 20, 22] {
        group.throughput(Throughput::Elements(160));
        group.bench_function(format!("apply, k = {probes}"), |bencher| {
            let mut own = keys.chunks_exact(160).cycle();
            bencher.iter(|| {
                page.fill(0);
                black_box(apply(
                    &mut page,
                    probes,
                    own.next().expect("there are many"),
                ))
            });
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("seal", |bencher| {
        bencher.iter(|| seal(1, 5, black_box(&mut page)));
    });
    group.bench_function("check", |bencher| {
        bencher.iter(|| is_whole(1, black_box(&page)));
    });
    group.finish();
}

/// A full page of fingerprints of `log2(1/p) = 20` bits, all of it in the processor's cache.
fn fingerprints(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page of fingerprints");
    let apart = 1 << 20;
    let mut offsets: Vec<u64> = (0..1600)
        .map(|number| hash(number) % (1600 * apart))
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets.truncate(Fingerprints::longest(&offsets, 1600 * apart));
    let width = offsets.last().expect("some fit") + 1;
    let mut page = Fingerprints::encode(&offsets, width);
    let count = offsets.len() as u64;
    group.throughput(Throughput::Elements(count));
    group.bench_function("encode", |bencher| {
        bencher.iter(|| page.encode_again(black_box(&offsets), width));
    });
    let mut decoded = Vec::with_capacity(offsets.len());
    page.decode(7, &mut decoded);
    assert_eq!(decoded.len(), offsets.len());
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            decoded.clear();
            page.decode(black_box(7), &mut decoded);
        });
    });
    // In another order, so that no branch can be foretold.
    let mut shuffled = offsets.clone();
    shuffled.sort_unstable_by_key(|offset| hash(*offset));
    group.bench_function("contains, present", |bencher| {
        bencher.iter(|| assert_eq!(page.count(black_box(&shuffled)), shuffled.len()));
    });
    let absent: Vec<u64> = shuffled
        .iter()
        .map(|offset| (offset ^ apart ^ 5) % width)
        .collect();
    group.bench_function("contains, absent", |bencher| {
        bencher.iter(|| page.count(black_box(&absent)));
    });
    group.finish();
}

/// Fingerprints of `log2(1/p) = 20` bits in segments, merged with an eighth of new ones, and looked for.
fn segments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("segments of {} fingerprints", filled()));
    let space = filled() << 20;
    let number = |key: u64| ((u128::from(hash(key)) * u128::from(space)) >> 64) as u64;
    let list = |keys: std::ops::Range<u64>| {
        let mut list: Vec<u64> = keys.map(number).collect();
        list.sort_unstable();
        list.dedup();
        list
    };
    let (old, added) = (list(0..filled()), list(ABSENT..ABSENT + filled() / 8));
    let segments = Segments::new(&old, space);
    group.throughput(Throughput::Elements(old.len() as u64));
    group.sample_size(10);
    group.bench_function("pack", |bencher| {
        bencher.iter(|| Segments::new(black_box(&old), space));
    });
    group.bench_function("merge with an eighth of new keys", |bencher| {
        bencher.iter(|| segments.merged(black_box(&added)));
    });
    group.throughput(Throughput::Elements(KEYS));
    let (mut from, mut random) = (2 * ABSENT, 0);
    group.bench_function("look up absent keys", |bencher| {
        let mut absent = || {
            from += KEYS;
            (from..from + KEYS).map(number).collect::<Vec<_>>()
        };
        let look = |keys: Vec<u64>| segments.count(&keys);
        bencher.iter_batched(&mut absent, look, BatchSize::SmallInput);
    });
    group.bench_function("look up present keys", |bencher| {
        let mut present = || {
            random += KEYS;
            let keys = (random..random + KEYS).map(|key| number(hash(key) % filled()));
            keys.collect::<Vec<_>>()
        };
        let look = |keys: Vec<u64>| assert_eq!(segments.count(&keys), KEYS);
        bencher.iter_batched(&mut present, look, BatchSize::SmallInput);
    });
    group.finish();
}

fn buffer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("buffer of 28 MiB");
    group.throughput(Throughput::Elements(KEYS));
    let empty = || Table::new(28 << 20).expect("memory for a buffer");
    let mut table = empty();
    let (mut next, mut held) = (0, 0);
    group.bench_function("claim a new key", |bencher| {
        bencher.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                if held + KEYS > table.limit() {
                    (table, held) = (empty(), 0);
                }
                let keys = hashes(next);
                (next, held) = (next + KEYS, held + KEYS);
                let begun = Instant::now();
                ahead(
                    &keys,
                    |key| table.prefetch(key),
                    |key| assert!(table.insert(key)),
                );
                spent += begun.elapsed();
            }
            spent
        });
    });
    let mut from = ABSENT;
    group.bench_function("look up an absent key", |bencher| {
        bencher.iter_batched_ref(
            || {
                from += KEYS;
                hashes(from)
            },
            |keys| {
                let mut found = 0;
                let count = |key| found += u64::from(table.contains(key));
                ahead(keys, |key| table.prefetch(key), count);
                found
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// A closed store with its keys in the pages, at 1e-6.
fn closed_store(path: &Path) -> (Store, Plan) {
    let plan = Plan::for_rate(filled(), 1e-6).expect("a plan");
    let options = Options::new().capacity(filled()).fpr(1e-6).seed(SEED);
    let store = options.exclusive(true).create(path).expect("a new store");
    for from in (0..filled()).step_by(1 << 16) {
        let keys: Vec<String> = (from..filled().min(from + (1 << 16))).map(url).collect();
        store.insert_batch(&keys).expect("room");
    }
    store.close().expect("a disk");
    (Store::open(path).expect("a store"), plan)
}

fn pages(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    let (store, plan) = closed_store(&path);
    let layer = Pages::open(&path, &plan).expect("a layer");
    let probe = |keys: &[u64]| {
        let mut found = 0;
        let count = |key| found += u64::from(layer.contains(key));
        ahead(keys, |key| layer.prefetch(key), count);
        found
    };
    let mut from = ABSENT;
    let mut absent = || {
        from += KEYS;
        from..from + KEYS
    };
    let mut random = 0;
    let mut present = || {
        random += KEYS;
        (random..random + KEYS).map(|number| hash(number) % filled())
    };
    let urls = |numbers: &mut dyn Iterator<Item = u64>| numbers.map(url).collect::<Vec<_>>();
    let hasher = store.hasher();
    let hashed = |keys: &[String]| -> Vec<u64> {
        keys.iter().map(|key| hasher.hash(key.as_bytes())).collect()
    };

    // What a bench returns is dropped when the clock has stopped: freeing the strings takes longer than the look-up.
    let mut group = criterion.benchmark_group(format!("filter of {} keys at 1e-6", filled()));
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("pages alone, absent keys", |bencher| {
        bencher.iter_batched(
            || hashes(absent().start),
            |keys| probe(&keys),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("pages alone, present keys", |bencher| {
        bencher.iter_batched(
            || hashed(&urls(&mut present())),
            |keys| assert_eq!(probe(&keys), KEYS),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("contains_hash_batch, absent keys", |bencher| {
        bencher.iter_batched(
            || hashes(absent().start),
            |keys| store.contains_batch(&keys).expect("whole pages"),
            BatchSize::SmallInput,
        );
    });
    // With the one before it, what the next should take.
    group.bench_function("hash of the URLs alone", |bencher| {
        bencher.iter_batched(
            || urls(&mut absent()),
            |keys| {
                let mut hashes = Vec::new();
                hasher.keys(keys.iter().map(String::as_bytes), &mut hashes);
                (keys, hashes)
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("contains_batch, absent keys", |bencher| {
        bencher.iter_batched(
            || urls(&mut absent()),
            |keys| (store.contains_batch(&keys).expect("whole pages"), keys),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("contains_batch, present keys", |bencher| {
        bencher.iter_batched(
            || urls(&mut present()),
            |keys| (store.contains_batch(&keys).expect("whole pages"), keys),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("contains, absent keys one by one", |bencher| {
        bencher.iter_batched(
            || urls(&mut absent()),
            |keys| {
                for key in &keys {
                    black_box(store.contains(key.as_bytes()).expect("whole pages"));
                }
                keys
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(stages, hashing, page, fingerprints, segments, buffer, pages);
criterion_main!(stages);
