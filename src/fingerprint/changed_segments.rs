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

/// Writes the directory and the segments of `store` that its copy lacks.
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
    /// Writes the store's directory, and the segments that the copy does not have in the same place, which it checks.
    fn write(
        &self,
        superblock: &Superblock,
        out: &mut DeltaOutput<'_>,
        watched: &mut Watched<'_>,
    ) -> Result<Changes> {
        let held = self.held()?;
        let (count, to) = write_directory(superblock, &self.store, out)?;
        let mut changes = Changes {
            count,
            from: self.copy.digest_of_directory()?,
            to,
        };
        for (_, digest) in held.values() {
            changes.from = changes.from.wrapping_add(*digest);
        }
        for (index, segment) in self.store.segments.iter().enumerate() {
            let bytes = self.store.read(segment)?;
            let digest = digest_of_pages(segment.first_page, &bytes);
            // A store that went back to a backup may have the same entry for other pages.
            if held.get(&segment.first) != Some(&(*segment, digest)) {
                self.store.check_segment(index, &bytes)?;
                out.put(&bytes)?;
                changes.count += segment.extent().end - segment.first_page;
            }
            changes.to = changes.to.wrapping_add(digest);
            watched.pages(segment.extent())?;
        }
        Ok(changes)
    }

    /// Returns the segments of the copy by their first fingerprints, each with the digest of its pages.
    fn held(&self) -> Result<BTreeMap<u64, (Segment, u64)>> {
        let segments = self.copy.segments.iter();
        let each = segments.map(|segment| {
            let bytes = self.copy.read(segment)?;
            let digest = digest_of_pages(segment.first_page, &bytes);
            Ok((segment.first, (*segment, digest)))
        });
        each.collect()
    }
}

/// Writes a directory once. Returns its pages, and the digest of both copies.
fn write_directory(
    superblock: &Superblock,
    store: &SegmentReader<'_>,
    out: &mut DeltaOutput<'_>,
) -> Result<(u64, u64)> {
    let Some(directory) = &superblock.directory else {
        return Ok((0, 0));
    };
    let copies = directory.places.map(|place| {
        let pages = encode(store.binding, &store.segments, place, directory.generation);
        let digest = digest_of_pages(place, &pages);
        (pages, digest)
    });
    out.put(&copies[0].0)?;
    let digest = copies[0].1.wrapping_add(copies[1].1);
    Ok((directory_pages(directory.segments), digest))
}
