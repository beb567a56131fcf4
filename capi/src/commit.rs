//! Commits, and what they leave for the next run.

use std::ffi::{c_char, c_void};

use crate::border::{In, Object, Out};
use crate::code::{Code, EVERSEEN_ERROR_BUFFER_TOO_SMALL};
use crate::failure::Failure;
use crate::handle::{Handle, on};
use crate::options::utf8;

/// The most bytes of a commit's tag.
pub const EVERSEEN_MAX_TAG: usize = 4096;

/// Makes durable all that returned before the call, in any thread; in a transactional store, only this makes it count.
///
/// `tag` is up to `EVERSEEN_MAX_TAG` bytes of the caller's own, such as where it stands in its input: they are kept with
/// the commit, or neither is. The next commit of the same writer replaces them. `tag` may be null if `length` is 0.
/// `*sequence`, which may be null, becomes the number of the commit, 1 or more.
///
/// After `EVERSEEN_ERROR_POISONED`, close the store and open it again to learn whether the commit took effect.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_commit(
    store: Object<Handle>,
    tag: In<c_void>,
    length: usize,
    mut sequence: Out<u64>,
) -> Code {
    on(&store, |store| {
        sequence.set(store.commit_with(tag.bytes(length, "tag")?)?);
        Ok(())
    })
}

/// Finds the last commit of a writer: where to go on after a crash. `writer` is the name that
/// `everseen_options_set_writer` has set, or null for "default".
///
/// `*sequence` becomes the number of the commit, 0 if that writer has never committed. Its tag goes to `tag`, which has room
/// for `size` bytes, and its length to `*length`. If there is too little room the call fails with
/// `EVERSEEN_ERROR_BUFFER_TOO_SMALL`, and has set both numbers; `EVERSEEN_MAX_TAG` bytes are always enough. `sequence` and
/// `length` may be null; `tag` may be, if `size` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_last_commit(
    store: Object<Handle>,
    writer: In<c_char>,
    mut sequence: Out<u64>,
    mut tag: Out<u8>,
    size: usize,
    mut length: Out<usize>,
) -> Code {
    sequence.set(0);
    length.set(0);
    on(&store, |store| {
        let writer = match writer.is_null() {
            true => "default",
            false => utf8(&writer, "writer")?,
        };
        let Some(last) = store.last_commit(writer)? else {
            return Ok(());
        };
        sequence.set(last.sequence);
        length.set(last.tag.len());
        let Some(places) = tag.room(size, "tag")?.get_mut(..last.tag.len()) else {
            return Err(Failure::new(
                EVERSEEN_ERROR_BUFFER_TOO_SMALL,
                format!("tag: {} bytes, and room for {size}", last.tag.len()),
            ));
        };
        for (place, byte) in places.iter_mut().zip(&last.tag) {
            place.write(*byte);
        }
        Ok(())
    })
}

/// Counts what the handle has not committed. `*keys` becomes how many keys closing it now would drop, `*most` how many
/// there may be before `EVERSEEN_ERROR_TRANSACTION_TOO_LARGE`. Unless the store is transactional, these are 0 and
/// `UINT64_MAX`. Both may be null.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_uncommitted(
    store: Object<Handle>,
    mut keys: Out<u64>,
    mut most: Out<u64>,
) -> Code {
    on(&store, |store| {
        let uncommitted = store.uncommitted()?;
        keys.set(uncommitted.keys);
        most.set(uncommitted.most);
        Ok(())
    })
}
