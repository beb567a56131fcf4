//! How the store of a session is made and used.

use std::sync::Arc;

use everseen::testing::LEAST_BUFFER;
use everseen::{ForgetBy, Kind};

use crate::support::numbers::Random;
use crate::support::segments::Seen;

/// What kind of store is used, and how.
#[derive(Debug, Clone)]
pub struct Setup {
    pub kind: Kind,
    pub transactional: bool,
    pub background: bool,
    pub capacity: u64,
    pub buffer: u64,
    /// Batches that fill the buffer.
    pub large: bool,
    pub kills: bool,
    /// Syncs that fail.
    pub faults: bool,
    /// Keys that a store of fingerprints is given at first, so that it has several segments.
    pub bulk: u64,
    /// The entries of a run that is kept apart.
    pub least_run: u64,
    /// From when on the age of a key counts, in a store that forgets.
    pub forgets: Option<ForgetBy>,
    /// What was seen of segments.
    pub seen: Arc<Seen>,
}

impl Setup {
    pub fn draw(random: &mut Random) -> Self {
        let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let scalable = one_of(&[0, 1]) == 1;
        let large = one_of(&[0, 0, 0, 0, 0, 0, 1]) == 1;
        Self {
            kind: match scalable {
                true => Kind::Scalable,
                false => Kind::Bloom,
            },
            transactional: one_of(&[0, 1]) == 1,
            background: one_of(&[0, 0, 1]) == 1,
            capacity: match (scalable, large) {
                (true, _) => one_of(&[16, 200, 1000, 4000]),
                (false, true) => one_of(&[9000, 12_000]),
                (false, false) => one_of(&[600, 3000, 8000, 24_000]),
            },
            buffer: match large {
                true => one_of(&[LEAST_BUFFER, LEAST_BUFFER, 4 * LEAST_BUFFER]),
                false => LEAST_BUFFER,
            },
            large,
            kills: one_of(&[0, 1]) == 1,
            faults: one_of(&[0, 0, 1]) == 1,
            bulk: 0,
            least_run: 8192,
            forgets: None,
            seen: Arc::default(),
        }
    }

    /// Makes it a store of fingerprints, of a size that is in use for the others too. Of three, one is so large that its runs
    /// drain in slices.
    pub fn take_fingerprints(&mut self, seen: &Arc<Seen>, recording: u64, random: &mut Random) {
        self.kind = Kind::Fingerprint;
        self.capacity = self.capacity.max(3000);
        self.seen = Arc::clone(seen);
        let drains = recording.is_multiple_of(3);
        if drains || random.below(3) > 0 {
            self.least_run = 16;
        }
        if drains || random.below(2) == 0 {
            self.bulk = if drains { 3000 } else { 1000 } + random.below(2000);
            self.capacity = self.capacity.max(12_000);
        }
    }
}
