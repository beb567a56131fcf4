//! What C holds of an open store.

use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use everseen::Store;

use crate::border::{Object, Out};
use crate::code::{Code, EVERSEEN_ERROR_NULL_POINTER, EVERSEEN_ERROR_PANIC, EVERSEEN_OK};
use crate::failure::{self, Failure, Outcome, caught};

/// An open store. Threads may share it.
pub struct Handle {
    store: Store,
    /// The text of the last failure in any thread. No lock: a process may be forked while another thread holds one.
    failed: ArcSwapOption<String>,
    /// Whether a call ended in the middle of its work.
    panicked: AtomicBool,
}

impl Handle {
    pub(crate) fn of(store: Store) -> Box<Self> {
        Box::new(Self {
            store,
            failed: ArcSwapOption::empty(),
            panicked: AtomicBool::new(false),
        })
    }

    fn call(&self, work: impl FnOnce(&Store) -> Outcome) -> Outcome {
        if self.panicked.load(Ordering::Acquire) {
            return Err(Failure::new(
                EVERSEEN_ERROR_PANIC,
                "a fault of the library in an earlier call; free this handle, and open the store again".to_owned(),
            ));
        }
        caught(|| work(&self.store)).inspect_err(|failure| {
            if failure.code == EVERSEEN_ERROR_PANIC {
                self.panicked.store(true, Ordering::Release);
            }
        })
    }
}

/// Does some work on a store, and says how it ended.
#[inline]
pub(crate) fn on(store: &Object<Handle>, work: impl FnOnce(&Store) -> Outcome) -> Code {
    let Some(handle) = store.get() else {
        return Failure::new(
            EVERSEEN_ERROR_NULL_POINTER,
            "store: a null pointer".to_owned(),
        )
        .noted();
    };
    match handle.call(work) {
        Ok(()) => EVERSEEN_OK,
        Err(failure) => {
            handle.failed.store(Some(Arc::new(failure.text.clone())));
            failure.noted()
        }
    }
}

/// Copies the text of a failure to `text`, as much of it as fits into `size` bytes with the zero at its end, and returns
/// the length of all of it, without that zero: 0 if no call has failed. UTF-8; it may be cut in the middle of a character.
///
/// Of a store, that is the last failure of a call with it, in any thread. Without one, for a null pointer, it is the
/// last failure in the calling thread, whatever failed: so threads that share a store, and callers of a function that
/// returned no store, learn of their own. A call that succeeds leaves the text as it is. `text` may be null if `size` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_last_error(
    store: Object<Handle>,
    mut text: Out<c_char>,
    size: usize,
) -> usize {
    match store.get().map(|handle| handle.failed.load()) {
        Some(said) => copy(said.as_ref().map_or("", |said| said), &mut text, size),
        None => failure::of_thread(|said| copy(said, &mut text, size)).unwrap_or(0),
    }
}

/// Writes as much of a text as there is room for, and returns the length of all of it.
fn copy(said: &str, text: &mut Out<c_char>, size: usize) -> usize {
    // Without room the caller asks for the length alone.
    if let Ok([room @ .., last]) = text.room(size, "text") {
        let length = said.len().min(room.len());
        let (places, behind) = room.split_at_mut(length);
        for (place, byte) in places.iter_mut().zip(said.bytes()) {
            place.write(byte as c_char);
        }
        behind.first_mut().unwrap_or(last).write(0);
    }
    said.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_panicked_says_so_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = everseen::CreateOptions::new().capacity(1000);
        let store = store.create(folder.path().join("panic.ever")).unwrap();
        let mut handle = Handle::of(store);
        let object = Object::lent(&mut *handle);
        let code = on(&object, |_| panic!("on purpose"));
        assert_eq!(code, EVERSEEN_ERROR_PANIC);
        let said = failure::of_thread(str::to_owned).unwrap();
        assert!(said.ends_with("again: on purpose"), "{said}");
        let mut worked = false;
        let code = on(&object, |_| {
            worked = true;
            Ok(())
        });
        assert_eq!((code, worked), (EVERSEEN_ERROR_PANIC, false));
    }
}
