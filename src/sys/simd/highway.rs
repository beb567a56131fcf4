//! HighwayHash-64 of two keys at once, and of one.
//!
//! One key's hash is a chain of rounds, five for a short key, each of which waits for the one before. A processor has
//! room for two such chains side by side, and work to do while either waits. Three or four would be a little faster
//! where all keys have the same length and slower where they don't, because each mispredicted branch discards more
//! work. Equally important is the work avoided for each key: its last bytes are not copied, hardly any branch depends
//! on how many they are, and no state travels through memory.
//!
//! Alakuijala, Cox, Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and permute" (arXiv
//! 1612.06257), describes the algorithm. The tests of `hash` contain it once more, slow and obvious.

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Pairs;

/// Other processors have none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone)]
pub(crate) enum Pairs {}

#[cfg(not(target_arch = "x86_64"))]
impl Pairs {
    pub(crate) fn new(_key: [u64; 4]) -> Option<Self> {
        None
    }

    pub(crate) fn hash(&self, _keys: [&[u8]; 2]) -> [u64; 2] {
        match *self {}
    }

    pub(crate) fn hash_one(&self, _key: &[u8]) -> u64 {
        match *self {}
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use crate::sys::simd::processor;

    /// Digits of pi.
    const MUL0: [u64; 4] = [
        0xDBE6_D5D5_FE4C_CE2F,
        0xA409_3822_299F_31D0,
        0x1319_8A2E_0370_7344,
        0x243F_6A88_85A3_08D3,
    ];
    const MUL1: [u64; 4] = [
        0x3BD3_9E10_CB0E_F593,
        0xC0AC_F169_B5F1_8A8C,
        0xBE54_66CF_34E9_0C6C,
        0x4528_21E6_38D0_1377,
    ];

    /// Byte `i` of a merged pair of lanes is byte `ZIPPER[i]` of the pair.
    const ZIPPER: [i8; 16] = [3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7];

    /// The effect of a key's last 1 to 31 bytes on the state: row `n` is for `n` bytes.
    static RESTS: [Rest; 32] = {
        let mut rests = [const { Rest::of(0) }; 32];
        let mut n = 0;
        while n < 32 {
            rests[n] = Rest::of(n);
            n += 1;
        }
        rests
    };

    #[repr(align(32))]
    struct Rest {
        /// The source of byte `i` of the packet. For the lower half: the first 16 bytes of the rest or, if fewer than
        /// 16 are left, the last 16 bytes of the key. For the upper half: the last 16 bytes of the key.
        packet: [u8; 32],
        /// How far the halves of the lanes rotate left, which is also the number added to them.
        count: [u8; 32],
        /// How far they would rotate right.
        counter: [u8; 32],
    }

    impl Rest {
        const fn of(n: usize) -> Self {
            /// The instruction treats it as a zero.
            const NONE: u8 = 0x80;
            const BOTH_HALVES: u64 = 0x1_0000_0001;
            let mut packet = [NONE; 32];
            let (words, odd) = (n - n % 4, n % 4);
            let mut i = 0;
            while i < words {
                let is_first = n >= 16 && i < 16;
                packet[i] = if is_first { i } else { 16 + i - n } as u8;
                i += 1;
            }
            if n >= 16 {
                i = 0;
                while i < 4 {
                    packet[28 + i] = 12 + i as u8;
                    i += 1;
                }
            } else if odd > 0 {
                packet[16] = 16 - odd as u8;
                packet[17] = (16 - odd + odd / 2) as u8;
                packet[18] = 15;
            }
            Self {
                packet,
                count: bytes([n as u64 * BOTH_HALVES; 4]),
                counter: bytes([(32 - n as u64) * BOTH_HALVES; 4]),
            }
        }
    }

    /// The state under a key. Its existence proves that the processor has AVX2.
    #[derive(Clone)]
    pub(crate) struct Pairs {
        v0: [u8; 32],
        v1: [u8; 32],
    }

    impl Pairs {
        /// Returns `None` where the processor lacks AVX2.
        pub(crate) fn new(key: [u64; 4]) -> Option<Self> {
            let lanes = [0, 1, 2, 3];
            processor::has_avx2().then(|| Self {
                v0: bytes(lanes.map(|i| MUL0[i] ^ key[i])),
                v1: bytes(lanes.map(|i| MUL1[i] ^ key[i].rotate_left(32))),
            })
        }

        /// Returns the hashes of two keys of any lengths.
        #[inline]
        pub(crate) fn hash(&self, keys: [&[u8]; 2]) -> [u64; 2] {
            // SAFETY: `new` returns a `Pairs` only where the processor has AVX2.
            unsafe { self.hash_with_avx2(keys) }
        }

        /// Returns the hash of one key, which takes less time alone than with another.
        #[inline]
        pub(crate) fn hash_one(&self, key: &[u8]) -> u64 {
            // SAFETY: `new` returns a `Pairs` only where the processor has AVX2.
            unsafe { self.hash_one_with_avx2(key) }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn start(&self) -> State {
            State {
                v0: load(&self.v0),
                v1: load(&self.v1),
                mul0: load(const { &bytes(MUL0) }),
                mul1: load(const { &bytes(MUL1) }),
            }
        }

        #[target_feature(enable = "avx2")]
        fn hash_one_with_avx2(&self, key: &[u8]) -> u64 {
            let tail = Tail::of(key);
            let mut state = self.start();
            state.absorb(key, &tail);
            for _ in 0..4 {
                state.permute_and_update();
            }
            state.sum()
        }

        #[target_feature(enable = "avx2")]
        fn hash_with_avx2(&self, keys: [&[u8]; 2]) -> [u64; 2] {
            // Most of a short key's rounds come after its bytes and are the same for any length: these run in step. The
            // rounds for the bytes don't, so the keys need not be alike; the processor looks far enough ahead to work
            // on both.
            let tails = [Tail::of(keys[0]), Tail::of(keys[1])];
            let [mut first, mut second] = [self.start(); 2];
            first.absorb(keys[0], &tails[0]);
            second.absorb(keys[1], &tails[1]);
            for _ in 0..4 {
                first.permute_and_update();
                second.permute_and_update();
            }
            [first.sum(), second.sum()]
        }
    }

    /// What is left of a key after its packets of 32 bytes: see [`Rest::packet`]. It is loaded before there is a state:
    /// the branches on its length would push the eight vectors of two states onto the stack, which costs as much as the
    /// hashing where the stack's lines happen to lie on two pages.
    struct Tail {
        count: usize,
        first: __m128i,
        last: __m128i,
    }

    impl Tail {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn of(key: &[u8]) -> Self {
            let Some(last) = key.last_chunk::<16>() else {
                let (low, high) = if key.is_empty() {
                    (0, 0)
                } else {
                    bytes_at_the_end(key)
                };
                let last = _mm_set_epi64x(high as i64, low as i64);
                return Self {
                    count: key.len(),
                    first: last,
                    last,
                };
            };
            let (_, rest) = key.as_chunks::<32>();
            let first = rest.first_chunk::<16>().unwrap_or(last);
            Self {
                count: rest.len(),
                first: load_half(first),
                last: load_half(last),
            }
        }
    }

    #[derive(Clone, Copy)]
    struct State {
        v0: __m256i,
        v1: __m256i,
        mul0: __m256i,
        mul1: __m256i,
    }

    impl State {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn absorb(&mut self, key: &[u8], tail: &Tail) {
            let (packets, _) = key.as_chunks::<32>();
            for packet in packets {
                self.update(load(packet));
            }
            if tail.count > 0 {
                self.update_rest(tail);
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn update_rest(&mut self, tail: &Tail) {
            let rest = &RESTS[tail.count];
            let packet =
                _mm256_shuffle_epi8(_mm256_set_m128i(tail.last, tail.first), load(&rest.packet));
            let (count, counter) = (load(&rest.count), load(&rest.counter));
            self.v0 = _mm256_add_epi64(self.v0, count);
            let left = _mm256_sllv_epi32(self.v1, count);
            let right = _mm256_srlv_epi32(self.v1, counter);
            self.v1 = _mm256_or_si256(left, right);
            self.update(packet);
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn update(&mut self, packet: __m256i) {
            self.mix(packet, _mm256_srli_epi64::<32>(self.v0));
        }

        /// Updates the state with `v0` as the packet, with its halves and the halves of its lanes swapped. The latter
        /// swap moves the upper half of each lane to where it is multiplied, and need not be repeated.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn permute_and_update(&mut self) {
            let swapped = _mm256_shuffle_epi32::<0b10_11_00_01>(self.v0);
            self.mix(_mm256_permute4x64_epi64::<0b01_00_11_10>(swapped), swapped);
        }

        /// Mixes in a packet. The lower halves of the lanes of `upper` are the upper halves of the lanes of `v0`.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn mix(&mut self, packet: __m256i, upper: __m256i) {
            self.v1 = _mm256_add_epi64(_mm256_add_epi64(self.v1, self.mul0), packet);
            self.mul0 = _mm256_xor_si256(self.mul0, _mm256_mul_epu32(self.v1, upper));
            self.v0 = _mm256_add_epi64(self.v0, self.mul1);
            let upper = _mm256_srli_epi64::<32>(self.v1);
            self.mul1 = _mm256_xor_si256(self.mul1, _mm256_mul_epu32(self.v0, upper));
            self.v0 = _mm256_add_epi64(self.v0, zipper_merge(self.v1));
            self.v1 = _mm256_add_epi64(self.v1, zipper_merge(self.v0));
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn sum(&self) -> u64 {
            let v = _mm256_add_epi64(self.v0, self.v1);
            let mul = _mm256_add_epi64(self.mul0, self.mul1);
            _mm_cvtsi128_si64(_mm256_castsi256_si128(_mm256_add_epi64(v, mul))) as u64
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn zipper_merge(lanes: __m256i) -> __m256i {
        let zipper = i128::from_le_bytes(ZIPPER.map(|i| i as u8));
        let (high, low) = ((zipper >> 64) as i64, zipper as i64);
        _mm256_shuffle_epi8(lanes, _mm256_set_epi64x(high, low, high, low))
    }

    const fn bytes(lanes: [u64; 4]) -> [u8; 32] {
        let mut bytes = [0; 32];
        let mut i = 0;
        while i < 32 {
            bytes[i] = (lanes[i / 8] >> (8 * (i % 8))) as u8;
            i += 1;
        }
        bytes
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: &[u8; 32]) -> __m256i {
        // SAFETY: it reads the 32 bytes behind the reference, at any alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_half(from: &[u8; 16]) -> __m128i {
        // SAFETY: it reads the 16 bytes behind the reference, at any alignment.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    /// Returns a key of 1 to 15 bytes as the last of 16, by two or three loads that overlap and agree where they do.
    #[inline]
    fn bytes_at_the_end(key: &[u8]) -> (u64, u64) {
        let n = key.len();
        if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            // In two steps, because together they may be all 64.
            return (first << (8 * (15 - n)) << 8, last);
        }
        if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            let high = u64::from(first) << (8 * (8 - n)) | u64::from(last) << 32;
            return (0, high);
        }
        let byte = |place: usize| u64::from(key[place]) << (8 * (8 - n + place));
        (0, byte(0) | byte(n / 2) | byte(n - 1))
    }
}
