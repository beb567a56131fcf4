//! The fences of all segments in memory, one behind the other: a five-hundredth of the filter. Look-ups would otherwise
//! touch one more page of the file each.

use super::entry::Segment;
use crate::sys::Region;
use crate::sys::sync::Ordering;

/// Fences that are read when a segment is first needed.
#[derive(Debug)]
pub(crate) struct FenceTable {
    /// The system allocates memory only for the parts in use.
    fences: Region,
    /// Where the fences of each segment begin, and where the last end.
    begins: Vec<u64>,
    /// One bit for each segment: its fences are there.
    loaded: Region,
}

impl FenceTable {
    /// Returns a table without any fence yet.
    pub(crate) fn of(segments: &[Segment]) -> std::io::Result<Self> {
        let mut begins = Vec::with_capacity(segments.len() + 1);
        let mut end = 0;
        begins.push(end);
        for segment in segments {
            end += u64::from(segment.pages);
            begins.push(end);
        }
        Ok(Self {
            fences: Region::private(end.max(1))?,
            begins,
            loaded: Region::private((segments.len() as u64).div_ceil(64).max(1))?,
        })
    }

    #[inline(always)]
    fn place(&self, segment: usize, page: u64) -> usize {
        (self.begins[segment] + page) as usize
    }

    #[inline(always)]
    pub(crate) fn is_loaded(&self, segment: usize) -> bool {
        let word = &self.loaded.words()[segment / 64];
        word.load(Ordering::Acquire) >> (segment % 64) & 1 != 0
    }

    /// Records that all fences of a segment are there.
    pub(crate) fn set_loaded(&self, segment: usize) {
        let word = &self.loaded.words()[segment / 64];
        word.fetch_or(1 << (segment % 64), Ordering::Release);
    }

    /// Sets the fence of a page, counted within its segment. Several threads may set the same one, to the same value.
    pub(crate) fn set(&self, segment: usize, page: u64, fence: u64) {
        let word = &self.fences.words()[self.place(segment, page)];
        word.store(fence, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self, segment: usize, page: u64) -> u64 {
        self.fences.words()[self.place(segment, page)].load(Ordering::Relaxed)
    }

    /// Returns the fences of adjacent pages of a segment, from `start` on. It has so many.
    #[inline(always)]
    pub(crate) fn near<const N: usize>(&self, segment: usize, start: u64) -> [u64; N] {
        let (fences, _) = self.fences.words()[self.place(segment, start)..]
            .split_first_chunk::<N>()
            .expect("as many fences");
        std::array::from_fn(|index| fences[index].load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, segment: usize, page: u64) {
        crate::sys::prefetch(&self.fences.words()[self.place(segment, page)]);
    }

    /// Takes over the fences of a segment that another table has in another place.
    pub(crate) fn take_over(&self, segment: usize, other: &Self, place: usize) {
        if !other.is_loaded(place) {
            return;
        }
        let pages = self.begins[segment + 1] - self.begins[segment];
        for page in 0..pages {
            self.set(segment, page, other.get(place, page));
        }
        self.set_loaded(segment);
    }
}
