//! Names of stores, and their files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use thiserror::Error;

/// The name of a store, as clients write it: any bytes whose file's name is not too long.
///
/// In the name of its file, letters, digits, `-` and `_` of ASCII stand for themselves, and each other byte is `%` and two
/// hexadecimal digits. The empty name's file is called `%`. So no name leads out of the folder, and none is one of another
/// store's own files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Bytes);

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    #[error("ERR the key's name is too long: its file's name would have {0} bytes, and may have {most}", most = Name::MOST)]
    TooLong(usize),
}

impl Name {
    /// Bytes of a file's name without its ending. File systems take 255, of which logs and copies want some.
    pub const MOST: usize = 200;
    const ENDING: &'static str = ".ever";
    /// What no other name is written as: two digits follow each `%`.
    const EMPTY: &'static str = "%";

    pub fn new(name: &[u8]) -> Result<Self, NameError> {
        let length: usize = name.iter().map(|&byte| encoded_length(byte)).sum();
        match length {
            length if length > Self::MOST => Err(NameError::TooLong(length)),
            _ => Ok(Name(Bytes::copy_from_slice(name))),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn encoded(&self) -> String {
        if self.0.is_empty() {
            return String::from(Self::EMPTY);
        }
        let mut text = String::with_capacity(Self::MOST);
        for &byte in &self.0 {
            match is_plain(byte) {
                true => text.push(byte.into()),
                false => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text
    }

    /// Returns the path of its store.
    pub fn path(&self, folder: &Path) -> PathBuf {
        self.beside(folder, Self::ENDING)
    }

    /// Returns the path of a file of its own with another ending.
    pub fn beside(&self, folder: &Path, ending: &str) -> PathBuf {
        folder.join(self.encoded() + ending)
    }

    /// Returns the name whose store a file is.
    pub fn of_file(file: &OsStr) -> Option<Self> {
        Self::of_file_ending(file, Self::ENDING)
    }

    /// Returns the name to which a file with an ending belongs.
    pub fn of_file_ending(file: &OsStr, ending: &str) -> Option<Self> {
        let text = file.to_str()?.strip_suffix(ending)?;
        if text == Self::EMPTY {
            return Some(Name(Bytes::new()));
        }
        let mut name = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    let digits = std::str::from_utf8(&digits).ok()?;
                    name.push(u8::from_str_radix(digits, 16).ok()?);
                }
                plain => name.push(plain),
            }
        }
        let name = Name::new(&name).ok()?;
        // Each name has one file: what is written otherwise is somebody else's.
        (name.encoded() == text).then_some(name)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn encoded_length(byte: u8) -> usize {
    if is_plain(byte) { 1 } else { 3 }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::{Name, NameError};

    #[test]
    fn names_are_files_of_their_folder() {
        for (name, file) in [
            (&b"visited"[..], "visited.ever"),
            (b"", "%.ever"),
            (b"%", "%25.ever"),
            (b"a.b", "a%2Eb.ever"),
            (b"..", "%2E%2E.ever"),
            (b"../../etc/passwd", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd.ever"),
            (b"user:1 \xFF\0", "user%3A1%20%FF%00.ever"),
        ] {
            let name = Name::new(name).unwrap();
            assert_eq!(name.path(Path::new("/f")), Path::new("/f").join(file));
            assert_eq!(Name::of_file(OsStr::new(file)), Some(name));
        }
    }

    #[test]
    fn other_files_are_no_stores() {
        for file in [
            "a",
            "a.ever-shm",
            "a.b.ever",
            "%2e.ever",
            "%41.ever",
            "%4.ever",
            "%+1.ever",
            ".ever",
            "é.ever",
        ] {
            assert_eq!(Name::of_file(OsStr::new(file)), None, "{file}");
        }
    }

    #[test]
    fn names_that_no_file_can_have_are_refused() {
        assert!(Name::new(&[b'a'; 200]).is_ok());
        assert_eq!(Name::new(&[b'a'; 201]), Err(NameError::TooLong(201)));
        assert_eq!(Name::new(&[b'.'; 67]), Err(NameError::TooLong(201)));
    }
}
