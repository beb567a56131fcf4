//! fjall: a log-structured merge tree.

use anyhow::Result;
use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace,
};

use super::{Needs, Peer, Setup, TRANSACTION, short};

struct Fjall {
    database: SingleWriterTxDatabase,
    seen: SingleWriterTxKeyspace,
}

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    let database = SingleWriterTxDatabase::builder(&setup.folder)
        .cache_size(setup.cache)
        .open()?;
    let seen = database.keyspace("seen", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, seen }))
}

pub fn needs(setup: &Setup) -> Needs {
    let disk = setup.keys * 60;
    Needs {
        // Its cache, and some write buffers of 64 MiB.
        memory: setup.cache.min(disk) + (disk * 2).min(256 << 20),
        disk,
    }
}

impl Peer for Fjall {
    fn portion(&self) -> usize {
        TRANSACTION
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let transaction = self.database.write_tx();
        let mut transaction = transaction.durability(Some(PersistMode::SyncData));
        let mut seen = 0;
        for key in keys {
            let key = short(key).to_be_bytes();
            if transaction.contains_key(&self.seen, key)? {
                seen += 1;
            } else {
                transaction.insert(&self.seen, key, []);
            }
        }
        transaction.commit()?;
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut present = 0;
        for key in keys {
            present += u64::from(self.seen.contains_key(short(key).to_be_bytes())?);
        }
        Ok(present)
    }
}
