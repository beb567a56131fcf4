//! Decides which layers of growing stores are combined. Pure arithmetic on their superblocks.

use crate::file::Layer;
use crate::sizing::expected_rate;

/// A layer of an input, whose pages go into a layer of the result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// The index of the input.
    pub(crate) input: usize,
    /// The index of the layer in that input.
    pub(crate) index: u32,
    pub(crate) layer: Layer,
}

/// A layer of the result, before its place is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) pages: u64,
    pub(crate) probes: u32,
    pub(crate) capacity: u64,
    pub(crate) fpr: f64,
    /// The most keys it may hold.
    pub(crate) keys: u64,
    pub(crate) parts: Vec<Part>,
}

/// Combines layers whose keys, taken together, keep within the layer's own rate: the largest layer first, each into the
/// first group that takes it. Returns the groups by capacity. The largest is last, because later layers are a multiple
/// of it.
pub(crate) fn pack(mut parts: Vec<Part>) -> Vec<Group> {
    parts.retain(|part| part.layer.keys > 0);
    let count = parts.len();
    // Stable sort: of equal layers, those of the first input come first.
    parts.sort_by_key(|part| std::cmp::Reverse((part.layer.pages, part.layer.keys)));
    let mut groups: Vec<Group> = Vec::new();
    for part in parts {
        match groups.iter_mut().find_map(|group| {
            let joined = join(group, &part)?;
            Some((group, joined))
        }) {
            Some((group, joined)) => *group = joined,
            None => groups.push(Group {
                pages: part.layer.pages,
                probes: part.layer.probes,
                capacity: part.layer.capacity,
                fpr: part.layer.fpr,
                keys: part.layer.keys,
                parts: vec![part],
            }),
        }
    }
    groups.sort_by_key(|group| group.capacity);
    // The keys of a layer that is in no group would be lost (I1).
    assert_eq!(
        groups.iter().map(|group| group.parts.len()).sum::<usize>(),
        count
    );
    // The pages of a part are folded onto those of the group.
    let folds = |group: &Group, part: &Part| part.layer.pages.is_multiple_of(group.pages);
    let all_fold = |group: &Group| group.parts.iter().all(|part| folds(group, part));
    assert!(groups.iter().all(all_fold));
    groups
}

/// Returns the group with one more layer, which has no more pages than the group; `None` if they don't fit.
fn join(group: &Group, part: &Part) -> Option<Group> {
    let layer = &part.layer;
    if group.probes != layer.probes || !group.pages.is_multiple_of(layer.pages) {
        return None;
    }
    let keys = group.keys.saturating_add(layer.keys);
    // Of equally large ones, use the stricter.
    let (capacity, fpr) = match group.pages == layer.pages && group.fpr <= layer.fpr {
        true => (group.capacity, group.fpr),
        false => (layer.capacity, layer.fpr),
    };
    if expected_rate(keys, layer.pages, layer.probes) > fpr {
        return None;
    }
    let mut parts = group.parts.clone();
    parts.push(*part);
    Some(Group {
        pages: layer.pages,
        capacity,
        fpr,
        keys,
        parts,
        ..*group
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::Cell;
    use proptest::prelude::*;

    fn part(input: usize, pages: u64, probes: u32, share: f64) -> Part {
        let capacity = pages * 1000;
        let keys = (capacity as f64 * share) as u64;
        Part {
            input,
            index: 0,
            layer: Layer {
                cell: Cell::Bit,
                first_page: 32,
                pages,
                capacity,
                keys,
                fpr: expected_rate(capacity, pages, probes),
                probes,
                all_written: false,
            },
        }
    }

    proptest! {
        /// However layers are combined, no layer with keys is lost, and each group keeps within its rate.
        #[test]
        fn each_layer_is_in_one_group_that_keeps_its_rate(
            given in prop::collection::vec((1_u64..13, 5_u32..8, 0.0..1.0), 0..15),
        ) {
            let parts: Vec<_> = (0..)
                .zip(&given)
                .map(|(input, (pages, probes, share))| part(input, *pages, *probes, *share))
                .collect();
            let groups = pack(parts.clone());
            let mut held: Vec<_> = groups.iter().flat_map(|group| group.parts.clone()).collect();
            held.sort_by_key(|part| part.input);
            let mut wanted = parts;
            wanted.retain(|part| part.layer.keys > 0);
            prop_assert_eq!(held, wanted);
            for group in &groups {
                let keys: u64 = group.parts.iter().map(|part| part.layer.keys).sum();
                prop_assert_eq!(group.keys, keys);
                prop_assert!(expected_rate(keys, group.pages, group.probes) <= group.fpr);
                let least = group.parts.iter().map(|part| part.layer.pages).min();
                prop_assert_eq!(least, Some(group.pages));
                for part in &group.parts {
                    prop_assert_eq!(part.layer.pages % group.pages, 0);
                    prop_assert_eq!(part.layer.probes, group.probes);
                }
                // Rate and capacity are those of one of its smallest layers.
                let own = |part: &&Part| part.layer.pages == group.pages
                    && part.layer.fpr == group.fpr
                    && part.layer.capacity == group.capacity;
                prop_assert!(group.parts.iter().any(|part| own(&part)));
            }
            prop_assert!(groups.is_sorted_by_key(|group| group.capacity));
        }
    }

    #[test]
    fn halves_become_one_and_full_ones_do_not() {
        let of = |parts: &[Part]| -> Vec<usize> {
            pack(parts.to_vec())
                .iter()
                .map(|group| group.parts.len())
                .collect()
        };
        assert_eq!(of(&[part(0, 4, 7, 0.5), part(1, 4, 7, 0.5)]), [2]);
        assert_eq!(of(&[part(0, 4, 7, 0.6), part(1, 4, 7, 0.6)]), [1, 1]);
        assert_eq!(of(&[part(0, 4, 7, 0.4), part(1, 4, 6, 0.4)]), [1, 1]);
        assert_eq!(of(&[part(0, 4, 7, 0.1), part(1, 8, 7, 0.2)]), [2]);
        assert_eq!(of(&[part(0, 4, 7, 0.1), part(1, 6, 7, 0.2)]), [1, 1]);
        assert_eq!(of(&[part(0, 4, 7, 0.0)]), [0; 0]);
    }
}
