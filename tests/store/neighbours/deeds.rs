//! What the neighbour did, as far as it decides what the store owes.

use super::task::Id;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

/// The path of a store's file was taken from it, or given back.
#[derive(Debug, Clone)]
pub struct Change {
    pub at: Span,
    /// The file's name: of the store's folder, or `away`.
    pub name: String,
    pub before: Option<Id>,
    pub after: Option<Id>,
}

#[derive(Debug, Default)]
pub struct Deeds {
    /// All, in words.
    pub log: Vec<(u64, String)>,
    pub changes: Vec<Change>,
    /// Stores that were shortened.
    pub shortened: Vec<Id>,
    /// A log was removed, shortened or replaced, or a store by its copy.
    pub log_hits: Vec<u64>,
    /// Shared memory was shortened.
    pub memory_hits: Vec<u64>,
    /// A side file was moved, replaced or removed.
    pub side_moved: bool,
    /// Copies of a store that was perhaps open.
    pub copies: Vec<Id>,
    /// Anything but looking, killing, planting, linking and changing modes.
    pub moved: bool,
}

impl Deeds {
    /// Whether a file was shortened that somebody may have mapped.
    pub fn may_end_a_process(&self) -> bool {
        !(self.shortened.is_empty() && self.log_hits.is_empty() && self.memory_hits.is_empty())
    }

    /// When the file had a certain name for sure not.
    pub fn away(&self, id: Id, name: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut left = None;
        for change in self.changes.iter().filter(|change| change.name == name) {
            if change.after == Some(id) {
                if let Some(from) = left.take() {
                    let to = change.at.from;
                    spans.push(Span { from, to });
                }
            } else if change.before == Some(id) && left.is_none() {
                left = Some(change.at.to);
            }
        }
        spans.extend(left.map(|from| Span { from, to: u64::MAX }));
        spans
    }
}
