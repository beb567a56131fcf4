//! LMDB: a B-tree in a map of its file.

use anyhow::{Result, anyhow};
use heed::byteorder::NativeEndian;
use heed::types::{U64, Unit};
use heed::{CommitOrAbort, Database, Env, IntegerComparator, MdbError, PutFlags};

use super::{Needs, Peer, Setup, TRANSACTION, short};
use crate::sys;

type Seen = Database<'static, U64<NativeEndian>, Unit, IntegerComparator>;

struct Lmdb {
    env: Env,
    seen: Seen,
}

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    // Several times what it takes; what is not used takes no room.
    let map = (setup.keys as usize * 160 + (1 << 30)) & !0xFFFF;
    let env = sys::open_lmdb(&setup.folder, map)?;
    let transaction = env.write_txn()?;
    let seen = env.create_databases_and_commit(transaction, |opener, transaction| {
        let options = opener.database_options().types::<U64<NativeEndian>, Unit>();
        let options = options.key_comparator::<IntegerComparator>();
        let created = options.create(transaction);
        created.map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let seen = seen
        .commit()
        .ok_or_else(|| anyhow!("LMDB made no database"))?;
    Ok(Box::new(Lmdb { env, seen }))
}

pub fn needs(setup: &Setup) -> Needs {
    let disk = setup.keys * 100;
    Needs {
        // Copies of the pages that a transaction changes, one a key at worst.
        memory: disk.min(512 << 20),
        disk,
    }
}

impl Peer for Lmdb {
    fn portion(&self) -> usize {
        TRANSACTION
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let mut transaction = self.env.write_txn()?;
        let mut seen = 0;
        for key in keys {
            let put = self.seen.put_with_flags(
                &mut transaction,
                PutFlags::NO_OVERWRITE,
                &short(key),
                &(),
            );
            match put {
                Ok(()) => {}
                Err(heed::Error::Mdb(MdbError::KeyExist)) => seen += 1,
                Err(error) => return Err(error.into()),
            }
        }
        transaction.commit()?;
        Ok(seen)
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        let mut present = 0;
        for key in keys {
            present += u64::from(self.seen.get(&transaction, &short(key))?.is_some());
        }
        Ok(present)
    }
}
