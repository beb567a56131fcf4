//! One key at a time.

use std::ffi::c_void;

use everseen::{Store, Verdict};

use crate::border::{In, Object, Out};
use crate::code::Code;
use crate::handle::{Handle, on};

/// The key was there before.
pub const EVERSEEN_SEEN: u8 = 0;
/// The key is new: of all who bring it, in all threads and processes, one gets this answer.
pub const EVERSEEN_NEW: u8 = 1;
/// Another handle has claimed the key and not committed. If it dies first, the key is new again: claim it again to learn.
pub const EVERSEEN_PENDING: u8 = 2;

pub(crate) fn number_of(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Seen => EVERSEEN_SEEN,
        Verdict::New => EVERSEEN_NEW,
        Verdict::Pending => EVERSEEN_PENDING,
    }
}

/// Does some work with a key whose answer the caller may not want.
#[inline]
fn answered<T>(
    store: &Object<Handle>,
    (key, length): (In<c_void>, usize),
    mut answer: Out<T>,
    work: impl FnOnce(&Store, &[u8]) -> everseen::Result<T>,
) -> Code {
    on(store, |store| {
        answer.set(work(store, key.bytes(length, "key")?)?);
        Ok(())
    })
}

/// Makes sure that a key is in the store. `*is_new`, which may be null, becomes whether it was absent.
///
/// A key is `length` bytes of any value; the empty key is one, too. When the call returns, the key outlives the process,
/// and after the next commit also a power cut; in a transactional store both hold only from the commit on. For a share of
/// new keys no larger than the false-positive rate, `*is_new` is false.
///
/// After an error the key is not in the store, unless it was there before.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_insert(
    store: Object<Handle>,
    key: In<c_void>,
    length: usize,
    is_new: Out<bool>,
) -> Code {
    answered(&store, (key, length), is_new, |store, key| {
        store.insert(key)
    })
}

/// Does the same as `everseen_insert`, but answers with a verdict: `EVERSEEN_NEW`, `EVERSEEN_SEEN` or, in transactional
/// stores only, `EVERSEEN_PENDING`. `verdict` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_claim(
    store: Object<Handle>,
    key: In<c_void>,
    length: usize,
    verdict: Out<u8>,
) -> Code {
    answered(&store, (key, length), verdict, |store, key| {
        store.claim(key).map(number_of)
    })
}

/// Asks whether a key is in the store. `*found` becomes the answer: false is certain, and true is wrong for a share of
/// absent keys no larger than the false-positive rate. Takes no lock.
///
/// In a transactional store it is also true for a key that a handle has claimed and not committed.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_contains(
    store: Object<Handle>,
    key: In<c_void>,
    length: usize,
    mut found: Out<bool>,
) -> Code {
    on(&store, |store| {
        let found = found.one("found")?;
        found.write(store.contains(key.bytes(length, "key")?)?);
        Ok(())
    })
}

/// Removes a key once. `*removed`, which may be null, becomes whether it was there; if not, nothing has changed.
///
/// Remove only keys that were inserted. To remove one that merely tests positive takes another key with it.
/// `EVERSEEN_ERROR_WRONG_KIND` in stores of other kinds than `EVERSEEN_KIND_COUNTING`, which counts inserts and removes,
/// and `EVERSEEN_KIND_FINGERPRINT`, a set.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_remove(
    store: Object<Handle>,
    key: In<c_void>,
    length: usize,
    removed: Out<bool>,
) -> Code {
    answered(&store, (key, length), removed, |store, key| {
        store.remove(key)
    })
}
