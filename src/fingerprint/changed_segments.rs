//! Writes the segments that a copy lacks into a delta.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::file::Superblock;
use crate::file::directory_ref::directory_pages;
use crate::fingerprint::segment::directory::encode;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment_reader::{SegmentReader, digest_of_pages};
use crate::storefile::delta_output::{Changes, DeltaOutput};
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;

/// Writes the directories and the segments of `store` that its copy lacks.
pub(crate) fn write_changed_segments(
    store: StillFile<'_>,
    copy: StillFile<'_>,
    out: &mut DeltaOutput<'_>,
    watched: &mut Watched<'_>,
) -> Result<Changes> {
    let changed = ChangedSegments {
        store: SegmentReader::of(store)?,
        copy: SegmentReader::of(copy)?,
    };
    changed.write(store.superblock, out, watched)
}

/// The segments of a quiesced store, and those of a copy of it.
struct ChangedSegments<'a> {
    store: SegmentReader<'a>,
    copy: SegmentReader<'a>,
}

impl ChangedSegments<'_> {
    /// Writes the store's directories, and the segments that the copy does not have in the same place, which it checks.
    fn write(
        &self,
        superblock: &Superblock,
        out: &mut DeltaOutput<'_>,
        watched: &mut Watched<'_>,
    ) -> Result<Changes> {
        let held = self.held()?;
        let (count, to) = write_directories(superblock, &self.store, out)?;
        let mut changes = Changes {
            count,
            from: self.copy.digest_of_directories()?,
            to,
        };
        for (_, digest) in held.values() {
            changes.from = changes.from.wrapping_add(*digest);
        }
        for (segment, end) in self.store.with_ends() {
            let bytes = self.store.read(segment)?;
            let digest = digest_of_pages(segment.first_page, &bytes);
            // A store that went back to a backup may have the same entry for other pages.
            if held.get(&segment.first_page) != Some(&(*segment, digest)) {
                self.store.check_segment((segment, end), &bytes)?;
                out.put(&bytes)?;
                changes.count += segment.extent().end - segment.first_page;
            }
            changes.to = changes.to.wrapping_add(digest);
            watched.pages(segment.extent())?;
        }
        Ok(changes)
    }

    /// Returns the segments of the copy by their first pages, each with the digest of its pages.
    fn held(&self) -> Result<BTreeMap<u64, (Segment, u64)>> {
        let each = self.copy.with_ends().map(|(segment, _)| {
            let bytes = self.copy.read(segment)?;
            let digest = digest_of_pages(segment.first_page, &bytes);
            Ok((segment.first_page, (*segment, digest)))
        });
        each.collect()
    }
}

/// Writes each directory once, the oldest run's first. Returns their pages, and the digest of both copies of all.
fn write_directories(
    superblock: &Superblock,
    store: &SegmentReader<'_>,
    out: &mut DeltaOutput<'_>,
) -> Result<(u64, u64)> {
    let (mut count, mut digest) = (0, 0_u64);
    for (directory, run) in superblock.directories().zip(store.runs()) {
        let copies = directory.places.map(|place| {
            let pages = encode(store.binding, &run.segments, place, directory.generation);
            let digest = digest_of_pages(place, &pages);
            (pages, digest)
        });
        out.put(&copies[0].0)?;
        digest = digest.wrapping_add(copies[0].1).wrapping_add(copies[1].1);
        count += directory_pages(directory.segments);
    }
    Ok((count, digest))
}
