//! What is measured: Everseen in several ways of use, and its peers, each used as its own
//! documentation says.

mod everseen;
mod fjall;
mod in_memory;
mod lmdb;
mod mapped;
mod redb;

use std::f64::consts::LN_2;
use std::path::PathBuf;

use anyhow::Result;
use xxhash_rust::xxh3::xxh3_64;

/// Keys a transaction of those that have any.
pub const TRANSACTION: usize = 100_000;
/// Keys that the others are handed at a time.
const PORTION: usize = 4096;
/// Keys of a large batch.
const LARGE: usize = 262_144;

/// Something that remembers keys.
pub trait Peer {
    /// How many keys it takes at a time.
    fn portion(&self) -> usize {
        PORTION
    }

    /// Remembers keys, and answers how many of them it had seen before.
    fn insert(&mut self, keys: &[&[u8]]) -> Result<u64>;

    /// Waits until everything inserted is as safe as it ever will be.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// How many of the keys are present.
    fn look_up(&mut self, keys: &[&[u8]]) -> Result<u64>;

    /// Ends it as a program that ends well does.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// What a variant is made from.
pub struct Setup {
    /// The number of keys that it is made for.
    pub keys: u64,
    /// The rate of false positives at that many.
    pub fpr: f64,
    /// Bytes of Everseen's buffer.
    pub buffer: u64,
    /// Bytes that a database may take for its cache.
    pub cache: u64,
    /// An empty folder of its own.
    pub folder: PathBuf,
}

/// One row of the table.
pub struct Variant {
    /// Its name on the command line and in the csv.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// What a power cut in the middle leaves: everything up to when.
    pub durable: &'static str,
    /// What a kill in the middle leaves.
    pub killed: &'static str,
    /// Which processes may use it at the same time.
    pub processes: &'static str,
    /// How it is used.
    pub about: &'static str,
    pub make: fn(&Setup) -> Result<Box<dyn Peer>>,
    /// About what it takes to remember all keys.
    pub needs: fn(&Setup) -> Needs,
}

/// Bytes that a variant can't do without.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Of memory; what the system may write back to files and take away doesn't count.
    pub memory: u64,
    pub disk: u64,
}

/// The variant that others are held against, unless told.
pub const AGAINST: &str = "everseen-batch";

/// All variants, in the order in which they run.
pub const ALL: [Variant; 13] = [
    Variant {
        name: AGAINST,
        title: "Everseen, batches",
        durable: "at the end",
        killed: "everything",
        processes: "any number, all write",
        about: "insert_batch and contains_batch, 4,096 keys each; a commit and a checkpoint at the end",
        make: everseen::batches,
        needs: everseen::needs,
    },
    Variant {
        name: "everseen-large",
        title: "Everseen, large batches",
        durable: "at the end",
        killed: "everything",
        processes: "any number, all write",
        about: "the same with 262,144 keys each",
        make: everseen::large,
        needs: everseen::needs,
    },
    Variant {
        name: "everseen-commits",
        title: "Everseen, batches, commits",
        durable: "every 100,000",
        killed: "everything",
        processes: "any number, all write",
        about: "the same with a commit every 100,000 keys, as often as the databases have one",
        make: everseen::commits,
        needs: everseen::needs,
    },
    Variant {
        name: "everseen-shared",
        title: "Everseen, key by key",
        durable: "at the end",
        killed: "everything",
        processes: "any number, all write",
        about: "insert and contains, on a handle that other processes could share; else as batches",
        make: everseen::shared,
        needs: everseen::needs,
    },
    Variant {
        name: "everseen-exclusive",
        title: "Everseen, key by key, exclusive",
        durable: "at the end",
        killed: "everything",
        processes: "one",
        about: "the same on an exclusive handle",
        make: everseen::exclusive,
        needs: everseen::needs,
    },
    Variant {
        name: "everseen-fingerprints",
        title: "Everseen, fingerprints, batches",
        durable: "at the end",
        killed: "everything",
        processes: "any number, all write",
        about: "a store of kind fingerprint, created for as many keys; else as batches",
        make: everseen::fingerprints,
        needs: everseen::needs_twice,
    },
    Variant {
        name: "fastbloom",
        title: "fastbloom 0.17",
        durable: "never",
        killed: "nothing",
        processes: "one",
        about: "BloomFilter with its default hasher; insert and contains",
        make: in_memory::fastbloom,
        needs: in_memory::filter_needs,
    },
    Variant {
        name: "bloomfilter",
        title: "bloomfilter 3",
        durable: "never",
        killed: "nothing",
        processes: "one",
        about: "Bloom with its own hasher; check_and_set and check",
        make: in_memory::bloomfilter,
        needs: in_memory::filter_needs,
    },
    Variant {
        name: "hashset",
        title: "`HashSet<u64>`",
        durable: "never",
        killed: "nothing",
        processes: "one",
        about: "xxh3 hashes, which are not hashed again; its room reserved",
        make: in_memory::hash_set,
        needs: in_memory::set_needs,
    },
    Variant {
        name: "mapped",
        title: "plain mapped filter",
        durable: "at the end",
        killed: "everything",
        processes: "any number, uncoordinated",
        about: "a classic filter in a shared mapping of a file, default advice; msync at the end",
        make: mapped::make,
        needs: mapped::needs,
    },
    Variant {
        name: "redb",
        title: "redb 4",
        durable: "every 100,000",
        killed: "whole transactions",
        processes: "one writes, or several read",
        about: "a table of xxh3 hashes; insert and get; 100,000 keys a transaction, Durability::Immediate",
        make: redb::make,
        needs: redb::needs,
    },
    Variant {
        name: "lmdb",
        title: "LMDB (heed 0.23)",
        durable: "every 100,000",
        killed: "whole transactions",
        processes: "one writes at a time, any number read",
        about: "xxh3 hashes with the integer comparator; put with NO_OVERWRITE; 100,000 keys a transaction, synced",
        make: lmdb::make,
        needs: lmdb::needs,
    },
    Variant {
        name: "fjall",
        title: "fjall 3",
        durable: "every 100,000",
        killed: "whole transactions",
        processes: "one",
        about: "xxh3 hashes; contains_key and insert in single-writer transactions of 100,000 keys, PersistMode::SyncData",
        make: fjall::make,
        needs: fjall::needs,
    },
];

/// Bits a key of a classic filter, and how many of them are set for each.
pub fn classic(fpr: f64) -> (f64, u32) {
    let bits = -fpr.ln() / (LN_2 * LN_2);
    (bits, (bits * LN_2).round().max(1.0) as u32)
}

/// Bytes of a classic filter for this many keys.
pub fn filter_bytes(keys: u64, fpr: f64) -> u64 {
    (keys as f64 * classic(fpr).0 / 8.0).ceil() as u64
}

/// What the set and the databases keep of a key.
fn short(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// How many of the answers are `true`.
fn trues(answers: &[bool]) -> u64 {
    answers.iter().map(|answer| u64::from(*answer)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each remembers what it was given, finds nothing else, and tells a repeated key.
    #[test]
    fn all_variants_remember() {
        let text = |number: u64| format!("key {number}").into_bytes();
        let keys: Vec<_> = (0..3000).map(text).collect();
        let others: Vec<_> = (5000..8000).map(text).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let others: Vec<_> = others.iter().map(Vec::as_slice).collect();
        for variant in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let setup = Setup {
                keys: 3000,
                fpr: 1e-6,
                buffer: 1 << 20,
                cache: 1 << 20,
                folder: folder.path().to_owned(),
            };
            let mut peer = (variant.make)(&setup).unwrap();
            let name = variant.name;
            assert_eq!(peer.look_up(&keys).unwrap(), 0, "{name}");
            assert_eq!(peer.insert(&keys[..2000]).unwrap(), 0, "{name}");
            assert_eq!(peer.insert(&keys[1000..]).unwrap(), 1000, "{name}");
            peer.settle().unwrap();
            assert_eq!(peer.look_up(&keys).unwrap(), 3000, "{name}");
            assert_eq!(peer.look_up(&others).unwrap(), 0, "{name}");
            peer.close().unwrap();
        }
    }

    #[test]
    fn a_classic_filter_has_29_bits_a_key_for_one_in_a_million() {
        let (bits, probes) = classic(1e-6);
        assert!((28.75..28.76).contains(&bits), "{bits}");
        assert_eq!(probes, 20);
        assert_eq!(filter_bytes(8_000_000, 1e-6) / 1_000_000, 28);
    }
}
