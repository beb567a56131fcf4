//! The keys of a run as files: those that are inserted, and as many that are absent. They are made
//! once, and read by each child.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use everseen_benches::keys::hash;
use xxhash_rust::xxh3::xxh3_128;

/// The names of the files in their folder.
pub const PRESENT: &str = "present";
pub const ABSENT: &str = "absent";

/// What was put into the files.
pub struct Made {
    pub keys: u64,
    /// Bytes of all present keys.
    pub bytes: u64,
    /// Lines that were left out, since they were empty or there before.
    pub left_out: u64,
}

impl Made {
    /// Bytes a key.
    pub fn mean(&self) -> f64 {
        self.bytes as f64 / self.keys as f64
    }
}

/// Takes the distinct lines of a file, `most` of them at most. A key with the top bit of its first
/// byte flipped is an absent one of the same length, unless it is in the file as well.
pub fn from_file(file: &Path, most: Option<u64>, folder: &Path) -> Result<Made> {
    let mut seen = HashSet::new();
    let mut made = Made {
        keys: 0,
        bytes: 0,
        left_out: 0,
    };
    let mut out = create(folder, PRESENT)?;
    each_line(file, |line| {
        if line.is_empty() || !seen.insert(xxh3_128(line)) {
            made.left_out += 1;
            return Ok(true);
        }
        made.keys += 1;
        made.bytes += line.len() as u64;
        write_line(&mut out, line)?;
        Ok(most.is_none_or(|most| made.keys < most))
    })?;
    close(out)?;
    if made.keys == 0 {
        bail!("{} has no keys", file.display());
    }
    let mut out = create(folder, ABSENT)?;
    each_line(&folder.join(PRESENT), |line| {
        line[0] ^= 0x80;
        if line[0] != b'\n' && !seen.contains(&xxh3_128(line)) {
            write_line(&mut out, line)?;
        }
        Ok(true)
    })?;
    close(out)?;
    Ok(made)
}

/// Generates names, all of them distinct.
pub fn generated(keys: u64, seed: u64, folder: &Path) -> Result<Made> {
    let mut bytes = 0;
    for (file, numbers) in [(PRESENT, 0..keys), (ABSENT, keys..keys * 2)] {
        let mut out = create(folder, file)?;
        for number in numbers {
            let name = name(seed, number);
            if file == PRESENT {
                bytes += name.len() as u64;
            }
            write_line(&mut out, name.as_bytes())?;
        }
        close(out)?;
    }
    Ok(Made {
        keys,
        bytes,
        left_out: 0,
    })
}

const BEGINNINGS: &[u8; 16] = b"bcdfghklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";
const ENDINGS: [&str; 8] = ["com", "com", "org", "net", "de", "info", "co.uk", "io"];

/// Name number `number`: syllables that the seed tells, and the number itself, which no other name
/// has.
fn name(seed: u64, number: u64) -> String {
    let mut noise = hash(hash(seed) ^ number);
    let mut draw = |below: u64| {
        let drawn = noise % below;
        noise /= below;
        drawn as usize
    };
    let mut name = String::with_capacity(32);
    if draw(4) == 0 {
        name.push_str("www.");
    }
    for _ in 0..2 + draw(4) {
        name.push(char::from(BEGINNINGS[draw(16)]));
        name.push(char::from(VOWELS[draw(4)]));
    }
    let ending = ENDINGS[draw(8)];
    name.push('-');
    let mut rest = number;
    loop {
        let digit = (rest % 36) as u32;
        name.push(char::from_digit(digit, 36).unwrap_or('0'));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    name.push('.');
    name.push_str(ending);
    name
}

fn create(folder: &Path, name: &str) -> Result<BufWriter<File>> {
    let path = folder.join(name);
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Waits for the disk, so that no measurement has to.
fn close(out: BufWriter<File>) -> Result<()> {
    let file = out.into_inner().map_err(|error| error.into_error())?;
    Ok(file.sync_all()?)
}

fn write_line(out: &mut impl Write, line: &[u8]) -> Result<()> {
    out.write_all(line)?;
    Ok(out.write_all(b"\n")?)
}

/// Passes on each line without its end, until told to stop.
pub fn each_line(path: &Path, mut each: impl FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if !each(&mut line)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path, name: &str) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        each_line(&folder.join(name), |line| {
            lines.push(line.to_vec());
            Ok(true)
        })
        .unwrap();
        lines
    }

    #[test]
    fn generated_names_are_distinct_and_look_like_names() {
        let folder = tempfile::tempdir().unwrap();
        let made = generated(5000, 3, folder.path()).unwrap();
        let mut all = lines(folder.path(), PRESENT);
        assert_eq!(all.len() as u64, made.keys);
        let bytes: usize = all.iter().map(Vec::len).sum();
        assert_eq!(bytes as u64, made.bytes);
        all.extend(lines(folder.path(), ABSENT));
        let names: HashSet<_> = all.into_iter().collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|name| {
            name.is_ascii() && name.contains(&b'.') && (8..40).contains(&name.len())
        }));
        assert_ne!(name(3, 7), name(4, 7));
    }

    #[test]
    fn a_file_gives_each_line_once_and_absent_keys_of_the_same_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list");
        // The last one is the first one flipped: so neither gives an absent key.
        std::fs::write(&file, b"aa\nb\n\naa\nccc\n\xe1a").unwrap();
        let made = from_file(&file, None, folder.path()).unwrap();
        assert_eq!((made.keys, made.bytes, made.left_out), (4, 8, 2));
        let present = lines(folder.path(), PRESENT);
        assert_eq!(present, [&b"aa"[..], b"b", b"ccc", b"\xe1a"]);
        let absent = lines(folder.path(), ABSENT);
        assert_eq!(absent, [&b"\xe2"[..], b"\xe3cc"]);
        let made = from_file(&file, Some(2), folder.path()).unwrap();
        assert_eq!((made.keys, made.bytes), (2, 3));
    }
}
