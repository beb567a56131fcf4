//! Two fastbloom filters in turn: keys go into one, and look-ups ask both. After each window the older one is emptied and
//! takes the next keys, so a key is forgotten after one to two windows.

use anyhow::Result;
use fastbloom::BloomFilter;

use super::{Peer, Setup, each};
use crate::windows::stream::STEPS;

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    // A look-up asks both, so each may be wrong half as often.
    let filter =
        || BloomFilter::with_false_pos(setup.fpr / 2.0).expected_items(setup.live as usize);
    Ok(Box::new(Rotating {
        current: filter(),
        previous: filter(),
        turn: 0,
    }))
}

struct Rotating {
    current: BloomFilter,
    previous: BloomFilter,
    turn: u64,
}

impl Peer for Rotating {
    fn advance(&mut self, step: u64) -> Result<()> {
        while self.turn < step / STEPS {
            std::mem::swap(&mut self.current, &mut self.previous);
            self.current.clear();
            self.turn += 1;
        }
        Ok(())
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        Ok(each(keys, |key| {
            !self.previous.contains(key) && !self.current.insert(key)
        }))
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        Ok(each(keys, |key| {
            self.current.contains(key) || self.previous.contains(key)
        }))
    }
}
