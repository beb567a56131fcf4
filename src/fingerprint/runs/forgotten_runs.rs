//! What is forgotten by the time of a log: runs that are dropped unread, and pages that are read for what is too old.

use crate::error::Result;
use crate::file::DirectoryRef;
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::page::ages::Ages;
use crate::storefile::meta::Meta;

/// Returns how pages have ages that the checkpoint of a log writes that began at a time, and the last step of a key in the pages
/// of before. The time is that of the log, whenever its checkpoint is done, or done again.
pub(in crate::fingerprint) fn ages_after(meta: &Meta, clock: Option<u64>) -> (Ages, u64) {
    let before = meta.superblock.clock;
    let now = before.max(clock.unwrap_or(0));
    match meta.header.window {
        Some(window) => (Ages::at(window, now), window.step_of(before)),
        None => (Ages::NONE, 0),
    }
}

/// Returns whether pages may have keys that are too old now, the first of which is of the step `earliest`. A repair of the clock
/// sets the first step there is, so that all pages are read.
pub(in crate::fingerprint) fn may_be_too_old(earliest: u64, ages: Ages) -> bool {
    earliest <= 1 || earliest < ages.earliest()
}

/// What a log says of the time, in a store that forgets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogTime {
    /// When it began.
    pub(crate) clock: Option<u64>,
    /// Whether it was closed to drop what is forgotten.
    pub(crate) forgets: bool,
}

impl FingerprintPass<'_> {
    /// Leaves out the runs below those that say that nothing below is remembered; all of them if nothing is.
    pub(in crate::fingerprint) fn drop_forgotten(&mut self) {
        let is_over = |step: u64| self.ages.have_forgotten(step);
        let kept = match is_over(self.until) {
            true => self.runs.len(),
            false => match self.runs.iter().rposition(|run| is_over(run.below_until)) {
                Some(kept) => kept,
                None => return,
            },
        };
        // The newest superblock names them until this checkpoint is through.
        let young = self.young.drain(..kept).flat_map(|run| run.segments);
        let segments = std::mem::take(&mut self.segments).into_iter().chain(young);
        self.spared.extend(segments.map(|segment| segment.extent()));
        self.runs.drain(..kept);
        self.is_as_begun = false;
        self.directory = DirectoryRef {
            version: self.next_sequence(),
            generation: self.superblock.generation + 1,
            ..DirectoryRef::empty()
        };
    }

    /// Begins again, and leaves what is too old to the merges that pass it.
    pub(crate) fn give_purge_up(&mut self) -> Result<()> {
        (self.purges, self.purges_pages) = (false, false);
        self.earliest = self.superblock.earliest;
        self.free_room()
    }

    /// Returns the last step of a key in the runs below one, the number of which counts from the oldest above the oldest run.
    pub(in crate::fingerprint) fn until(&self, young: usize) -> u64 {
        self.runs
            .get(young)
            .map_or(self.until, |run| run.below_until)
    }
}
