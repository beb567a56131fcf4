//! A share of many cases that are alike, such as each call to the disk that can fail.
//!
//! By default a rig draws the share that a newcomer waits for. `EVERSEEN_ALL=1` takes every case, as `.ci/run` does;
//! `EVERSEEN_SEED` draws others.

/// What a test asks with `EVERSEEN_ALL=1`, and what it asks without.
pub fn all_or<T>(all: T, few: T) -> T {
    let is_all = std::env::var("EVERSEEN_ALL").is_ok_and(|all| all == "1");
    if is_all { all } else { few }
}

/// Draws cases.
pub struct Share {
    state: u64,
    one_in: u64,
}

impl Share {
    /// Takes one case in so many.
    pub fn one_in(few: u64) -> Self {
        let seed = std::env::var("EVERSEEN_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let one_in = all_or(1, few);
        println!("EVERSEEN_SEED={seed}, one case in {one_in}");
        Self {
            state: seed,
            one_in,
        }
    }

    /// Whether the next case is taken.
    pub fn takes(&mut self) -> bool {
        // A splitmix64 generator: `numbers.rs` is not in all tests.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = self.state;
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)).is_multiple_of(self.one_in)
    }

    /// Whether all cases are taken.
    pub fn is_all(&self) -> bool {
        self.one_in == 1
    }
}
