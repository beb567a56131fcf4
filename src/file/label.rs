//! The label: bytes of the application's own that a store keeps from its creation on (FORMAT.md, "Label").
//!
//! It lies in the entry of a writer that never commits. Builds that don't know labels carry that entry along with those
//! of all other writers.

use super::Header;
use super::superblock::{CommitEntry, Commits, MAX_TAG, Superblock};

/// Compatible feature: the entry of the writer [`LABEL_WRITER`] is the label.
pub(crate) const FEATURE_LABEL: u64 = 1;
/// The writer whose entry holds the label. No handle may commit under this name.
pub(crate) const LABEL_WRITER: &str = "everseen.label";
/// Maximum bytes of a label.
pub(crate) const MAX_LABEL: usize = MAX_TAG;

impl Header {
    /// Returns whether the store has a label.
    pub(crate) fn has_label(&self) -> bool {
        self.compatible & FEATURE_LABEL != 0
    }
}

/// Gives a new store a label of at most [`MAX_LABEL`] bytes. No bytes are no label.
pub(crate) fn set_label(header: &mut Header, superblock: &mut Superblock, label: &[u8]) {
    if label.is_empty() {
        return;
    }
    assert!(label.len() <= MAX_LABEL, "{}", label.len());
    header.compatible |= FEATURE_LABEL;
    let entry = CommitEntry {
        sequence: 0,
        tag: label.to_vec(),
    };
    superblock.commits.insert(LABEL_WRITER.to_owned(), entry);
}

/// Returns the label of a store.
pub(crate) fn label_of<'a>(header: &Header, commits: &'a Commits) -> Option<&'a [u8]> {
    let entry = commits.get(LABEL_WRITER).filter(|_| header.has_label())?;
    Some(&entry.tag)
}

/// Returns whether the entry of this writer is the label, and no commit.
pub(crate) fn is_label(header: &Header, writer: &str) -> bool {
    header.has_label() && writer == LABEL_WRITER
}
