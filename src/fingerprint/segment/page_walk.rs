//! Looking for many fingerprints in order. Several of them lie on each page, so pages are listed whole, and once each.

use std::ops::Range;

use super::pages::SegmentPages;
use crate::fingerprint::page::{age_base, read::ReadWhole};
use crate::page::PAGE_BYTES;
use crate::sys::Map;
use crate::sys::simd::dispatch::run_wide;

/// From so many look-ups for each page on, in order, listing it whole takes less time than to look into it for each of them.
pub(crate) const LOOKS_A_PAGE: u64 = 4;

impl SegmentPages {
    /// Sets the answer for each of some hashes; `None` if a page on the way is damaged. The answers are right in any order,
    /// and cheap in that of the pages. `map` is of the file and covers all segments. In a store that forgets, keys count from
    /// the step `since` on.
    pub(crate) fn contains_in_order(
        &self,
        (map, since): (&Map, u64),
        hashes: &[u64],
        answers: &mut [Option<bool>],
    ) {
        if self.segments().is_empty() {
            return answers.fill(Some(false));
        }
        let (mut page, mut base, mut listed, mut place) = (0..0, 0, Vec::new(), 0);
        for (hash, answer) in hashes.iter().zip(answers) {
            let fingerprint = self.space().fingerprint(*hash);
            if !page.contains(&fingerprint) {
                listed.clear();
                let Some(next) = self.list_page_of(*hash, map, &mut listed) else {
                    (*answer, page) = (None, 0..0);
                    continue;
                };
                (page, base) = next;
                place = 0;
            }
            place = first_from(&listed, place, fingerprint);
            // Its number is the first that is not below, whatever its age.
            let age = listed.get(place).map(|number| number - fingerprint);
            let is_there = |age| age < self.space().behind(0) && age + since <= base;
            *answer = Some(age.is_some_and(is_there));
        }
    }

    /// Appends all fingerprints of the page on which a hash lies, and returns the range of those that lie on it and the step
    /// that their ages are counted back from; `None` if it is not whole.
    fn list_page_of(&self, hash: u64, map: &Map, out: &mut Vec<u64>) -> Option<(Range<u64>, u64)> {
        let (segment, number) = self.lookup(map).place_of(hash).ok()?;
        let range = self.page_range(number);
        let page: [u8; PAGE_BYTES] = self.sealed_page(segment, (number, range.start), map).ok()?;
        // Of a segment whose room is being written again, the range may be any.
        let holds = range.contains(&self.space().fingerprint(hash));
        let base = age_base(&page, self.space().age_bits())?;
        (holds && run_wide(ReadWhole(&page, range.clone(), out))).then_some((range, base))
    }
}

/// So many fingerprints are compared at once: a few times as many lie between two that are looked for.
const COMPARED: usize = 8;

/// Returns the place of the first of some fingerprints, which rise, that is not below `asked`. It is most likely soon after
/// `near`.
fn first_from(listed: &[u64], near: usize, asked: u64) -> usize {
    // Not in order, after all.
    let is_passed = near
        .checked_sub(1)
        .is_some_and(|before| listed[before] >= asked);
    let mut place = if is_passed { 0 } else { near };
    while let Some(next) = listed[place..].first_chunk::<COMPARED>() {
        // No branch depends on which of these it is.
        let below = next.iter().filter(|one| **one < asked).count();
        place += below;
        if below < COMPARED {
            return place;
        }
    }
    let rest = &listed[place..];
    place + rest.iter().take_while(|one| **one < asked).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page_io::probe::KeyOrder;
    use crate::testing::Options;
    use crate::{Kind, Store};

    proptest! {
        #[test]
        fn the_next_fingerprint_is_found_from_wherever_the_search_begins(
            listed in prop::collection::btree_set(0_u64..200, 0..100),
            near in any::<prop::sample::Index>(),
            asked in 0_u64..210,
        ) {
            let listed: Vec<u64> = listed.into_iter().collect();
            let near = near.index(listed.len() + 1);
            let twin = listed.partition_point(|one| *one < asked);
            prop_assert_eq!(first_from(&listed, near, asked), twin);
        }
    }

    /// Returns a store with an oldest run and another one above it, in which keys came and went.
    fn store(folder: &std::path::Path) -> Store {
        let options = Options::new().kind(Kind::Fingerprint).capacity(1 << 20);
        let options = options.segment_pages(3).least_run(64).measured(false);
        let store = options.create(folder.join("store")).unwrap();
        for (come, go) in [
            (0..30_000, 0..0),
            (40_000..44_000, 7..900),
            (44_000..44_100, 0..0),
        ] {
            store.insert_batch(&Vec::from_iter(come)).unwrap();
            store.remove_batch(&Vec::from_iter(go)).unwrap();
            store.checkpoint().unwrap();
        }
        store
    }

    fn answers(store: &Store, hashes: &[u64], order: KeyOrder) -> Vec<Option<bool>> {
        let view = store.engine.views.current().unwrap();
        let runs = view.filter.segments().unwrap();
        assert!(runs.runs().count() > 1);
        let mut answers = vec![None; hashes.len()];
        runs.contains_all(hashes, (order, 0), &mut answers);
        answers
    }

    /// The slow twin looks each of them up.
    #[test]
    fn whole_pages_answer_as_single_look_ups_do_also_where_they_are_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut hashes: Vec<u64> = (0..50_000)
            .map(|key| store.engine.hasher.mix(key))
            .collect();
        let given = answers(&store, &hashes, KeyOrder::Given);
        let count = |answers: &[Option<bool>], of| answers.iter().filter(|one| **one == of).count();
        assert_eq!(count(&given, Some(true)), 33_107 + 100);
        assert_eq!(answers(&store, &hashes, KeyOrder::Sorted), given);
        hashes.sort_unstable();
        let given = answers(&store, &hashes, KeyOrder::Given);
        assert_eq!(answers(&store, &hashes, KeyOrder::Sorted), given);
        assert_eq!(answers(&store, &[], KeyOrder::Sorted), []);
        store.close().unwrap();
        let place = folder.path().join("store");
        let mut bytes = std::fs::read(&place).unwrap();
        for page in bytes.chunks_exact_mut(PAGE_BYTES).skip(8).step_by(5) {
            page[2000] ^= 1;
        }
        std::fs::write(&place, bytes).unwrap();
        let store = Options::new().open(&place).unwrap();
        let damaged = answers(&store, &hashes, KeyOrder::Sorted);
        assert!(count(&damaged, None) > 5000);
        let others = damaged.iter().zip(&given).filter(|(one, _)| one.is_some());
        assert!(others.into_iter().all(|(one, given)| one == given));
        assert_eq!(answers(&store, &hashes, KeyOrder::Given), damaged);
    }
}
