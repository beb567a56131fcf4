//! The pages that a checkpoint is writing, told to readers by a seqlock.

use std::ops::Range;

use crate::page::{Content, PageFault};
use crate::sys::sync::{AtomicU64, Ordering, fence, yield_now};

/// How often a reader checks a page that is being written, in one window, before it takes the page's bits as they are.
const MAX_READ_RETRIES: usize = if cfg!(all(test, loom)) { 8 } else { 100 };

/// The range of pages that a checkpoint is currently writing, published to readers: a wrong CRC inside it means "try
/// again", not damage. It is a view of words that processes may share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteWindow<'a> {
    version: &'a AtomicU64,
    start: &'a AtomicU64,
    end: &'a AtomicU64,
    /// The range that an interrupted checkpoint left torn, until recovery has repeated the checkpoint.
    torn_start: &'a AtomicU64,
    torn_end: &'a AtomicU64,
}

impl<'a> WriteWindow<'a> {
    /// The number of words.
    pub(crate) const WORDS: usize = 5;

    /// # Panics
    /// Panics if there are fewer words than [`WORDS`](Self::WORDS).
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self {
            version: &words[0],
            start: &words[1],
            end: &words[2],
            torn_start: &words[3],
            torn_end: &words[4],
        }
    }

    /// Publishes the range of pages that an interrupted checkpoint may have left torn.
    pub(crate) fn set_torn(self, pages: Range<u64>) {
        self.change(|| {
            self.torn_start.store(pages.start, Ordering::Release);
            self.torn_end.store(pages.end, Ordering::Release);
        });
    }

    /// Publishes the range that is about to be written; an empty range once writing has ended.
    pub(crate) fn publish(self, pages: Range<u64>) {
        // A range that ends before it begins holds no page: readers would take a page that is being written for damage.
        assert!(pages.start <= pages.end, "{pages:?}");
        self.change(|| {
            self.start.store(pages.start, Ordering::Release);
            self.end.store(pages.end, Ordering::Release);
        });
        // No write after this fence may become visible before the window does. It pairs with the fence of a reader
        // whose check failed: a reader that sees any of those writes also sees the window.
        fence(Ordering::Release);
    }

    /// Changes a range, with the version odd meanwhile. A writer that is killed in between leaves it odd, and the next
    /// writer repairs that.
    fn change(self, store: impl FnOnce()) {
        let version = self.version.load(Ordering::Acquire) | 1;
        self.version.store(version, Ordering::Release);
        store();
        self.version
            .store(version.wrapping_add(1), Ordering::Release);
    }

    fn version(self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn holds(self, page: u64) -> bool {
        let range = |start: &AtomicU64, end: &AtomicU64| {
            start.load(Ordering::Acquire)..end.load(Ordering::Acquire)
        };
        range(self.start, self.end).contains(&page)
            || range(self.torn_start, self.torn_end).contains(&page)
    }
}

/// Reads page `number` of a file and checks it with `check`, repeatedly while the page may be in the middle of a write.
/// Returns `None` if it still is after a while, because the checkpoint is slow or has failed half way. In that case a
/// durable intent covers the page, and bits are only ever added: the reader finds the keys that were in the page, and
/// the keys being added are still in the sealed buffer.
pub(crate) fn check_patiently(
    window: WriteWindow<'_>,
    number: u64,
    mut check: impl FnMut() -> Result<Content, PageFault>,
) -> Result<Option<Content>, PageFault> {
    let mut rounds = 0;
    while rounds < MAX_READ_RETRIES {
        let before = window.version();
        let fault = match check() {
            Ok(content) => return Ok(Some(content)),
            Err(fault) => fault,
        };
        // The window at the time the page was written, or later.
        fence(Ordering::Acquire);
        let held = window.holds(number);
        // Windows that come and go prove nothing and don't count towards `MAX_READ_RETRIES`.
        if window.version() == before {
            if before.is_multiple_of(2) && !held {
                return Err(fault);
            }
            rounds += 1;
        }
        yield_now();
    }
    Ok(None)
}
