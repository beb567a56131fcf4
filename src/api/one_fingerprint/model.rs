//! What the store must say of two hashes with one fingerprint.

/// Of the two hashes, this one may be exempt.
pub(super) const EXEMPT: usize = 1;

/// What the store must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Model {
    pub(super) in_pages: bool,
    pub(super) is_exempt: bool,
    /// The sealed generation, with the last record in its log that counts: whether it is an insert.
    pub(super) sealed: Option<Option<bool>>,
    pub(super) active: Option<bool>,
    /// What each handle has done and not committed.
    pub(super) open: [Option<bool>; 2],
}

impl Model {
    /// Returns whether a hash is there for those who have nothing open.
    fn counts(&self, hash: usize) -> bool {
        let below = self.in_pages && !(self.is_exempt && hash == EXEMPT);
        self.active.or(self.sealed.flatten()).unwrap_or(below)
    }

    pub(super) fn has(&self, handle: usize, hash: usize) -> bool {
        match (self.open[handle], self.open[1 - handle]) {
            (Some(own), _) => own,
            // What others insert counts before it is committed, and what they remove does not.
            (None, Some(true)) => true,
            _ => self.counts(hash),
        }
    }

    /// Inserts or removes; returns whether that changed anything, `None` if the other handle has to commit first.
    pub(super) fn change(&mut self, handle: usize, hash: usize, is_insert: bool) -> Option<bool> {
        if self.open[1 - handle].is_some() {
            return None;
        }
        if self.has(handle, hash) == is_insert {
            return Some(false);
        }
        // Two changes of a transaction cancel each other out, unless nothing was said before.
        self.open[handle] = match (self.open[handle], self.active) {
            (Some(_), Some(_)) => None,
            _ => Some(is_insert),
        };
        Some(true)
    }

    pub(super) fn commit(&mut self, handle: usize) {
        self.active = self.open[handle].take().or(self.active);
    }

    pub(super) fn rotate(&mut self) {
        self.sealed = Some(self.active.take());
    }

    pub(super) fn checkpoint(&mut self) {
        if let Some(Some(is_insert)) = self.sealed.take() {
            self.in_pages = is_insert;
            self.is_exempt &= !is_insert;
        }
    }

    /// Returns whether there is anything to exempt.
    pub(super) fn exempt(&mut self) -> bool {
        let inserts = [self.active, self.sealed.flatten()].contains(&Some(true));
        if inserts || self.open != [None; 2] || self.is_exempt {
            return false;
        }
        self.checkpoint();
        self.rotate();
        self.checkpoint();
        self.is_exempt = true;
        true
    }
}
