//! The annotated dump of golden files in FORMAT.md: names from its tables, bytes from the files.

use std::fmt::Write;

use super::doc::{Layout, check_block, text};
use super::fingerprints::golden_ages;
use super::golden::{LABEL, folder};
use super::golden_fingerprints::some_fields;
use super::store_file::newest_superblock;
use super::{bound, golden_fingerprints};

/// Lines of up to 16 bytes; the first one with the name.
pub(crate) fn dump(out: &mut String, bytes: &[u8], base: usize, name: &str) {
    for (index, line) in bytes.chunks(16).enumerate() {
        let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = if index == 0 { name } else { "" };
        let line = format!("{:x} {hex} {name}", base + index * 16);
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
}

/// The fields of a table, each with its bytes. Long runs of zeros and of bits are cut.
pub(crate) fn dump_fields(out: &mut String, file: &[u8], base: usize, section: &str) {
    for field in Layout::of(section).fields {
        let Some((offset, size)) = field.fixed() else {
            continue;
        };
        let bytes = &file[base + offset..][..size];
        let shown = if size > 32 { &bytes[..16] } else { bytes };
        dump(out, shown, base + offset, &field.name);
        if shown.len() < size {
            writeln!(out, "… {} bytes more", size - shown.len()).unwrap();
        }
    }
}

/// The annotated dump: names from FORMAT.md's tables, bytes from the golden files.
#[test]
fn the_dump_is_that_of_the_golden_files() {
    let file = std::fs::read(folder().join("bloom.ever")).unwrap();
    let mut out = "```\nbloom.ever: header\n".to_owned();
    dump_fields(&mut out, &file, 0, "Header");
    let (superblock, bytes) = newest_superblock(&file);
    out += "\nbloom.ever: the newest superblock\n";
    dump_fields(&mut out, &file, superblock, "Superblocks");
    out += "its layer\n";
    dump_fields(&mut out, &file, superblock + 320, "Layer entry");
    out += "its section, a sample without pages\n";
    dump_fields(&mut out, &file, superblock + 384, "Section entry");
    out += "its writer\n";
    dump_fields(&mut out, &file, superblock + 416, "Writer entry");
    dump(
        &mut out,
        &bytes[432..],
        superblock + 432,
        "name, tag, padding",
    );
    let sequence = |offset: usize| super::bytes::number(&file[offset + 40..][..8]);
    let intent = if sequence(4096) >= sequence(8192) {
        4096
    } else {
        8192
    };
    out += "\nbloom.ever: its newest intent, past\n";
    dump_fields(&mut out, &file, intent, "Intents");
    out += "\nbloom.ever: its only page\n";
    dump_fields(&mut out, &file, 131_072, "Pages");

    let file = std::fs::read(folder().join("counting.ever")).unwrap();
    out += "\ncounting.ever: its journal, past\n";
    dump_fields(&mut out, &file, 131_072, "Journal");
    dump(&mut out, &file[135_168..][..8], 135_168, "the only number");
    dump(
        &mut out,
        &file[196_608..][..16],
        196_608,
        "its image begins",
    );
    let (superblock, _) = newest_superblock(&file);
    out += "of its layer and its section\n";
    let fields = ["first_page", "keys", "run_length"];
    some_fields(&mut out, &file, superblock + 320, "Layer entry", &fields);
    let fields = ["section_kind", "section_page", "hashes", "section_crc"];
    some_fields(&mut out, &file, superblock + 384, "Section entry", &fields);
    out += "its only page\n";
    dump_fields(&mut out, &file, 262_144, "Pages");
    let place = Layout::of("Section entry");
    let section = &file[superblock + 384..];
    let start = place.number(section, "section_page") as usize * 4096;
    out += "its exemptions\n";
    dump(
        &mut out,
        &file[start..][..16],
        start,
        "stamp, the only hash",
    );

    let file = std::fs::read(folder().join("labelled.ever")).unwrap();
    out += "\nlabelled.ever: its features\n";
    dump(&mut out, &file[16..24], 16, "compatible");
    let (superblock, bytes) = newest_superblock(&file);
    let entry = superblock + 320 + 64 + 32 + 32;
    out += "the entry of its label\n";
    dump_fields(&mut out, &file, entry, "Writer entry");
    let end = 16 + 14 + LABEL.len();
    dump(&mut out, &bytes[464..448 + end], entry + 16, "name, tag");

    let file = std::fs::read(folder().join(golden_fingerprints::NAME)).unwrap();
    golden_fingerprints::dump_store(&mut out, &file);
    bound::dump_stores(&mut out, folder());
    golden_ages::dump_store(&mut out, folder());

    let log = std::fs::read(folder().join("killed.ever-log.2")).unwrap();
    out += "\nkilled.ever-log.2: header\n";
    dump_fields(&mut out, &log, 0, "The log");
    let names = ["", "open", "insert", "commit", "cut"];
    for record in super::log::chain(&log) {
        let name = names[record.kind as usize];
        writeln!(out, "\nkilled.ever-log.2: {name} record").unwrap();
        dump_fields(&mut out, &log, record.offset, "Log records");
        let base = record.offset + 24;
        if name == "commit" {
            dump_fields(&mut out, &log, base, "Commit payload");
            dump(
                &mut out,
                &record.payload[24..],
                base + 24,
                "name, tag, padding",
            );
            continue;
        }
        let shown = record.payload.len().min(16);
        dump(&mut out, &record.payload[..shown], base, "payload");
        if shown < record.payload.len() {
            writeln!(out, "… {} bytes more", record.payload.len() - shown).unwrap();
        }
    }
    out += "```\n";
    check_block("dump", &out);
    assert!(text().contains("bloom.ever"));
}
