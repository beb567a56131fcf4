//! Segments and pages of the directory of any bytes, and such that are changed.
#![no_main]

use everseen::fuzzing;
use everseen_fuzz::forge::{Patch, patch, seal_page};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};

#[derive(Debug, Arbitrary)]
struct Input {
    /// How far each number is from the one before it.
    steps: Vec<u32>,
    /// Bits that the steps are multiplied by: so few numbers fill many pages.
    apart: u8,
    behind: u32,
    entry: Vec<Patch>,
    /// Pages, counted from the segment's first one, and what is changed in them.
    pages: Vec<(u8, Patch)>,
    directory: Vec<Patch>,
    seal: bool,
    asked: Vec<u64>,
}

impl Input {
    /// The list, which begins in a range from 0, and the range's end; all below 2^63.
    fn list(&self) -> Option<(Vec<u64>, u64)> {
        let mut next = 0_u64;
        let mut list = Vec::new();
        for step in &self.steps {
            next = next.checked_add(u64::from(*step) << (self.apart % 32))?;
            list.push(next);
            next = next.checked_add(1)?;
        }
        let end = next.checked_add(u64::from(self.behind) + 1)?;
        (end < 1 << 63).then_some((list, end))
    }
}

fuzz_target!(|input: Input| {
    let Some((list, end)) = input.list() else {
        return;
    };
    let mut asked = input.asked.clone();
    asked.sort_unstable();
    asked.dedup();
    let mut segments = fuzzing::segments(&list, 0, end);
    let mut entries = Vec::new();
    let mut count = 0;
    for segment in &mut segments {
        let (keys, found) = fuzzing::segment(segment, &list).expect("it was packed so");
        assert!(found.iter().all(|found| *found));
        assert_eq!(keys, found.len() as u64);
        count += keys;
        entries.extend_from_slice(&segment.entry);
        patch(&mut segment.entry, 0, &input.entry);
        for (page, change) in &input.pages {
            let start = usize::from(*page) * 4096;
            if let Some(page) = segment.pages.get_mut(start..start + 4096) {
                patch(page, 0, std::slice::from_ref(change));
            }
        }
        if input.seal {
            for (number, page) in (segment.first_page..).zip(segment.pages.chunks_exact_mut(4096)) {
                seal_page(&[], number, page);
            }
        }
        // What is not refused has no more than it says.
        if let Some((keys, found)) = fuzzing::segment(segment, &asked) {
            assert!(found.iter().filter(|found| **found).count() as u64 <= keys);
        }
    }
    assert_eq!(count, list.len() as u64);

    let mut page = [0; 4096];
    let used = entries.len().min(4080) / 40 * 40;
    page[4..8].copy_from_slice(&(used as u32 / 40).to_le_bytes());
    page[8..16].copy_from_slice(&1_u64.to_le_bytes());
    page[16..16 + used].copy_from_slice(&entries[..used]);
    seal_page(&[], 31, &mut page);
    let read = fuzzing::directory_page(&page, 31, 1, 1 << 50);
    assert_eq!(read.as_deref(), Some(&page[..]));
    patch(&mut page, 4, &input.directory);
    seal_page(&[], 31, &mut page);
    if let Some(written) = fuzzing::directory_page(&page, 31, 1, 1 << 50) {
        // Nothing in an accepted one is passed over.
        assert_eq!(written, page);
    }
});
