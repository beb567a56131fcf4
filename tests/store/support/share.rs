//! A share of many cases that are alike, such as each call to the disk that can fail.
//!
//! By default a rig draws the share that a newcomer waits for. `EVERSEEN_ALL=1` takes every case, or with `EVERSEEN_SOME=1`
//! too, as in `.ci/run`, at least twice the default; `EVERSEEN_SEED` draws others.

use super::numbers::Random;

/// What a test asks with `EVERSEEN_ALL=1`, and what it asks without.
pub fn all_or<T>(all: T, few: T) -> T {
    let is_all = std::env::var("EVERSEEN_ALL").is_ok_and(|all| all == "1");
    if is_all { all } else { few }
}

/// The same for what takes long and meets the same cases each time: `some` if a share of all is asked for.
pub fn all_some_or<T>(all: T, some: T, few: T) -> T {
    match number("EVERSEEN_SOME") {
        Some(_) => all_or(some, few),
        None => all_or(all, few),
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    text.parse().ok()
}

/// Draws cases.
pub struct Share {
    random: Random,
    one_in: u64,
}

impl Share {
    /// Takes one case in so many, and twice as many if a share of all is asked for.
    pub fn one_in(few: u64) -> Self {
        Self::between(few, (few / 2).max(1))
    }

    /// Takes one case in `few`, and one in `most` if a share of all is asked for.
    pub fn between(few: u64, most: u64) -> Self {
        assert!((1..few.max(2)).contains(&most));
        Self::draw(all_some_or(1, most, few))
    }

    /// Takes one case in so many, and each with `EVERSEEN_ALL=1`: cases that cost little.
    pub fn one_in_or_all(few: u64) -> Self {
        Self::draw(all_or(1, few))
    }

    fn draw(one_in: u64) -> Self {
        let seed = number("EVERSEEN_SEED").unwrap_or(1);
        println!("EVERSEEN_SEED={seed}, one case in {one_in}");
        Self {
            random: Random::new(seed),
            one_in,
        }
    }

    /// Whether the next case is taken.
    pub fn takes(&mut self) -> bool {
        self.random.next().is_multiple_of(self.one_in)
    }

    /// Whether all cases are taken.
    pub fn is_all(&self) -> bool {
        self.one_in == 1
    }
}
