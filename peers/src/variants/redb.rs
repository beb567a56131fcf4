//! redb: a B-tree that copies what it writes.

use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use super::{Needs, Peer, Setup, TRANSACTION, short};

const SEEN: TableDefinition<u64, ()> = TableDefinition::new("seen");

struct Redb(Database);

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    let database = Database::builder()
        .set_cache_size(setup.cache as usize)
        .create(setup.folder.join("seen.redb"))?;
    let transaction = database.begin_write()?;
    transaction.open_table(SEEN)?;
    transaction.commit()?;
    Ok(Box::new(Redb(database)))
}

pub fn needs(setup: &Setup) -> Needs {
    let disk = setup.keys * 100;
    Needs {
        // Its cache, in which changed pages lie as well.
        memory: setup.cache.min(disk),
        disk,
    }
}

impl Peer for Redb {
    fn portion(&self) -> usize {
        TRANSACTION
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut seen = 0;
        {
            let mut table = transaction.open_table(SEEN)?;
            for key in keys {
                seen += u64::from(table.insert(short(key), ())?.is_some());
            }
        }
        transaction.commit()?;
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let table = self.0.begin_read()?.open_table(SEEN)?;
        let mut present = 0;
        for key in keys {
            present += u64::from(table.get(short(key))?.is_some());
        }
        Ok(present)
    }
}
