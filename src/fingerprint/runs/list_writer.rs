//! Packs and writes one list of a run.

use std::ops::Range;

use crate::error::Result;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::packer::Packer;
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::fingerprint::segment_io::SegmentWriter;
use crate::page::ages::Ages;

/// One list of a run that is written.
pub(super) struct ListWriter {
    list: List,
    /// Pages of a segment, about.
    target: usize,
    /// The range of the segments that are written.
    covers: Range<u64>,
    ages: Ages,
    packer: Option<Packer>,
    segments: Vec<Segment>,
}

impl ListWriter {
    pub(super) fn new(list: List, target: usize, (covers, ages): (Range<u64>, Ages)) -> Self {
        Self {
            list,
            target,
            covers,
            ages,
            packer: None,
            segments: Vec::new(),
        }
    }

    /// Begins a segment even if no fingerprint comes.
    pub(super) fn begun(mut self) -> Self {
        self.packer();
        self
    }

    fn packer(&mut self) -> &mut Packer {
        let (target, first, ages) = (self.target, self.covers.start, self.ages);
        let begin = || Packer::aiming_at(target, first, Vec::new()).with_ages(ages);
        self.packer.get_or_insert_with(begin)
    }

    /// Packs fingerprints, all above those packed before.
    pub(super) fn put(
        &mut self,
        fingerprints: &[u64],
        out: &mut SegmentWriter<'_, '_>,
    ) -> Result<()> {
        if fingerprints.is_empty() {
            return Ok(());
        }
        self.packer().put(fingerprints);
        while let Some(draft) = self.packer.as_mut().and_then(Packer::take_full) {
            self.write(draft, out)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut SegmentWriter<'_, '_>) -> Result<Vec<Segment>> {
        let end = self.covers.end;
        let drafts = self.packer.take().map(|packer| packer.finish(end));
        for draft in drafts.into_iter().flatten() {
            self.write(draft, out)?;
        }
        Ok(self.segments)
    }

    fn write(&mut self, draft: UnplacedSegment, out: &mut SegmentWriter<'_, '_>) -> Result<()> {
        let (segment, _) = out.write(draft)?;
        assert!(
            self.covers.contains(&segment.first),
            "{segment:?} of {:?}",
            self.covers
        );
        let list = self.list;
        self.segments.push(Segment { list, ..segment });
        Ok(())
    }
}
