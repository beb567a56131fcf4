//! Putting other words into shared memory, through its files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::numbers::Random;

/// The files of the shared memory, sorted.
pub fn files(store: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}-shm", store.file_name().unwrap().display());
    let entries = std::fs::read_dir(store.parent().unwrap()).unwrap();
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(&prefix)
        })
        .collect();
    found.sort();
    found
}

pub fn word(file: &File, index: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index * 8).ok()?;
    Some(u64::from_le_bytes(bytes))
}

pub fn set_word(file: &File, index: u64, value: u64) {
    // A file that goes meanwhile is nobody's any more.
    let _ = file.write_all_at(&value.to_le_bytes(), index * 8);
}

/// Replaces a value with another one, far from it or near.
fn other(random: &mut Random, file: &File, old: u64, words: u64) -> u64 {
    match random.below(12) {
        0 => random.next(),
        1 => 0,
        2 => u64::MAX,
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => old.wrapping_add(8),
        6 => old.wrapping_sub(8),
        7 => old ^ 1 << random.below(64),
        8 => 1 << 60,
        9 => random.below(1 << 20),
        10 => i64::MAX as u64,
        _ => word(file, random.below(words)).unwrap_or(7),
    }
}

/// Changes one word of one file; tells which and how.
pub fn spoil(random: &mut Random, store: &Path) -> Option<String> {
    let files = files(store);
    let path = files.get(random.below(files.len().max(1) as u64) as usize)?;
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    let words = file.metadata().ok()?.len() / 8;
    if words < 1024 {
        return None;
    }
    let is_buffer = path.extension().is_some() || path.to_string_lossy().contains("-shm.");
    let index = match (is_buffer, random.below(100)) {
        (false, 0..50) => random.below(32),
        // The line of the writer lock.
        (false, 50..60) => 24 + random.below(3),
        (false, 60..85) => 64 + random.below(12),
        (true, 0..45) => random.below(21),
        (true, 45..60) => 64 + random.below(64),
        _ => random.below(words),
    };
    let old = word(&file, index)?;
    let new = other(random, &file, old, words);
    set_word(&file, index, new);
    let name = path.file_name().unwrap().display();
    Some(format!("{name} word {index}: {old:#x} to {new:#x}"))
}
