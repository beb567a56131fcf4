//! Segments from the first fingerprint to the file's bytes and back, through many checkpoints.

mod file;
mod forgetting;

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;

use super::entry::Segment;
use super::fault::SegmentFault;
use super::free_room::FreeRoom;
use super::image::Image;
use super::lookup::Lookup;
use super::plan::FingerprintPlan;
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::directory_ref::directory_pages;
use crate::fingerprint::page::read::FingerprintFault;
use crate::hash::finalise;
use crate::page::ages::Remembered;
use crate::page::{self, PAGE_BYTES};
use file::{Damaged, File, OWN};

fn sorted(set: &BTreeSet<u64>) -> Vec<u64> {
    set.iter().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The slow twin is a set of numbers.
    #[test]
    fn a_file_of_segments_is_a_set(
        bits in 13_u32..63,
        seed in any::<u64>(),
        steps in prop::collection::vec((0_u64..20_000, 0_u64..8), 1..5),
    ) {
        let mut file = File::new((1 << bits) - 1);
        let mut twin = BTreeSet::new();
        let (space, mut number) = (file.space, seed);
        for (count, share) in steps {
            let mut fingerprint = || {
                number = number.wrapping_add(1);
                space.fingerprint(finalise(number))
            };
            let added: BTreeSet<u64> = (0..count).map(|_| fingerprint()).collect();
            let strangers: Vec<u64> = (0..count / 8).map(|_| fingerprint()).collect();
            let old = twin.iter().copied().filter(|one| finalise(*one) % 8 < share);
            let removed: BTreeSet<u64> = old.chain(strangers).filter(|one| !added.contains(one)).collect();
            let (new, gone) = (sorted(&added), sorted(&removed));
            file.checkpoint(&new, &gone);
            twin.retain(|one| !removed.contains(one));
            twin.extend(&added);
            prop_assert_eq!(file.keys(), twin.len() as u64);
            let asked = new.iter().chain(&gone).copied().chain((0..200).map(|_| fingerprint()));
            let asked: Vec<u64> = asked.collect();
            let expected: Vec<bool> = asked.iter().map(|one| twin.contains(one)).collect();
            let one_by_one: Vec<bool> = asked.iter().map(|one| file.contains(*one)).collect();
            prop_assert_eq!(&one_by_one, &expected);
            let mut answers = vec![None; asked.len()];
            let index = file.index();
            let lookup = Lookup { segments: &file.segments, index: &index, space, pages: &file, remembered: Remembered::ALL };
            let first_hash = |one: &u64| *space.hashes(*one..*one + 1).start();
            let hashes: Vec<u64> = asked.iter().map(first_hash).collect();
            let expected = Vec::from_iter(expected.into_iter().map(Some));
            // First each segment's fences are read, and each page is checked; then the index leads there.
            for _ in 0..2 {
                lookup.contains_all(&hashes, &mut answers);
                prop_assert_eq!(&answers, &expected);
            }
            lookup.contains_all_alone(&hashes, &mut answers);
            prop_assert_eq!(&answers, &expected);
            prop_assert!(twin.iter().all(|one| file.contains(*one)));
        }
    }
}

/// Where fingerprints crowd, pages lie far from where even ones would.
#[test]
fn look_ups_find_the_pages_of_a_crowd() {
    let mut file = File::new(1 << 40);
    let crowd = (1 << 30..).step_by(3).take(30_000);
    let list: Vec<u64> = crowd.chain((1 << 31..1 << 40).step_by(1 << 28)).collect();
    file.checkpoint(&list, &[]);
    assert_eq!(file.segments.len(), 1);
    assert!(file.segments[0].pages > 8);
    let (space, index) = (file.space, file.index());
    let lookup = Lookup {
        segments: &file.segments,
        index: &index,
        space,
        pages: &file,
        remembered: Remembered::ALL,
    };
    let first_hash = |one: u64| *space.hashes(one..one + 1).start();
    let asked: Vec<u64> = list.iter().flat_map(|one| [*one, one + 1]).collect();
    let hashes: Vec<u64> = asked.iter().copied().map(first_hash).collect();
    let mut answers = vec![None; asked.len()];
    lookup.contains_all(&hashes, &mut answers);
    for ((one, hash), answer) in asked.iter().zip(&hashes).zip(answers) {
        let expected = list.binary_search(one).is_ok();
        assert_eq!(answer, Some(expected), "{one}");
        assert_eq!(lookup.contains(*hash), Some(expected), "{one}");
    }
}

/// As many hashes as any, of which every second is of a fingerprint that is there.
fn hashes_of(file: &File, list: &[u64], count: usize) -> Vec<u64> {
    let first_hash = |one: u64| *file.space.hashes(one..one + 1).start();
    let asked = list.iter().step_by(7).flat_map(|one| [*one, one + 1]);
    asked.cycle().take(count).map(first_hash).collect()
}

/// Looks go through the stages in groups: none is left behind in a group that is not full.
#[test]
fn any_number_of_looks_is_answered() {
    let (file, list) = spread(20_000);
    let index = file.index();
    let lookup = Lookup {
        segments: &file.segments,
        index: &index,
        space: file.space,
        pages: &file,
        remembered: Remembered::ALL,
    };
    for count in (0..100).chain([511, 512, 513, 5000]) {
        let hashes = hashes_of(&file, &list, count);
        let mut answers = vec![None; count];
        lookup.contains_all(&hashes, &mut answers);
        let twin = hashes.iter().map(|hash| lookup.contains(*hash));
        assert_eq!(answers, Vec::from_iter(twin), "{count}");
    }
}

/// Only what lies behind damaged pages has no answer, wherever in its group it stands.
#[test]
fn looks_that_meet_damage_leave_the_others_alone() {
    let (file, list) = spread(20_000);
    let hashes = hashes_of(&file, &list, 3000);
    for (every, are_fences_whole) in [(2, true), (3, true), (1, true), (3, false)] {
        let index = file.index();
        let lookup = Lookup {
            segments: &file.segments,
            index: &index,
            space: file.space,
            pages: Damaged {
                file: &file,
                every,
                are_fences_whole,
            },
            remembered: Remembered::ALL,
        };
        let mut answers = vec![None; hashes.len()];
        lookup.contains_all(&hashes, &mut answers);
        for (hash, answer) in hashes.iter().zip(answers) {
            let page = lookup.page_of(*hash);
            let is_damaged = page.is_none_or(|page| page.is_multiple_of(every));
            let fingerprint = file.space.fingerprint(*hash);
            let expected = (!is_damaged).then(|| file.contains(fingerprint));
            assert_eq!(answer, expected, "{hash}, every {every}");
            assert_eq!(lookup.contains(*hash), expected, "{hash}, every {every}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever lies in a segment's pages, with right checksums: a checkpoint ends with a fault, or with whole segments.
    #[test]
    fn a_hostile_segment_is_refused_or_merged(
        harm in prop::collection::vec((0_u64..4, 4_usize..120, any::<u8>()), 1..4),
        deep in prop::collection::vec((0_u64..4, 4..PAGE_BYTES, any::<u8>()), 0..4),
    ) {
        let (mut file, _) = spread(2500);
        let extent = file.segments[0].extent();
        for (page, at, byte) in harm.into_iter().chain(deep) {
            file.forge((extent.start + page).min(extent.end - 1), at, byte);
        }
        if file.try_checkpoint(&[5, 1 << 39], &[7_777_777]).is_ok() {
            let merged = file.list();
            prop_assert!(merged.is_sorted_by(|one, next| one < next));
            prop_assert!(merged.iter().all(|one| *one < 1 << 40));
            file.checkpoint(&[6], &[]);
        }
    }
}

/// A file of numbers that lie far apart, and the numbers.
fn spread(count: u64) -> (File, Vec<u64>) {
    let mut file = File::new(1 << 40);
    let list: Vec<u64> = (0..count).map(|number| number * 7_777_777).collect();
    file.checkpoint(&list, &[]);
    (file, list)
}

/// A store of this many keys of a plan, made at once.
fn packed(plan: &FingerprintPlan, keys: u64) -> File {
    let mut file = File::new(plan.space.count());
    let list: BTreeSet<u64> = (0..keys)
        .map(|number| plan.space.fingerprint(finalise(number)))
        .collect();
    file.checkpoint(&sorted(&list), &[]);
    assert_eq!(file.keys(), list.len() as u64);
    file
}

/// What the plan says is what the file takes.
#[test]
fn the_plan_is_the_room_that_segments_take() {
    for (limit, fpr, keys) in [
        (3_000_000, 1e-6, 3_000_000),
        (1 << 36, 1e-6, 2_000_000),
        (3_000_000, 1e-3, 3_000_000),
        (3_000_000, 3e-2, 2_000_000),
    ] {
        let plan = FingerprintPlan::for_rate(limit, fpr).unwrap();
        let file = packed(&plan, keys);
        let length = |extent: Range<u64>| extent.end - extent.start;
        let pages: u64 = file.segments.iter().map(|one| length(one.extent())).sum();
        let directory = 2 * directory_pages(file.segments.len() as u64);
        let took = (pages + directory) as f64 * 32768.0 / file.keys() as f64;
        let planned = plan.bits_per_key(keys);
        println!(
            "{keys} of {limit} keys at {fpr}: {took:.3} bits a key, planned {planned:.3}, {:+.2}",
            took + plan.rate(keys).log2()
        );
        assert!((took / planned - 1.0).abs() < 0.01, "{took} {planned}");
    }
}

/// Free room falls to pieces and grows together again: how long the file is beside what it holds, when nothing is ever cut
/// off.
#[test]
fn a_store_that_grows_is_not_much_longer_than_twice_its_segments() {
    let mut sizes: Vec<u64> = vec![700];
    let mut live: Vec<Range<u64>> = Vec::new();
    let mut worst: f64 = 0.0;
    for checkpoint in 0..40_u64 {
        let mut grown = Vec::new();
        for (index, pages) in (0..).zip(&sizes) {
            // An eighth more, and chance.
            let more = pages * 9 / 8 + finalise(checkpoint << 32 | index) % 8;
            match more as usize >= TARGET_PAGES * 3 / 2 {
                true => grown.extend([more / 2, more.div_ceil(2)]),
                false => grown.push(more),
            }
        }
        let mut room = FreeRoom::around(live.iter().cloned());
        let next = grown.iter().map(|pages| {
            let pages = pages + pages.div_ceil(510);
            let start = room.take(pages).unwrap();
            start..start + pages
        });
        let next: Vec<_> = next.collect();
        let total: u64 = next.iter().map(|one| one.end - one.start).sum();
        if checkpoint > 10 {
            worst = worst.max(room.end() as f64 / total as f64);
        }
        (live, sizes) = (next, grown);
    }
    println!(
        "{} segments; the file is at most {worst:.2} times as long",
        sizes.len()
    );
    assert!(worst < 2.5, "{worst}");
}

#[test]
fn segments_have_the_size_that_was_aimed_for() {
    let plan = FingerprintPlan::for_rate(6_000_000, 1e-6).unwrap();
    let mut file = packed(&plan, 3_000_000);
    let more: BTreeSet<u64> = (3_000_000..6_000_000)
        .map(|number| plan.space.fingerprint(finalise(number)))
        .collect();
    file.checkpoint(&sorted(&more), &[]);
    assert!(file.segments.len() >= 3);
    for segment in &file.segments {
        let pages = segment.pages as usize;
        assert!(
            (TARGET_PAGES / 2..TARGET_PAGES * 3 / 2).contains(&pages),
            "{pages}"
        );
    }
}

/// A segment without changes is not written again, unless the one before has become too small.
#[test]
fn what_does_not_change_stays_where_it_is() {
    let plan = FingerprintPlan::for_rate(6_000_000, 1e-6).unwrap();
    let mut file = packed(&plan, 6_000_000);
    let before = file.segments.clone();
    let first = before[1].first;
    file.checkpoint(&[first + 1], &[]);
    let stayed = |file: &File| {
        let same = before.iter().map(|segment| file.segments.contains(segment));
        same.collect::<Vec<_>>()
    };
    assert_eq!(file.segments.len(), before.len());
    assert!(
        (0..)
            .zip(stayed(&file))
            .all(|(index, stayed)| stayed == (index != 1))
    );
    let second: Vec<u64> = file
        .list()
        .into_iter()
        .filter(|one| (first..before[2].first).contains(one))
        .collect();
    file.checkpoint(&[], &second);
    let expected: Vec<bool> = (0..before.len())
        .map(|index| index != 1 && index != 2)
        .collect();
    assert_eq!(stayed(&file), expected);
    assert_eq!(file.segments.len(), before.len() - 1);
}

/// What is left of a store whose keys are all removed is a page without any.
#[test]
fn a_segment_may_be_empty() {
    let (mut file, list) = spread(5000);
    file.checkpoint(&[], &list);
    assert_eq!((file.keys(), file.segments.len()), (0, 1));
    assert_eq!(file.segments[0].pages, 1);
    assert!(!list.iter().any(|one| file.contains(*one)));
    file.checkpoint(&list, &[]);
    assert!(list.iter().all(|one| file.contains(*one)));
}

/// Whichever byte of a segment changes, its check tells.
#[test]
fn every_flipped_byte_of_a_segment_is_told() {
    let (file, _) = spread(3000);
    let segment = file.segments[0];
    let extent = segment.extent();
    let good = file.bytes(extent.clone()).to_vec();
    let image = |bytes: &[u8]| Image::of(OWN, segment, 1 << 40, bytes).map(|image| image.check());
    assert_eq!(image(&good), Some(Ok(())));
    assert_eq!(image(&good[PAGE_BYTES..]), None);
    for at in (0..good.len()).step_by(7) {
        let mut harmed = good.clone();
        harmed[at] ^= 1 << (at % 8);
        let number = extent.start + (at / PAGE_BYTES) as u64;
        let reported = image(&harmed);
        assert!(
            matches!(reported, Some(Err(SegmentFault::Checksum { number: got, .. })) if got == number),
            "{at}: {reported:?}"
        );
    }
}

/// Pages that are whole, in a place or a segment where they don't belong.
#[test]
fn a_page_of_another_place_is_told() {
    let (file, _) = spread(3000);
    let segment = file.segments[0];
    let good = file.bytes(segment.extent()).to_vec();
    let check = |segment, bytes: &[u8]| Image::of(OWN, segment, 1 << 40, bytes).unwrap().check();
    let mut moved = good.clone();
    moved[..PAGE_BYTES].copy_from_slice(&good[PAGE_BYTES..2 * PAGE_BYTES]);
    let reported = check(segment, &moved);
    assert!(
        matches!(reported, Err(SegmentFault::Checksum { .. })),
        "{reported:?}"
    );
    let front = &mut moved[..PAGE_BYTES];
    OWN.seal(
        segment.first_page,
        segment.generation,
        page::occupancy(front),
        front,
    );
    let reported = check(segment, &moved);
    let first = |fault| matches!(fault, FingerprintFault::First { expected: 0, .. });
    assert!(
        matches!(reported, Err(SegmentFault::List { fault, .. }) if first(fault)),
        "{reported:?}"
    );
    let (expected, got) = (segment.keys + 1, segment.keys);
    let keys = Segment {
        keys: expected,
        ..segment
    };
    assert_eq!(
        check(keys, &good),
        Err(SegmentFault::Keys { expected, got })
    );
    let generation = Segment {
        generation: 3,
        ..segment
    };
    let reported = check(generation, &good);
    assert!(
        matches!(
            reported,
            Err(SegmentFault::Generation {
                expected: 3,
                got: 2,
                ..
            })
        ),
        "{reported:?}"
    );
}

/// A checkpoint believes no page that it merges before it is checked.
#[test]
fn a_checkpoint_refuses_what_a_check_refuses() {
    let (file, _) = spread(3000);
    let (good, number) = (file.clone(), file.segments[0].first_page);
    let refused = |at: usize, byte: u8| {
        let mut file = good.clone();
        file.forge(number, at, byte);
        file.try_checkpoint(&[1], &[]).unwrap_err()
    };
    let list = |fault| SegmentFault::List { number, fault };
    let (expected, got) = (0, 1);
    assert_eq!(
        refused(16, 1),
        list(FingerprintFault::First { expected, got })
    );
    assert_eq!(refused(26, 55), list(FingerprintFault::Group));
    assert_eq!(refused(4, 1), list(FingerprintFault::Group));
    let generation = refused(8, 77);
    assert!(
        matches!(generation, SegmentFault::Generation { got: 77, .. }),
        "{generation:?}"
    );
    let mut file = good.clone();
    file.segments[0].keys += 1;
    let (expected, got) = (3001, 3000);
    assert_eq!(
        file.try_checkpoint(&[1], &[]),
        Err(SegmentFault::Keys { expected, got })
    );
    assert_eq!(good.clone().try_checkpoint(&[1], &[]), Ok(()));
}

/// A segment is cut into pieces by what the headers of its pages say, which a right CRC does not make true.
#[test]
fn counts_that_no_page_has_are_found() {
    let (mut file, _) = spread(3000);
    let number = file.segments[0].first_page;
    assert_eq!(file.image(0).check_counts(), Ok(()));
    file.forge(number, 5, 0x7F);
    let fault = FingerprintFault::Count;
    let refused = SegmentFault::List { number, fault };
    assert_eq!(file.image(0).check_counts(), Err(refused));
    file.forge(number, 5, 0);
    let fewer = file.image(0).check_counts();
    assert!(
        matches!(fewer, Err(SegmentFault::Keys { expected: 3000, got }) if got < 3000),
        "{fewer:?}"
    );
}

/// Merging again what was merged changes nothing: a checkpoint may be published in steps.
#[test]
fn a_merge_done_again_gives_the_same_pages() {
    let plan = FingerprintPlan::for_rate(200_000, 1e-4).unwrap();
    let mut file = packed(&plan, 200_000);
    let added: Vec<u64> = (0..1000).map(|number| number * 1_999_993).collect();
    let removed: Vec<u64> = (0..1000).map(|number| number * 1_999_993 + 5).collect();
    file.checkpoint(&added, &removed);
    let lists = |file: &File| {
        (
            file.list(),
            file.segments
                .iter()
                .map(|one| one.pages)
                .collect::<Vec<_>>(),
        )
    };
    let once = lists(&file);
    file.checkpoint(&added, &removed);
    assert_eq!(lists(&file), once);
}
