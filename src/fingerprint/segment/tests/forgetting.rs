//! Segments of a store that forgets, through many checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::file::File;
use super::sorted;
use crate::fingerprint::segment::lookup::Lookup;
use crate::hash::finalise;
use crate::page::ages::{Remembered, Window};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The slow twin is a map from each fingerprint to the step that it came in.
    #[test]
    fn a_file_that_forgets_is_a_map_of_steps(
        bits in 13_u32..50,
        most in 1_u32..40,
        seed in any::<u64>(),
        steps in prop::collection::vec((0_u64..12_000, 0_u64..8, 0_u64..24), 1..6),
    ) {
        let window = Window::new(u64::from(most) * 1000, most).unwrap();
        let mut file = File::that_forgets((1 << bits) - 1, window);
        let mut twin: BTreeMap<u64, u64> = BTreeMap::new();
        let (space, mut number, mut now) = (file.space, seed, 0);
        for (count, share, later) in steps {
            let mut fingerprint = || {
                number = number.wrapping_add(1);
                space.fingerprint(finalise(number))
            };
            now += later;
            let since = now.saturating_sub(most.into());
            let fresh: BTreeSet<u64> = (0..count).map(|_| fingerprint()).collect();
            // Some that are there already come again.
            let again = twin.keys().copied().filter(|one| finalise(*one).is_multiple_of(5));
            let added: BTreeSet<u64> = fresh.into_iter().chain(again).collect();
            let old = twin.keys().copied().filter(|one| finalise(*one) % 8 < share);
            let removed: BTreeSet<u64> = old.filter(|one| !added.contains(one)).collect();
            file.checkpoint_at(now * 1000, &sorted(&added), &sorted(&removed));
            twin.retain(|one, step| *step >= since && !removed.contains(one));
            twin.extend(added.iter().map(|one| (*one, now)));
            prop_assert_eq!(file.keys(), twin.len() as u64);
            let asked = added.iter().chain(&removed).copied().chain((0..200).map(|_| fingerprint()));
            let asked: Vec<u64> = asked.chain(twin.keys().copied()).collect();
            let first_hash = |one: &u64| *space.hashes(*one..space.behind(*one)).start();
            let hashes: Vec<u64> = asked.iter().map(first_hash).collect();
            let mut answers = vec![None; asked.len()];
            let index = file.index();
            for since in [since, since + 1, now, now + 1] {
                let remembered = Remembered::since(space.age_bits(), since);
                let lookup = Lookup { segments: &file.segments, index: &index, space, pages: &file, remembered };
                let is_there = |one: &u64| twin.get(one).is_some_and(|step| *step >= since);
                let expected: Vec<_> = asked.iter().map(|one| Some(is_there(one))).collect();
                lookup.contains_all(&hashes, &mut answers);
                prop_assert_eq!(&answers, &expected);
                lookup.contains_all_alone(&hashes, &mut answers);
                prop_assert_eq!(&answers, &expected);
            }
        }
    }
}
