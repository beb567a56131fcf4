//! Claiming in turn: a batch that ends with the first key that another handle has claimed and not committed.

use crate::buffer::Slot;
use crate::error::{Error, Result};
use crate::hash::HashedKey;
use crate::store::api::store::Store;
use crate::store::api::store::Verdict;
use crate::store::engine::Engine;
use crate::store::prefetch::hash_source::HashSource;

/// Keys that are claimed and not yet in the log.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) hashes: Vec<u64>,
    pub(crate) slots: Vec<Slot>,
    /// Where each stands in the batch.
    pub(crate) places: Vec<usize>,
    /// Other handles found alive since the writer lock was taken. To ask takes longer than to claim
    /// dozens of keys, and the answer may be old by the time it is given anyway.
    pub(crate) alive: Vec<u64>,
    /// As many may be claimed before anything stands against one more.
    pub(crate) allowance: u64,
    pub(crate) behind: Behind,
}

impl Claims {
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.slots.clear();
        self.places.clear();
    }
}

/// Why a batch ended early.
pub(crate) struct Stop {
    /// How many of its keys are done.
    pub(crate) done: usize,
    pub(crate) error: Box<Error>,
}

impl Stop {
    pub(crate) fn at(done: usize) -> impl FnOnce(Error) -> Self {
        move |error| Self {
            done,
            error: Box::new(error),
        }
    }
}

/// What becomes of the keys behind one that is pending.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    #[default]
    Claimed,
    /// They are left alone, and get no verdict.
    Left,
}

impl Behind {
    /// Whether these verdicts are all that there are to be.
    pub(crate) fn ends(self, verdicts: &[Verdict]) -> bool {
        self == Behind::Left && verdicts.last() == Some(&Verdict::Pending)
    }

    /// Takes away the verdicts from `first` on that no key is to get. A pending key has none before it.
    pub(crate) fn cut(self, verdicts: &mut Vec<Verdict>, first: usize) {
        if self == Behind::Left
            && let Some(place) = verdicts[first..]
                .iter()
                .position(|verdict| *verdict == Verdict::Pending)
        {
            verdicts.truncate(first + place + 1);
        }
    }
}

impl Engine {
    /// Inserts the keys of a part in order and appends a verdict for each.
    ///
    /// On an error the verdicts are those of the keys before the one that failed, which are done.
    pub(crate) fn claim_each(
        &self,
        keys: &dyn HashSource,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.claim_part(keys, Behind::Claimed, verdicts)
    }
}

impl Store {
    /// As [`claim_hashed`](Self::claim_hashed), up to the first key that is
    /// [pending](Verdict::Pending): its verdict is the last that is appended, and the keys behind it
    /// are left alone. So a caller that acts on each new key, in order, can wait for that one with no
    /// unfinished claim of its own: it commits first, and two callers that wait for each other both
    /// go on.
    ///
    /// # Errors
    /// As [`claim_hashed`](Self::claim_hashed).
    pub fn claim_hashed_until_pending(
        &self,
        keys: &[HashedKey],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        let first = verdicts.len();
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| match Behind::Left.ends(&verdicts[first..]) {
                true => Ok(()),
                false => self.engine.claim_part(keys, Behind::Left, verdicts),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    fn claim(store: &Store, keys: &[HashedKey]) -> Vec<Verdict> {
        // What is there already is no verdict of this call.
        let mut verdicts = vec![Verdict::Pending];
        store
            .claim_hashed_until_pending(keys, &mut verdicts)
            .unwrap();
        verdicts.split_off(1)
    }

    #[test]
    fn claims_end_with_the_first_key_that_is_pending() {
        // In the first batch, at the end of one, in a later part.
        for place in [0, 700, 4095, 60_000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = Options::new().capacity(100_000).transactional(true);
            let [one, two, three] = [(); 3].map(|()| options.open_or_create(&path).unwrap());
            let keys: Vec<_> = (0..70_000_u32)
                .map(|number| one.hasher().key(&number.to_le_bytes()))
                .collect();
            assert_eq!(claim(&two, &keys[place..=place]), [Verdict::New]);
            let mut expected = vec![Verdict::New; place];
            expected.push(Verdict::Pending);
            assert_eq!(claim(&one, &keys), expected, "{place}");
            // Those behind it are free for others.
            let behind = &keys[place + 1..];
            assert_eq!(claim(&three, behind), vec![Verdict::New; behind.len()]);
            two.commit().unwrap();
            assert_eq!(
                claim(&one, &keys[place..]),
                [Verdict::Seen, Verdict::Pending]
            );
            three.close().unwrap();
            assert_eq!(claim(&one, behind), vec![Verdict::New; behind.len()]);
        }
    }
}
