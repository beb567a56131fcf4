//! What both passes over the pages do to a chunk: name it in an intent, write it, and rewrite what is damaged.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::file::{FormatError, Intent, Layer};
use crate::page::{Binding, Content, PageFault};
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::Workers;
use crate::storefile::meta::Meta;

/// The work of a checkpoint on the pages.
pub(crate) struct CheckpointTask {
    /// The generation whose keys go into the pages.
    pub(crate) generation: u64,
    /// The layer that takes them, and its index.
    pub(crate) layer: Layer,
    pub(crate) layer_index: u32,
    /// The number of those keys.
    pub(crate) count: u64,
    /// The newest intent of a checkpoint of this generation that was interrupted.
    pub(crate) interrupted: Option<Intent>,
    /// The pages that may be torn by that.
    pub(crate) torn: Range<u64>,
    pub(crate) workers: Workers,
    /// The most keys to hold in memory at a time if they come from the log.
    pub(crate) log_keys: u64,
}

impl CheckpointTask {
    pub(crate) fn new(
        meta: &Meta,
        generation: u64,
        (layer_index, layer): (u32, Layer),
        count: u64,
        workers: Workers,
    ) -> Self {
        let intent = meta.intent.as_ref();
        let interrupted = intent.filter(|intent| intent.generation == generation);
        Self {
            generation,
            layer,
            layer_index,
            count,
            torn: interrupted.map_or(0..0, |intent| intent.pages.clone()),
            interrupted: interrupted.cloned(),
            workers,
            log_keys: 0,
        }
    }

    /// Grants memory for this many keys at a time if they come from the log.
    pub(crate) fn with_log_keys(self, log_keys: u64) -> Self {
        Self { log_keys, ..self }
    }
}

/// Writes chunks of a layer's pages.
pub(crate) struct ChunkWriter<'a> {
    access: PageAccess<'a>,
    binding: Binding,
    task: &'a CheckpointTask,
    pub(crate) layer: Layer,
    /// The sequence of the next intent.
    next_intent: u64,
    /// The pages that may be torn if the pass ends here, by their numbers in the file.
    named: Range<u64>,
    /// Whether the newest intent is durable.
    is_durable: bool,
    /// The pages that readers know to be under way.
    published: Range<u64>,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(access: PageAccess<'a>, task: &'a CheckpointTask) -> Self {
        // The intents of a repeated checkpoint follow those of the interrupted one.
        let interrupted = task.interrupted.as_ref();
        Self {
            access,
            binding: access.file.header.binding(),
            task,
            layer: task.layer,
            next_intent: interrupted.map_or(0, |intent| intent.sequence.saturating_add(1)),
            named: task.torn.clone(),
            is_durable: true,
            published: 0..0,
        }
    }

    /// Names pages, by their numbers in the file, in the next intent. Does not sync the intent.
    pub(crate) fn write_intent(&mut self, pages: Range<u64>) -> Result<()> {
        // One that names no page would replace the one before the last, whose pages may be torn.
        assert!(pages.start < pages.end, "{pages:?}");
        // It takes the place of the one before the last: the last must be on the disk by then.
        assert!(self.is_durable, "two intents at once");
        let intent = Intent {
            generation: self.task.generation,
            sequence: self.next_intent,
            pages,
        };
        self.is_durable = false;
        self.access.file.write_intent(&intent)?;
        self.next_intent += 1;
        Ok(())
    }

    /// Makes durable what was written, the newest intent too.
    pub(crate) fn sync(&mut self, action: &'static str) -> Result<()> {
        self.access.file.sync(action)?;
        self.is_durable = true;
        Ok(())
    }

    /// Records the pages that the last intent names: from here on they may be torn.
    pub(crate) fn set_named(&mut self, pages: Range<u64>) {
        self.named = pages;
    }

    /// Returns the pages that may be torn if the pass ends here.
    pub(crate) fn named(&self) -> Range<u64> {
        self.named.clone()
    }

    /// Shows readers which pages are being written, by their numbers in the file.
    pub(crate) fn publish(&mut self, pages: Range<u64>) {
        self.published = pages.clone();
        self.access.shared.window().publish(pages);
    }

    /// Writes pages that the last intent names.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let pages = offset..offset + bytes.len() as u64;
        assert!(self.is_durable, "no intent names {pages:?} yet");
        // To a reader, any other page that is half written is damaged.
        let shown = page_offset(self.published.start)..page_offset(self.published.end);
        assert!(shown.start <= pages.start && pages.end <= shown.end);
        // Torn by a crash, any other page would be taken for damage.
        let named = page_offset(self.named.start)..page_offset(self.named.end);
        assert!(
            named.start <= pages.start && pages.end <= named.end,
            "{pages:?} of {named:?}"
        );
        let own = page_offset(self.layer.first_page)..self.layer.end_offset();
        assert!(
            own.start <= pages.start && pages.end <= own.end,
            "{pages:?} of {own:?}"
        );
        self.access.file.write_pages(bytes, offset)
    }

    /// Returns the numbers in the file of pages of the layer.
    pub(crate) fn numbers(&self, pages: Range<u64>) -> Range<u64> {
        self.layer.first_page + pages.start..self.layer.first_page + pages.end
    }

    /// Returns whether an interrupted checkpoint may have left the page torn.
    pub(crate) fn may_be_torn(&self, page: u64) -> bool {
        self.task.torn.contains(&(self.layer.first_page + page))
    }

    /// Checks a page as it was read.
    pub(crate) fn check(&self, page: u64, bytes: &[u8]) -> Result<Content, PageFault> {
        let number = self.layer.first_page + page;
        self.binding
            .check_in_layer(number, bytes, || self.layer.all_written)
    }

    /// Returns the store that the pages belong to.
    pub(crate) fn binding(&self) -> Binding {
        self.binding
    }

    /// Returns the generation of the pages that the checkpoint writes.
    pub(crate) fn generation(&self) -> u64 {
        self.task.generation + 1
    }

    /// Replaces a damaged page as the handle's policy says.
    pub(crate) fn replace(&self, page: u64, bytes: &mut [u8], fault: PageFault) -> Result<()> {
        let number = self.layer.first_page + page;
        let policy = self.access.options.on_damage;
        let cell = self.access.file.header.kind.cell();
        if !policy.replace(self.binding, cell, number, self.generation(), bytes) {
            return Err(self.damaged(page, fault));
        }
        let keys = self.layer.keys_a_page();
        let layer = self.task.layer_index;
        self.access.state.note_repair(layer, page, keys);
        Ok(())
    }

    pub(crate) fn damaged(&self, page: u64, fault: PageFault) -> Error {
        self.access.file.format_error(FormatError::PageDamaged {
            layer: self.task.layer_index,
            page,
            expected: fault.expected,
            got: fault.got,
        })
    }
}
