//! The packed list against a sorted list of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;

use super::encode::fits;
use super::read::FingerprintFault;
use super::work::{decode_in_all_ways, encode_in_all_ways};
use super::*;
use crate::codec::{put_u32, u64_at};
use crate::page::ages::{Ages, Remembered, Window};
use crate::page::{Binding, GENERATION_OFFSET, OCCUPANCY_OFFSET, PAGE_WORDS, occupancy};

type Page = [u8; PAGE_BYTES];

/// A page with these fingerprints, sealed.
pub(super) fn page_of(fingerprints: &[u64], range: Range<u64>) -> Page {
    let mut page = [0xFF; PAGE_BYTES];
    encode_in_all_ways(fingerprints, (range, Ages::NONE), &mut page);
    Binding::NONE.seal(9, 3, occupancy(&page), &mut page);
    page
}

fn has(page: &Page, offset: u64) -> bool {
    let word = |index: usize| u64_at(page, index % PAGE_WORDS * 8);
    contains(word, offset, Remembered::ALL)
}

fn decoded(page: &Page) -> Vec<u64> {
    let mut fingerprints = Vec::new();
    decode_in_all_ways(page, first(page), &mut fingerprints).unwrap();
    fingerprints
}

/// The slow twin keeps the fingerprints as they are.
fn assert_is(page: &Page, fingerprints: &[u64], range: Range<u64>) {
    assert_eq!(check(page, range.clone()), Ok(()));
    assert_eq!(first(page), range.start);
    assert_eq!(occupancy(page) as usize, fingerprints.len());
    assert_eq!(decoded(page), fingerprints);
    let width = range.end - range.start;
    let set: BTreeSet<u64> = fingerprints.iter().map(|one| one - range.start).collect();
    let near = set.iter().flat_map(|offset| {
        [
            *offset,
            offset.wrapping_sub(1),
            offset + 1,
            offset ^ (1 << 20),
        ]
    });
    for offset in near.chain([0, width / 2, width - 1, width, u64::MAX]) {
        let expected = set.contains(&offset);
        assert_eq!(has(page, offset), expected, "{offset} of {width}");
    }
}

/// Fingerprints of a range, in clusters or anywhere, at both ends or not, as many as fit.
fn lists() -> impl Strategy<Value = (Vec<u64>, Range<u64>)> {
    let width = (0_u32..62, any::<u64>()).prop_map(|(bits, more)| (1 << bits) + more % (1 << bits));
    let places = prop::collection::vec((any::<u64>(), 0_u32..64), 0..2000);
    let first = prop_oneof![Just(0), any::<u64>().prop_map(|first| first >> 1)];
    (width, places, any::<bool>(), 1_u64..100, first).prop_map(
        |(width, places, ends, apart, first)| {
            let mut offsets = BTreeSet::new();
            let mut last = 0;
            for (place, shift) in places {
                let offset = match shift {
                    // A run of offsets that are near each other.
                    0..32 => last + 1 + place % apart,
                    _ => place,
                };
                last = offset % width;
                offsets.insert(last);
            }
            if ends {
                offsets.extend([0, width - 1]);
            }
            let mut found: Vec<u64> = offsets.into_iter().map(|offset| first + offset).collect();
            while !fits(found.len(), width, Ages::NONE) {
                found.pop();
            }
            (found, first..first + width)
        },
    )
}

proptest! {
    #[test]
    fn a_page_is_the_list_that_was_written((fingerprints, range) in lists()) {
        assert_is(&page_of(&fingerprints, range.clone()), &fingerprints, range);
    }

    /// Whatever a page holds, nothing panics or goes on for ever, and what `check` passes is a list of the range.
    #[test]
    fn a_hostile_page_is_refused_or_is_a_list(
        (fingerprints, range) in lists(),
        harm in prop::collection::vec((prop_oneof![4_usize..80, 4..PAGE_BYTES], any::<u8>()), 1..4),
        asked in prop::collection::vec(any::<u64>(), 20),
    ) {
        let mut page = page_of(&fingerprints, range.clone());
        for (place, byte) in harm {
            page[place] = byte;
        }
        let mut found = Vec::new();
        let whole = decode_in_all_ways(&page, range.start, &mut found);
        prop_assert!(found.len() < PAGE_BYTES * 8);
        let passed = check(&page, range.clone()).is_ok();
        let width = range.end - range.start;
        let own = fingerprints.iter().map(|one| one - range.start);
        for offset in asked.iter().map(|offset| offset % width).chain(own) {
            let answer = has(&page, offset);
            if passed {
                prop_assert_eq!(answer, found.binary_search(&(range.start + offset)).is_ok());
            }
        }
        if passed {
            prop_assert!(whole.is_some());
            prop_assert!(found.is_sorted_by(|one, next| one < next));
            prop_assert!(found.iter().all(|one| range.contains(one)));
        }
    }

    #[test]
    fn a_page_of_noise_does_no_harm(
        bytes in prop::collection::vec(any::<u8>(), PAGE_BYTES),
        asked in any::<u64>(),
    ) {
        let page: Page = bytes.try_into().unwrap();
        decode_in_all_ways(&page, asked, &mut Vec::new());
        has(&page, asked >> 20);
        let begin = first(&page);
        prop_assert!(check(&page, begin..begin.saturating_add(asked | 1)).is_err());
    }

    /// The slow twin keeps each fingerprint with its step.
    #[test]
    fn a_page_with_ages_has_what_is_remembered(
        keys in prop::collection::btree_map(0_u64..1 << 20, 0_u64..256, 0..1500),
        (bits, apart) in (1_u32..=8, 0_u32..30),
        (base, since) in (255_u64..1000, 0_u64..1000),
        asked in prop::collection::vec(0_u64..1 << 20, 50),
    ) {
        let most = 1 << bits;
        let window = Window::new(1000 * (most - 1), most as u32 - 1).unwrap();
        let ages = Ages::at(window, 1000 * base);
        let keys: BTreeMap<u64, u64> = keys.into_iter().map(|(one, age)| (one >> (30 - apart).min(20), age % most)).collect();
        let number = |one: u64| one << (bits + apart);
        let mut numbers: Vec<u64> = keys.iter().map(|(one, age)| number(*one) | age).collect();
        let range = number(0)..number(1 << 20);
        while !fits(numbers.len(), range.end, ages) {
            numbers.pop();
        }
        let mut page = [0xFF; PAGE_BYTES];
        encode_in_all_ways(&numbers, (range.clone(), ages), &mut page);
        prop_assert_eq!(check(&page, range), Ok(()));
        prop_assert_eq!(age_base(&page, bits), Some(base));
        prop_assert_eq!(age_base(&page, bits - 1), None);
        prop_assert_eq!(decoded(&page), numbers.clone());
        for one in asked.iter().chain(keys.keys()) {
            let age = numbers.iter().find(|other| ages.first_of(**other) == number(*one));
            let age = age.map(|other| other - number(*one));
            for since in [since, 0] {
                let word = |index: usize| u64_at(&page, index % PAGE_WORDS * 8);
                let found = contains(word, number(*one), Remembered::since(bits, since));
                prop_assert_eq!(found, age.is_some_and(|age| base - age >= since));
            }
        }
    }

    /// The slow twin tries one count after the other.
    #[test]
    fn the_longest_is_full(
        apart in 0_u32..50,
        count in 0_usize..3000,
        seed in any::<u64>(),
        guess in 0_usize..3000,
    ) {
        let mut all: Vec<u64> = (0..count as u64)
            .map(|number| crate::hash::finalise(seed ^ number) % ((count as u64) << apart))
            .collect();
        all.sort_unstable();
        all.dedup();
        let end = (count as u64) << apart;
        let taken = longest(&all, (0, end), Ages::NONE, guess);
        let width = |count: usize| all.get(count).copied().unwrap_or(end);
        prop_assert!(taken <= all.len());
        let fits = |count: usize| fits(count, width(count), Ages::NONE);
        prop_assert!(taken == 0 || fits(taken));
        prop_assert!(taken == all.len() || !fits(taken + 1));
    }
}

#[test]
fn lists_at_the_edges() {
    for width in [
        1,
        2,
        3,
        127,
        128,
        129,
        1 << 24,
        1 << 36,
        (1 << 63) - 1,
        1 << 63,
    ] {
        for first in [0, (1 << 63) - width] {
            let range = first..first + width;
            let last = range.end - 1;
            assert_is(&page_of(&[], range.clone()), &[], range.clone());
            assert_is(&page_of(&[first], range.clone()), &[first], range.clone());
            assert_is(&page_of(&[last], range.clone()), &[last], range);
        }
    }
    // Nothing is absent, and every high part has several offsets.
    let dense: Vec<u64> = (0..10_000).collect();
    assert_is(&page_of(&dense, 0..10_000), &dense, 0..10_000);
    // All offsets share one high part, more than a word has bits.
    let run: Vec<u64> = (0..300).map(|number| (1 << 62) + number).collect();
    assert_is(&page_of(&run, 0..1 << 63), &run, 0..1 << 63);
    // A zero of the high part for each group and word.
    let sparse: Vec<u64> = (0..60).map(|number| number * 1_000_003).collect();
    assert_is(&page_of(&sparse, 0..1 << 27), &sparse, 0..1 << 27);
}

/// Fills pages with a sorted list, as a segment does, and returns the bits a fingerprint takes.
fn bits_a_key(count: u64, bits: u32) -> f64 {
    let mut all: Vec<u64> = (0..count)
        .map(|number| crate::hash::finalise(number) >> (64 - bits))
        .collect();
    all.sort_unstable();
    all.dedup();
    let (mut first, mut pages, mut rest) = (0, 0_u64, &all[..]);
    let mut guess = 1400;
    while !rest.is_empty() {
        let taken = longest(rest, (first, 1 << bits), Ages::NONE, guess);
        assert!(taken > 0);
        let next = rest.get(taken).copied().unwrap_or(1 << bits);
        let page = page_of(&rest[..taken], first..next);
        assert_eq!(check(&page, first..next), Ok(()));
        assert_eq!(decoded(&page), rest[..taken]);
        (first, rest, guess, pages) = (next, &rest[taken..], taken, pages + 1);
    }
    // The last page is as full as it happens to be.
    ((pages - 1) * PAGE_BYTES as u64 * 8) as f64 / (all.len() - guess) as f64
}

/// log2(1/p) and 2.2 to 2.7 bits besides, whatever the number of keys; p = n / 2^b.
#[test]
fn pages_take_the_bits_that_were_planned() {
    for (count, bits) in [
        (100_000_u64, 37_u32),
        (100_000, 44),
        (200_000, 32),
        (100_000, 60),
    ] {
        let took = bits_a_key(count, bits);
        let least = f64::from(bits) - (count as f64).log2();
        println!(
            "{count} keys of {bits} bits: {took:.2} bits a key, {:+.2}",
            took - least
        );
        assert!(took < least + 2.7 && took > least + 1.44);
    }
}

/// Every kind of fault is told by its name.
#[test]
fn faults_are_told() {
    let offsets: Vec<u64> = (0..1000)
        .map(|number| number * 777_777 + number % 7)
        .collect();
    let range = 0..1 << 30;
    let good = page_of(&offsets, range.clone());
    let faulty = |harm: &dyn Fn(&mut Page)| {
        let mut page = good;
        harm(&mut page);
        check(&page, range.clone())
    };
    assert_eq!(faulty(&|_| ()), Ok(()));
    assert_eq!(faulty(&|page| page[GENERATION_OFFSET] ^= 1), Ok(()));
    let (expected, got) = (0, 256);
    assert_eq!(
        faulty(&|page| page[FIRST_OFFSET + 1] = 1),
        Err(FingerprintFault::First { expected, got })
    );
    for place in [HIGH_COUNT_OFFSET, LOW_BITS_OFFSET, LOW_BITS_OFFSET + 1] {
        assert_eq!(
            faulty(&|page| page[place] ^= 0x40),
            Err(FingerprintFault::Parts)
        );
    }
    assert_eq!(check(&good, 0..0), Err(FingerprintFault::Parts));
    for place in [0, 2, 4, 10] {
        let harmed = faulty(&|page| page[DIRECTORY_OFFSET + place] ^= 1);
        assert_eq!(harmed, Err(FingerprintFault::Directory), "{place}");
    }
    let layout = Layout::of(offsets.len(), range.end, Ages::NONE).unwrap();
    let begin = layout.begin() / 8;
    assert_eq!(
        faulty(&|page| page[begin + 1] ^= 1),
        Err(FingerprintFault::Group)
    );
    assert_eq!(
        faulty(&|page| put_u32(page, OCCUPANCY_OFFSET, 999)),
        Err(FingerprintFault::Count)
    );
    let end = layout.end(offsets.len());
    assert_eq!(
        faulty(&|page| page[end / 8 + 1] = 1),
        Err(FingerprintFault::Rest)
    );
    assert_eq!(
        faulty(&|page| page[BASE_OFFSET - 1] = 0x80),
        Err(FingerprintFault::Rest)
    );
}
