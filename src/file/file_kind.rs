//! What a file of Everseen is, by its first bytes.

use std::fmt;

/// What a file of Everseen is, by its first bytes, so that a program can tell it from a text or another file of its own.
///
/// ```
/// use everseen::FileKind;
///
/// assert_eq!(FileKind::of(b"EVERSEEN\x01\0\0\0\0\x01\0\0"), Some(FileKind::Store));
/// // A list of words may begin with any word.
/// assert_eq!(FileKind::of(b"EVERSEEN\nEVERMORE\n"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A store.
    Store,
    /// A delta, which brings a copy of a store up to date.
    Delta,
    /// The log of a store, beside it while a process has it open for writing.
    Log,
    /// The memory that processes share while they have a store open.
    SharedMemory,
    /// A part of a store or of a delta that does not begin it.
    Part,
}

/// The beginning of each file, and of each part (FORMAT.md).
const MAGICS: [(&[u8], FileKind); 10] = [
    (b"EVERSEEN", FileKind::Store),
    (b"EVERDELT", FileKind::Delta),
    (b"EVERSLOG", FileKind::Log),
    // These two go on with a digit, the version.
    (b"EVERSHM", FileKind::SharedMemory),
    (b"EVERBUF", FileKind::SharedMemory),
    (b"EVERSUPR", FileKind::Part),
    (b"EVERINTT", FileKind::Part),
    (b"EVERJRNL", FileKind::Part),
    (b"EVERCOPY", FileKind::Part),
    (b"EVERDEND", FileKind::Part),
];

/// Bytes of a magic with its version.
const MAGIC_BYTES: usize = 8;

impl FileKind {
    /// How many of a file's first bytes tell what it is.
    pub const HEAD_BYTES: usize = 16;

    /// Returns what a file is that begins with these bytes; `None` for a file of others, such as a text. A longer
    /// `head` than [`HEAD_BYTES`](Self::HEAD_BYTES) tells no more, a shorter one may tell less.
    ///
    /// Looks for a magic and a NUL byte soon after it, and checks nothing else: a damaged file is recognised too.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        let after = head.get(MAGIC_BYTES..head.len().min(Self::HEAD_BYTES))?;
        // A version or a small number follows each magic. A text has no NUL bytes.
        let is_binary = after.contains(&0);
        let magic = head.first_chunk().filter(|_| is_binary)?;
        Self::of_magic(magic)
    }

    /// Returns what a file is, or claims to be, that begins with this magic.
    pub(crate) fn of_magic(magic: &[u8; MAGIC_BYTES]) -> Option<Self> {
        let known = MAGICS.iter().find(|(known, _)| magic.starts_with(known));
        known.map(|(_, kind)| *kind)
    }

    /// Returns whether more bytes could make a file of Everseen of one that begins with these.
    #[must_use]
    pub fn may_begin(head: &[u8]) -> bool {
        let magic = &head[..head.len().min(MAGIC_BYTES)];
        let is_prefix = |known: &[u8]| {
            let common = known.len().min(magic.len());
            known[..common] == magic[..common]
        };
        head.len() < Self::HEAD_BYTES && MAGICS.iter().any(|(known, _)| is_prefix(known))
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Store => "an Everseen store",
            FileKind::Delta => "a delta of an Everseen store",
            FileKind::Log => "the log of an Everseen store",
            FileKind::SharedMemory => "shared memory of an Everseen store",
            FileKind::Part => "a part of an Everseen store",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::copy::COPY_MAGIC;
    use crate::file::delta::{DELTA_MAGIC, END_MAGIC};
    use crate::file::header::STORE_MAGIC;
    use crate::file::intent::INTENT_MAGIC;
    use crate::file::journal::JOURNAL_MAGIC;
    use crate::file::superblock::SUPERBLOCK_MAGIC;

    #[test]
    fn every_magic_of_this_module_is_known() {
        for (magic, kind) in [
            (STORE_MAGIC, FileKind::Store),
            (DELTA_MAGIC, FileKind::Delta),
            (COPY_MAGIC, FileKind::Part),
            (END_MAGIC, FileKind::Part),
            (INTENT_MAGIC, FileKind::Part),
            (JOURNAL_MAGIC, FileKind::Part),
            (SUPERBLOCK_MAGIC, FileKind::Part),
        ] {
            let head = [&magic[..], &[7, 0, 0, 0]].concat();
            assert_eq!(FileKind::of(&head), Some(kind));
            for end in 0..head.len() {
                assert!(FileKind::may_begin(&head[..end]), "{end}");
                let mut other = head[..=end].to_vec();
                other[end] ^= 0x80;
                assert!(end >= 8 || !FileKind::may_begin(&other), "{end}");
                assert!(end >= 8 || FileKind::of(&other).is_none(), "{end}");
            }
        }
    }

    #[test]
    fn a_text_is_none_whatever_its_first_word() {
        for (magic, _) in MAGICS {
            for after in ["", "\n", " is a word\n", "1234567890"] {
                let text = [magic, after.as_bytes()].concat();
                assert_eq!(FileKind::of(&text), None);
            }
        }
        assert!(!FileKind::may_begin(b"https://"));
        assert!(!FileKind::may_begin(b"EVERSEEN and more"));
    }
}
