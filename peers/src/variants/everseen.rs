//! Everseen itself, in its ways of use.

use anyhow::Result;
use everseen::testing::Options;
use everseen::{Kind, Store};

use super::{LARGE, Needs, PORTION, Peer, Setup, TRANSACTION, filter_bytes, trues};

/// How keys are handed to a store.
enum Way {
    Batches,
    /// Of enough keys for a look-up in the order of the pages to pay.
    Large,
    /// With a commit after each portion.
    Commits,
    KeyByKey,
}

struct Everseen {
    store: Store,
    way: Way,
}

pub fn batches(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, Way::Batches, false)
}

pub fn fingerprints(setup: &Setup) -> Result<Box<dyn Peer>> {
    let options = options(setup).kind(Kind::Fingerprint);
    let store = options.create(setup.folder.join("store.ever"))?;
    let way = Way::Batches;
    Ok(Box::new(Everseen { store, way }))
}

pub fn large(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, Way::Large, false)
}

pub fn commits(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, Way::Commits, false)
}

pub fn shared(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, Way::KeyByKey, false)
}

pub fn exclusive(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, Way::KeyByKey, true)
}

fn make(setup: &Setup, way: Way, exclusive: bool) -> Result<Box<dyn Peer>> {
    let options = options(setup).exclusive(exclusive);
    let store = options.create(setup.folder.join("store.ever"))?;
    Ok(Box::new(Everseen { store, way }))
}

fn options(setup: &Setup) -> Options {
    Options::new()
        .capacity(setup.keys)
        .fpr(setup.fpr)
        .buffer(setup.buffer)
}

/// A checkpoint of fingerprints writes beside what is there.
pub fn needs_twice(setup: &Setup) -> Needs {
    let Needs { memory, disk } = needs(setup);
    Needs {
        memory,
        disk: 2 * disk,
    }
}

pub fn needs(setup: &Setup) -> Needs {
    let filter = filter_bytes(setup.keys, setup.fpr);
    Needs {
        memory: setup.buffer * 2,
        // Two buffers, two logs, pages with their headers.
        disk: filter + filter / 32 + setup.buffer * 4,
    }
}

impl Everseen {
    fn batch(&self) -> usize {
        match self.way {
            Way::Large => LARGE,
            _ => PORTION,
        }
    }
}

impl Peer for Everseen {
    fn portion(&self) -> usize {
        match self.way {
            Way::Batches | Way::KeyByKey => PORTION,
            Way::Large => LARGE,
            Way::Commits => TRANSACTION,
        }
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut new = 0;
        match self.way {
            Way::Batches | Way::Large | Way::Commits => {
                for batch in keys.chunks(self.batch()) {
                    new += trues(&self.store.insert_batch(batch)?);
                }
            }
            Way::KeyByKey => {
                for key in keys {
                    new += u64::from(self.store.insert(key)?);
                }
            }
        }
        if let Way::Commits = self.way {
            self.store.commit()?;
        }
        Ok(keys.len() as u64 - new)
    }

    fn settle(&mut self) -> Result<()> {
        self.store.commit()?;
        Ok(self.store.checkpoint()?)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut present = 0;
        match self.way {
            Way::Batches | Way::Large | Way::Commits => {
                for batch in keys.chunks(self.batch()) {
                    present += trues(&self.store.contains_batch(batch)?);
                }
            }
            Way::KeyByKey => {
                for key in keys {
                    present += u64::from(self.store.contains(key)?);
                }
            }
        }
        Ok(present)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()?;
        Ok(())
    }
}
