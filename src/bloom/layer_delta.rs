//! Deltas of layers: which pages are in one, and applying them to a copy.

use std::ops::ControlFlow;

use crate::bloom::layer_copy::{Bound, bound_of, check_pages};
use crate::error::{Error, Result};
use crate::file::copy::{PAGE_HEADER, digest_of};
use crate::file::delta::{Content, number_of, to_page};
use crate::file::layout::page_offset;
use crate::file::{DeltaError, Layer, Superblock};
use crate::page::PAGE_BYTES;
use crate::page_io::page_delta::PageDelta;
use crate::storefile::delta_output::{Changes, DeltaOutput};
use crate::storefile::delta_reader::{Delta, delta_error};
use crate::storefile::page_scan::{self, PagePlace, Pages, places};
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;
use crate::sys::storage::{read_exact_at, write_all_at};

/// Refuses a copy with a layer that the newer superblock does not have in the same place.
pub(crate) fn check_layers(old: &[Layer], new: &[Layer]) -> Result<(), DeltaError> {
    let same = |old: &Layer, new: &Layer| {
        (old.first_page, old.pages, old.probes) == (new.first_page, new.pages, new.probes)
    };
    for (index, layer) in (0..).zip(old) {
        if !new.get(index as usize).is_some_and(|new| same(layer, new)) {
            return Err(DeltaError::Layers { layer: index });
        }
    }
    Ok(())
}

/// Checks the pages of `store` that differ from its copy's, and writes them.
pub(crate) fn write_changed_pages(
    store: StillFile<'_>,
    copy: StillFile<'_>,
    out: &mut DeltaOutput<'_>,
    watched: &mut Watched<'_>,
) -> Result<Changes> {
    let held = &copy.superblock.layers;
    let mut new = Pages::new(store.file, store.path);
    let mut old = Pages::new(copy.file, copy.path);
    let mut changes = Changes::default();
    for place in places(&store.superblock.layers) {
        let PagePlace { layer, number, .. } = place;
        let page = new.page(number, layer.end_page())?;
        let before = match held.get(place.index as usize) {
            Some(held) => &old.page(number, held.end_page())?[..PAGE_HEADER],
            None => &[0; PAGE_HEADER],
        };
        changes.from = changes.from.wrapping_add(digest_of(number, before));
        changes.to = changes.to.wrapping_add(digest_of(number, page));
        if page[..PAGE_HEADER] != *before {
            page_scan::check(store.path, bound_of(store), place, page)?;
            out.put_page(number, page)?;
            changes.count += 1;
        }
        watched.page()?;
    }
    Ok(changes)
}

/// A delta of layers, and the copy it is for.
pub(crate) struct LayerDelta<'a> {
    delta: &'a Delta<'a>,
    /// With the superblock of the delta.
    copy: StillFile<'a>,
    bound: Bound,
}

impl<'a> LayerDelta<'a> {
    /// `copy` has the superblock of the delta.
    pub(crate) fn of(delta: &'a Delta<'a>, copy: StillFile<'a>) -> Self {
        let bound = bound_of(copy);
        Self { delta, copy, bound }
    }
}

impl PageDelta for LayerDelta<'_> {
    fn check(
        &self,
        old: Option<&Superblock>,
        content: Content,
        watched: &mut Watched<'_>,
    ) -> Result<Option<u64>> {
        if let Some(old) = old {
            let checked = check_layers(&old.layers, &self.copy.superblock.layers);
            checked.map_err(|source| delta_error(self.copy.path, source))?;
        }
        let superblock = self.copy.superblock;
        let mut digest = self.delta.header.from.digest;
        let mut layers = superblock.layers.iter().peekable();
        let mut least = 0;
        let each = |piece: &mut [u8]| {
            for record in piece.chunks_exact_mut(PAGE_BYTES) {
                let number = number_of(record);
                while layers.next_if(|layer| layer.end_page() <= number).is_some() {}
                let layer = layers.peek().filter(|layer| layer.first_page <= number);
                if number < least || layer.is_none() {
                    return Err(self.delta.wrong(DeltaError::Field {
                        field: "number",
                        expected: "one of a layer, above the one before",
                        got: number,
                    }));
                }
                least = number + 1;
                if let Some(old) = old {
                    digest = digest.wrapping_sub(self.digest_before(old, number)?);
                    to_page(self.bound, record);
                    digest = digest.wrapping_add(digest_of(number, record));
                }
                watched.page()?;
            }
            Ok(())
        };
        self.delta
            .for_each_piece(superblock, content, each, |_, _| Ok(()))?;
        self.delta
            .check_sections(superblock, self.copy.file, self.copy.path)?;
        Ok(old.map(|_| digest))
    }

    /// Pages that lie together are written together.
    fn write(&self, content: Content) -> Result<()> {
        let each = |piece: &mut [u8]| {
            let mut rest = piece;
            while !rest.is_empty() {
                let first = number_of(rest);
                let records = rest.chunks_exact(PAGE_BYTES);
                let run = (first..).zip(records);
                let run = run.take_while(|(number, record)| *number == number_of(record));
                let length = run.count() * PAGE_BYTES;
                let (run, others) = rest.split_at_mut(length);
                let pages = run.chunks_exact_mut(PAGE_BYTES);
                pages.for_each(|page| to_page(self.bound, page));
                self.write_pages(first, run)?;
                rest = others;
            }
            Ok(())
        };
        let of_section = |page, piece: &[u8]| self.write_pages(page, piece);
        let StillFile {
            file,
            path,
            superblock,
            ..
        } = self.copy;
        self.delta
            .for_each_piece(superblock, content, each, of_section)?;
        page_scan::clear_unnamed(file, path, superblock)
    }

    fn digest(&self) -> Result<u64> {
        let mut watch = |_| ControlFlow::Continue(());
        check_pages(self.copy, &mut Watched::new(&mut watch, 0))
    }
}

impl LayerDelta<'_> {
    /// Returns what a page, as it is now, contributes to the digest.
    fn digest_before(&self, superblock: &Superblock, number: u64) -> Result<u64> {
        let end = superblock.layers.last().map_or(0, |layer| layer.end_page());
        if number >= end {
            return Ok(0);
        }
        let mut header = [0; PAGE_HEADER];
        read_exact_at(self.copy.file, &mut header, page_offset(number))
            .map_err(|error| Error::io("read pages of", self.copy.path, error))?;
        Ok(digest_of(number, &header))
    }

    /// Writes pages that lie together, the first of which has this number.
    fn write_pages(&self, first: u64, bytes: &[u8]) -> Result<()> {
        write_all_at(self.copy.file, bytes, page_offset(first))
            .map_err(|error| Error::io("apply a delta to", self.copy.path, error))
    }
}
