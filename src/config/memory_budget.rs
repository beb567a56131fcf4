//! How much memory a handle takes by default, and how it divides what it has.

use crate::config::buffer_growth::CheckpointWrites;
use crate::config::open_options::OpenOptions;
use crate::memtable::{bytes_for, limit_of};
use crate::shm::buffer_sizes::{BufferSizes, MOST_BUFFER};
use crate::shm::place::Place;
use crate::sizing::PAGE_BYTES;
use crate::sys::{AddressSpace, Memory};

/// Changes of a set of fingerprints that are asked for at once, about: 8 MiB of them.
pub(crate) const CHANGES_AT_ONCE: u64 = 1 << 20;
/// A handle takes at most the process's memory divided by this by default.
const MEMORY_SHARE: u64 = 8;
/// Shared buffers are dirty pages of files. They take at most the amount from which on the system writes such pages
/// back, divided by this.
const BACKGROUND_SHARE: u64 = 2;
/// Or, up to all of that amount, this many bytes for each of a filter. A checkpoint of one so large passes the amount in
/// any case, with the pages that it writes, and fewer checkpoints write less: 66 instead of 84 bytes a key at 10^9. For
/// smaller filters, fresh memory costs more than that saves; beyond the amount, the buffers' own pages are written.
const UNWRITTEN_PER_FILTER_BYTE: u64 = 2;
/// And at most what is available at the time, divided by this.
const AVAILABLE_SHARE: u64 = 4;
/// Where the address space is limited, they take at most what is left beside a map of the store, divided by this. A
/// checkpoint needs as much, and so does the map of a store that grows meanwhile.
const MAPPED_SHARE: u64 = 8;
/// And a merge takes at most what is left divided by this at once for its changes, unless there are fewer than this.
const MERGED_SHARE: u64 = 32;
const LEAST_CHANGES: u64 = 16 << 10;
/// New segments then have at most the pages of what is left divided by this, but no fewer pages than this.
const SEGMENT_SHARE: u64 = 64;
const LEAST_SEGMENT: u64 = 64;
/// A merge has this many new segments in memory: two that it has packed, in memory that grows by doubling, and copies.
const PACKED_SEGMENTS: u64 = 6;
/// What a checkpoint needs beside that: up to 2 MiB that wait for a border of the file, twice while they grow, and lists.
const CHECKPOINT_EXTRA: u64 = 6 << 20;
/// Shared buffers take at most the disk's room divided by this.
const DISK_SHARE: u64 = 4;

/// Returns the bytes of the buffer of one generation, of which there are two, in `budget` bytes.
pub(super) fn table_bytes(budget: u64) -> u64 {
    budget / 16 * 7
}

/// Returns how much memory the buffers and all scratch of a handle may take by default, for as long as things are as
/// they are. `room` says how much the disk has left if the buffers are files on it; `filter` are the bytes of the filter.
pub(crate) fn default_share(room: Option<u64>, filter: u64) -> u64 {
    let share = Memory::of_process().map_or(OpenOptions::MOST_FIRST_BUFFER, |memory| match room {
        Some(_) => shared_share(memory, filter),
        None => share_of(memory),
    });
    share.min(room.unwrap_or(u64::MAX) / DISK_SHARE)
}

fn share_of(memory: Memory) -> u64 {
    let most = memory.total / MEMORY_SHARE;
    most.min(memory.available / AVAILABLE_SHARE)
}

/// Returns the same for buffers in files. Beyond that, the system would write them to the disk all the time, also where
/// checkpoints write little.
fn shared_share(memory: Memory, filter: u64) -> u64 {
    let (least, most) = (memory.background / BACKGROUND_SHARE, memory.background);
    let unwritten = filter
        .saturating_mul(UNWRITTEN_PER_FILTER_BYTE)
        .clamp(least, most);
    share_of(memory).min(unwritten)
}

/// Returns the bytes of a buffer for the `keys` keys that a log holds: of the least size, or as large as it must be, if
/// memory and disk have room for that.
pub(crate) fn bytes_for_log(sizes: BufferSizes, keys: u64, room: Option<u64>) -> u64 {
    let needed = bytes_for(keys);
    if keys <= limit_of(sizes.least) || needed > sizes.most {
        return sizes.least;
    }
    let memory = Memory::of_process().map_or(OpenOptions::MOST_FIRST_BUFFER, share_of);
    let share = memory.min(room.unwrap_or(u64::MAX) / DISK_SHARE);
    match needed <= table_bytes(share) {
        true => needed,
        false => sizes.least,
    }
}

/// Returns the number of keys that a checkpoint holds in memory at a time: a thirty-second of the memory.
fn keys_of_chunk(budget: u64) -> u64 {
    (budget / 32 / 8).max(64)
}

/// Returns how much the disk has left for buffers, `None` if they are no files.
pub(crate) fn room_for(store: &Place, is_shared: bool) -> Option<u64> {
    is_shared.then(|| store.folder().room().unwrap_or(u64::MAX))
}

/// Returns how much this process may still map, if that is limited.
fn left_to_map() -> Option<u64> {
    AddressSpace::of_process().map(AddressSpace::left)
}

/// The memory for the keys of a sieve's window, unless the buffer is smaller, or more than four times as large.
const DEFAULT_WINDOW: u64 = 64 << 20;
/// Or at most what is left of a limited address space, divided by this.
const WINDOW_SHARE: u64 = 16;
/// Where memory can't hold the pages, a sweep reads them all from the disk. The more keys share it, the fewer there are: a
/// window then takes what is available, divided by this, up to the most. Pages that take more than the other share of
/// it don't stay there: buffers, filters and what checkpoints write need room as well.
const SWEPT_SHARE: u64 = 4;
const HELD_SHARE: u64 = 2;
const MOST_SWEPT: u64 = 4 << 30;

impl OpenOptions {
    /// Returns these options with a buffer that fits a store file of `file` bytes, memory, and the disk: buffers are
    /// files beside the store, where logs and pages need room as well. The disk does not limit those of an exclusive
    /// handle.
    pub(crate) fn fit(&self, store: &Place, file: u64) -> Self {
        let room = room_for(store, !self.exclusive);
        let mut options = self.fit_for_reading(file);
        if !self.granted {
            if options.buffer > self.bounds().0 {
                options.buffer = options
                    .buffer
                    .min(default_share(room, file))
                    .max(self.bounds().0);
            }
            let disk = room.unwrap_or(u64::MAX) / DISK_SHARE;
            options.buffer = options.buffer.min(disk).max(OpenOptions::LEAST_BUFFER);
        }
        if let Some(left) = left_to_map() {
            let pages = left / SEGMENT_SHARE / PAGE_BYTES;
            let least = LEAST_SEGMENT.min(options.segment_pages);
            options.segment_pages = pages.clamp(least, options.segment_pages);
        }
        options
    }

    /// Returns the same for a handle that never fills a buffer.
    pub(crate) fn fit_for_reading(&self, file: u64) -> Self {
        let mut options = self.clone();
        if !self.granted {
            let (least, most) = self.bounds();
            let mapped =
                left_to_map().map_or(u64::MAX, |left| left.saturating_sub(file) / MAPPED_SHARE);
            options.buffer = file
                .clamp(least, most)
                .min(mapped)
                .max(OpenOptions::LEAST_BUFFER);
        }
        options
    }

    /// Returns the most memory that the caller allows.
    pub(super) fn most_buffer(&self) -> u64 {
        match (self.granted, self.between) {
            (true, _) => self.buffer,
            (false, Some((_, most))) => most,
            (false, None) => u64::MAX,
        }
    }

    /// Returns the least and the most memory that a handle takes before it has filled a buffer.
    pub(super) fn bounds(&self) -> (u64, u64) {
        match self.between {
            Some((least, most)) => (least, most.min(OpenOptions::MOST_FIRST_BUFFER).max(least)),
            None => (OpenOptions::DEFAULT_BUFFER, OpenOptions::MOST_FIRST_BUFFER),
        }
    }

    /// Returns the bytes of the first buffer. There are two such buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        table_bytes(self.buffer)
    }

    /// Returns the sizes that the buffers of a session may have whose first handle has these options.
    pub(crate) fn buffer_sizes(&self, writes: CheckpointWrites) -> BufferSizes {
        let least = match (self.granted, writes) {
            // Few keys cost a run of their own, however large the filter. The next buffers grow with what comes.
            (false, CheckpointWrites::Runs) => table_bytes(self.buffer.min(self.bounds().0)),
            _ => self.buffer_bytes(),
        };
        let memory =
            || Memory::physical().map_or(OpenOptions::MOST_FIRST_BUFFER, |all| all / MEMORY_SHARE);
        let most = match self.granted {
            true => self.buffer,
            false => self.most_buffer().min(memory()),
        };
        let most = table_bytes(most).min(MOST_BUFFER).max(least);
        BufferSizes { least, most }
    }

    /// Returns the number of pages that a checkpoint holds in memory at a time: half of what the tables leave. The rest
    /// is for the checkpoint's keys, and for a part of a large batch. Chunks of 8 MiB were no faster than those of 4.
    pub(crate) fn chunk_pages(&self) -> u64 {
        (self.buffer / 16 / PAGE_BYTES).clamp(1, 1024)
    }

    /// Returns the number of keys that a checkpoint holds in memory at a time.
    pub(crate) fn chunk_keys(&self) -> u64 {
        keys_of_chunk(self.buffer).min(1 << 18)
    }

    /// Returns how many fingerprints a merge changes at once, which take eight bytes each: fewer where the address space
    /// is nearly used up.
    pub(crate) fn changes_at_once(&self) -> u64 {
        let bytes =
            AddressSpace::of_process().map_or(u64::MAX, |space| space.left() / MERGED_SHARE);
        (bytes / 8).clamp(LEAST_CHANGES, CHANGES_AT_ONCE)
    }

    /// Returns the address space that a checkpoint needs that reads at most this many pages at once, where that is limited.
    pub(crate) fn checkpoint_bytes(&self, read: u64) -> u64 {
        let pages = read + self.chunk_pages() + PACKED_SEGMENTS * self.segment_pages;
        CHECKPOINT_EXTRA + pages * PAGE_BYTES + 4 * 8 * self.changes_at_once()
    }

    /// Returns the same for a checkpoint that empties a buffer of `table` bytes: more where buffers have grown.
    pub(crate) fn chunk_keys_beside(&self, table: u64) -> u64 {
        keys_of_chunk(table / 7 * 16).clamp(self.chunk_keys(), 1 << 20)
    }

    /// Returns the number of keys that a checkpoint without a buffer holds in memory at a time: the buffer's memory is
    /// free for them, and the fewer there are, the more often the log is read.
    pub(crate) fn log_keys(&self) -> u64 {
        (self.buffer_bytes() / 8 / 2).max(self.chunk_keys())
    }

    /// Returns the number of keys of a large batch that are looked up together. Each takes its hash, its place and
    /// whether it was found.
    pub(crate) fn part_keys(&self) -> usize {
        (self.buffer / 32 / 24).clamp(4096, 1 << 18) as usize
    }

    /// Returns the same where pages come from the disk: everything that tables and a checkpoint leave, for the keys'
    /// places and whether they were found.
    pub(crate) fn sweep_keys(&self) -> usize {
        let tables = 2 * self.buffer_bytes();
        let checkpoint = self.chunk_pages() * PAGE_BYTES + self.chunk_keys() * 8;
        let room = self.buffer.saturating_sub(tables + checkpoint);
        ((room / 5) as usize).clamp(self.part_keys(), 1 << 28)
    }

    /// Returns the bytes for the keys of a sieve's window over so many bytes of pages, in addition to these options' own.
    pub(crate) fn window_bytes(&self, pages: u64) -> u64 {
        let usual = (self.buffer / 4).max(self.buffer.min(DEFAULT_WINDOW));
        let swept = match self.granted {
            true => 0,
            false => Memory::of_process().map_or(0, |memory| swept_window(memory, pages)),
        };
        let window = usual.max(swept.min(self.most_buffer()));
        match left_to_map() {
            // Growing, they are in memory twice, and their order takes memory too.
            Some(left) => window.min(left / WINDOW_SHARE),
            None => window,
        }
    }
}

fn swept_window(memory: Memory, pages: u64) -> u64 {
    match pages > memory.available / HELD_SHARE {
        true => (memory.available / SWEPT_SHARE).min(MOST_SWEPT),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::buffer_growth::SizeRule;

    const MIB: u64 = 1 << 20;
    const PLENTY: fn() -> u64 = || u64::MAX;

    fn sizes(least: u64, most: u64) -> BufferSizes {
        let [least, most] = [least, most].map(table_bytes);
        BufferSizes { least, most }
    }

    #[test]
    fn a_window_is_wider_where_memory_cannot_hold_the_pages() {
        let memory = |available| Memory {
            total: 24 << 30,
            available,
            background: 0,
        };
        assert_eq!(swept_window(memory(4 << 30), 2 << 30), 0);
        assert_eq!(swept_window(memory(4 << 30), (2 << 30) + 1), 1 << 30);
        assert_eq!(swept_window(memory(20 << 30), 40 << 30), MOST_SWEPT);
        let pages = u64::MAX;
        let usual = OpenOptions::DEFAULT_BUFFER.min(DEFAULT_WINDOW);
        assert_eq!(OpenOptions::new().window_bytes(0), usual);
        assert!(OpenOptions::new().window_bytes(pages) >= usual);
        // The caller has set the memory.
        assert_eq!(
            OpenOptions::new().buffer(1 << 20).window_bytes(pages),
            1 << 20
        );
    }

    #[test]
    fn the_first_buffer_follows_what_a_checkpoint_writes() {
        let large = OpenOptions::new().fit_for_reading(1 << 30);
        let least = |writes| large.buffer_sizes(writes).least;
        assert_eq!(
            least(CheckpointWrites::ChangedPages),
            table_bytes(256 * MIB)
        );
        assert_eq!(least(CheckpointWrites::Runs), table_bytes(64 * MIB));
        let granted = OpenOptions::new()
            .buffer(100 * MIB)
            .fit_for_reading(1 << 30);
        let sizes = granted.buffer_sizes(CheckpointWrites::Runs);
        assert_eq!(sizes.least, table_bytes(100 * MIB));
    }

    #[test]
    fn what_is_set_is_a_bound() {
        let fixed = OpenOptions::new().buffer(MIB);
        let rule = SizeRule::of(&fixed, CheckpointWrites::ChangedPages);
        assert_eq!(
            fixed.buffer_sizes(CheckpointWrites::ChangedPages),
            sizes(MIB, MIB)
        );
        // Others made the session, with larger buffers.
        let following = sizes(MIB / 2, 64 * MIB);
        let current = following.most;
        assert_eq!(
            rule.next_bytes(following, 1 << 40, current, PLENTY),
            table_bytes(MIB)
        );
        let theirs = sizes(8 * MIB, 8 * MIB);
        assert_eq!(
            rule.next_bytes(theirs, 1 << 40, current, || unreachable!()),
            theirs.least
        );
        // The last call counts.
        let replaced = OpenOptions::new().buffer_between(4 * MIB, MIB).buffer(MIB);
        replaced.check().unwrap();
        assert_eq!(
            replaced.buffer_sizes(CheckpointWrites::Runs),
            sizes(MIB, MIB)
        );
        let between = OpenOptions::new().buffer(MIB).buffer_between(MIB, 4 * MIB);
        let rule = SizeRule::of(&between, CheckpointWrites::ChangedPages);
        let wide = sizes(MIB, 1 << 40);
        assert_eq!(
            rule.next_bytes(wide, 1 << 40, current, PLENTY),
            table_bytes(4 * MIB)
        );
        assert_eq!(
            rule.next_bytes(wide, 3 * MIB / 2, current, PLENTY),
            table_bytes(3 * MIB)
        );
    }

    #[test]
    fn the_system_bounds_what_buffers_take() {
        let memory = Memory {
            total: 16_000,
            available: 4_000,
            background: 900,
        };
        assert_eq!(share_of(memory), 1000);
        assert_eq!(
            share_of(Memory {
                available: 16_000,
                ..memory
            }),
            2000
        );
        for (filter, share) in [(0, 450), (225, 450), (300, 600), (450, 900), (1 << 63, 900)] {
            assert_eq!(shared_share(memory, filter), share);
        }
        assert!(default_share(Some(4_000_000), 0) <= 1_000_000);
    }

    #[test]
    fn a_log_gets_a_buffer_if_memory_has_room() {
        let following = sizes(MIB, 64 * MIB);
        let limit = limit_of(following.least);
        assert_eq!(bytes_for_log(following, limit, None), following.least);
        let larger = bytes_for_log(following, 4 * limit, None);
        assert!(larger > following.least && limit_of(larger) >= 4 * limit);
        assert_eq!(
            bytes_for_log(following, 4 * limit, Some(MIB)),
            following.least
        );
        assert_eq!(
            bytes_for_log(following, 1000 * limit, None),
            following.least
        );
        let fixed = sizes(MIB, MIB);
        assert_eq!(bytes_for_log(fixed, 4 * limit, None), fixed.least);
    }
}
