//! A page of fingerprints of any bytes, and one that is changed.
#![no_main]

use everseen::fuzzing;
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
}

impl Input {
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
    let Some((list, end)) = input.list() else {
        return;
    };
    let first = input.first >> 1;
    let (count, mut page) = fuzzing::fingerprint_page(&list, first, end);
    let end = list.get(count).copied().unwrap_or(end);
    let read = fuzzing::fingerprints(&page, end, &input.asked);
    assert_eq!(read.as_deref(), Some(&list[..count]));
    patch(&mut *page, 4, &input.patches);
    if let Some(other) = fuzzing::fingerprints(&page, end, &input.asked) {
        assert!(other.is_sorted_by(|one, next| one < next));
        assert!(other.last().is_none_or(|last| *last < end));
    }
});
