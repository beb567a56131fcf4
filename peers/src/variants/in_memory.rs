//! Peers that forget when the process ends.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use anyhow::{Result, anyhow};
use bloomfilter::Bloom;
use fastbloom::BloomFilter;

use super::{Needs, Peer, Setup, filter_bytes, short};

pub fn fastbloom(setup: &Setup) -> Result<Box<dyn Peer>> {
    let filter = BloomFilter::with_false_pos(setup.fpr).expected_items(setup.keys as usize);
    Ok(Box::new(Fastbloom(filter)))
}

struct Fastbloom(BloomFilter);

impl Peer for Fastbloom {
    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut seen = 0;
        for key in keys {
            seen += u64::from(self.0.insert(*key));
        }
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        Ok(count(keys, |key| self.0.contains(key)))
    }
}

pub fn bloomfilter(setup: &Setup) -> Result<Box<dyn Peer>> {
    let filter = Bloom::new_for_fp_rate(setup.keys as usize, setup.fpr);
    Ok(Box::new(Bloomfilter(filter.map_err(|told| anyhow!(told))?)))
}

struct Bloomfilter(Bloom<[u8]>);

impl Peer for Bloomfilter {
    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut seen = 0;
        for key in keys {
            seen += u64::from(self.0.check_and_set(key));
        }
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        Ok(count(keys, |key| self.0.check(key)))
    }
}

pub fn hash_set(setup: &Setup) -> Result<Box<dyn Peer>> {
    let room = setup.keys as usize;
    let set = HashSet::with_capacity_and_hasher(room, BuildHasherDefault::new());
    Ok(Box::new(Hashes(set)))
}

struct Hashes(HashSet<u64, BuildHasherDefault<AsItIs>>);

impl Peer for Hashes {
    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut seen = 0;
        for key in keys {
            seen += u64::from(!self.0.insert(short(key)));
        }
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        Ok(count(keys, |key| self.0.contains(&short(key))))
    }
}

pub fn filter_needs(setup: &Setup) -> Needs {
    Needs {
        memory: filter_bytes(setup.keys, setup.fpr),
        disk: 0,
    }
}

/// A table as large as a power of two, a byte beside each hash, at most seven eighths full.
pub fn set_needs(setup: &Setup) -> Needs {
    Needs {
        memory: (setup.keys * 8 / 7).next_power_of_two() * 9,
        disk: 0,
    }
}

/// A hasher for numbers that are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = short(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

fn count(keys: &[&[u8]], holds: impl Fn(&[u8]) -> bool) -> u64 {
    keys.iter().map(|key| u64::from(holds(key))).sum()
}
