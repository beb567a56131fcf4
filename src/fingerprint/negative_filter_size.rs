//! How large a filter of absent keys is, and whether it pays.

use std::sync::Arc;

use crate::config::filter_budget::FilterBudget;
use crate::config::open_options::OpenOptions;
use crate::fingerprint::negative_filter_update::Merge;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::page::PAGE_BYTES;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;

/// Bits for each key of a new filter. With 16 or 24, streams were no faster and took more memory.
pub(super) const BITS: u64 = 12;
/// With fewer bits for each key, the filter is made again at the next occasion.
pub(super) const LEAST_BITS: u64 = 6;
/// With fewer bits for each key, it lets so many through that it isn't worth its line of memory: a third.
pub(super) const WORTHLESS_BITS: u64 = 3;
/// Changes for each segment from which on a checkpoint rewrites nearly all of them. Others would be read for the filter
/// alone.
const CHANGES_EACH: u64 = 64;
/// Keys of a store for each one that streams have brought, at most, for which its filter is made by reading the store: some 9 ns
/// each beside the stream, where a look-up takes 300 less with it, at 10^9 keys. So a stream that ends just then has paid
/// about twice.
const KEYS_EACH: u64 = 32;
/// With fewer bits for each key, no filter is made by reading.
const LEAST_READ_BITS: u64 = 4;
/// The bytes of pages from which on a filter pays. The processor's caches hold less.
const LEAST_FILTERED: u64 = 32 << 20;

/// Returns whether a filter has this many bits for each key once so many more are in it.
pub(super) fn has_bits(held: &Arc<NegativeFilter>, more: u64, bits: u64) -> bool {
    // Those that were removed are in it as well.
    held.bytes() >= bytes_for(held.added().saturating_add(more), bits)
}

/// Returns whether to make a new filter for so many keys.
pub(super) fn pays(options: &OpenOptions, merge: &Merge, keys: u64) -> bool {
    let sees_most = merge.count >= merge.directory.segments.saturating_mul(CHANGES_EACH);
    let bytes = merge.directory.pages.saturating_mul(PAGE_BYTES as u64);
    if let Some(least) = options.filtered_from {
        return sees_most && bytes >= least;
    }
    // It takes a good part of a checkpoint to make one: there should be many look-ups to come.
    sees_most
        && bytes >= LEAST_FILTERED
        && merge.trigger == CheckpointTrigger::FullBuffer
        && bytes_for(keys, BITS) <= FilterBudget::of(options).of_all()
}

/// Returns how large a filter of a store without one is to be that is made by reading it, if that pays. `keys` are those of
/// before, `streamed` those that full buffers have brought since one was, this one's included.
pub(super) fn bytes_to_read(
    options: &OpenOptions,
    merge: &Merge,
    (keys, pages): (u64, u64),
    streamed: u64,
) -> Option<u64> {
    let all = keys.saturating_add(merge.brought);
    let bytes = pages.saturating_mul(PAGE_BYTES as u64);
    if let Some(least) = options.filtered_from {
        return (bytes >= least).then(|| bytes_for(all, BITS));
    }
    let pays = merge.trigger == CheckpointTrigger::FullBuffer
        && bytes >= LEAST_FILTERED
        && streamed >= keys / KEYS_EACH;
    let bytes = || bytes_for(all, BITS).min(FilterBudget::of(options).of_all());
    pays.then(bytes)
        .filter(|bytes| *bytes >= bytes_for(all, LEAST_READ_BITS))
}

pub(super) fn bytes_for(keys: u64, bits: u64) -> u64 {
    keys.saturating_mul(bits) / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::DirectoryRef;

    #[test]
    fn a_filter_is_made_where_it_pays() {
        let directory = DirectoryRef {
            segments: 40,
            pages: 40 << 10,
            ..DirectoryRef::empty()
        };
        let full = Merge {
            directory,
            version: directory.version,
            count: 1 << 21,
            brought: 1 << 20,
            generation: 7,
            trigger: CheckpointTrigger::FullBuffer,
        };
        let most = FilterBudget::of(&OpenOptions::new()).of_all();
        let keys = most / 2;
        assert!(pays(&OpenOptions::new(), &full, keys));
        // The caller has set the memory, or there is too little.
        assert!(!pays(&OpenOptions::new().buffer(1 << 30), &full, keys));
        assert!(!pays(&OpenOptions::new(), &full, most));
        let awaited = Merge {
            trigger: CheckpointTrigger::Awaited,
            ..full
        };
        let few = Merge {
            count: 40 * CHANGES_EACH - 1,
            ..full
        };
        let mut small = full;
        small.directory.pages = 4 << 10;
        for merge in [awaited, few, small] {
            assert!(!pays(&OpenOptions::new(), &merge, keys), "{merge:?}");
        }
        // By reading: once a stream has brought a part of the keys.
        let options = OpenOptions::new();
        let read =
            |merge, keys, pages, streamed| bytes_to_read(&options, merge, (keys, pages), streamed);
        let (pages, least) = (40 << 10, (1 << 24) / KEYS_EACH);
        assert_eq!(
            read(&full, 1 << 24, pages, least),
            Some(((1 << 24) + (1 << 20)) * 12 / 8)
        );
        assert_eq!(
            read(&full, keys, pages, keys),
            Some(bytes_for(keys + full.brought, 12))
        );
        // Within what other programs take meanwhile.
        let granted = read(&full, most, pages, most).unwrap();
        assert!(granted.abs_diff(most) <= most / 10, "{granted} of {most}");
        assert_eq!(read(&full, 1 << 24, pages, least - 1), None);
        assert_eq!(read(&full, 1 << 24, 4 << 10, least), None);
        assert_eq!(read(&awaited, 1 << 24, pages, 1 << 24), None);
        assert_eq!(read(&full, 3 * most, pages, 3 * most), None);
        let granted = OpenOptions::new().buffer(1 << 30);
        assert_eq!(
            bytes_to_read(&granted, &full, (1 << 24, pages), 1 << 24),
            None
        );
    }
}
