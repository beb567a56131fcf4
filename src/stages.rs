//! Doors for the benches in `benches/`, to stages that are not public. Compiled with the feature
//! `stages` alone, which promises nothing to anybody else.

use crate::bloom::layer_pages::LayerPages;
use crate::file::{Header, Layer};
use crate::fingerprint::page::work::{Decode, Encode};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::lookup::{FilePages, Lookup};
use crate::fingerprint::segment::merge::Changes;
use crate::fingerprint::segment::packer::Packer;
use crate::fingerprint::segment::page_index::PageIndex;
use crate::fingerprint::segment::pass::{OwnedChanges, Pass, PassIo};
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::memtable::{Buffer, COMMITTED, Claim};
use crate::page::ages::{Ages, Remembered};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::write_window::WriteWindow;
use crate::page::{self, Binding};
use crate::sizing::Plan;
use crate::sys::simd::dispatch::{Cpu, Work};
use crate::sys::simd::lanes::Lanes;
use crate::sys::sync::AtomicU64;
use crate::{bloom, fingerprint};

/// The store that the pages of benches belong to.
const BENCH: Binding = Binding::NONE;

/// Bytes of a page.
pub const PAGE_BYTES: usize = page::PAGE_BYTES;

/// The write buffer of one process.
#[derive(Debug)]
pub struct Table(Buffer);

impl Table {
    /// A table of about this many bytes.
    ///
    /// # Errors
    /// If there is no such memory.
    pub fn new(bytes: u64) -> std::io::Result<Self> {
        Buffer::private(bytes, 1).map(Self)
    }

    /// The keys it takes.
    pub fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// Fetches what a look-up will touch.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.0.prefetch(hash);
    }

    /// Whether the key is there.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        self.0.contains(hash)
    }

    /// Claims a key and shows it; whether it was absent.
    #[inline]
    pub fn insert(&self, hash: u64) -> bool {
        match self.0.claim(hash) {
            Claim::Claimed(slot) => {
                self.0.publish(slot, COMMITTED);
                true
            }
            _ => false,
        }
    }
}

/// A mapped layer.
#[derive(Debug)]
pub struct Pages {
    pages: LayerPages,
    window: [AtomicU64; WriteWindow::WORDS],
}

impl Pages {
    /// The only layer of a store that was made with this plan.
    ///
    /// # Errors
    /// If it can't be opened and mapped.
    pub fn open(store: &std::path::Path, plan: &Plan) -> std::io::Result<Self> {
        use crate::testing::storage::Storage;
        let file = crate::sys::Disk::default().open(store, false)?;
        let layer = Layer::after(None, plan);
        let mut front = [0; PAGE_BYTES];
        crate::sys::storage::read_exact_at(&*file, &mut front, 0)?;
        let header = Header::decode(&front, file.length()?);
        let binding = header.map_err(std::io::Error::other)?.binding();
        Ok(Self {
            pages: LayerPages::map(0, &layer, binding, (&*file, store))
                .map_err(std::io::Error::other)?,
            window: Default::default(),
        })
    }

    /// Fetches what a look-up will touch first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.pages.prefetch(hash);
    }

    /// Whether the key tests positive; a damaged page says so of every key.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        let window = WriteWindow::new(&self.window);
        self.pages.contains(hash, window).unwrap_or(true)
    }
}

/// Sets the bits of keys in one page, and answers how many bits are set.
pub fn apply(page: &mut [u8], probes: u32, hashes: &[u64]) -> u32 {
    bloom::page::apply(page, probes, hashes)
}

/// Writes a page's header.
pub fn seal(number: u64, occupancy: u32, page: &mut [u8]) {
    BENCH.seal(number, 1, occupancy, page);
}

/// Whether a page is what was sealed.
#[must_use]
pub fn is_whole(number: u64, page: &[u8]) -> bool {
    BENCH.check(number, page).is_ok()
}

/// A page of fingerprints, which no kind uses yet.
#[derive(Debug)]
pub struct Fingerprints(Box<[u8; PAGE_BYTES]>);

impl Fingerprints {
    /// Packs offsets below `width`: sorted, each once, and no more than fit.
    #[must_use]
    pub fn encode(offsets: &[u64], width: u64) -> Self {
        let mut page = Box::new([0; PAGE_BYTES]);
        crate::sys::simd::dispatch::run_wide(Encode(offsets, (0..width, Ages::NONE), &mut page));
        Self(page)
    }

    /// Packs other offsets in the same page.
    pub fn encode_again(&mut self, offsets: &[u64], width: u64) {
        crate::sys::simd::dispatch::run_wide(Encode(offsets, (0..width, Ages::NONE), &mut self.0));
    }

    /// How many of the first of these offsets fit.
    #[must_use]
    pub fn longest(offsets: &[u64], end: u64) -> usize {
        fingerprint::page::longest(offsets, (0, end), Ages::NONE, 1400)
    }

    /// Appends all offsets, plus `first`.
    pub fn decode(&self, first: u64, out: &mut Vec<u64>) {
        // A page that was just encoded is one.
        let _ = crate::sys::simd::dispatch::run_wide(Decode(&self.0, first, out));
    }

    /// How many of these offsets it holds.
    #[must_use]
    pub fn count(&self, offsets: &[u64]) -> usize {
        crate::sys::simd::dispatch::run(Count(&self.0, offsets))
    }
}

struct Count<'a>(&'a [u8; PAGE_BYTES], &'a [u64]);

impl Work for Count<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<C: Cpu>(self, _cpu: C) -> usize {
        let (words, _) = self.0.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index % page::PAGE_WORDS]);
        let mut count = 0;
        for offset in self.1 {
            count += usize::from(fingerprint::page::contains(word, *offset, Remembered::ALL));
        }
        count
    }
}

/// Segments of fingerprints in memory.
#[derive(Debug)]
pub struct Segments {
    space: FingerprintSpace,
    segments: Vec<Segment>,
    pages: Vec<[u8; PAGE_BYTES]>,
    index: PageIndex,
}

impl Segments {
    /// Packs a sorted list, each number once and all below `space`.
    ///
    /// # Panics
    /// If the space is 0 or above 2^63.
    #[must_use]
    pub fn new(list: &[u64], space: u64) -> Self {
        let (mut segments, mut pages) = (Vec::new(), Vec::new());
        let mut place = |draft: UnplacedSegment| {
            let (segment, bytes) = draft.place(BENCH, pages.len() as u64, 1);
            segments.push(segment);
            pages.extend_from_slice(bytes.as_chunks().0);
        };
        let mut packer = Packer::begin(0);
        for some in list.chunks(1 << 16) {
            packer.put(some);
            while let Some(draft) = packer.take_full() {
                place(draft);
            }
        }
        packer.finish(space).into_iter().for_each(place);
        let space = FingerprintSpace::new(space).expect("1 to 2^63");
        let index = PageIndex::of(&segments, pages.len() as u64).expect("memory for fences");
        Self {
            space,
            index,
            segments,
            pages,
        }
    }

    /// Merges new numbers, sorted, and packs and seals the result; the fingerprints that it holds.
    ///
    /// # Panics
    /// If a segment is damaged.
    pub fn merged(&self, added: &[u64]) -> u64 {
        let mut memory = Memory {
            pages: &self.pages,
            left: Changes {
                added,
                removed: &[],
            },
        };
        let pass = Pass::new(&mut memory, self.space, &self.segments, added.len() as u64);
        let segments = pass.run().expect("whole segments");
        segments.iter().map(|segment| segment.keys).sum()
    }

    /// How many of these numbers there are.
    pub fn count(&self, numbers: &[u64]) -> u64 {
        let lookup = Lookup {
            segments: &self.segments,
            index: &self.index,
            space: self.space,
            pages: self,
            remembered: Remembered::ALL,
        };
        let mut count = 0;
        let first_hash = |one: &u64| *self.space.hashes(*one..*one + 1).start();
        for some in numbers.chunks(1024) {
            let hashes: Vec<u64> = some.iter().map(first_hash).collect();
            let mut answers = vec![None; hashes.len()];
            lookup.contains_all(&hashes, &mut answers);
            count += answers.iter().filter(|one| **one == Some(true)).count() as u64;
        }
        count
    }
}

impl Segments {
    #[inline(always)]
    fn number(&self, page: u64, byte: u64) -> u64 {
        let byte = byte.min(PAGE_BYTES as u64 - 8) as usize;
        crate::codec::u64_at(&self.pages[page as usize], byte)
    }
}

// One lane after the other: these pages are no words that a processor gathers.
impl FilePages for &Segments {
    #[inline(always)]
    fn word<V: Lanes>(self, page: V, index: V) -> V {
        let byte = |lane| index.lane(lane) % page::PAGE_WORDS as u64 * 8;
        V::each(|lane| self.number(page.lane(lane), byte(lane)))
    }

    #[inline(always)]
    fn bytes<V: Lanes>(self, page: V, byte: V) -> V {
        V::each(|lane| self.number(page.lane(lane), byte.lane(lane)))
    }

    #[inline(always)]
    fn prefetch<V: Lanes>(self, page: V, index: V) {
        for lane in 0..V::COUNT {
            let byte = index.lane(lane) as usize % page::PAGE_WORDS * 8;
            crate::sys::prefetch(&self.pages[page.lane(lane) as usize][byte]);
        }
    }

    fn fences(self, segment: usize) -> Result<Vec<u64>, SegmentFault> {
        let segment = &self.segments[segment];
        let pages = segment.first_page as usize..segment.first_fence_page() as usize;
        Ok(self.pages[pages]
            .iter()
            .map(fingerprint::page::first)
            .collect())
    }

    fn check_list(self, _segment: usize, number: u64, _fence: u64) -> Result<bool, SegmentFault> {
        Ok(fingerprint::page::has_short_front(
            &self.pages[number as usize],
        ))
    }
}

/// Segments that are merged, and what becomes of the result: it is sealed and dropped.
struct Memory<'a> {
    pages: &'a [[u8; PAGE_BYTES]],
    left: Changes<'a>,
}

impl PassIo for Memory<'_> {
    type Error = SegmentFault;

    fn binding(&self) -> Binding {
        BENCH
    }

    fn changes(
        &mut self,
        range: std::ops::Range<u64>,
        changes: &mut OwnedChanges,
    ) -> Result<(), SegmentFault> {
        changes.added.clear();
        changes
            .added
            .extend_from_slice(self.left.take_below(range.end).added);
        Ok(())
    }

    fn read(&mut self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<(), SegmentFault> {
        let extent = segment.extent();
        let pages = &self.pages[extent.start as usize..extent.end as usize];
        bytes.clear();
        bytes.extend_from_slice(pages.as_flattened());
        Ok(())
    }

    fn write(&mut self, draft: UnplacedSegment) -> Result<(Segment, Vec<u8>), SegmentFault> {
        Ok(draft.place(BENCH, 0, 2))
    }

    fn fault(&self, fault: SegmentFault) -> SegmentFault {
        fault
    }
}
