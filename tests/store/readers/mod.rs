//! Handles that only read while others open, write, close and replace the store.
#![cfg(unix)]

mod following;
mod overlay;
mod replaced;

use everseen::testing::Options;
use everseen::{Error, Kind, Store};

use crate::support::files::small;

const KINDS: [Kind; 4] = [
    Kind::Bloom,
    Kind::Counting,
    Kind::Scalable,
    Kind::Fingerprint,
];

/// If nothing happens for so long, somebody hangs.
const HUNG: std::time::Duration = std::time::Duration::from_secs(100);

/// The rate is so low that no false positive is to be expected.
fn options(kind: Kind) -> Options {
    small().kind(kind).capacity(50_000).fpr(1e-12)
}

/// Leaves a store as a killed process does: nothing is closed, and the system releases all locks.
fn kill(store: Store) {
    let dying = std::thread::spawn(move || {
        let _store = store;
        std::panic::resume_unwind(Box::new("as if killed"));
    });
    dying.join().unwrap_err();
}

/// Looks for keys until a look fails.
fn look_until_it_fails(store: &Store, keys: &[Vec<u8>]) -> Error {
    let begun = std::time::Instant::now();
    while begun.elapsed() < HUNG {
        for key in keys {
            match store.contains(key) {
                Ok(found) => assert!(found, "{}", String::from_utf8_lossy(key)),
                Err(error) => return error,
            }
        }
    }
    panic!("nothing was noticed");
}
