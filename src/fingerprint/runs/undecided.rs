//! Hashes that several runs are asked for, one after the other.

use crate::fingerprint::segment::negative_filter::{FILTERED_AT_ONCE, NegativeFilter};
use crate::fingerprint::segment::pages::SegmentPages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::Map;

/// Hashes that are looked for together through several runs.
pub(super) const AT_ONCE: usize = FILTERED_AT_ONCE;

/// Hashes that are looked for, and which of them a run has decided.
pub(super) struct Undecided<'a> {
    hashes: &'a [u64],
    answers: &'a mut [Option<bool>],
    /// Those that the next run may decide.
    turns: [u16; AT_ONCE],
    pub(super) count: usize,
    /// Whether a run has decided, by turns.
    is_decided: [bool; AT_ONCE],
    decided: usize,
}

impl<'a> Undecided<'a> {
    pub(super) fn all(hashes: &'a [u64], answers: &'a mut [Option<bool>]) -> Self {
        Self::of(hashes, answers, |_| true)
    }

    /// Leaves those out that the oldest run has.
    pub(super) fn but_those_found(hashes: &'a [u64], answers: &'a mut [Option<bool>]) -> Self {
        Self::of(hashes, answers, |answer| answer != Some(true))
    }

    fn of(
        hashes: &'a [u64],
        answers: &'a mut [Option<bool>],
        is_asked: impl Fn(Option<bool>) -> bool,
    ) -> Self {
        let mut turns = [0; AT_ONCE];
        let mut count = 0;
        for (turn, answer) in (0..).zip(&*answers) {
            turns[count] = turn;
            count += usize::from(is_asked(*answer));
        }
        Self {
            count,
            hashes,
            answers,
            turns,
            is_decided: [false; AT_ONCE],
            decided: 0,
        }
    }

    /// Leaves those out of the runs to come that are not in their filter.
    pub(super) fn sift(&mut self, filter: &NegativeFilter, space: FingerprintSpace) {
        let asked = &self.turns[..self.count];
        let hashes = asked.iter().map(|turn| self.hashes[usize::from(*turn)]);
        let mut places = [0; AT_ONCE];
        let fingerprints = hashes.map(|hash| space.fingerprint(hash));
        if let Some(places) = filter.sift(fingerprints, &mut places) {
            self.count = places.len();
            // They rise, so none is overwritten before it is read.
            for (at, place) in places.iter().enumerate() {
                self.turns[at] = self.turns[usize::from(*place)];
            }
        }
    }

    /// Looks for those that a list counts for, if they came or went in a step or later. What it has gets the answer; damage on the way leaves none.
    pub(super) fn ask(
        &mut self,
        (list, since): (&SegmentPages, u64),
        map: &Map,
        counts: impl Fn(u64) -> bool,
        answer: bool,
    ) {
        if self.count == 0 {
            return;
        }
        let mut asked = [0; AT_ONCE];
        let mut turns = [0; AT_ONCE];
        let mut count = 0;
        for turn in &self.turns[..self.count] {
            let hash = self.hashes[usize::from(*turn)];
            if counts(hash) {
                (asked[count], turns[count]) = (hash, *turn);
                count += 1;
            }
        }
        let found = self.find((list, since), map, &asked[..count]);
        for (turn, found) in turns[..count].iter().zip(found) {
            let turn = usize::from(*turn);
            if found != Some(false) {
                self.answers[turn] = found.map(|_| answer);
                self.is_decided[turn] = true;
                self.decided += 1;
            }
        }
        let mut kept = 0;
        for at in 0..self.count {
            let turn = self.turns[at];
            self.turns[kept] = turn;
            kept += usize::from(!self.is_decided[usize::from(turn)]);
        }
        self.count = kept;
    }

    /// Returns the answers of a list for some of them, in their order.
    fn find(
        &self,
        list: (&SegmentPages, u64),
        map: &Map,
        asked: &[u64],
    ) -> [Option<bool>; AT_ONCE] {
        let mut found = [None; AT_ONCE];
        look_since(list, map, asked, &mut found[..asked.len()]);
        found
    }

    /// Looks for the rest in the oldest run, which decides.
    pub(super) fn ask_last(self, list: (&SegmentPages, u64), map: &Map) {
        if self.decided == 0 {
            return look_since(list, map, self.hashes, self.answers);
        }
        let mut asked = [0; AT_ONCE];
        let mut count = 0;
        for (hash, is_decided) in self.hashes.iter().zip(&self.is_decided) {
            asked[count] = *hash;
            count += usize::from(!is_decided);
        }
        let found = self.find(list, map, &asked[..count]);
        let mut found = found[..count].iter();
        for (answer, is_decided) in self.answers.iter_mut().zip(&self.is_decided) {
            if !is_decided && let Some(found) = found.next() {
                *answer = *found;
            }
        }
    }
}

/// Sets the answer of a list for each of some hashes, whether it came in a step or later; `None` if there was none.
pub(super) fn look_since(
    (list, since): (&SegmentPages, u64),
    map: &Map,
    hashes: &[u64],
    answers: &mut [Option<bool>],
) {
    list.lookup_since(map, since).contains_all(hashes, answers);
}

#[cfg(test)]
mod tests {
    use crate::fingerprint::runs::run_set::RunSet;
    use crate::page::PAGE_BYTES;
    use crate::page_io::probe::KeyOrder;
    use crate::testing::Options;
    use crate::{Kind, Store};

    /// Returns a store with an oldest run and others above it, in which keys came and went.
    fn store(folder: &std::path::Path) -> Store {
        let options = Options::new().kind(Kind::Fingerprint).capacity(1 << 20);
        let options = options
            .segment_pages(3)
            .least_run(64)
            .measured(false)
            .seed([7; 32]);
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

    /// Returns what a handle's runs answer, all together in each order and one by one.
    fn answers(store: &Store, hashes: &[u64]) -> Vec<Option<bool>> {
        let view = store.engine.views.current().unwrap();
        let runs: &RunSet = view.filter.segments().unwrap();
        assert!(runs.runs().count() > 1);
        let alone: Vec<_> = hashes
            .iter()
            .map(|hash| runs.contains(*hash, 0).ok())
            .collect();
        for order in [
            KeyOrder::Given,
            KeyOrder::ByPage { keys: 9 },
            KeyOrder::SharingPages,
        ] {
            let mut together = vec![None; hashes.len()];
            runs.contains_all(hashes, (order, 0), &mut together);
            assert_eq!(together, alone, "{order:?}");
        }
        alone
    }

    #[test]
    fn many_keys_are_answered_as_one_is_also_where_pages_are_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut hashes: Vec<u64> = (0..50_000)
            .map(|key| store.engine.hasher.mix(key))
            .collect();
        let given = answers(&store, &hashes);
        let count = |answers: &[Option<bool>], of| answers.iter().filter(|one| **one == of).count();
        assert_eq!(count(&given, Some(true)), 33_107 + 100);
        hashes.sort_unstable();
        let given = answers(&store, &hashes);
        assert_eq!(answers(&store, &[]), []);
        store.close().unwrap();
        let place = folder.path().join("store");
        let mut bytes = std::fs::read(&place).unwrap();
        for page in bytes.chunks_exact_mut(PAGE_BYTES).skip(8).step_by(5) {
            page[2000] ^= 1;
        }
        std::fs::write(&place, bytes).unwrap();
        let store = Options::new().open(&place).unwrap();
        let damaged = answers(&store, &hashes);
        assert!(count(&damaged, None) > 5000);
        let others = damaged.iter().zip(&given).filter(|(one, _)| one.is_some());
        assert!(others.into_iter().all(|(one, given)| one == given));
    }
}
