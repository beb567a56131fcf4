//! A classic Bloom filter whose bits are stored through a shared mapping of a file: what one writes
//! first when a filter is to outlive its process.

use std::fs::File;

use anyhow::Result;
use everseen_benches::keys::hash;
use memmap2::MmapMut;
use xxhash_rust::xxh3::xxh3_64;

use super::{Needs, Peer, Setup, classic, filter_bytes};
use crate::sys;

struct Mapped {
    bits: MmapMut,
    probes: u32,
}

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(setup.folder.join("filter"))?;
    file.set_len(filter_bytes(setup.keys, setup.fpr))?;
    Ok(Box::new(Mapped {
        bits: sys::map(&file)?,
        probes: classic(setup.fpr).1,
    }))
}

impl Mapped {
    /// The bits of a key, each drawn from the whole array: byte and mask.
    fn places(&self, key: &[u8]) -> impl Iterator<Item = (usize, u8)> + use<> {
        let bits = self.bits.len() as u128 * 8;
        let first = xxh3_64(key);
        (0..self.probes).map(move |probe| {
            let draw = hash(first.wrapping_add(u64::from(probe)));
            let bit = (u128::from(draw) * bits) >> 64;
            ((bit >> 3) as usize, 1 << (bit & 7))
        })
    }
}

pub fn needs(setup: &Setup) -> Needs {
    Needs {
        memory: 0,
        disk: filter_bytes(setup.keys, setup.fpr),
    }
}

impl Peer for Mapped {
    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut seen = 0;
        for key in keys {
            let mut missing = false;
            for (byte, mask) in self.places(key) {
                let byte = &mut self.bits[byte];
                if *byte & mask == 0 {
                    missing = true;
                    *byte |= mask;
                }
            }
            seen += u64::from(!missing);
        }
        Ok(seen)
    }

    fn settle(&mut self) -> Result<()> {
        Ok(self.bits.flush()?)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let holds = |key: &[u8]| self.places(key).all(|(at, mask)| self.bits[at] & mask != 0);
        Ok(keys.iter().map(|key| u64::from(holds(key))).sum())
    }
}
