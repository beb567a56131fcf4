//! What lies below a log, where the log alone doesn't say what it changes: another hash of a fingerprint may be exempt, so a
//! key that is new may have been there all the same.

use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::fingerprint::map_segments::map_segments;
use crate::fingerprint::pending_filter::PendingFilter;
use crate::fingerprint::runs::run_set::{NoAnswer, RunSet};
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::map_error::MapError;
use crate::page_io::probe::KeyOrder;
use crate::storefile::store_file::StoreFile;

/// So many fingerprints are looked for at a time.
const LOOKED_FOR_AT_ONCE: usize = 512;

/// All runs that the superblock names.
pub(crate) struct Below<'a> {
    runs: Arc<RunSet>,
    space: FingerprintSpace,
    file: &'a StoreFile,
    /// Whether fingerprints of a damaged page are taken for absent.
    salvages: bool,
}

impl<'a> FingerprintPass<'a> {
    /// Maps the runs below the log.
    pub(crate) fn below(&self) -> Result<Below<'a>> {
        let file = self.access.file;
        let bound = (self.space, self.binding);
        let pending = PendingFilter::none(self.access.options);
        let path = &*file.place;
        let pages = self.superblock.segment_pages();
        self.access.expect_memory(pages)?;
        Ok(Below {
            runs: map_segments(&*file.raw, path, &self.superblock, bound, None, &pending)?,
            space: self.space,
            file,
            salvages: self.listed().salvages,
        })
    }
}

impl Below<'_> {
    /// Returns a filter of so many bytes with all fingerprints; `None` without memory, if a page is not whole, or once it is
    /// no longer wanted.
    pub(super) fn read_filter(
        &self,
        bytes: u64,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<NegativeFilter> {
        self.runs.read_filter(bytes, is_wanted)
    }

    /// Drops those changes that change nothing: what comes and is there, and what goes and isn't.
    pub(super) fn keep_changes(&self, changes: &mut OwnedChanges) -> Result<()> {
        self.retain(&mut changes.added, false)?;
        self.retain(&mut changes.removed, true)
    }

    /// Keeps the fingerprints that are there, or those that are not.
    fn retain(&self, fingerprints: &mut Vec<u64>, there: bool) -> Result<()> {
        let mut kept = 0;
        for begin in (0..fingerprints.len()).step_by(LOOKED_FOR_AT_ONCE) {
            let end = fingerprints.len().min(begin + LOOKED_FOR_AT_ONCE);
            let some = fingerprints[begin..end].iter();
            let hashes: Vec<u64> = some
                .map(|one| *self.space.hashes(*one..one + 1).start())
                .collect();
            let mut found = vec![None; hashes.len()];
            self.runs
                .contains_all(&hashes, (KeyOrder::Given, 0), &mut found);
            for (at, (hash, found)) in (begin..).zip(hashes.iter().zip(found)) {
                let found = match found {
                    Some(found) => found,
                    None => self.look_again(*hash)?,
                };
                if found == there {
                    fingerprints[kept] = fingerprints[at];
                    kept += 1;
                }
            }
        }
        fingerprints.truncate(kept);
        Ok(())
    }

    /// Looks for a key on a damaged page.
    fn look_again(&self, hash: u64) -> Result<bool> {
        match self.runs.contains(hash, 0) {
            Ok(found) => Ok(found),
            Err(_) if self.salvages => Ok(false),
            Err(NoAnswer::Damaged(fault)) => Err(self.file.format_error(fault.into())),
            // Nothing writes to pages that the newest superblock names: the disk gave other bytes before.
            Err(NoAnswer::Stale) => Err(MapError::Stale {
                path: self.file.place.to_path_buf(),
            }
            .into()),
        }
    }
}
