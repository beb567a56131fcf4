//! What forgets: Everseen, and what people use today.

mod age_partitioned;
mod everseen;
pub mod redis;
mod rotating;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

/// Something that remembers keys for a window.
pub trait Peer {
    /// Goes on to the time of a step.
    fn advance(&mut self, _step: u64) -> Result<()> {
        Ok(())
    }

    /// Remembers keys, and answers for each whether it is new.
    fn insert(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>>;

    /// Answers for each key whether it is seen.
    fn look_up(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>>;

    /// Ends it as a program that ends well does.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// What a variant is made from.
pub struct Setup {
    /// The keys that are accepted in a window.
    pub live: u64,
    /// The rate of false positives.
    pub fpr: f64,
    /// The step at which it is opened.
    pub now: u64,
    /// The window of those that go by the system's clock.
    pub window: Duration,
    /// Where the server listens, of those that have one.
    pub socket: Option<PathBuf>,
    /// A folder of its own: empty, or what a kill has left.
    pub folder: PathBuf,
}

/// One row of the table.
pub struct Variant {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// What a power cut leaves.
    pub durable: &'static str,
    /// How it is used.
    pub about: &'static str,
    /// Whether a server of its own holds the keys, and goes by the system's clock.
    pub is_server: bool,
    /// Whether this is the project's own, and the run fails if it breaks its promises.
    pub is_ours: bool,
    pub make: fn(&Setup) -> Result<Box<dyn Peer>>,
}

/// All variants, in the order in which they run.
pub const ALL: [Variant; 6] = [
    Variant {
        name: "everseen",
        title: "Everseen",
        durable: "what was written back",
        about: "default options (made for 2^36 keys at 1e-6) with forget_after; insert_batch and contains_batch",
        is_server: false,
        is_ours: true,
        make: everseen::by_default,
    },
    Variant {
        name: "everseen-commits",
        title: "Everseen, commits",
        durable: "all but the last 100,000",
        about: "the same with a commit every 100,000 keys",
        is_server: false,
        is_ours: true,
        make: everseen::commits,
    },
    Variant {
        name: "everseen-sized",
        title: "Everseen, sized, commits",
        durable: "all but the last 100,000",
        about: "the same, made for a fourth more keys than are alive, at --fpr",
        is_server: false,
        is_ours: true,
        make: everseen::sized,
    },
    Variant {
        name: "rotating",
        title: "two fastbloom 0.17 in turn",
        durable: "nothing",
        about: "BloomFilter with its default hasher, each for the keys of a window at half of --fpr",
        is_server: false,
        is_ours: false,
        make: rotating::make,
    },
    Variant {
        name: "age-partitioned",
        title: "age-partitioned Bloom filter",
        durable: "nothing",
        about: "a twin after its paper, 15 generations a window, as many slices as --fpr takes right after a shift",
        is_server: false,
        is_ours: false,
        make: age_partitioned::make,
    },
    Variant {
        name: "redis",
        title: "Redis, EXPIRE",
        durable: "all but the last second or two",
        about: "SET key \"\" NX PX, and EXISTS, in pipelines over a Unix socket; appendonly, appendfsync everysec",
        is_server: true,
        is_ours: false,
        make: redis::make,
    },
];

/// Answers key by key.
fn each(keys: &[&[u8]], mut answer: impl FnMut(&[u8]) -> bool) -> Vec<bool> {
    keys.iter().map(|key| answer(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::stream::STEPS;

    /// Each knows a key within the window, also when it comes again, and has forgotten it after two windows.
    #[test]
    fn all_variants_remember_for_a_window() {
        for variant in ALL.iter().filter(|variant| !variant.is_server) {
            let folder = tempfile::tempdir().unwrap();
            let setup = Setup {
                live: 3000,
                fpr: 1e-9,
                now: 0,
                window: Duration::ZERO,
                socket: None,
                folder: folder.path().to_owned(),
            };
            let mut peer = (variant.make)(&setup).unwrap();
            let name = variant.name;
            let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
            let late = 7;
            peer.advance(late).unwrap();
            assert_eq!(peer.look_up(&keys).unwrap(), [false; 3], "{name}");
            assert_eq!(peer.insert(&keys[..2]).unwrap(), [true; 2], "{name}");
            let told = peer.insert(&keys).unwrap();
            assert_eq!(told, [false, false, true], "{name}");
            peer.advance(late + STEPS - 1).unwrap();
            assert_eq!(peer.look_up(&keys).unwrap(), [true; 3], "{name}");
            assert_eq!(peer.insert(&keys).unwrap(), [false; 3], "{name}");
            peer.advance(late + 2 * STEPS).unwrap();
            assert_eq!(peer.look_up(&keys).unwrap(), [false; 3], "{name}");
            assert_eq!(peer.insert(&keys).unwrap(), [true; 3], "{name}");
            peer.close().unwrap();
        }
    }
}
