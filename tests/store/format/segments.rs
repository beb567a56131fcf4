//! Directories, segments and fences against their tables; stores that another program could have written; and each field
//! out of its range.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::Store;
use everseen::hash::HashedKey;
use everseen::testing::{Appending, LEAST_BUFFER, Options};
use tempfile::TempDir;

use super::bytes::{finalise, mix, number, page, page_crc};
use super::doc::{Field, Layout};
use super::forged_segments::{Forged, forge, hash_of, options, seal, set};
use super::reader;
use super::refused::{check, check_error, mend_superblock};
use super::seed;
use super::store_file::{newest_superblock, superblock_places};

fn hashed(hashes: &[u64]) -> Vec<HashedKey> {
    hashes.iter().copied().map(HashedKey::from_bits).collect()
}

/// Holds library and reader against the set that a store should be, around each of its fingerprints.
fn compare(path: &Path, expected: &BTreeSet<u64>, space: u64) {
    let near = |one: &u64| [one.saturating_sub(1), *one, one + 1];
    let mut asked: Vec<u64> = expected.iter().flat_map(near).collect();
    asked.extend((0..2000).map(|turn| finalise(turn) % space));
    asked.extend([0, space - 1]);
    asked.retain(|one| *one < space);
    let answers: Vec<bool> = asked.iter().map(|one| expected.contains(one)).collect();
    let hashes: Vec<u64> = asked.iter().map(|one| hash_of(*one, space)).collect();
    let store = Options::new().buffer(LEAST_BUFFER).open_read_only(path);
    let store = store.unwrap();
    assert_eq!(store.stats().unwrap().keys, expected.len() as u64);
    assert!(store.contains_batch(&hashed(&hashes)).unwrap() == answers);
    assert!(reader::answers(path, &hashes, true) == answers);
}

/// Numbers of pages that fill a page of the directory and more, and one that fills a page of fences and more.
fn many() -> Vec<u64> {
    (0..130)
        .map(|index| match index {
            77 => 512,
            _ => 1 + index % 3,
        })
        .collect()
}

#[test]
fn a_store_that_was_written_after_this_page_is_read_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let forged = forge(&folder.path().join("store"), &many());
    let Forged {
        path,
        space,
        mut fingerprints,
        ..
    } = forged;
    assert!(fingerprints.len() > 10_000);
    compare(&path, &fingerprints, space);

    let store = options().open(&path).unwrap();
    let gone: Vec<u64> = fingerprints.iter().copied().step_by(3).collect();
    let hashes: Vec<u64> = gone.iter().map(|one| hash_of(*one, space)).collect();
    let mut removed = Vec::new();
    store.remove_into(&hashed(&hashes), &mut removed).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    gone.iter()
        .for_each(|one| assert!(fingerprints.remove(one)));
    store.insert_batch(&Vec::from_iter(0..3000)).unwrap();
    fingerprints.extend((0..3000).map(|raw| page(mix(raw, &seed()), space)));
    store.close().unwrap();
    compare(&path, &fingerprints, space);
    check_file(&path);
}

/// A directory of a store that the library wrote, entry by entry, as far as its own checks go.
fn check_file(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let (_, superblock) = newest_superblock(&file);
    let fixed = Layout::of("Superblocks");
    assert_eq!(fixed.number(superblock, "layer_count"), 0);
    let bytes = &superblock[fixed.end()..][..64];
    // "Room": both superblocks name the same directory.
    for (offset, _) in superblock_places() {
        assert_eq!(&file[offset + fixed.end()..][..64], bytes);
    }
    let entry = |name| Layout::of("Directory entry").number(bytes, name);
    assert!((1..=fixed.number(superblock, "sequence")).contains(&entry("version")));
    assert!(entry("directory_generation") <= fixed.number(superblock, "generation"));
    assert!(number(&file[4096..4104]) < entry("version"));
    assert!(file[4104..12_288].iter().all(|byte| *byte == 0));
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for index in 0..entry("segments").div_ceil(102) {
        let places = ["place_a", "place_b"].map(|name| entry(name) + index);
        let copies = places.map(|place| &file[place as usize * 4096..][..4096]);
        assert_eq!(copies[0][4..], copies[1][4..]);
        let count = (entry("segments") - 102 * index).min(102);
        for number in places {
            check_page(&file, number, entry("directory_generation"), count, 40);
        }
        let own = copies[0][16..].chunks_exact(40).take(count as usize);
        entries.extend(own.map(<[u8]>::to_vec));
    }
    let get = |bytes: &[u8], name| Layout::of("Segment entry").number(bytes, name);
    let space = Layout::of("Header").number(&file, "bits");
    let mut firsts: Vec<u64> = entries.iter().map(|bytes| get(bytes, "first")).collect();
    assert!(firsts.is_sorted_by(|one, next| one < next));
    assert_eq!(firsts.first().copied().unwrap_or(0), 0);
    firsts.push(space);
    let (mut pages, mut keys) = (0, 0);
    for (bytes, range) in entries.iter().zip(firsts.windows(2)) {
        keys += check_segment(&file, bytes, (range[0], range[1]));
        let own = get(bytes, "pages");
        pages += own + own.div_ceil(510);
        assert!(get(bytes, "first_page") + own + own.div_ceil(510) <= entry("end_page"));
    }
    assert_eq!(pages, entry("segment_pages"));
    assert_eq!(keys, entry("directory_keys"));
    assert_eq!(keys, fixed.number(superblock, "keys"));
    entries
}

/// A page of entries of this size.
fn check_page(file: &[u8], number: u64, generation: u64, count: u64, size: usize) {
    let page = &file[number as usize * 4096..][..4096];
    let get = |name| Layout::of("Pages").number(page, name);
    let crc = page_crc(file, number, page);
    assert_eq!(get("crc"), u64::from(crc), "page {number}");
    assert_eq!(get("generation"), generation, "page {number}");
    assert_eq!(get("occupancy"), count, "page {number}");
    let behind = &page[16 + count as usize * size..];
    assert!(behind.iter().all(|byte| *byte == 0), "page {number}");
}

/// Checks the headers of a segment's pages and its fences, and returns how many fingerprints they tell of.
fn check_segment(file: &[u8], entry: &[u8], (first, end): (u64, u64)) -> u64 {
    let get = |name| Layout::of("Segment entry").number(entry, name);
    let at = |number: u64| &file[number as usize * 4096..][..4096];
    let (first_page, pages) = (get("first_page"), get("pages"));
    assert_eq!(get("list"), 0);
    let mut fences = Vec::new();
    for index in 0..pages.div_ceil(510) {
        let number_of = first_page + pages + index;
        let count = (pages - 510 * index).min(510);
        let page = at(number_of);
        check_page(file, number_of, get("generation"), count, 8);
        let own = page[16..].chunks_exact(8).take(count as usize);
        fences.extend(own.map(number));
    }
    assert_eq!((fences[0], fences.len() as u64), (first, pages));
    assert!(fences.is_sorted_by(|one, next| one < next) && fences[fences.len() - 1] < end);
    let layout = Layout::of("Pages of fingerprints");
    let mut keys = 0;
    for (index, fence) in (0..).zip(&fences) {
        let page = at(first_page + index);
        let crc = page_crc(file, first_page + index, page);
        assert_eq!(layout.number(page, "crc"), u64::from(crc));
        assert_eq!(layout.number(page, "generation"), get("generation"));
        assert_eq!(layout.number(page, "first"), *fence);
        keys += layout.number(page, "occupancy");
    }
    assert_eq!(keys, get("keys"));
    keys
}

/// So many keys, so far apart, that they take two segments, and each more than a page of fences.
#[test]
fn segments_are_as_documented() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = options().capacity(2_000_000).fpr(1e-12).buffer(32 << 20);
    let store = options.create(&path).unwrap();
    let all: Vec<u64> = (0..1_400_000).collect();
    store.insert_batch(&all).unwrap();
    store.checkpoint().unwrap();
    let entries = check_file(&path);
    assert!(entries.len() >= 2, "{}", entries.len());
    let pages = |bytes: &Vec<u8>| Layout::of("Segment entry").number(bytes, "pages");
    assert!(
        entries
            .iter()
            .all(|bytes| (510..=1530).contains(&pages(bytes)))
    );
    // Closing may cut one into pieces that fill free room.
    store.close().unwrap();
    let closed = check_file(&path);
    assert!(closed.iter().all(|bytes| pages(bytes) <= 1530));
    let all_pages = |entries: &[Vec<u8>]| entries.iter().map(pages).sum::<u64>();
    assert_eq!(all_pages(&closed), all_pages(&entries));
    let asked: Vec<u64> = (0..3_000_000).step_by(101).collect();
    let found = reader::agree(&path, &asked);
    let expected: Vec<bool> = asked.iter().map(|one| *one < 1_400_000).collect();
    assert!(found == expected);
}

fn small() -> (TempDir, Forged) {
    let folder = TempDir::new().unwrap();
    let forged = forge(&folder.path().join("store"), &[2, 3, 1]);
    (folder, forged)
}

#[test]
fn a_bad_directory_entry_has_the_fault_of_its_line() {
    let (_folder, sound) = small();
    let entry = Layout::of("Directory entry");
    let get = |name| entry.number(&sound.file[sound.entry()..], name);
    let bad = [
        ("place_a", 0),
        ("place_a", 31),
        ("place_a", get("end_page")),
        ("place_a", get("place_b")),
        ("place_a", u64::MAX),
        ("place_b", 0),
        ("place_b", get("place_a")),
        ("segments", 0),
        ("segments", get("segment_pages") + 1),
        ("segment_pages", get("end_page") - 31),
        ("directory_keys", get("directory_keys") + 1),
        ("directory_keys", get("segment_pages") * 16_384 + 1),
        ("end_page", 31),
        ("end_page", (1 << 50) + 1),
        ("version", 0),
        ("version", 2),
        ("directory_generation", 0),
        ("directory_generation", 2),
    ];
    for (name, value) in bad {
        let mut file = sound.file.clone();
        set(&mut file[sound.entry()..], "Directory entry", name, value);
        mend_superblock(&mut file[sound.superblock..]);
        check(&sound.path, &file, entry.field(name));
        refuses(&sound.path, name);
    }
    // All of it is there: a file that is cut short is told.
    std::fs::write(&sound.path, &sound.file[..sound.file.len() - 1]).unwrap();
    let error = options().open(&sound.path).unwrap_err();
    assert!(format!("{error:?}").contains("Truncated"), "{error:?}");
    refuses(&sound.path, "length");
}

fn refuses(path: &Path, what: &str) {
    let output = reader::run(path, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {said}");
    assert!(!said.contains("Traceback"), "{what}: {said}");
}

#[test]
fn a_bad_segment_entry_has_the_error_of_its_line() {
    let (_folder, sound) = small();
    let entry = Layout::of("Segment entry");
    let get =
        |index: u64, name| entry.number(&sound.file[sound.segment_entries(index)[0].1..], name);
    let end_page = sound.places[1] + 1;
    let bad = [
        (0, "first", 1),
        (1, "first", 0),
        (2, "first", sound.space),
        (2, "first", get(1, "first")),
        (0, "first_page", 31),
        (0, "first_page", end_page - 2),
        (0, "first_page", u64::MAX),
        (0, "first_page", get(1, "first_page")),
        (1, "keys", 15_232 * 3 + 1),
        (1, "keys", get(1, "keys") + 1),
        (1, "generation", 0),
        (1, "generation", 2),
        (1, "pages", 0),
        (1, "pages", 2),
        (1, "pages", 2041),
        (1, "list", 1),
        (1, "list", 2),
    ];
    for (index, name, value) in bad {
        let mut file = sound.file.clone();
        for (number, at) in sound.segment_entries(index) {
            set(&mut file[at..], "Segment entry", name, value);
            seal(&mut file, number);
        }
        check(&sound.path, &file, entry.field(name));
        refuses(&sound.path, name);
    }
}

/// Looks for all keys of what was forged, and holds the error against the table.
fn check_answers(sound: &Forged, file: &[u8], field: &Field) {
    std::fs::write(&sound.path, file).unwrap();
    let store: Store = options().open(&sound.path).unwrap();
    let every = sound.fingerprints.iter();
    let hashes: Vec<u64> = every.map(|one| hash_of(*one, sound.space)).collect();
    let error = store.contains_batch(&hashed(&hashes)).unwrap_err();
    check_error(&error, field);
    drop(store);
    refuses(&sound.path, &field.name);
}

#[test]
fn a_bad_page_of_fences_or_fingerprints_has_the_error_of_its_line() {
    let (_folder, sound) = small();
    let (first_page, pages) = sound.extents[1];
    let fences = Layout::of("Page of fences");
    let number = first_page + pages;
    let base = number as usize * 4096;
    let second = super::bytes::number(&sound.file[base + 24..][..8]);
    let bad: [(&str, usize, u64); 8] = [
        ("crc", 0, 0),
        ("occupancy", 4, 2 | 1 << 32),
        ("occupancy", 4, 4 | 1 << 32),
        ("generation", 8, 2),
        ("fences", 16, 0),
        ("fences", 16, second),
        ("fences", 32, sound.space),
        ("fences", 40, 1),
    ];
    for (name, at, value) in bad {
        let mut file = sound.file.clone();
        file[base + at..][..8].copy_from_slice(&value.to_le_bytes());
        if name != "crc" {
            seal(&mut file, number);
        }
        check_answers(&sound, &file, fences.field(name));
    }
    // Of a page of fingerprints a look-up checks what stands first, and a checkpoint and the reader the rest.
    let layout = Layout::of("Pages of fingerprints");
    for name in ["crc", "generation", "first"] {
        let mut file = sound.file.clone();
        let page = &mut file[first_page as usize * 4096..];
        let was = layout.number(page, name);
        set(page, "Pages of fingerprints", name, was + 1);
        if name != "crc" {
            seal(&mut file, first_page);
        }
        check_answers(&sound, &file, layout.field(name));
    }
    for name in ["occupancy", "high_count", "low_bits"] {
        let mut file = sound.file.clone();
        let page = &mut file[first_page as usize * 4096..];
        let was = layout.number(page, name);
        set(page, "Pages of fingerprints", name, was + 1);
        seal(&mut file, first_page);
        std::fs::write(&sound.path, &file).unwrap();
        refuses(&sound.path, name);
    }
}

#[test]
fn a_bad_page_of_the_directory_is_read_from_the_other_copy() {
    let (_folder, sound) = small();
    let layout = Layout::of("Page of the directory");
    let bad: [(&str, usize, u64); 5] = [
        ("crc", 0, 0),
        ("occupancy", 4, 2 | 1 << 32),
        ("occupancy", 4, 4 | 1 << 32),
        ("generation", 8, 2),
        ("entries", 16 + 40 * 3, 1),
    ];
    for (name, at, value) in bad {
        let forge = |copies: &[u64]| {
            let mut file = sound.file.clone();
            for number in copies {
                let base = *number as usize * 4096;
                file[base + at..][..8].copy_from_slice(&value.to_le_bytes());
                if name != "crc" {
                    seal(&mut file, *number);
                }
            }
            file
        };
        for place in sound.places {
            std::fs::write(&sound.path, forge(&[place])).unwrap();
            compare(&sound.path, &sound.fingerprints, sound.space);
            let told = String::from_utf8(reader::run(&sound.path, &[]).stdout).unwrap();
            let number = format!("page {place}, of the directory, is damaged");
            assert!(told.contains(&number), "{name}: {told}");
        }
        check(&sound.path, &forge(&sound.places), layout.field(name));
        refuses(&sound.path, name);
    }
}

/// What is changed at random, its checksum mended: the first bytes of some place, and what mends it.
fn mutate(sound: &Forged, random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut file = sound.file.clone();
    let (first_page, pages) = sound.extents[random(3) as usize];
    let bit = 1 << random(8);
    let mut change = |at: u64| file[at as usize] ^= bit;
    match random(5) {
        0 => {
            change(sound.entry() as u64 + random(64));
            mend_superblock(&mut file[sound.superblock..]);
        }
        1 => {
            // In both copies alike, or in one alone.
            let (at, both) = (4 + random(140), random(2) == 0);
            for place in &sound.places[..1 + usize::from(both)] {
                file[*place as usize * 4096 + at as usize] ^= bit;
                seal(&mut file, *place);
            }
        }
        2 => {
            change((first_page + pages) * 4096 + 4 + random(50));
            seal(&mut file, first_page + pages);
        }
        turn => {
            let number = first_page + random(pages);
            let room = if turn == 3 { 40 } else { 400 };
            change(number * 4096 + 4 + random(room));
            seal(&mut file, number);
        }
    }
    file
}

/// Whatever a store holds, what the reader takes for sound the library answers alike; and it never ends but with an answer
/// or an error.
#[test]
fn the_library_answers_for_whatever_the_reader_takes_for_sound() {
    let (folder, sound) = small();
    let mut asked: Vec<u64> = sound.fingerprints.iter().copied().collect();
    asked.extend((0..200).map(|turn| finalise(turn) % sound.space));
    let hashes: Vec<u64> = asked.iter().map(|one| hash_of(*one, sound.space)).collect();
    let list = folder.path().join("hashes");
    let lines: Vec<String> = hashes.iter().map(ToString::to_string).collect();
    std::fs::write(&list, lines.join("\n")).unwrap();
    let mut state = 0x5E6;
    let mut random = |below: u64| {
        state = finalise(state + 1);
        state % below
    };
    let (mut taken, mut refused) = (0, 0);
    for turn in 0..80 {
        std::fs::write(&sound.path, mutate(&sound, &mut random)).unwrap();
        let library = Options::new().open_read_only(&sound.path);
        let library = library.and_then(|store| store.contains_batch(&hashed(&hashes)));
        let output = reader::run(&sound.path, &["--raw", "--hashes", list.to_str().unwrap()]);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("Traceback"), "turn {turn}: {said}");
            refused += 1;
            continue;
        }
        let json = String::from_utf8(output.stdout).unwrap();
        let library = library.unwrap_or_else(|error| panic!("turn {turn}: {error}, {json}"));
        let bits: String = library
            .iter()
            .map(|found| ["0", "1"][usize::from(*found)])
            .collect();
        assert!(
            json.contains(&format!("\"answers\": \"{bits}\"")),
            "turn {turn}"
        );
        taken += 1;
    }
    assert!(taken > 10 && refused > 25, "{taken} {refused}");
}
