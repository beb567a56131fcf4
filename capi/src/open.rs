//! From a path to a handle, and a handle's end.

use std::ffi::c_char;
use std::path::Path;

use everseen::{OptionDifference, Store};

use crate::border::{In, Object, Out};
use crate::code::{Code, EVERSEEN_ERROR_UNMET_OPTION, EVERSEEN_OK};
use crate::failure::{Failure, caught};
use crate::handle::{Handle, on};
use crate::options::Options;

/// Opens a store as `how` does it, and gives C a handle of it; a null pointer where that fails.
fn open(
    path: &In<c_char>,
    options: &Object<Options>,
    mut store: Out<*mut Handle>,
    how: impl FnOnce(&Path, &Options) -> Result<Store, Failure>,
) -> Code {
    store.set(std::ptr::null_mut());
    let opened = caught(|| {
        let place = store.one("store")?;
        let defaults = Options::default();
        let opened = how(path_of(path, "path")?, options.get().unwrap_or(&defaults))?;
        place.write(Box::into_raw(Handle::of(opened)));
        Ok(())
    });
    opened.map_or_else(Failure::noted, |()| EVERSEEN_OK)
}

/// Any bytes are a path.
#[cfg(unix)]
pub(crate) fn path_of<'a>(path: &'a In<c_char>, name: &'static str) -> Result<&'a Path, Failure> {
    use std::os::unix::ffi::OsStrExt;

    let bytes = path.text(name)?.to_bytes();
    Ok(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

/// UTF-8 is a path.
#[cfg(not(unix))]
pub(crate) fn path_of<'a>(path: &'a In<c_char>, name: &'static str) -> Result<&'a Path, Failure> {
    crate::options::utf8(path, name).map(Path::new)
}

/// Opens a store to read and to write, and recovers it if its last user was killed.
///
/// Of `options`, which may be null, those of the handle apply. `*store` becomes the handle, which `everseen_free` frees;
/// after an error it is null, and nothing has changed.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_open(
    path: In<c_char>,
    options: Object<Options>,
    store: Out<*mut Handle>,
) -> Code {
    open(&path, &options, store, |path, options| {
        Ok(options.open.open(path)?)
    })
}

/// Creates a store, and opens it. Fails with `EVERSEEN_ERROR_ALREADY_EXISTS` if there is a file that is not empty.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_create(
    path: In<c_char>,
    options: Object<Options>,
    store: Out<*mut Handle>,
) -> Code {
    open(&path, &options, store, |path, options| {
        Ok(options.to_create().create(path)?)
    })
}

/// Opens a store, or creates it if there is none. A store that exists keeps what it was created with; if that is less than
/// the options ask for, the call fails with `EVERSEEN_ERROR_UNMET_OPTION`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_open_or_create(
    path: In<c_char>,
    options: Object<Options>,
    store: Out<*mut Handle>,
) -> Code {
    open(&path, &options, store, |path, options| {
        let create = options.to_create();
        let opened = create.open_or_create(path)?;
        let unmet = create
            .differences(&opened)?
            .into_iter()
            .find(|found| found.is_unmet);
        match unmet {
            None => Ok(opened),
            Some(OptionDifference { option, has, .. }) => Err(Failure::new(
                EVERSEEN_ERROR_UNMET_OPTION,
                format!(
                    "{}: exists already, and has {has}; leave out `{option}`, or name another store",
                    everseen::Escaped(path.display())
                ),
            )),
        }
    })
}

/// Opens a store to read what it holds, and changes nothing. While others have it open to write, the handle sees what they
/// write.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_open_read_only(
    path: In<c_char>,
    options: Object<Options>,
    store: Out<*mut Handle>,
) -> Code {
    open(&path, &options, store, |path, options| {
        Ok(options.open.open_read_only(path)?)
    })
}

/// Closes a store: moves all that counts into the file, which alone is the whole store from then on, and releases it for
/// others. Any later call with the handle is `EVERSEEN_ERROR_CLOSED`, except that another close does nothing.
///
/// In a transactional store this drops what the handle has not committed: the way to undo it. `*dropped`, which may be
/// null, becomes the number of those keys.
///
/// After any error nothing acknowledged is lost, and the next open goes on from the log. The handle still has to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_close(store: Object<Handle>, mut dropped: Out<u64>) -> Code {
    dropped.set(0);
    on(&store, |store| {
        dropped.set(store.close()?.dropped);
        Ok(())
    })
}

/// Frees a handle, which no other thread may use any more; a null pointer is none. If the store is open, it is closed
/// first, as far as possible: call `everseen_close` to learn of errors.
///
/// In a process that was forked, this gives back memory of the child and leaves the parent's store alone.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_free(store: Object<Handle>) {
    let freed = caught(|| {
        drop(store.take());
        Ok(())
    });
    if let Err(failure) = freed {
        failure.noted();
    }
}
