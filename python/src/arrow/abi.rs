//! The structures of Arrow's C data interface and C stream interface, as its specification lays them out.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

// SAFETY: the types of the producer's functions, which `Drop` and `capsule.rs` call on the structures they came with.
type Release<T> = unsafe extern "C" fn(*mut T);
// SAFETY: as above.
type Fill<S, T> = unsafe extern "C" fn(*mut S, *mut T) -> c_int;
// SAFETY: as above.
type LastError<S> = unsafe extern "C" fn(*mut S) -> *const c_char;

/// The type of a column.
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<Release<ArrowSchema>>,
    pub(super) private_data: *mut c_void,
}

/// The content of a column.
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<Release<ArrowArray>>,
    pub(super) private_data: *mut c_void,
}

/// A column in chunks.
#[repr(C)]
pub(super) struct ArrowArrayStream {
    pub(super) get_schema: Option<Fill<ArrowArrayStream, ArrowSchema>>,
    pub(super) get_next: Option<Fill<ArrowArrayStream, ArrowArray>>,
    pub(super) get_last_error: Option<LastError<ArrowArrayStream>>,
    pub(super) release: Option<Release<ArrowArrayStream>>,
    pub(super) private_data: *mut c_void,
}

/// What a producer owns and its consumer releases. A structure that is released has no `release`.
pub(super) trait Released {
    /// Returns a structure that holds nothing.
    fn empty() -> Self;
    fn is_empty(&self) -> bool;
    fn forget(&mut self);
}

impl Released for ArrowSchema {
    fn empty() -> Self {
        Self {
            format: null(),
            name: null(),
            metadata: null(),
            flags: 0,
            n_children: 0,
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }

    fn is_empty(&self) -> bool {
        self.release.is_none()
    }

    fn forget(&mut self) {
        self.release = None;
    }
}

impl Released for ArrowArray {
    fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }

    fn is_empty(&self) -> bool {
        self.release.is_none()
    }

    fn forget(&mut self) {
        self.release = None;
    }
}

impl Released for ArrowArrayStream {
    fn empty() -> Self {
        Self {
            get_schema: None,
            get_next: None,
            get_last_error: None,
            release: None,
            private_data: null_mut(),
        }
    }

    fn is_empty(&self) -> bool {
        self.release.is_none()
    }

    fn forget(&mut self) {
        self.release = None;
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the producer's own function, called once on its structure, which nothing uses afterwards.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the producer's own function, called once on its structure, which nothing uses afterwards.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the producer's own function, called once on its structure, which nothing uses afterwards.
            unsafe { release(self) }
        }
    }
}

// SAFETY: the specification lets a structure be moved to, and released on, any thread. Its producer changes nothing of
// it after handing it over.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}
// SAFETY: shared references only read, and the content of an array is immutable.
unsafe impl Sync for ArrowArray {}
// SAFETY: as above; its functions are called through a unique reference, so by one thread at a time.
unsafe impl Send for ArrowArrayStream {}
