//! The border to C, and the only file that follows C's pointers.
//!
//! Exported functions take these types where their C declarations have pointers. Rust can't make one: the field is private
//! and there is no constructor. So each comes from C, whose caller promises in `everseen.h` what the SAFETY comments rely
//! on: a pointer is null, or it leads to what the function's documentation says for as long as the call takes.
//!
//! The comments of the types are not documentation: cbindgen would copy it. `tests/capi/header.rs` writes plain pointers
//! where cbindgen writes the names of these types.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::slice;

use crate::code::{
    EVERSEEN_ERROR_INVALID_ARGUMENT, EVERSEEN_ERROR_NULL_POINTER, EVERSEEN_ERROR_TOO_LONG,
};
use crate::failure::{Failure, Outcome};

// An object that this library made and C holds.
#[repr(transparent)]
pub struct Object<T>(*mut T);

impl<T> Object<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or an object that this library returned and that is freed after the call.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`; where this is called, the header asks for one thread at a time.
        unsafe { self.0.as_mut() }
    }

    pub(crate) fn take(self) -> Option<Box<T>> {
        // SAFETY: null, or what `Box::into_raw` returned; it is freed once, and not used after that.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })
    }

    #[cfg(test)]
    pub(crate) fn lent(object: &mut T) -> Self {
        Self(object)
    }
}

// Something to read: one or several T, or the bytes of one string.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> In<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn slice(&self, count: usize, name: &'static str) -> Result<&[T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        check(self.0, count, name)?;
        // SAFETY: aligned and not longer than an object can be, as checked; `count` values, which nobody changes meanwhile.
        Ok(unsafe { slice::from_raw_parts(self.0, count) })
    }
}

impl In<c_void> {
    pub(crate) fn bytes(&self, length: usize, name: &'static str) -> Result<&[u8], Failure> {
        bytes(self.0, length, name)
    }
}

impl In<c_char> {
    pub(crate) fn text(&self, name: &'static str) -> Result<&CStr, Failure> {
        if self.0.is_null() {
            return Err(null(name));
        }
        // SAFETY: not null; a string with a zero at its end.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

impl In<*const c_void> {
    /// Returns the keys of two arrays, of their pointers and of their lengths; nothing for one that can't be read.
    pub(crate) fn keys<'a>(
        &'a self,
        lengths: &'a In<usize>,
        count: usize,
    ) -> Result<impl Iterator<Item = Option<&'a [u8]>>, Failure> {
        let pointers = self.slice(count, "keys")?.iter();
        let lengths = lengths.slice(count, "lengths")?;
        Ok(pointers
            .zip(lengths)
            .map(|(pointer, length)| readable(*pointer, *length)))
    }

    /// Returns why one of the keys can't be read.
    pub(crate) fn unreadable(&self, lengths: &In<usize>, key: usize) -> Failure {
        let pointer = self.slice(key + 1, "keys").map(|keys| keys[key]);
        let length = lengths
            .slice(key + 1, "lengths")
            .map(|lengths| lengths[key]);
        match (pointer, length) {
            (Ok(pointer), Ok(length)) => refused(pointer.cast::<u8>(), length, "a key"),
            (Err(failure), _) | (_, Err(failure)) => failure,
        }
    }
}

// Something to write. What lies there before is never read.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Returns the place for a value that the caller may not want.
    pub(crate) fn optional(&mut self) -> Option<&mut MaybeUninit<T>> {
        // SAFETY: null, or a place for one value that nobody else uses meanwhile.
        unsafe { self.0.cast::<MaybeUninit<T>>().as_mut() }
    }

    /// Writes a value if the caller wants it.
    pub(crate) fn set(&mut self, value: T) {
        if let Some(place) = self.optional() {
            place.write(value);
        }
    }

    /// Returns the place for a value without which the call has no use.
    pub(crate) fn one(&mut self, name: &'static str) -> Result<&mut MaybeUninit<T>, Failure> {
        self.optional().ok_or_else(|| null(name))
    }

    /// Returns the place for several values.
    pub(crate) fn room(
        &mut self,
        count: usize,
        name: &'static str,
    ) -> Result<&mut [MaybeUninit<T>], Failure> {
        if count == 0 {
            return Ok(&mut []);
        }
        check(self.0, count, name)?;
        // SAFETY: aligned and not longer than an object can be, as checked; room for `count` values that nobody else uses
        // meanwhile.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.cast(), count) })
    }

    /// Writes the first `size` bytes of a value, and zeros behind its end: the caller's structure may be an older, shorter
    /// one or a newer, longer one.
    pub(crate) fn begin_of(&mut self, value: &T, size: usize, name: &'static str) -> Outcome {
        let known = size.min(size_of::<T>());
        let bytes = self.0.cast::<u8>();
        check(bytes, size, name)?;
        // SAFETY: not null and not longer than an object can be, as checked; room for `size` bytes that nobody else uses
        // meanwhile.
        unsafe {
            bytes.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
            bytes.add(known).write_bytes(0, size - known);
        }
        Ok(())
    }
}

fn bytes<'a>(
    pointer: *const c_void,
    length: usize,
    name: &'static str,
) -> Result<&'a [u8], Failure> {
    readable(pointer, length).ok_or_else(|| refused(pointer.cast::<u8>(), length, name))
}

/// Returns bytes, unless nothing can lie where they are said to be.
#[inline]
fn readable<'a>(pointer: *const c_void, length: usize) -> Option<&'a [u8]> {
    if length == 0 {
        return Some(&[]);
    }
    let pointer = pointer.cast::<u8>();
    // SAFETY: not null and not longer than an object can be, as checked; `length` bytes, which nobody changes meanwhile.
    // The callers hand them on for no longer than they have the `In` from C.
    can_be(pointer, length).then(|| unsafe { slice::from_raw_parts(pointer, length) })
}

/// Returns whether there can be an array of `count` values.
#[inline]
fn can_be<T>(pointer: *const T, count: usize) -> bool {
    let most = isize::MAX as usize / size_of::<T>();
    !pointer.is_null() && pointer.is_aligned() && count <= most
}

fn check<T>(pointer: *const T, count: usize, name: &'static str) -> Result<(), Failure> {
    match can_be(pointer, count) {
        true => Ok(()),
        false => Err(refused(pointer, count, name)),
    }
}

#[cold]
fn refused<T>(pointer: *const T, count: usize, name: &'static str) -> Failure {
    if pointer.is_null() {
        return null(name);
    }
    match pointer.is_aligned() {
        false => Failure::new(
            EVERSEEN_ERROR_INVALID_ARGUMENT,
            format!("{name}: a pointer to the middle of a value"),
        ),
        true => Failure::new(
            EVERSEEN_ERROR_TOO_LONG,
            format!("{name}: {count} is more than an object can have"),
        ),
    }
}

#[cold]
fn null(name: &'static str) -> Failure {
    Failure::new(
        EVERSEEN_ERROR_NULL_POINTER,
        format!("{name}: a null pointer"),
    )
}
