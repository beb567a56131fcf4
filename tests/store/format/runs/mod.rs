//! Run tables against their tables of bytes, each field out of its range, and what `tests/reader.py` answers of stores with
//! several runs.

pub(crate) mod golden;

use std::path::PathBuf;

use tempfile::TempDir;

use crate::format::doc::{Field, Layout};
use crate::format::forged_segments::{options, seal, set};
use crate::format::reader;
use crate::format::refused::{check, mend_superblock};
use crate::format::store_file::{newest_superblock, superblock_places};
use crate::support::numbers::Random;
use crate::support::runs::{Runs, compare, hashes};

/// A store of three runs, the middle one of which drains, without its older superblock.
struct Sound {
    _folder: TempDir,
    path: PathBuf,
    file: Vec<u8>,
    /// Where its superblock lies, and the run table.
    superblock: usize,
    table: usize,
    runs: Runs,
}

fn sound(seed: u64) -> Sound {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let all = hashes(3000);
    let mut random = Random::new(seed);
    let runs = loop {
        let runs = Runs::random(&mut random, &all, 2, 6);
        let has_both = |index: usize| !runs.young[index].went.is_empty();
        if has_both(0) && has_both(1) && runs.young[1].begin > 0 {
            break runs;
        }
    };
    runs.create(&options().segment_pages(2), &path);
    let mut file = std::fs::read(&path).unwrap();
    let (superblock, bytes) = newest_superblock(&file);
    let fixed = Layout::of("Superblocks");
    assert_eq!(fixed.number(bytes, "flags") & !4, 8);
    let sections = fixed.number(bytes, "section_count") as usize;
    assert_eq!(fixed.number(bytes, "writer_count"), 0);
    let moment = if fixed.number(bytes, "flags") & 4 == 0 {
        0
    } else {
        8
    };
    let (entry, section) = (Layout::of("Directory entry"), Layout::of("Section entry"));
    let at = fixed.end() + entry.end() + section.end() * sections + moment;
    let end = at + Layout::of("Run table").end() + 2 * Layout::of("Run").end();
    assert_eq!(fixed.number(bytes, "length") as usize, end);
    for (offset, size) in superblock_places() {
        if offset != superblock {
            file[offset..offset + size].fill(0);
        }
    }
    std::fs::write(&path, &file).unwrap();
    Sound {
        _folder: folder,
        path,
        file,
        superblock,
        table: superblock + at,
        runs,
    }
}

impl Sound {
    fn run(&self, index: usize) -> usize {
        self.table + Layout::of("Run table").end() + index * Layout::of("Run").end()
    }

    fn get(&self, index: usize, name: &str) -> u64 {
        Layout::of("Run").number(&self.file[self.run(index)..], name)
    }

    /// Opens the store with a changed superblock. Library and reader refuse it.
    fn refuse(&self, at: usize, section: &str, name: &str, value: u64, field: &Field) {
        let mut file = self.file.clone();
        set(&mut file[at..], section, name, value);
        mend_superblock(&mut file[self.superblock..]);
        check(&self.path, &file, field);
        self.reader_refuses(name);
    }

    fn reader_refuses(&self, what: &str) {
        let output = reader::run(&self.path, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{what}: {said}");
        assert!(!said.contains("Traceback"), "{what}: {said}");
    }
}

#[test]
fn the_reader_agrees_on_stores_with_runs() {
    for seed in 0..4 {
        println!("seed {seed}");
        let sound = sound(seed);
        let all = hashes(3000);
        let answers: Vec<bool> = all.iter().map(|one| sound.runs.net.contains(one)).collect();
        assert!(reader::answers(&sound.path, &all, true) == answers);
        let store = options().open_read_only(&sound.path).unwrap();
        compare(&store, &sound.runs.net, &all);
    }
}

#[test]
fn a_bad_run_table_has_the_fault_of_its_line() {
    let sound = sound(1);
    let layout = Layout::of("Run table");
    let version = layout.number(&sound.file[sound.table..], "set_version");
    for (name, value) in [
        ("run_count", 0),
        ("run_count", 25),
        ("reserved", 1),
        ("set_version", version - 1),
        ("set_version", version + 2),
    ] {
        let field = layout.field(name);
        sound.refuse(sound.table, "Run table", name, value, field);
    }
}

#[test]
fn a_bad_run_has_the_fault_of_its_line() {
    let sound = sound(2);
    let get = |name| sound.get(1, name);
    let space = Layout::of("Header").number(&sound.file, "bits");
    for (name, value) in [
        ("place_a", 31),
        ("place_a", get("end_page")),
        ("place_a", get("place_b")),
        // Shared with the run below.
        ("place_a", sound.get(0, "place_b")),
        ("segments", 0),
        ("segments", get("segment_pages") + 1),
        ("segment_pages", get("end_page") - 31),
        ("came", u64::MAX),
        ("came", 16_384 * get("segment_pages")),
        ("end_page", 31),
        ("end_page", (1 << 50) + 1),
        ("version", 0),
        ("version", get("version") + 2),
        ("run_generation", 0),
        ("run_generation", get("run_generation") + 1),
        ("begin", space),
        ("begun_with", get("came") + get("went") - 1),
        ("below_until", 1),
    ] {
        let field = Layout::of("Run").field(name).clone();
        sound.refuse(sound.run(1), "Run", name, value, &field);
    }
    let mut file = sound.file.clone();
    set(&mut file[sound.run(0)..], "Run", "arrived", 1);
    mend_superblock(&mut file[sound.superblock..]);
    check(&sound.path, &file, Layout::of("Run").field("arrived"));
    sound.reader_refuses("arrived");
    // More than there are below.
    let mut file = sound.file.clone();
    let oldest = Layout::of("Directory entry");
    let keys = oldest.number(&file[sound.superblock + 320..], "directory_keys");
    set(&mut file[sound.run(0)..], "Run", "went", keys + 1);
    mend_superblock(&mut file[sound.superblock..]);
    check(&sound.path, &file, Layout::of("Run").field("went"));
    sound.reader_refuses("went");
}

/// The sums of a run are those of its segments, and the superblock's `keys` counts what went.
#[test]
fn sums_that_do_not_fit_are_told() {
    let sound = sound(3);
    let keys = Layout::of("Superblocks").field("keys").clone();
    let came = sound.get(0, "came");
    sound.refuse(sound.run(0), "Run", "came", came - 1, &keys);
    let damaged = Layout::of("Segment entry").field("keys").clone();
    let mut file = sound.file.clone();
    let superblock = &mut file[sound.superblock..];
    let all = Layout::of("Superblocks").number(superblock, "keys");
    set(superblock, "Superblocks", "keys", all - 1);
    set(&mut file[sound.run(0)..], "Run", "came", came - 1);
    mend_superblock(&mut file[sound.superblock..]);
    check(&sound.path, &file, &damaged);
    sound.reader_refuses("came");
}

/// A run named twice shares its directory; one whose copied directory names the same segments shares those.
#[test]
fn a_run_that_is_named_twice_is_refused() {
    let sound = sound(4);
    let size = Layout::of("Run").end();
    let place = Layout::of("Run").field("place_a").clone();
    let mut file = sound.file.clone();
    let first = file[sound.run(0)..][..size].to_vec();
    file[sound.run(1)..][..size].copy_from_slice(&first);
    mend_superblock(&mut file[sound.superblock..]);
    check(&sound.path, &file, &place);
    sound.reader_refuses("a run twice");

    // The same segments under another directory, behind the end of the file.
    let end = file.len() as u64 / 4096;
    let pages = sound.get(0, "segments").div_ceil(102);
    for (copy, name) in [(0, "place_a"), (1, "place_b")] {
        for index in 0..pages {
            let from = (sound.get(0, name) + index) as usize * 4096;
            let page = file[from..from + 4096].to_vec();
            file.extend(page);
            seal(&mut file, end + copy * pages + index);
        }
        set(&mut file[sound.run(1)..], "Run", name, end + copy * pages);
    }
    set(
        &mut file[sound.run(1)..],
        "Run",
        "end_page",
        end + 2 * pages,
    );
    let superblock = &mut file[sound.superblock..];
    let fixed = Layout::of("Superblocks");
    let old = sound.get(1, "came") as i64 - sound.get(1, "went") as i64;
    let new = sound.get(0, "came") as i64 - sound.get(0, "went") as i64;
    let keys = fixed.number(superblock, "keys") as i64 - old + new;
    set(superblock, "Superblocks", "keys", keys as u64);
    mend_superblock(superblock);
    let shared = Layout::of("Segment entry").field("first_page").clone();
    check(&sound.path, &file, &shared);
    sound.reader_refuses("segments twice");
}
