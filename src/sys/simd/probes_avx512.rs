//! Draws runs of probes for eight keys at once, on processors with AVX-512.
//!
//! `bloom::blocked_probes` describes the runs and contains the portable twin; here each lane belongs to one key. Vectors
//! have 256 bits: those of 512 took 7 instead of 11 ns a key, but lowered the clock of the core by 8 %, for all other work
//! as well.

/// The number of keys drawn at once.
pub(crate) const EIGHT: usize = 8;

/// The ranges that runs are drawn from.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "eight keys are drawn for elsewhere one by one")
)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheme {
    /// The generator's state grows by this much at each step.
    pub(crate) step: u64,
    /// Bits in a page's header, in the payload behind it, and in a line, a power of two.
    pub(crate) header: u64,
    pub(crate) payload: u64,
    pub(crate) line: u64,
}

/// Returns whether the processor draws for eight keys at once.
#[inline]
pub(crate) fn draws_eight() -> bool {
    #[cfg(target_arch = "x86_64")]
    let can = super::processor::draws_eight();
    #[cfg(not(target_arch = "x86_64"))]
    let can = false;
    can
}

/// Draws the runs, of `RUN` bits each, of eight keys with `probes` probes. Each row holds one run per key: the numbers
/// of its bits, 16 bits each, the first one lowest. The row behind all runs holds the single bits in the same way.
/// Higher bits of that row, and the rows behind it, are meaningless.
///
/// Returns `false`, without having drawn anything, where the processor lacks the instructions.
///
/// # Panics
/// Panics if there are too few rows, or if runs do not have two or three bits.
#[inline]
pub(crate) fn draw<const RUN: usize>(
    scheme: &Scheme,
    hashes: &[u64; EIGHT],
    probes: u32,
    rows: &mut [[u64; EIGHT]],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if draws_eight() {
        // SAFETY: the processor has all features that the function is compiled for.
        unsafe { avx512::draw::<RUN>(scheme, hashes, probes, rows) };
        return true;
    }
    let _ = (scheme, hashes, probes, rows);
    false
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{EIGHT, Scheme};

    /// Keys in a vector.
    const LANES: usize = 4;

    #[target_feature(enable = "avx512vl,avx512dq")]
    pub(super) fn draw<const RUN: usize>(
        scheme: &Scheme,
        hashes: &[u64; EIGHT],
        probes: u32,
        rows: &mut [[u64; EIGHT]],
    ) {
        let (vectors, _) = hashes.as_chunks();
        for (vector, hashes) in vectors.iter().enumerate() {
            draw_vector::<RUN>(scheme, hashes, probes, rows, vector);
        }
    }

    #[target_feature(enable = "avx512vl,avx512dq")]
    fn draw_vector<const RUN: usize>(
        scheme: &Scheme,
        hashes: &[u64; LANES],
        probes: u32,
        rows: &mut [[u64; EIGHT]],
        vector: usize,
    ) {
        const { assert!(RUN == 2 || RUN == 3) };
        // SAFETY: the load reads 32 bytes, all of `hashes`, which need not be aligned.
        let hashes = unsafe { _mm256_loadu_si256(hashes.as_ptr().cast()) };
        let mut draws = Draws {
            state: hashes,
            step: of(scheme.step),
        };
        let page = Page::of(scheme);
        let mut left = probes as usize;
        let mut rows = rows.iter_mut();
        let mut put = |row| {
            let Some((to, _)) = rows.next().map(|row| row.as_chunks_mut::<LANES>()) else {
                panic!("there are rows for all");
            };
            let to = &mut to[vector];
            // SAFETY: the store writes 32 bytes, all of `to`, which need not be aligned.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), row) };
        };
        while left >= 2 * RUN {
            let draws = draws.next::<RUN>();
            put(page.run::<RUN>(&draws, 0));
            put(page.run::<RUN>(&draws, RUN));
            left -= 2 * RUN;
        }
        if left == 0 {
            return;
        }
        let draws = draws.next::<RUN>();
        let mut next = 0;
        if left >= RUN {
            put(page.run::<RUN>(&draws, 0));
            next = RUN;
        }
        if next < left {
            // This may draw one bit too many, which is meaningless.
            let first = page.anywhere(turn(&draws, next));
            let second = page.anywhere(turn(&draws, (next + 1).min(2 * RUN - 1)));
            put(_mm256_or_si256(first, _mm256_slli_epi64::<16>(second)));
        }
    }

    #[target_feature(enable = "avx512vl")]
    fn of(word: u64) -> __m256i {
        _mm256_set1_epi64x(word.cast_signed())
    }

    /// SplitMix64, each of whose outputs gives two draws.
    struct Draws {
        state: __m256i,
        step: __m256i,
    }

    impl Draws {
        #[inline]
        #[target_feature(enable = "avx512vl,avx512dq")]
        fn next<const STEPS: usize>(&mut self) -> [__m256i; STEPS] {
            let mut steps = [self.state; STEPS];
            for step in &mut steps {
                self.state = _mm256_add_epi64(self.state, self.step);
                *step = finalise(self.state);
            }
            steps
        }
    }

    /// Does the same as `hash::finalise`.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq")]
    fn finalise(word: __m256i) -> __m256i {
        let word = _mm256_xor_si256(word, _mm256_srli_epi64::<30>(word));
        let word = _mm256_mullo_epi64(word, of(0xBF58_476D_1CE4_E5B9));
        let word = _mm256_xor_si256(word, _mm256_srli_epi64::<27>(word));
        let word = _mm256_mullo_epi64(word, of(0x94D0_49BB_1331_11EB));
        _mm256_xor_si256(word, _mm256_srli_epi64::<31>(word))
    }

    /// Returns the draw of a turn, in the lower half of each lane. Low halves come first.
    #[inline]
    #[target_feature(enable = "avx512vl")]
    fn turn<const STEPS: usize>(steps: &[__m256i; STEPS], turn: usize) -> __m256i {
        match turn % 2 {
            0 => steps[turn / 2],
            _ => _mm256_srli_epi64::<32>(steps[turn / 2]),
        }
    }

    /// Returns a number below `room`, chosen by the lower half of each lane.
    #[inline]
    #[target_feature(enable = "avx512vl")]
    fn below(draw: __m256i, room: __m256i) -> __m256i {
        _mm256_srli_epi64::<32>(_mm256_mul_epu32(draw, room))
    }

    /// A [`Scheme`] in each lane.
    struct Page {
        header: __m256i,
        payload: __m256i,
        line: __m256i,
    }

    impl Page {
        #[target_feature(enable = "avx512vl")]
        fn of(scheme: &Scheme) -> Self {
            Self {
                header: of(scheme.header),
                payload: of(scheme.payload),
                line: of(scheme.line),
            }
        }

        #[inline]
        #[target_feature(enable = "avx512vl")]
        fn anywhere(&self, draw: __m256i) -> __m256i {
            _mm256_add_epi64(self.header, below(draw, self.payload))
        }

        /// Returns the run that begins with a turn.
        #[inline]
        #[target_feature(enable = "avx512vl,avx512dq")]
        fn run<const RUN: usize>(&self, draws: &[__m256i; RUN], from: usize) -> __m256i {
            let one = of(1);
            let first = self.anywhere(turn(draws, from));
            let in_front = _mm256_cmplt_epu64_mask(first, self.line);
            let room = _mm256_mask_sub_epi64(self.line, in_front, self.line, self.header);
            let others = _mm256_sub_epi64(room, one);
            let second = _mm256_add_epi64(one, below(turn(draws, from + 1), others));
            let run = _mm256_or_si256(
                first,
                _mm256_slli_epi64::<16>(self.behind(first, second, room)),
            );
            if RUN == 2 {
                return run;
            }
            let others = _mm256_sub_epi64(others, one);
            let third = _mm256_add_epi64(one, below(turn(draws, from + 2), others));
            let passes = _mm256_cmpge_epu64_mask(third, second);
            let third = _mm256_mask_add_epi64(third, passes, third, one);
            let third = self.behind(first, third, room);
            _mm256_or_si256(run, _mm256_slli_epi64::<32>(third))
        }

        /// Returns the bit `by` places behind the first; the count wraps from the line's end to its beginning.
        #[inline]
        #[target_feature(enable = "avx512vl")]
        fn behind(&self, first: __m256i, by: __m256i, room: __m256i) -> __m256i {
            let bit = _mm256_add_epi64(first, by);
            // The bit falls in another line than the first.
            let differ = _mm256_xor_si256(first, bit);
            let beyond = _mm256_cmpge_epu64_mask(differ, self.line);
            _mm256_mask_sub_epi64(bit, beyond, bit, room)
        }
    }
}
