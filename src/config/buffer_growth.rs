//! How write buffers grow with what comes.

use crate::config::memory_budget::table_bytes;
use crate::config::open_options::OpenOptions;
use crate::shm::buffer_sizes::BufferSizes;

/// A buffer is at most this many times as large as the one before it, so that a short session stays small. Where
/// checkpoints write runs, small ones cost little.
const GROWTH_STEP: u64 = 4;
const RUN_GROWTH_STEP: u64 = 2;
/// What is taken for each further byte of a filter that the least memory doesn't serve.
const PER_FILTER_BYTE: u64 = 4;

/// What a checkpoint writes of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointWrites {
    /// The pages that its keys change.
    ChangedPages,
    /// A run of its keys, and now and then all of the filter.
    Runs,
}

/// How a handle decides on the size of the next buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeRule {
    /// The least memory, and the bytes of the filter from which on it takes more.
    base: u64,
    served: u64,
    /// The most bytes of a buffer that the handle's caller allows.
    most: u64,
    writes: CheckpointWrites,
    /// Whether the caller left the size to this handle.
    is_free: bool,
}

impl SizeRule {
    pub(crate) fn of(options: &OpenOptions, writes: CheckpointWrites) -> Self {
        let base = options.bounds().0;
        let served = match writes {
            CheckpointWrites::ChangedPages => base,
            // Such a filter begins small: with the least buffer it would be written for each two million keys up to the
            // first fourteen.
            CheckpointWrites::Runs => base / PER_FILTER_BYTE,
        };
        Self {
            base,
            served,
            most: table_bytes(options.most_buffer()),
            writes,
            is_free: !options.granted,
        }
    }

    /// Returns the size of the buffer after one of `current` bytes, if the filter has `filter` bytes. `free` returns
    /// how much memory all buffers may take; it is called only if a larger buffer than the least would serve.
    pub(crate) fn next_bytes(
        self,
        sizes: BufferSizes,
        filter: u64,
        current: u64,
        free: impl FnOnce() -> u64,
    ) -> u64 {
        // Sizes that a session can't have were refused when it began.
        assert!(sizes.least <= sizes.most, "{sizes:?}");
        let step = match self.writes {
            CheckpointWrites::ChangedPages => current.saturating_mul(GROWTH_STEP),
            CheckpointWrites::Runs if self.is_small(sizes, current) => {
                // As many steps as there are make a run each.
                return match current {
                    0 => sizes.small(),
                    _ if current < sizes.least / 2 => sizes.least / 2,
                    _ => sizes.least,
                };
            }
            CheckpointWrites::Runs => current.saturating_mul(RUN_GROWTH_STEP),
        };
        let serves = table_bytes(self.serving(filter));
        let wanted = serves.min(self.most_of(sizes)).min(step);
        let next = match wanted > sizes.least {
            true => wanted.min(table_bytes(free())).max(sizes.least),
            false => sizes.least,
        };
        assert!((sizes.least..=self.most_of(sizes)).contains(&next));
        next
    }

    /// Returns whether a buffer is one of those that a session begins with.
    pub(crate) fn is_small(self, sizes: BufferSizes, bytes: u64) -> bool {
        self.writes == CheckpointWrites::Runs && bytes < sizes.least
    }

    /// Returns the size of a session's first buffer.
    pub(crate) fn first_bytes(self, sizes: BufferSizes) -> u64 {
        match self.writes {
            CheckpointWrites::Runs if self.is_free => sizes.small(),
            // Where there is no room for a size that was set, the caller hears so at once.
            CheckpointWrites::Runs | CheckpointWrites::ChangedPages => sizes.least,
        }
    }

    /// Returns the size that no buffer of this handle's exceeds.
    pub(crate) fn most_of(self, sizes: BufferSizes) -> u64 {
        sizes.most.min(self.most).max(sizes.least)
    }

    /// Returns the memory that serves a filter: the larger a layer that a checkpoint rewrites, the more keys it should
    /// bring.
    fn serving(self, filter: u64) -> u64 {
        let above = filter.saturating_sub(self.served);
        self.base
            .saturating_add(above.saturating_mul(PER_FILTER_BYTE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const PLENTY: fn() -> u64 = || u64::MAX;

    fn sizes(least: u64, most: u64) -> BufferSizes {
        let [least, most] = [least, most].map(table_bytes);
        BufferSizes { least, most }
    }

    #[test]
    fn memory_follows_the_filter_step_by_step_and_back_down() {
        let rule = SizeRule::of(&OpenOptions::new(), CheckpointWrites::ChangedPages);
        let sizes = sizes(64 * MIB, 3072 * MIB);
        let next = |filter: u64, current, free: u64| {
            rule.next_bytes(sizes, filter * MIB, table_bytes(current * MIB), || {
                free * MIB
            })
        };
        for (filter, current, free, expected) in [
            (0, 64, 9999, 64),
            (64, 64, 9999, 64),
            // Four bytes for each byte above the first 64 MiB.
            (65, 64, 9999, 68),
            (100, 64, 9999, 208),
            (100, 208, 9999, 208),
            // Not at once.
            (4000, 64, 9999, 256),
            (4000, 256, 9999, 1024),
            (4000, 1024, 9999, 3072),
            (4000, 3072, 9999, 3072),
            // The system is short.
            (4000, 3072, 1000, 1000),
            (4000, 1000, 1, 64),
            // The filter is another one: folded, or its first layers.
            (64, 3072, 9999, 64),
            // The last handle left a buffer without room.
            (4000, 0, 9999, 64),
        ] {
            assert_eq!(
                next(filter, current, free),
                table_bytes(expected * MIB),
                "{filter} {current}"
            );
        }
    }

    #[test]
    fn runs_begin_with_a_small_buffer() {
        let options = OpenOptions::new();
        let rule = SizeRule::of(&options, CheckpointWrites::Runs);
        let sizes = options.buffer_sizes(CheckpointWrites::Runs);
        let mut current = rule.first_bytes(sizes);
        let grown = std::iter::from_fn(|| {
            let before = current;
            current = rule.next_bytes(sizes, 1 << 40, current, || 1 << 40);
            Some(before)
        });
        let least = table_bytes(64 * MIB);
        let expected = [MIB, least / 2, least, 2 * least, 4 * least];
        assert_eq!(grown.take(5).collect::<Vec<_>>(), expected);
        // The last buffer of a session that others went on with has no room.
        assert_eq!(rule.next_bytes(sizes, 1 << 40, 0, || 1 << 40), MIB);
        let tiny = OpenOptions::new().buffer_between(OpenOptions::LEAST_BUFFER, 64 * MIB);
        let tiny = tiny.buffer_sizes(CheckpointWrites::Runs);
        assert_eq!(rule.first_bytes(tiny), tiny.least);
        let set = OpenOptions::new().buffer(64 * MIB);
        let set = SizeRule::of(&set, CheckpointWrites::Runs);
        assert_eq!(set.first_bytes(sizes), least);
        let other = SizeRule::of(&options, CheckpointWrites::ChangedPages);
        assert_eq!(other.first_bytes(sizes), sizes.least);
    }

    #[test]
    fn memory_follows_fingerprints_from_the_first_buffer_on() {
        let rule = SizeRule::of(&OpenOptions::new(), CheckpointWrites::Runs);
        let sizes = sizes(64 * MIB, 3072 * MIB);
        let next = |filter: u64| rule.next_bytes(sizes, filter * MIB, sizes.least, PLENTY);
        for (filter, expected) in [(0, 64), (16, 64), (20, 80), (64, 128), (100, 128)] {
            assert_eq!(next(filter), table_bytes(expected * MIB), "{filter}");
        }
    }
}
