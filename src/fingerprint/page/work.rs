//! Writing and reading one page, compiled for each processor: for tests, fuzzer and benches.

use std::ops::Range;

use super::{decode, encode};
use crate::page::PAGE_BYTES;
use crate::page::ages::Ages;
use crate::sys::simd::dispatch::{Cpu, Work};

/// Writes fingerprints of a range to a page.
pub(crate) struct Encode<'a>(
    pub(crate) &'a [u64],
    pub(crate) (Range<u64>, Ages),
    pub(crate) &'a mut [u8; PAGE_BYTES],
);

/// Appends the fingerprints of a page that begins with one.
pub(crate) struct Decode<'a>(
    pub(crate) &'a [u8; PAGE_BYTES],
    pub(crate) u64,
    pub(crate) &'a mut Vec<u64>,
);

impl Work for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        encode(self.0, self.1, self.2, cpu);
    }
}

impl Work for Decode<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> Option<()> {
        decode(self.0, self.1, self.2, cpu)
    }
}

/// Writes a page with the instructions of any processor, and makes sure that this one's give the same.
#[cfg(any(test, fuzzing))]
pub(crate) fn encode_in_all_ways(
    fingerprints: &[u64],
    range: (Range<u64>, Ages),
    page: &mut [u8; PAGE_BYTES],
) {
    use crate::sys::simd::dispatch::{Baseline, run, run_wide};

    let [mut modern, mut wide] = [*page; 2];
    run(Encode(fingerprints, range.clone(), &mut modern));
    run_wide(Encode(fingerprints, range.clone(), &mut wide));
    Encode(fingerprints, range, page).run(Baseline);
    assert!(modern == *page && wide == *page, "{fingerprints:?}");
}

/// Reads a page in the same way.
#[cfg(any(test, fuzzing))]
pub(crate) fn decode_in_all_ways(
    page: &[u8; PAGE_BYTES],
    first: u64,
    out: &mut Vec<u64>,
) -> Option<()> {
    use crate::sys::simd::dispatch::{Baseline, run, run_wide};

    let [mut modern, mut wide] = [out.clone(), out.clone()];
    let whole = Decode(page, first, out).run(Baseline);
    assert_eq!(run(Decode(page, first, &mut modern)), whole);
    assert_eq!(run_wide(Decode(page, first, &mut wide)), whole);
    assert!(whole.is_none() || modern == *out && wide == *out);
    whole
}
