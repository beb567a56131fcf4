//! The column "on violation": each field is given a value out of its range, the CRC above it is
//! mended, and the error must be the one that its line of the table names.

use std::path::Path;

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind};
use tempfile::TempDir;

use super::bytes::crc32;
use super::doc::{Field, Layout};
use super::log::log_path;
use super::seed;
use super::snapshot::copy;
use super::store_file::superblock_places;

/// Puts bytes in a field.
pub(crate) fn put(file: &mut [u8], base: usize, field: &Field, value: &[u8]) {
    let (offset, size) = field.fixed().unwrap();
    assert!(value.len() <= size);
    file[base + offset..][..value.len()].copy_from_slice(value);
}

/// Opens what was forged and holds the error against the names in the cell.
pub(crate) fn check(path: &Path, file: &[u8], field: &Field) {
    std::fs::write(path, file).unwrap();
    let error = Options::new().buffer(LEAST_BUFFER).open(path).unwrap_err();
    check_error(&error, field);
}

pub(crate) fn check_error(error: &Error, field: &Field) {
    let got = format!("{error:?}");
    let cell = field.violation.split('`').nth(1);
    let cell = cell.unwrap_or_else(|| panic!("{} names no error", field.name));
    let cell = cell.trim_start_matches("LogError::");
    let expected = match cell.split_once('(') {
        Some((variant, name)) => {
            format!("{variant} {{ field: \"{}\"", name.trim_end_matches(')'))
        }
        None => cell.to_owned(),
    };
    assert!(
        got.contains(&expected),
        "{}: expected {expected}, got {got}",
        field.name
    );
}

#[test]
fn a_bad_header_field_has_the_error_of_its_line() {
    let folder = TempDir::new().unwrap();
    let layout = Layout::of("Header");
    let bad: [(&str, &[u8]); 18] = [
        ("magic", b"X"),
        ("version", &[2]),
        ("header_length", &[8]),
        ("read_only_compatible", &[1]),
        ("incompatible", &[16]),
        ("page_size", &[1]),
        ("kind", &[5]),
        ("hash", &[4]),
        ("flags", &[2]),
        ("probes", &[65]),
        ("capacity", &[0; 8]),
        ("fpr", &[0; 8]),
        ("bits", &[1]),
        ("growth", &[1]),
        ("reserved", &[1]),
        ("tightening", &[0xFF; 8]),
        ("crc", &[0, 0, 0]),
        ("kind", &[9]),
    ];
    for kind in [Kind::Bloom, Kind::Scalable] {
        let path = folder.path().join(kind.name());
        let options = Options::new().kind(kind).buffer(LEAST_BUFFER);
        options.capacity(1000).fpr(0.01).create(&path).unwrap();
        let sound = std::fs::read(&path).unwrap();
        for (name, value) in bad {
            let mut file = sound.clone();
            let field = layout.field(name);
            put(&mut file, 0, field, value);
            if name != "crc" {
                let crc = crc32(&[&file[..252]]);
                put(&mut file, 0, layout.field("crc"), &crc.to_le_bytes());
            }
            if name == "read_only_compatible" {
                // Then no superblock's copy fits either, unless they were written with the bit.
                mend_superblocks(&mut file);
            }
            check(&path, &file, field);
        }
    }
}

fn mend_superblocks(file: &mut [u8]) {
    let header = file[..256].to_vec();
    for (offset, _) in superblock_places() {
        if file[offset..offset + 8] != *b"EVERSUPR" {
            continue;
        }
        file[offset + 32..offset + 288].copy_from_slice(&header);
        mend_superblock(&mut file[offset..]);
    }
}

pub(crate) fn mend_superblock(place: &mut [u8]) {
    let layout = Layout::of("Superblocks");
    let length = layout.number(place, "length") as usize;
    let crc = crc32(&[&place[12..length]]);
    put(place, 0, layout.field("crc"), &crc.to_le_bytes());
}

#[test]
fn a_bad_superblock_field_has_the_fault_of_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = Options::new().buffer(LEAST_BUFFER).capacity(1000).fpr(0.01);
    let options = options.measured(false);
    let store = options.create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.commit_with(b"tag").unwrap();
    store.close().unwrap();
    let mut sound = std::fs::read(&path).unwrap();
    // Closing was write 3, so B is the newest; A is taken out of the way.
    let [(a, _), (b, _)] = superblock_places();
    sound[a..a + 320].fill(0);
    let bad: [(&str, &str, &[u8]); 22] = [
        ("Superblocks", "magic", b"X"),
        ("Superblocks", "crc", &[0, 0, 0]),
        ("Superblocks", "length", &[1]),
        ("Superblocks", "generation", &[0; 8]),
        ("Superblocks", "header", b"X"),
        ("Superblocks", "keys", &[77]),
        ("Superblocks", "commit_sequence", &[0; 8]),
        ("Superblocks", "flags", &[2]),
        ("Superblocks", "layer_count", &[65]),
        ("Superblocks", "writer_count", &[2]),
        ("Superblocks", "section_count", &[9]),
        ("Layer entry", "first_page", &[33]),
        ("Layer entry", "pages", &[0; 8]),
        ("Layer entry", "capacity", &[0; 8]),
        ("Layer entry", "fpr", &[0; 8]),
        ("Layer entry", "probes", &[0; 4]),
        ("Layer entry", "layer_flags", &[2]),
        ("Layer entry", "run_length", &[0, 4]),
        ("Layer entry", "layer_reserved", &[1]),
        ("Writer entry", "sequence", &[9]),
        ("Writer entry", "name_length", &[0, 0]),
        ("Writer entry", "tag_length", &[1, 16]),
    ];
    for (section, name, value) in bad {
        let mut file = sound.clone();
        let layout = Layout::of(section);
        let field = layout.field(name);
        let base = match section {
            "Superblocks" => b,
            "Layer entry" => b + 320,
            _ => b + 384,
        };
        if name == "tag_length" {
            // A tag too long must have its bytes, or the superblock is cut short.
            file[b + 12..b + 16].copy_from_slice(&(384_u32 + 8192).to_le_bytes());
        }
        put(&mut file, base, field, value);
        if name != "crc" && name != "length" {
            mend_superblock(&mut file[b..]);
        }
        check(&path, &file, field);
    }
    std::fs::write(&path, &sound).unwrap();
    assert!(options.open(&path).unwrap().contains(b"key").unwrap());
}

#[test]
fn a_bad_log_has_the_error_of_its_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = Options::new()
        .buffer(LEAST_BUFFER)
        .seed(seed())
        .create(&path)
        .unwrap();
    store.insert(b"key").unwrap();
    store.commit().unwrap();
    let bad: [(&str, &[u8]); 5] = [
        ("magic", b"X"),
        ("version", &[3]),
        ("crc", &[0, 0, 0]),
        ("store_id", &[0; 16]),
        ("generation", &[2]),
    ];
    let head = Layout::of("The log");
    for (name, value) in bad {
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let log_path = log_path(&copied, 1);
        let mut log = std::fs::read(&log_path).unwrap();
        put(&mut log, 0, head.field(name), value);
        if name != "crc" {
            let crc = crc32(&[&log[..12], &log[16..64]]);
            put(&mut log, 0, head.field("crc"), &crc.to_le_bytes());
        }
        std::fs::write(&log_path, &log).unwrap();
        let error = Options::new()
            .buffer(LEAST_BUFFER)
            .open(&copied)
            .unwrap_err();
        check_error(&error, head.field(name));
    }
    let copies = TempDir::new().unwrap();
    let copied = copy(&path, copies.path());
    std::fs::remove_file(log_path(&copied, 1)).unwrap();
    let error = Options::new().open(&copied).unwrap_err();
    assert!(format!("{error:?}").contains("Missing"), "{error:?}");
}

/// "Torn tail or damage": a damaged record before a durable mark is told apart from a torn tail.
#[test]
fn a_damaged_record_before_a_durable_mark_is_no_torn_tail() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = Options::new()
        .buffer(LEAST_BUFFER)
        .seed(seed())
        .create(&path)
        .unwrap();
    for round in 0..3 {
        store.insert(round).unwrap();
        store.commit().unwrap();
    }
    let log = std::fs::read(log_path(&path, 1)).unwrap();
    let records = super::log::chain(&log);
    // open; then insert and commit three times. The note says that all of it was durable. Without it, the last mark says
    // that the four records before its own insert were; from there on a crash is an explanation.
    assert_eq!(records.len(), 7);
    let all = [(true, 7), (false, 5)];
    let all = all.map(|(noted, proved)| (0..7).map(move |index| (noted, proved, index)));
    for (noted, proved, index) in all.into_iter().flatten() {
        let record = &records[index];
        let copies = TempDir::new().unwrap();
        let copied = copy(&path, copies.path());
        let mut bad = log.clone();
        bad[record.offset + 17] ^= 1;
        if !noted {
            bad[512..536].fill(0);
        }
        std::fs::write(log_path(&copied, 1), &bad).unwrap();
        let outcome = Options::new().buffer(LEAST_BUFFER).open(&copied);
        if index < proved {
            let error = format!("{:?}", outcome.unwrap_err());
            let expected = format!("Damaged {{ offset: {}, ", record.offset);
            assert!(error.contains(&expected), "{index}: {error}");
        } else {
            let store = outcome.unwrap();
            assert!(store.contains(1).unwrap());
            assert_eq!(store.contains(2).unwrap(), index > 5, "{index}");
        }
    }
}
