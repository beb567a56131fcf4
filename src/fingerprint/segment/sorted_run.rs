//! Fingerprints in order, on their way from pages to pages.

/// More words than were asked for, so that what is left moves to the front once in some pages: 64 KiB.
const SPARE: usize = 8 << 10;

/// A queue of numbers whose memory is cleared once: to clear room for each page's numbers anew, and to move what is left to
/// the front each time, took a twentieth of a merge.
#[derive(Debug, Default)]
pub(crate) struct SortedRun {
    words: Vec<u64>,
    begin: usize,
    end: usize,
}

impl SortedRun {
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.words[self.begin..self.end]
    }

    /// Returns what it holds.
    pub(crate) fn into_vec(mut self) -> Vec<u64> {
        self.words.truncate(self.end);
        self.words.drain(..self.begin);
        self.words
    }

    /// Returns room for `count` numbers behind the last one. What it holds is anything.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u64] {
        if self.words.len() - self.end < count {
            self.words.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            let least = self.end + count;
            if self.words.len() < least {
                self.words.resize(least + SPARE, 0);
            }
        }
        &mut self.words[self.end..][..count]
    }

    /// Appends the first `count` numbers of the room that was returned last.
    pub(crate) fn extend(&mut self, count: usize) {
        assert!(count <= self.words.len() - self.end);
        self.end += count;
    }

    /// Takes off the first `count` numbers.
    pub(crate) fn drop_front(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.begin);
        self.begin += count;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow twin is a queue of the standard library.
        #[test]
        fn a_run_is_a_queue(steps in prop::collection::vec((0_usize..300, 0_usize..300, 0_usize..300), 1..60)) {
            let (mut run, mut twin) = (SortedRun::default(), VecDeque::new());
            let mut next = 0;
            for (asked, used, dropped) in steps {
                let used = used.min(asked);
                let room = run.room(asked);
                prop_assert_eq!(room.len(), asked);
                for word in &mut room[..used] {
                    *word = next;
                    twin.push_back(next);
                    next += 1;
                }
                room[used..].fill(u64::MAX);
                run.extend(used);
                let dropped = dropped.min(twin.len());
                run.drop_front(dropped);
                twin.drain(..dropped);
                prop_assert_eq!(run.as_slice(), twin.make_contiguous());
            }
        }
    }
}
