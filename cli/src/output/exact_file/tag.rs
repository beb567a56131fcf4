//! What the store keeps of an output: the tag of a commit.

use std::fs::File;
use std::io;

use everseen::Hash;
use everseen::hash::KeyHasher;

use crate::process::handle::{self, FileId};

/// The beginning of each tag of this module.
const TAG: &str = "dedup-output 1";

/// Maximum number of committed bytes, counted from the end, that identify the file.
const TAIL: u64 = 4096;

/// The identity and the length of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub id: FileId,
    pub length: u64,
    /// The sum of the last bytes before `length`.
    pub tail: u64,
}

impl Standing {
    pub fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Self::at(file, length)
    }

    pub fn at(file: &File, length: u64) -> io::Result<Self> {
        let id = handle::id(&file.metadata()?).ok_or(io::ErrorKind::Unsupported)?;
        let mut tail = vec![0; length.min(TAIL) as usize];
        handle::read_at(file, &mut tail, length - length.min(TAIL))?;
        Ok(Standing {
            id,
            length,
            tail: sum(&tail),
        })
    }

    /// Returns whether two identities are those of one file. The number of the device may change with a restart. The
    /// bytes then identify the file, if there are any.
    pub fn is_same_file(&self, other: FileId) -> bool {
        self.id.inode == other.inode && (self.id.device == other.device || self.length > 0)
    }
}

/// A moment of an output: all lines of a commit were in the file and durable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// A random number of the run.
    pub run: u64,
    pub length: u64,
}

/// The text that the store keeps, which `info` shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tag {
    pub ended: bool,
    /// A random number of the run.
    pub run: u64,
    pub standing: Standing,
}

impl Tag {
    pub fn moment(&self) -> Moment {
        Moment {
            run: self.run,
            length: self.standing.length,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let ended = if self.ended { "ended" } else { "running" };
        let Standing { id, length, tail } = self.standing;
        let FileId { device, inode } = id;
        let run = self.run;
        format!("{TAG} {ended} {run:016x} {device} {inode} {length} {tail:016x}").into_bytes()
    }

    pub fn decode(tag: &[u8]) -> Option<Self> {
        let text = str::from_utf8(tag).ok()?;
        let mut words = text.strip_prefix(TAG)?.strip_prefix(' ')?.split(' ');
        let ended = match words.next()? {
            "ended" => true,
            "running" => false,
            _ => return None,
        };
        let run = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse().ok();
        let (device, inode, length) = (number()?, number()?, number()?);
        let tail = u64::from_str_radix(words.next()?, 16).ok()?;
        let standing = Standing {
            id: FileId { device, inode },
            length,
            tail,
        };
        words.next().is_none().then_some(Tag {
            ended,
            run,
            standing,
        })
    }
}

/// Returns a sum that is the same in every build.
pub fn sum(bytes: &[u8]) -> u64 {
    KeyHasher::new(Hash::Xxh3, &[0; 32]).key(bytes).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        for ended in [true, false] {
            let id = FileId {
                device: 2049,
                inode: u64::MAX,
            };
            let standing = Standing {
                id,
                length: 180_000,
                tail: 7,
            };
            let tag = Tag {
                ended,
                run: 1 << 63,
                standing,
            };
            assert_eq!(Tag::decode(&tag.encode()), Some(tag));
        }
        for other in [
            "",
            "line 4711",
            "dedup-output 1",
            "dedup-output 12 ended 0 1 2 3 4",
            "dedup-output 1 ended 0 1 2 3 4 5",
        ] {
            assert_eq!(Tag::decode(other.as_bytes()), None, "{other}");
        }
    }
}
