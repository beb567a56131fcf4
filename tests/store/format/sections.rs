//! Sections against their tables, and the reader in another language on stores that have some.

use std::path::Path;

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Kind, Store};
use tempfile::TempDir;

use super::bytes::{mix, number};
use super::doc::Layout;
use super::log::{EXEMPT, chain, log_path};
use super::reader::{agree, random, run};
use super::refused::{check, mend_superblock, put};
use super::seed;
use super::snapshot::{Interrupted, copy};
use super::store_file::{check_superblock, newest_superblock, superblock_places};

fn options(kind: Kind) -> Options {
    let capacity = if kind == Kind::Bloom { 9000 } else { 700 };
    let options = Options::new().kind(kind).capacity(capacity).fpr(0.2);
    options.seed(seed()).buffer(LEAST_BUFFER).measured(false)
}

/// Those among the hashes that the store takes for seen.
fn seen(store: &Store, hashes: &[u64]) -> Vec<u64> {
    let answers = store.contains_batch(hashes).unwrap();
    let pairs = hashes.iter().zip(answers).filter(|(_, seen)| *seen);
    pairs.map(|(hash, _)| *hash).collect()
}

#[test]
fn a_section_is_as_documented_and_the_reader_agrees() {
    let folder = TempDir::new().unwrap();
    for kind in [Kind::Bloom, Kind::Scalable] {
        let path = folder.path().join(kind.name());
        let store = options(kind).create(&path).unwrap();
        let hashes = random(0xE8E, 14_000);
        store.insert_batch(&hashes[..4000]).unwrap();
        store.commit_with(b"tag").unwrap();
        store.checkpoint().unwrap();
        let wrong = seen(&store, &hashes[4000..]);
        assert!(wrong.len() > 50, "{}", wrong.len());
        store.exempt(&wrong).unwrap();
        // Others that no page has make it longer than a page.
        store.exempt(&hashes[4000..5000]).unwrap();
        store.insert_batch(&wrong[..20]).unwrap();

        // While it is open: a log with keys that are exempt until its checkpoint.
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let found = agree(&copied, &wrong);
        let expected: Vec<bool> = (0..wrong.len()).map(|place| place < 20).collect();
        assert_eq!(found, expected);

        store.close().unwrap();
        let stats = Options::new()
            .open_read_only(&path)
            .unwrap()
            .stats()
            .unwrap();
        assert!(stats.exempt > 900, "{}", stats.exempt);
        check_superblock(&path, &stats);
        assert_eq!(agree(&path, &wrong), expected);
        agree(&path, &hashes);

        // What is damaged it refuses, as the library does.
        refuses(&path, stats.exempt);
    }
}

fn refuses(path: &Path, hashes: u64) {
    let sound = std::fs::read(path).unwrap();
    let needle = hashes.to_le_bytes();
    // The entry: its number of hashes behind the place, in the newest superblock.
    let entries = superblock_places().map(|(offset, _)| {
        let place = &sound[offset..offset + 4096];
        let at = place.windows(8).position(|bytes| bytes == needle)?;
        Some(u64::from_le_bytes(place[at - 8..at].try_into().unwrap()))
    });
    let page = entries.into_iter().flatten().next_back().unwrap() as usize;
    let mut bad = sound.clone();
    bad[page * 4096 + 1000] ^= 1;
    let newest = page * 4096;
    assert!(sound[newest..newest + 8] != [0; 8]);
    std::fs::write(path, &bad).unwrap();
    let output = run(path, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a section is damaged"), "{said}");
    let report = Options::new()
        .open_read_only(path)
        .unwrap()
        .verify()
        .unwrap();
    assert_eq!(report.sections.len(), 1);
    std::fs::write(path, sound).unwrap();
}

/// Sampled keys, and lost ones among them, lie where the tables say, and the reader finds as many.
#[test]
fn a_sample_is_as_documented() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = options(Kind::Bloom)
        .measured(true)
        .capacity(40_000)
        .fpr(0.3);
    let store = options.create(&path).unwrap();
    let read = |path: &Path| {
        let file = std::fs::read(path).unwrap();
        let (_, superblock) = newest_superblock(&file);
        let count = Layout::of("Superblocks").number(superblock, "section_count") as usize;
        let entries = superblock[384..].chunks_exact(32).take(count);
        entries.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let entry = Layout::of("Section entry");
    let entries = read(&path);
    assert_eq!(entries.len(), 1);
    assert_eq!(entry.number(&entries[0], "section_kind"), 2);
    assert_eq!(entry.number(&entries[0], "rarity"), 12);
    assert!(entries[0][8..].iter().all(|byte| *byte == 0));
    // "Sample and lost": the lowest bits of the hash, and of the seed's second number.
    let salt = number(&seed()[8..16]) % 4096;
    let rare = (0..).filter(|raw| mix(*raw, &seed()) % 4096 == salt);
    let rare: Vec<u64> = rare.take(600).collect();
    store.insert_batch(&rare[..200]).unwrap();
    store.insert_batch(&random(9, 39_000)).unwrap();
    store.checkpoint().unwrap();
    let new = store.insert_batch(&rare[200..]).unwrap();
    store.close().unwrap();
    let entries = read(&path);
    let kinds: Vec<_> = entries
        .iter()
        .map(|bytes| entry.number(bytes, "section_kind"))
        .collect();
    assert_eq!(kinds, [2, 3]);
    let [sampled, lost] = [0, 1].map(|at| entry.number(&entries[at], "hashes"));
    let told = new.iter().filter(|new| !**new).count() as u64;
    assert!(lost >= told && told > 20, "{told} of {lost}");
    let others = random(9, 39_000).into_iter().map(|raw| mix(raw, &seed()));
    let others = others.filter(|hash| hash % 4096 == salt).count() as u64;
    assert_eq!(sampled + lost, 600 + others);
    let output = run(&path, &[]);
    let json = String::from_utf8(output.stdout).unwrap();
    assert!(json.contains(&format!("\"sample\": {sampled},")), "{json}");
    assert!(json.contains(&format!("\"lost\": {lost},")), "{json}");
    agree(&path, &rare);
}

/// As the log is when the section begins to be written.
#[test]
fn a_log_tells_what_is_to_be_exempted() {
    let folder = TempDir::new().unwrap();
    let copies = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let storage = Interrupted::new(&path, copies.path(), 1);
    let options = options(Kind::Bloom).background(false);
    let store = options
        .clone()
        .storage(storage.clone())
        .create(&path)
        .unwrap();
    let raw: Vec<u64> = (0..9000).collect();
    store.exempt(&raw).unwrap();
    assert!(storage.is_done());
    let path = copies.path().join("store");
    let records = chain(&std::fs::read(log_path(&path, 1)).unwrap());
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [1, EXEMPT, EXEMPT, 4]);
    let payloads = records[1..3].iter().map(|record| &record.payload[..]);
    let payload: Vec<u8> = payloads.collect::<Vec<_>>().concat();
    let mut expected: Vec<u64> = raw.iter().map(|raw| mix(*raw, &seed())).collect();
    expected.sort_unstable();
    let hashes: Vec<_> = payload.chunks_exact(8).map(number).collect();
    assert_eq!(hashes, expected);
    // They count from the checkpoint on, which whoever opens the store does.
    agree(&path, &raw);
    let store = options.open(&path).unwrap();
    assert_eq!(store.stats().unwrap().exempt, 9000);
}

#[test]
fn a_bad_section_field_has_the_fault_of_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options(Kind::Bloom).create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.exempt(&["other"]).unwrap();
    store.close().unwrap();
    let mut sound = std::fs::read(&path).unwrap();
    let sequence = |offset: usize| sound[offset + 16];
    let [(a, _), (b, _)] = superblock_places();
    let (newest, older) = if sequence(a) > sequence(b) {
        (a, b)
    } else {
        (b, a)
    };
    sound[older..older + 320].fill(0);
    let layout = Layout::of("Section entry");
    let bad: [(&str, &[u8]); 6] = [
        ("section_kind", &[77]),
        ("rarity", &[1]),
        ("section_page", &[1]),
        ("section_page", &[0; 8]),
        ("hashes", &[0; 8]),
        ("section_reserved", &[1]),
    ];
    for (name, value) in bad {
        let mut file = sound.clone();
        put(&mut file, newest + 384, layout.field(name), value);
        mend_superblock(&mut file[newest..]);
        check(&path, &file, layout.field(name));
        let output = run(&path, &[]);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
    std::fs::write(&path, &sound).unwrap();
    assert!(
        options(Kind::Bloom)
            .open(&path)
            .unwrap()
            .contains(b"key")
            .unwrap()
    );
}
