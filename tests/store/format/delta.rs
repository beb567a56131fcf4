//! The copy mark and deltas against their tables, and against a golden store's copy.

use std::fmt::Write;

use super::bytes::{crc32, finalise, number};
use super::doc::{Layout, check_block};
use super::golden::{golden, options};
use super::store_file::newest_superblock;

pub(crate) const MARK: usize = 12_288;

/// docs/format/deltas.md, "Digest": of the pages of a file whose layers or segments lie there.
pub(crate) fn digest(file: &[u8], layers: &[(u64, u64)]) -> u64 {
    let mut sum = 0_u64;
    for (first, pages) in layers {
        for page in *first..first + pages {
            let header = &file[page as usize * 4096..][..16];
            let (low, high) = (number(&header[..8]), number(&header[8..]));
            if (low, high) != (0, 0) {
                let mixed = finalise(finalise(page).wrapping_add(low));
                sum = sum.wrapping_add(finalise(mixed.wrapping_add(high)));
            }
        }
    }
    sum
}

/// First page and number of pages of each layer.
fn layers(superblock: &[u8]) -> Vec<(u64, u64)> {
    let count = Layout::of("Superblocks").number(superblock, "layer_count") as usize;
    let layer = Layout::of("Layer entry");
    let entries = superblock[320..].chunks_exact(64).take(count);
    let place = |entry: &[u8]| {
        (
            layer.number(entry, "first_page"),
            layer.number(entry, "pages"),
        )
    };
    entries.map(place).collect()
}

fn dump(out: &mut String, layout: &Layout, bytes: &[u8]) {
    for field in &layout.fields {
        let (offset, size) = field.fixed().unwrap();
        let mut text = String::new();
        for byte in &bytes[offset..offset + size] {
            write!(text, "{byte:02x}").unwrap();
        }
        writeln!(out, "{offset:4}  {text:<16}  {}", field.name).unwrap();
    }
}

#[test]
fn marks_and_deltas_are_as_documented() {
    let (folder, path) = golden("scalable.ever");
    let [copy, delta] = ["copy", "delta"].map(|name| folder.path().join(name));
    let store = options().open(&path).unwrap();
    store.snapshot(&copy).unwrap();
    assert!(store.insert(b"https://example.org/another").unwrap());
    store.snapshot_since(&delta, &copy).unwrap();
    let file = std::fs::read(&copy).unwrap();
    let bytes = std::fs::read(&delta).unwrap();
    options().apply(&delta, &copy).unwrap();
    let after = std::fs::read(&copy).unwrap();
    store.close().unwrap();

    let layout = Layout::of("Copy mark");
    let superblock = Layout::of("Superblocks");
    for file in [&file, &after] {
        let mark = &file[MARK..MARK + 96];
        let (_, newest) = newest_superblock(file);
        assert_eq!(layout.bytes(mark, "magic"), b"EVERCOPY");
        assert_eq!(layout.number(mark, "crc"), crc32(&[&mark[12..]]).into());
        assert_eq!(layout.number(mark, "state"), 0);
        assert_eq!(layout.bytes(mark, "store_id"), &file[112..128]);
        for field in ["generation", "sequence"] {
            assert_eq!(layout.number(mark, field), superblock.number(newest, field));
        }
        assert_eq!(layout.number(mark, "digest"), digest(file, &layers(newest)));
        assert_eq!(mark[56..], [0; 40]);
        assert_eq!(superblock.number(newest, "flags") & !4, 0);
    }

    let table = Layout::of("Deltas");
    let (mark, mark_after) = (&file[MARK..], &after[MARK..]);
    assert_eq!(table.bytes(&bytes, "magic"), b"EVERDELT");
    assert_eq!(table.number(&bytes, "version"), 1);
    assert_eq!(table.bytes(&bytes, "store_id"), &file[112..128]);
    for field in ["generation", "digest"] {
        let get = |name: String| table.number(&bytes, &name);
        assert_eq!(get(format!("from_{field}")), layout.number(mark, field));
        assert_eq!(get(format!("to_{field}")), layout.number(mark_after, field));
    }
    assert_eq!(table.number(&bytes, "pages"), 1);
    assert_eq!(table.number(&bytes, "crc"), crc32(&[&bytes[..92]]).into());
    let length = table.number(&bytes, "superblock_length") as usize;
    let (_, newest) = newest_superblock(&after);
    assert_eq!(&bytes[96..96 + length], newest);
    let record = &bytes[96 + length..][..4096];
    let page = &after[number(&record[..8]) as usize * 4096..][..4096];
    assert_eq!(record[8..], page[8..]);
    let end = &bytes[96 + length + 4096..];
    assert_eq!(end.len(), 16);
    assert_eq!(&end[..8], b"EVERDEND");
    assert_eq!(end[8..12], bytes[92..96]);
    let content = crc32(&[&bytes[96..bytes.len() - 4]]);
    assert_eq!(number(&end[12..]), content.into());

    let mut text = "```\nthe copy's mark\n".to_owned();
    dump(&mut text, &layout, mark);
    text += "\nthe delta's header\n";
    dump(&mut text, &table, &bytes);
    let hex = |bytes: &[u8]| {
        let each = bytes.iter().map(|byte| format!("{byte:02x}"));
        each.collect::<String>()
    };
    write!(
        text,
        "\nits superblock, {length} bytes, begins  {}  (its crc differs: the moment is random)\n\
         its only page begins  {}\nits end mark begins  {}\n```\n",
        hex(&bytes[96..104]),
        hex(&record[..24]),
        hex(&end[..12])
    )
    .unwrap();
    check_block("delta", &text);
}
