//! Streams the pages of a merge, one piece after another: memory is the same for stores of any size.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::input::Input;
use super::plan::Design;
use super::{MergeReport, Watch, exemptions as exempt};
use crate::engine::open::create::{begin, finish};
use crate::error::{Error, Result};
use crate::file::Layer;
use crate::file::layout::page_offset;
use crate::filter::merge::{Part, UnitedLayer};
use crate::page::place::folded;
use crate::page::{Binding, PAGE_BYTES};
use crate::storefile::atomic_file::AtomicFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// How many pages are read or written at a time: 1 MiB.
const MERGED_PAGES_AT_ONCE: u64 = 256;

/// The pages of a merge as they are read and written.
pub(crate) struct Stream<'a, 'w> {
    inputs: &'a [Input],
    watch: &'a mut Watch<'w>,
    /// Pages to read in total, and pages read.
    total: u64,
    read: u64,
    source: Vec<u8>,
    result: Vec<u8>,
}

/// What has been written of a layer.
struct Written {
    united: UnitedLayer,
    /// Whether no piece of it stayed blank.
    all: bool,
}

impl<'a, 'w> Stream<'a, 'w> {
    pub(crate) fn new(inputs: &'a [Input], watch: &'a mut Watch<'w>) -> Self {
        Self {
            inputs,
            watch,
            total: 0,
            read: 0,
            source: Vec::new(),
            result: Vec::new(),
        }
    }

    /// Writes the whole store durably.
    pub(crate) fn write(
        mut self,
        draft: &AtomicFile,
        out: &Path,
        design: &mut Design,
    ) -> Result<MergeReport> {
        let parts = design.parts.iter().flatten();
        self.total = parts.map(|part| part.layer.pages).sum();
        self.tell()?;
        begin(draft, &design.superblock)?;
        let (file, temporary) = (&draft.file, &*draft.temporary);
        let mut stays = 1.0;
        let generation = design.superblock.generation;
        assert_eq!(design.superblock.layers.len(), design.parts.len());
        for (layer, parts) in design.superblock.layers.iter_mut().zip(&design.parts) {
            let target = Target {
                file: &**file,
                path: temporary,
                generation,
                binding: design.header.binding(),
                layer: *layer,
            };
            let written = self.layer(&target, parts)?;
            layer.keys = self.keys(parts, &written.united)?;
            layer.all_written = written.all;
            stays *= written.united.right(layer.keys);
        }
        // A page that was not read may have had keys (I1).
        assert_eq!(self.read, self.total, "pages of the inputs");
        design.check_bound(out)?;
        let exempt = exempt::keep(self.inputs, &**file, temporary, &design.superblock)?;
        design.superblock.sections.extend(exempt);
        finish(&**file, temporary, &design.header, &design.superblock)?;
        let superblock = &design.superblock;
        let fixed = design.header.growth().is_none();
        let layers = &superblock.layers;
        Ok(MergeReport {
            keys: superblock.keys(),
            fpr_now: 1.0 - stays,
            fpr: design.header.fpr,
            capacity: fixed.then_some(design.header.capacity),
            layers: layers.len() as u32,
            pages: layers.iter().map(|layer| layer.pages).sum(),
            pages_read: self.read,
            bytes: superblock.end_offset(),
        })
    }

    fn tell(&mut self) -> Result<()> {
        match (self.watch)(self.read, self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }

    fn layer(&mut self, target: &Target<'_>, parts: &[Part]) -> Result<Written> {
        let pages = target.layer.pages;
        let mut written = Written {
            united: UnitedLayer::new(target.layer),
            all: !parts.is_empty(),
        };
        let mut start = 0;
        while start < pages && !parts.is_empty() {
            let end = pages.min(start + MERGED_PAGES_AT_ONCE);
            self.result.clear();
            self.result.resize((end - start) as usize * PAGE_BYTES, 0);
            for part in parts {
                self.unite(part, start..end, pages)?;
            }
            written.add(target, start..end, &mut self.result)?;
            start = end;
        }
        Ok(written)
    }

    /// Adds to `pages` of the result, which has `all` pages, the pages of an input that fold into them.
    fn unite(&mut self, part: &Part, pages: Range<u64>, all: u64) -> Result<()> {
        // Otherwise a page would be united with others than those that its keys are in.
        assert!(part.layer.pages.is_multiple_of(all), "{:?}", part.layer);
        assert!(
            pages.start < pages.end && pages.end <= all,
            "{pages:?} of {all}"
        );
        let factor = part.layer.pages / all;
        let (mut at, end) = (pages.start * factor, pages.end * factor);
        while at < end {
            let next = end.min(at + MERGED_PAGES_AT_ONCE);
            self.source.resize((next - at) as usize * PAGE_BYTES, 0);
            let input = &self.inputs[part.input];
            input.read(part.index, &part.layer, at..next, &mut self.source)?;
            for (page, from) in (at..next).zip(self.source.chunks_exact(PAGE_BYTES)) {
                let place = (folded(page, factor) - pages.start) as usize * PAGE_BYTES;
                UnitedLayer::unite(&mut self.result[place..place + PAGE_BYTES], from);
            }
            self.read += next - at;
            self.tell()?;
            at = next;
        }
        Ok(())
    }

    /// Returns the number of keys in a layer, as its bits say, within what is certain: all keys of each input are in
    /// it, and it has no other keys.
    fn keys(&self, parts: &[Part], united: &UnitedLayer) -> Result<u64> {
        let (mut least, mut most) = (0, 0_u64);
        for part in parts {
            least = least.max(part.layer.keys);
            most = most.saturating_add(self.inputs[part.input].most_keys(part.index)?);
        }
        Ok(united.keys(least..=most))
    }
}

/// A layer of the file being written.
struct Target<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    generation: u64,
    binding: Binding,
    layer: Layer,
}

impl Written {
    /// Seals pages and writes them. If all are blank, they stay a hole in the file.
    fn add(&mut self, target: &Target<'_>, pages: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        let (layer, start) = (&target.layer, pages.start);
        let mut is_blank = true;
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            let occupancy = self.united.note(bytes);
            is_blank &= occupancy == 0;
            let number = layer.first_page + page;
            target
                .binding
                .seal(number, target.generation, occupancy, bytes);
        }
        if is_blank {
            self.all = false;
            return Ok(());
        }
        let offset = page_offset(layer.first_page + start);
        write_all_at(target.file, bytes, offset)
            .map_err(|error| Error::io("write pages of", target.path, error))
    }
}
