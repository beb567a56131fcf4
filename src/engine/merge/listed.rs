//! Merges of stores whose keys can be listed.

use std::path::Path;

use super::input::{Input, StillInputs};
use super::plan::{new_header, result_superblock};
use super::{MergeReport, Watch, exemptions};
use crate::config::create_options::CreateOptions;
use crate::engine::open::create::{begin, finish};
use crate::error::Result;
use crate::file::{Header, Superblock};
use crate::filter::merge::{self as filter, SetMerge, SetOperation};
use crate::storefile::atomic_file::AtomicFile;

/// A merge of listed keys.
pub(crate) struct ListedMerge<'a, 'w> {
    inputs: &'a [Input],
    operation: SetOperation,
    watch: &'a mut Watch<'w>,
}

impl<'a, 'w> ListedMerge<'a, 'w> {
    pub(crate) fn new(
        inputs: &'a [Input],
        operation: SetOperation,
        watch: &'a mut Watch<'w>,
    ) -> Self {
        Self {
            inputs,
            operation,
            watch,
        }
    }

    /// Counts the keys of the result.
    pub(crate) fn count(self) -> Result<u64> {
        let held = StillInputs::of(self.inputs)?;
        SetMerge::new(&held.files(), self.operation, &mut **self.watch).count()
    }

    /// Writes the result to the file of a new store.
    pub(crate) fn write(
        self,
        draft: &AtomicFile,
        out: &Path,
        options: &CreateOptions,
    ) -> Result<MergeReport> {
        let (header, mut superblock) = self.design(options)?;
        let (file, path) = (&*draft.file, &*draft.temporary);
        let held = StillInputs::of(self.inputs)?;
        let files = held.files();
        let merge = SetMerge::new(&files, self.operation, &mut **self.watch);
        let (directory, pages_read) = merge.write((file, path), &header, superblock.generation)?;
        let clock = filter::common_time(&files);
        drop(files);
        drop(held);
        filter::check_limit(out, &header, directory.keys)?;
        // Readers ask by it whether the directory is older than the superblock.
        assert!(directory.version <= superblock.sequence, "{directory:?}");
        superblock.directory = Some(directory);
        superblock.clock = clock;
        let exempt = exemptions::keep(self.inputs, file, path, &superblock)?;
        superblock.sections.extend(exempt);
        begin(draft, &superblock)?;
        finish(file, path, &header, &superblock)?;
        Ok(MergeReport {
            keys: directory.keys,
            fpr_now: filter::rate_of(&header, directory.keys),
            fpr: header.fpr,
            capacity: Some(header.capacity),
            layers: 0,
            pages: directory.pages,
            pages_read,
            bytes: superblock.end_offset(),
        })
    }

    fn design(&self, options: &CreateOptions) -> Result<(Header, Superblock)> {
        let mut header = new_header(self.inputs, options, self.inputs[0].header())?;
        if let Some(fpr) = options.fpr {
            filter::set_rate(&mut header, fpr)?;
        }
        let superblock = result_superblock(self.inputs, &mut header, Vec::new());
        Ok((header, superblock))
    }
}
