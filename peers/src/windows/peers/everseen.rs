//! Everseen: a store that forgets, by when a key was first accepted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use everseen::{CreateOptions, OpenOptions, Store};

use super::{Peer, Setup};
use crate::variants::TRANSACTION;
use crate::windows::stream::STEPS;

/// A step of the stream, and when it begins.
const STEP: Duration = Duration::from_secs(60);
const BEGIN: u64 = 1_700_000_000;

struct Everseen {
    store: Store,
    /// Keys from one commit to the next, and those since the last.
    committing: Option<usize>,
    uncommitted: usize,
}

pub fn by_default(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, CreateOptions::new(), None)
}

pub fn commits(setup: &Setup) -> Result<Box<dyn Peer>> {
    make(setup, CreateOptions::new(), Some(TRANSACTION))
}

/// A fourth more keys than are alive may be in the file.
pub fn sized(setup: &Setup) -> Result<Box<dyn Peer>> {
    let options = CreateOptions::new().fpr(setup.fpr);
    let options = options.grows_to(setup.live + setup.live / 4);
    make(setup, options, Some(TRANSACTION))
}

fn make(setup: &Setup, options: CreateOptions, committing: Option<usize>) -> Result<Box<dyn Peer>> {
    let path = setup.folder.join("store.ever");
    let opening = OpenOptions::new().clock(time(setup.now));
    let store = if path.exists() {
        opening.open(path)?
    } else {
        let options = options.forget_after(STEP * STEPS as u32);
        options.open_options(opening).create(path)?
    };
    Ok(Box::new(Everseen {
        store,
        committing,
        uncommitted: 0,
    }))
}

fn time(step: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(BEGIN) + STEP * step as u32
}

impl Peer for Everseen {
    fn advance(&mut self, step: u64) -> Result<()> {
        Ok(self.store.advance_to(time(step))?)
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        let new = self.store.insert_batch(keys)?;
        self.uncommitted += keys.len();
        if self.committing.is_some_and(|most| self.uncommitted >= most) {
            self.store.commit()?;
            self.uncommitted = 0;
        }
        Ok(new)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        Ok(self.store.contains_batch(keys)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()?;
        Ok(())
    }
}
