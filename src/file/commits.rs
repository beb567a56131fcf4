//! The last commit of each named writer, as a superblock keeps it (FORMAT.md, "Writer entry").

use std::collections::BTreeMap;

use super::SuperblockFault;
use super::layout::MAX_COUNTER;
use super::superblock_parts::wrong;
use crate::codec::{Decoder, Encoder};

/// Maximum bytes of a commit's tag.
pub(crate) const MAX_TAG: usize = 4096;
/// Maximum bytes of a writer's name.
pub(crate) const MAX_WRITER_NAME: usize = 255;

const _: () = assert!(MAX_TAG <= u16::MAX as usize, "its length takes 16 bits");
const _: () = assert!(
    MAX_WRITER_NAME <= u16::MAX as usize,
    "and so does the name's"
);

/// The last commit of one named writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitEntry {
    pub(crate) sequence: u64,
    pub(crate) tag: Vec<u8>,
}

/// The last commit of each writer, by name.
pub(crate) type Commits = BTreeMap<String, CommitEntry>;

/// Returns the bytes that a writer with a tag of `tag` bytes takes in a superblock.
pub(crate) fn writer_bytes(name: &str, tag: usize) -> u64 {
    (16 + name.len() + tag).next_multiple_of(8) as u64
}

/// Returns the bytes that the writers take in a superblock.
pub(crate) fn writers_bytes(commits: &Commits) -> u64 {
    commits
        .iter()
        .map(|(name, entry)| writer_bytes(name, entry.tag.len()))
        .sum()
}

/// Writes the entries of all writers.
pub(super) fn encode_commits(commits: &Commits, out: &mut Encoder<'_>) {
    for (name, entry) in commits {
        assert!(entry.sequence <= MAX_COUNTER, "{name}");
        // Longer ones would lose their upper bits, and with them every entry behind.
        assert!((1..=MAX_WRITER_NAME).contains(&name.len()), "{name}");
        assert!(entry.tag.len() <= MAX_TAG, "{}", entry.tag.len());
        out.u64(entry.sequence)
            .u16(name.len() as u16)
            .u16(entry.tag.len() as u16)
            .u32(0)
            .bytes(name.as_bytes())
            .bytes(&entry.tag)
            .align();
    }
}

pub(super) fn take_commits(
    input: &mut Decoder<'_>,
    count: u32,
    highest: u64,
) -> Option<Result<Commits, SuperblockFault>> {
    let mut commits = Commits::new();
    for _ in 0..count {
        let sequence = input.u64()?;
        let name_length = usize::from(input.u16()?);
        let tag_length = usize::from(input.u16()?);
        input.u32()?;
        let name = input.bytes(name_length)?;
        let tag = input.bytes(tag_length)?.to_vec();
        let used = 16 + name_length + tag_length;
        input.bytes(used.next_multiple_of(8) - used)?;
        let name = match std::str::from_utf8(name) {
            Ok(name) if (1..=MAX_WRITER_NAME).contains(&name.len()) => name.to_owned(),
            _ => return wrong("writer_name", "1 to 255 bytes of UTF-8", name.len() as u64),
        };
        if tag.len() > MAX_TAG {
            return wrong("tag_length", "at most 4096", tag.len() as u64);
        }
        if sequence > highest {
            return wrong("commit_sequence", "at least every writer's", highest);
        }
        commits.insert(name, CommitEntry { sequence, tag });
    }
    if commits.len() != count as usize {
        return wrong("writer_name", "each name once", count.into());
    }
    Some(Ok(commits))
}
