//! The filters that are measured, seen alike.

use std::error::Error;
use std::fs::File;
use std::io;

use everseen::Store;
use everseen::testing::Options;
use everseen_benches::keys::hash;
use everseen_benches::mapped::MappedFilter;
use everseen_benches::raw;

use super::Variant;
use super::child::Task;

/// Filter bits a key, and what they make for a rate of 1e-6: probes.
const BITS_A_KEY: f64 = 29.0;
const PROBES: u32 = 20;

/// A filter in a file, open.
pub trait Filter: Sized {
    /// Keys of a batch.
    const BATCH: u64;

    /// Keys that are inserted in one batch.
    fn inserted_at_once(_task: &Task) -> u64 {
        Self::BATCH
    }

    /// Makes the file, all of whose pages lie on the disk.
    fn make(task: &Task) -> Result<(), Box<dyn Error>>;

    fn open(task: &Task) -> Result<Self, Box<dyn Error>>;

    /// Inserts keys, and answers how many were new.
    fn insert(&self, keys: &[u64]) -> everseen::Result<u64>;

    /// Sees that all that was inserted is in the pages, and they on the disk.
    fn settle(&self) -> Result<(), Box<dyn Error>>;

    fn contains(&self, key: u64) -> everseen::Result<bool>;

    /// How many of these keys there are.
    fn count(&self, keys: &[u64]) -> everseen::Result<u64>;
}

/// Returns how many keys a filter of this many bytes is for.
pub fn capacity(bytes: u64) -> u64 {
    (bytes as f64 * 8.0 / BITS_A_KEY) as u64
}

impl Filter for Store {
    const BATCH: u64 = 10_000;

    fn inserted_at_once(task: &Task) -> u64 {
        task.batch
    }

    /// With enough keys for a checkpoint to write every page.
    fn make(task: &Task) -> Result<(), Box<dyn Error>> {
        const FIRST: u64 = 1 << 50;
        let options = Options::new().buffer(task.buffer);
        let options = options.capacity(capacity(task.bytes));
        let store = options.bits_per_key(BITS_A_KEY).create(&task.path)?;
        let keys: Vec<u64> = (FIRST..FIRST + task.bytes / 4096).map(hash).collect();
        store.insert_batch(&keys)?;
        store.close()?;
        Ok(())
    }

    fn open(task: &Task) -> Result<Self, Box<dyn Error>> {
        let exclusive = task.variant == Variant::Everseen { exclusive: true };
        let options = Options::new().buffer(task.buffer).exclusive(exclusive);
        Ok(options.open(&task.path)?)
    }

    fn insert(&self, keys: &[u64]) -> everseen::Result<u64> {
        let answers = self.insert_batch(keys)?;
        Ok(answers.into_iter().map(u64::from).sum())
    }

    fn settle(&self) -> Result<(), Box<dyn Error>> {
        self.commit()?;
        Ok(self.checkpoint()?)
    }

    fn contains(&self, key: u64) -> everseen::Result<bool> {
        self.contains(key)
    }

    fn count(&self, keys: &[u64]) -> everseen::Result<u64> {
        let answers = self.contains_batch(keys)?;
        Ok(answers.into_iter().map(u64::from).sum())
    }
}

impl Filter for MappedFilter {
    /// Few, so that one which takes hours can be stopped.
    const BATCH: u64 = 32;

    fn make(task: &Task) -> Result<(), Box<dyn Error>> {
        let file = File::create_new(&task.path)?;
        raw::fill(&file, 0, task.bytes)?;
        Ok(file.sync_all()?)
    }

    fn open(task: &Task) -> Result<Self, Box<dyn Error>> {
        let random = task.variant == Variant::Mapped { random: true };
        let opened: io::Result<_> = Self::open(&task.path, PROBES, random);
        Ok(opened?)
    }

    fn insert(&self, keys: &[u64]) -> everseen::Result<u64> {
        let new = keys.iter().filter(|key| Self::insert(self, **key));
        Ok(new.count() as u64)
    }

    fn settle(&self) -> Result<(), Box<dyn Error>> {
        Ok(self.sync()?)
    }

    fn contains(&self, key: u64) -> everseen::Result<bool> {
        Ok(Self::contains(self, key))
    }

    fn count(&self, keys: &[u64]) -> everseen::Result<u64> {
        let found = keys.iter().filter(|key| Self::contains(self, **key));
        Ok(found.count() as u64)
    }
}
