//! A page of fingerprints of any bytes, and one that is changed.
#![no_main]

use everseen::fuzzing::{self, PageAges};
use everseen_fuzz::forge::{Patch, patch};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};

#[derive(Debug, Arbitrary)]
struct Input {
    /// How far each number is from the one before it.
    steps: Vec<u32>,
    first: u64,
    behind: u32,
    /// Bits that the steps are multiplied by.
    apart: u8,
    patches: Vec<Patch>,
    asked: Vec<u64>,
    /// The ages of a store that forgets; none: the numbers have none.
    ages: Vec<u8>,
    age_bits: u8,
    base: u32,
    /// Which step is the first whose keys count.
    since: u32,
}

impl Input {
    fn page_ages(&self) -> PageAges {
        PageAges {
            bits: if self.ages.is_empty() {
                0
            } else {
                u32::from(self.age_bits % 9)
            },
            base: self.base.into(),
        }
    }

    /// Adds ages to a list and its range; `None` if that goes beyond 2^63.
    fn with_ages(&self, list: &mut [u64], (first, end): (u64, u64)) -> Option<(u64, u64)> {
        let bits = self.page_ages().bits;
        if end >> (63 - bits) > 0 {
            return None;
        }
        for (number, age) in list.iter_mut().zip(self.ages.iter().cycle()) {
            *number = *number << bits | u64::from(*age) & ((1 << bits) - 1);
        }
        Some((first << bits, end << bits))
    }

    /// The list and the end of its range; all below 2^63.
    fn list(&self) -> Option<(Vec<u64>, u64)> {
        let mut next = self.first >> 1;
        let mut list = Vec::new();
        for step in &self.steps {
            next = next.checked_add(u64::from(*step) << (self.apart % 32))?;
            list.push(next);
            next = next.checked_add(1)?;
        }
        let end = next.checked_add(u64::from(self.behind))?;
        (self.first >> 1 < end && end < 1 << 63).then_some((list, end))
    }
}

fuzz_target!(|input: Input| {
    let Some((mut list, end)) = input.list() else {
        return;
    };
    let ages = input.page_ages();
    let Some((first, end)) = input.with_ages(&mut list, (input.first >> 1, end)) else {
        return;
    };
    let (count, mut page) = fuzzing::fingerprint_page(&list, (first, end), ages);
    let end = list
        .get(count)
        .map_or(end, |next| next >> ages.bits << ages.bits);
    let read = fuzzing::fingerprints(&page, end, &input.asked);
    assert_eq!(read.as_deref(), Some(&list[..count]));
    let ask = |page: &[u8; 4096], list: &[u64]| {
        for asked in [&input.asked[..], list] {
            let inside: Vec<u64> = asked.iter().copied().filter(|one| *one < end).collect();
            fuzzing::remembered(page, list, &inside, ages.bits, input.since.into());
        }
    };
    ask(&page, &list[..count]);
    patch(&mut *page, 4, &input.patches);
    if let Some(other) = fuzzing::fingerprints(&page, end, &input.asked) {
        assert!(other.is_sorted_by(|one, next| one < next));
        assert!(other.last().is_none_or(|last| *last < end));
        ask(&page, &other);
    }
});
