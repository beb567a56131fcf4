//! Many keys at once, in each of the three layouts.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use everseen::{BatchError, ClaimOptions, Store, Verdict};

use crate::border::{In, Object, Out};
use crate::code::{Code, EVERSEEN_ERROR_INVALID_ARGUMENT};
use crate::failure::Failure;
use crate::handle::{Handle, on};
use crate::key::{EVERSEEN_NEW, EVERSEEN_SEEN, number_of};
use crate::layout::{Arrays, Column, Layout};

/// Of a claim of many keys: it ends at the first key that is pending; that verdict is the last one.
pub const EVERSEEN_UNTIL_PENDING: u32 = 1;
/// Of a claim of many keys: a store of `EVERSEEN_KIND_COUNTING` counts only keys that are absent.
pub const EVERSEEN_IF_ABSENT: u32 = 2;

/// The answers of a batch, or those before the key that failed.
type Partial<T> = Result<Vec<T>, BatchError<T>>;

/// Where the answers of a batch go, and how many there are.
type Answers = (Out<u8>, Out<usize>);

/// Does work on a batch whose keys before one that fails are done.
fn answered<T>(
    store: &Object<Handle>,
    keys: &impl Layout,
    (mut places, mut done): Answers,
    number: impl Fn(T) -> u8,
    work: impl FnOnce(&Store, &[&[u8]]) -> Result<Partial<T>, Failure>,
) -> Code {
    done.set(0);
    on(store, |store| {
        let places = places.room(keys.count(), "answers")?;
        let (found, outcome) = match keys.with_slices(|keys| work(store, keys))?? {
            Ok(found) => (found, Ok(())),
            Err(failed) => (failed.done, Err(*failed.error)),
        };
        done.set(write(places, found, number));
        Ok(outcome?)
    })
}

/// Writes a number for each answer, and returns how many there are.
fn write<T>(places: &mut [MaybeUninit<u8>], found: Vec<T>, number: impl Fn(T) -> u8) -> usize {
    let count = found.len();
    assert!(count <= places.len(), "more answers than keys");
    for (place, answer) in places.iter_mut().zip(found) {
        place.write(number(answer));
    }
    count
}

fn insert(store: &Object<Handle>, keys: &impl Layout, answers: Answers) -> Code {
    let number = |verdict| match verdict {
        Verdict::New => EVERSEEN_NEW,
        Verdict::Seen | Verdict::Pending => EVERSEEN_SEEN,
    };
    answered(store, keys, answers, number, |store, keys| {
        Ok(store.claim_batch(keys, ClaimOptions::new()))
    })
}

fn claim(store: &Object<Handle>, keys: &impl Layout, flags: u32, answers: Answers) -> Code {
    answered(store, keys, answers, number_of, |store, keys| {
        Ok(store.claim_batch(keys, claim_options(flags)?))
    })
}

fn claim_options(flags: u32) -> Result<ClaimOptions, Failure> {
    match flags & !(EVERSEEN_UNTIL_PENDING | EVERSEEN_IF_ABSENT) {
        0 => Ok(ClaimOptions::new()
            .until_pending(flags & EVERSEEN_UNTIL_PENDING != 0)
            .if_absent(flags & EVERSEEN_IF_ABSENT != 0)),
        unknown => Err(Failure::new(
            EVERSEEN_ERROR_INVALID_ARGUMENT,
            format!("flags: {unknown:#x} stands for no choice"),
        )),
    }
}

fn contains(store: &Object<Handle>, keys: &impl Layout, mut found: Out<u8>) -> Code {
    on(store, |store| {
        let places = found.room(keys.count(), "found")?;
        let all = keys.with_slices(|keys| store.contains_batch(keys))??;
        write(places, all, u8::from);
        Ok(())
    })
}

fn remove(store: &Object<Handle>, keys: &impl Layout, answers: Answers) -> Code {
    answered(store, keys, answers, u8::from, |store, keys| {
        Ok(store.remove_batch(keys))
    })
}

/// Inserts keys in order, several times as fast as one by one. A key of length 0 may have a null pointer.
///
/// `answers` has room for `count` bytes: of each key, `EVERSEEN_NEW` or `EVERSEEN_SEEN`. Of equal keys, also within the
/// batch, the first is new.
///
/// `*done`, which may be null, becomes how many keys have their answer: all of them, or after an error those before the
/// key that failed. Those are in the store, and none of the others is.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_insert_batch(
    store: Object<Handle>,
    keys: In<*const c_void>,
    lengths: In<usize>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Arrays::of(keys, lengths, count);
    insert(&store, &keys, (answers, done))
}

/// Inserts the keys of a column, as Arrow lays out `binary` and `utf8`: key `i` begins `offsets[i]` bytes behind `bytes`
/// and ends where key `i + 1` begins, so there are `count + 1` offsets. None leads behind `length` bytes.
///
/// Otherwise like `everseen_insert_batch`. Bad offsets are found before the first key is inserted.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_insert_offsets32(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i32>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    insert(&store, &keys, (answers, done))
}

/// Does the same with offsets of 64 bits, as in `large_binary` and `large_utf8`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_insert_offsets64(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i64>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    insert(&store, &keys, (answers, done))
}

/// Claims keys in order: `everseen_insert_batch`, but each answer is the verdict of `everseen_claim`.
///
/// `flags` is 0, or `EVERSEEN_UNTIL_PENDING`, `EVERSEEN_IF_ABSENT` or both. With the first, `*done` tells where the batch
/// ended, and the keys behind that are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_claim_batch(
    store: Object<Handle>,
    keys: In<*const c_void>,
    lengths: In<usize>,
    count: usize,
    flags: u32,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Arrays::of(keys, lengths, count);
    claim(&store, &keys, flags, (answers, done))
}

/// Claims the keys of a column: `everseen_insert_offsets32`, with the verdicts of `everseen_claim_batch`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_claim_offsets32(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i32>,
    count: usize,
    flags: u32,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    claim(&store, &keys, flags, (answers, done))
}

/// Does the same with offsets of 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_claim_offsets64(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i64>,
    count: usize,
    flags: u32,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    claim(&store, &keys, flags, (answers, done))
}

/// Asks of many keys whether they are in the store. `found` has room for `count` bytes: 1 for each key that is, 0 for
/// others. After an error none of them has a meaning.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_contains_batch(
    store: Object<Handle>,
    keys: In<*const c_void>,
    lengths: In<usize>,
    count: usize,
    found: Out<u8>,
) -> Code {
    let keys = Arrays::of(keys, lengths, count);
    contains(&store, &keys, found)
}

/// Asks of the keys of a column whether they are in the store; see `everseen_insert_offsets32`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_contains_offsets32(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i32>,
    count: usize,
    found: Out<u8>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    contains(&store, &keys, found)
}

/// Does the same with offsets of 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_contains_offsets64(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i64>,
    count: usize,
    found: Out<u8>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    contains(&store, &keys, found)
}

/// Removes keys in order, each once. `answers` and `*done` are as of `everseen_insert_batch`, but a byte is 1 for a key
/// that was there, and 0 for others. See `everseen_remove`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_remove_batch(
    store: Object<Handle>,
    keys: In<*const c_void>,
    lengths: In<usize>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Arrays::of(keys, lengths, count);
    remove(&store, &keys, (answers, done))
}

/// Removes the keys of a column; see `everseen_insert_offsets32`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_remove_offsets32(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i32>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    remove(&store, &keys, (answers, done))
}

/// Does the same with offsets of 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_remove_offsets64(
    store: Object<Handle>,
    bytes: In<c_void>,
    length: usize,
    offsets: In<i64>,
    count: usize,
    answers: Out<u8>,
    done: Out<usize>,
) -> Code {
    let keys = Column::of((bytes, length), offsets, count);
    remove(&store, &keys, (answers, done))
}
