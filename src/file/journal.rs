//! The journal of a counting store: the new images of pages, written before the pages themselves (FORMAT.md,
//! "Journal").
//!
//! Counting again can't repair a page of counters that is half old and half new. Its new image is therefore made
//! durable first, elsewhere in the file, and recovery restores a torn page from there. Writing the images is
//! idempotent.

use std::io;

use super::layout::{FIRST_PAGE, LAYER_ALIGNMENT, page_offset};
use super::{Header, Intent, Layer};
use crate::codec::{Decoder, Encoder, put_u32, u32_at, u64_at};
use crate::page::{Content, GENERATION_OFFSET, PAGE_BYTES};
use crate::sizing::Plan;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

pub(crate) const JOURNAL_MAGIC: [u8; 8] = *b"EVERJRNL";
pub(crate) const JOURNAL_CRC_OFFSET: usize = 8;
pub(crate) const JOURNAL_HEADER_BYTES: usize = 64;
/// Offset of the journal.
pub(crate) const OFFSET: u64 = FIRST_PAGE * PAGE_BYTES as u64;
/// Offset of the page numbers.
pub(crate) const NUMBERS_OFFSET: u64 = OFFSET + PAGE_BYTES as u64;
/// Page number of the first image.
pub(crate) const FIRST_IMAGE: u64 = FIRST_PAGE + LAYER_ALIGNMENT;
/// Offset of the images.
const IMAGES_OFFSET: u64 = FIRST_IMAGE * PAGE_BYTES as u64;
/// Maximum number of images, limited by the room for page numbers.
pub(crate) const MOST_IMAGES: u64 = (IMAGES_OFFSET - NUMBERS_OFFSET) / 8;
/// Images in the journal of a new store, unless the store has fewer pages: 4 MiB.
const USUAL_IMAGES: u64 = 1024;
/// Images read at a time.
const IMAGES_AT_ONCE: usize = 64;

const _: () = assert!(OFFSET + JOURNAL_HEADER_BYTES as u64 <= NUMBERS_OFFSET);
const _: () = assert!(USUAL_IMAGES <= MOST_IMAGES && USUAL_IMAGES.is_multiple_of(LAYER_ALIGNMENT));

/// Returns the only layer of a new counting store, located behind its journal.
pub(crate) fn layer_behind(plan: &Plan) -> Layer {
    let images = plan.pages.next_multiple_of(LAYER_ALIGNMENT);
    let layer = Layer::behind(FIRST_IMAGE + images.min(USUAL_IMAGES), plan);
    // Each chunk of pages needs room for its images; without any, no checkpoint can write a page.
    assert!(Journal::of(&layer).is_some());
    layer
}

/// The location of a journal, between the superblocks and the layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journal {
    layer: Layer,
    /// The number of images that fit.
    pub(crate) room: u64,
}

/// The journal's description of itself, before its images are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Front {
    count: u32,
    generation: u64,
}

impl Front {
    fn encode(self, header: &Header) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(JOURNAL_HEADER_BYTES);
        Encoder::new(&mut bytes)
            .bytes(&JOURNAL_MAGIC)
            .u32(0)
            .u32(self.count)
            .bytes(&header.store_id)
            .u64(self.generation)
            .pad_to(JOURNAL_HEADER_BYTES);
        let crc = crc32fast::hash(&bytes[JOURNAL_CRC_OFFSET + 4..]);
        put_u32(&mut bytes, JOURNAL_CRC_OFFSET, crc);
        bytes
    }

    fn decode(bytes: &[u8], header: &Header) -> Option<Self> {
        let bytes = bytes.get(..JOURNAL_HEADER_BYTES)?;
        let crc = crc32fast::hash(&bytes[JOURNAL_CRC_OFFSET + 4..]);
        if bytes[..8] != JOURNAL_MAGIC || u32_at(bytes, JOURNAL_CRC_OFFSET) != crc {
            return None;
        }
        let mut input = Decoder::new(&bytes[JOURNAL_CRC_OFFSET + 4..]);
        let count = input.u32()?;
        let is_own = input.array::<16>()? == header.store_id;
        let generation = input.u64()?;
        is_own.then_some(Self { count, generation })
    }
}

impl Journal {
    /// Returns the journal before a layer, or `None` if there is no room for one.
    pub(crate) fn of(layer: &Layer) -> Option<Self> {
        let room = layer.first_page.checked_sub(FIRST_IMAGE)?;
        (room > 0).then_some(Self {
            layer: *layer,
            room: room.min(MOST_IMAGES),
        })
    }

    /// Writes the images of the pages, in ascending order of number, that the checkpoint of `generation` writes. They
    /// take effect with the next sync.
    pub(crate) fn write(
        &self,
        file: &dyn StorageFile,
        header: &Header,
        generation: u64,
        numbers: &[u64],
        images: &[u8],
    ) -> io::Result<()> {
        // A journal that says more or less than its images is ignored, and then a torn page can't be repaired.
        assert_eq!(images.len(), numbers.len() * PAGE_BYTES);
        assert!(
            numbers.len() as u64 <= self.room,
            "{} of {}",
            numbers.len(),
            self.room
        );
        assert!(!numbers.is_empty(), "an image of nothing");
        assert!(numbers.is_sorted_by(|one, next| one < next));
        let own = self.layer.numbers();
        assert!(numbers.iter().all(|number| own.contains(number)));
        let made = |image: &[u8]| u64_at(image, GENERATION_OFFSET);
        let mut images_made = images.chunks_exact(PAGE_BYTES).map(made);
        assert!(images_made.all(|made| made == generation + 1));
        let mut listed = Vec::with_capacity(numbers.len() * 8);
        for number in numbers {
            Encoder::new(&mut listed).u64(*number);
        }
        let front = Front {
            count: numbers.len() as u32,
            generation,
        };
        write_all_at(file, &front.encode(header), OFFSET)?;
        write_all_at(file, &listed, NUMBERS_OFFSET)?;
        write_all_at(file, images, IMAGES_OFFSET)
    }

    /// Returns the numbers of the pages whose images are in the journal, if it belongs to the checkpoint of the intent, which
    /// names them all; else `None`.
    pub(crate) fn pages_of(
        &self,
        file: &dyn StorageFile,
        header: &Header,
        intent: &Intent,
    ) -> io::Result<Option<Vec<u64>>> {
        let generation = intent.generation;
        let Some(numbers) = self.numbers(file, header, generation)? else {
            return Ok(None);
        };
        // All or none: as long as part of the journal or the intent is missing, no page has been written.
        let binding = header.binding();
        let mut whole = numbers.iter().all(|number| intent.pages.contains(number));
        self.for_each(file, &numbers, |number, image| {
            let sealed = binding.check(number, image);
            whole &= matches!(sealed, Ok(Content::Sealed { generation: made, .. }) if made == generation + 1);
            Ok(())
        })?;
        Ok(whole.then_some(numbers))
    }

    /// Writes the journal of these pages once more, as it is: what it holds may not be on the disk.
    pub(crate) fn write_again(&self, file: &dyn StorageFile, numbers: &[u64]) -> io::Result<()> {
        let mut front = [0; JOURNAL_HEADER_BYTES];
        let mut listed = vec![0; numbers.len() * 8];
        for (bytes, offset) in [(&mut front[..], OFFSET), (&mut listed, NUMBERS_OFFSET)] {
            read_exact_at(file, bytes, offset)?;
            write_all_at(file, bytes, offset)?;
        }
        let mut offset = IMAGES_OFFSET;
        self.for_each(file, numbers, |_, image| {
            write_all_at(file, image, offset)?;
            offset += PAGE_BYTES as u64;
            Ok(())
        })
    }

    /// Writes the images of these pages to their places, without a sync.
    pub(crate) fn replay(&self, file: &dyn StorageFile, numbers: &[u64]) -> io::Result<()> {
        self.for_each(file, numbers, |number, image| {
            write_all_at(file, image, page_offset(number))
        })
    }

    /// Returns the page numbers in the journal, or `None` if it belongs to another generation or there is none.
    fn numbers(
        &self,
        file: &dyn StorageFile,
        header: &Header,
        generation: u64,
    ) -> io::Result<Option<Vec<u64>>> {
        let mut bytes = [0; JOURNAL_HEADER_BYTES];
        read_exact_at(file, &mut bytes, OFFSET)?;
        let front = Front::decode(&bytes, header).filter(|front| front.generation == generation);
        let Some(front) = front.filter(|front| u64::from(front.count) <= self.room) else {
            return Ok(None);
        };
        let mut bytes = vec![0; front.count as usize * 8];
        read_exact_at(file, &mut bytes, NUMBERS_OFFSET)?;
        let numbers: Vec<_> = bytes
            .chunks_exact(8)
            .map(|bytes| u64_at(bytes, 0))
            .collect();
        let own = self.layer.first_page..self.layer.end_page();
        let rising = numbers.is_sorted_by(|one, next| one < next);
        let fit = rising && numbers.iter().all(|number| own.contains(number));
        Ok(fit.then_some(numbers))
    }

    fn for_each(
        &self,
        file: &dyn StorageFile,
        numbers: &[u64],
        mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; IMAGES_AT_ONCE.min(numbers.len()) * PAGE_BYTES];
        for (piece, numbers) in (0..).zip(numbers.chunks(IMAGES_AT_ONCE)) {
            let bytes = &mut bytes[..numbers.len() * PAGE_BYTES];
            let offset = IMAGES_OFFSET + piece * (IMAGES_AT_ONCE * PAGE_BYTES) as u64;
            read_exact_at(file, bytes, offset)?;
            for (number, image) in numbers.iter().zip(bytes.chunks_exact(PAGE_BYTES)) {
                each(*number, image)?;
            }
        }
        Ok(())
    }
}

const _: () = assert!(JOURNAL_HEADER_BYTES >= 8 + 4 + 4 + 16 + 8);
