//! Files that a forked child does not keep open, as POSIX.1-2024's `O_CLOFORK` would have it; Linux has no such flag.
//!
//! A lock belongs to the open file, and a forked child shares its parent's open files. Were the child to keep them, the
//! locks of a killed parent would last as long as the child, although it never uses them. So the child replaces each
//! such descriptor, before `fork` returns there, by one of its own: the same file, opened anew, without a lock. The
//! number stays in use, and whatever the child does with it touches none of its parent's locks. The parent may go on
//! before the child has run; the child shares its locks until then.
//!
//! This covers `fork`, not a bare `clone`, and descriptors below 65,536.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// An open file that a forked child does not share.
#[derive(Debug)]
pub(crate) struct CloforkFile {
    file: File,
}

impl CloforkFile {
    /// Opens the file. `open` is called again where a fork came in between: its child may share what was opened.
    pub(crate) fn open(mut open: impl FnMut() -> io::Result<File>) -> io::Result<Self> {
        loop {
            let forks = system::wait_for_forks();
            let file = Self::of(open()?);
            if system::forks() == forks {
                return Ok(file);
            }
        }
    }

    fn of(file: File) -> Self {
        system::enter(&file);
        Self { file }
    }
}

impl Deref for CloforkFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for CloforkFile {
    fn drop(&mut self) {
        system::leave(&self.file);
    }
}

#[cfg(not(everseen_portable))]
mod system {
    use std::fs::File;
    use std::os::fd::{AsRawFd, RawFd};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// Descriptors from this one on are not covered.
    const MAX_DESCRIPTORS: usize = 1 << 16;

    /// One bit for each descriptor that a child replaces. Words, because a child may not wait for a lock that another
    /// thread of its parent has.
    static OPEN: [AtomicU64; MAX_DESCRIPTORS / 64] =
        [const { AtomicU64::new(0) }; MAX_DESCRIPTORS / 64];

    /// The number of forks that have begun, and of those that have ended, in this process.
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    static ENDED: AtomicU64 = AtomicU64::new(0);

    /// Waits until no thread forks; returns the number of forks so far.
    pub(super) fn wait_for_forks() -> u64 {
        // No `Once`: a child that was forked while another thread is in it would wait for ever.
        static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);
        if !HAS_HANDLERS.swap(true, Ordering::SeqCst) {
            // SAFETY: the handlers are functions of this library, which is there as long as they are registered. What
            // runs in the child uses words and system calls alone. A failure (no memory) leaves children as they were.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        }
        loop {
            let begun = forks();
            if ENDED.load(Ordering::SeqCst) == begun {
                return begun;
            }
            std::thread::yield_now();
        }
    }

    pub(super) fn forks() -> u64 {
        BEGUN.load(Ordering::SeqCst)
    }

    pub(super) fn enter(file: &File) {
        if let Some((word, bit)) = place(file) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The descriptor's number may be another file's as soon as it is closed, so this comes before. No lock is held on
    /// the file any more.
    pub(super) fn leave(file: &File) {
        if let Some((word, bit)) = place(file) {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    fn place(file: &File) -> Option<(&'static AtomicU64, u64)> {
        let number = usize::try_from(file.as_raw_fd()).ok()?;
        Some((OPEN.get(number / 64)?, 1 << (number % 64)))
    }

    extern "C" fn before() {
        BEGUN.fetch_add(1, Ordering::SeqCst);
    }

    extern "C" fn in_parent() {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }

    extern "C" fn in_child() {
        // Other threads' forks are not this process's.
        ENDED.store(forks(), Ordering::SeqCst);
        for (index, word) in OPEN.iter().enumerate() {
            let mut bits = word.load(Ordering::SeqCst);
            while bits != 0 {
                let number = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Ok(number) = RawFd::try_from(number) {
                    replace(number);
                }
            }
        }
    }

    /// Replaces a descriptor by one of the same file, opened anew, or by one of no file where that fails. Allocates
    /// nothing: another thread of the parent may have had the allocator's lock.
    fn replace(number: RawFd) {
        let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let digits = number.checked_ilog10().unwrap_or(0) as usize;
        let mut rest = number.unsigned_abs();
        for place in path[14..=14 + digits].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        // SAFETY: all these calls take numbers, and a path that ends with a zero byte and lives until they return. They
        // may be made in a child of a process with several threads. `dup3` changes what an owned descriptor refers to,
        // never whether it is open, so its owner may go on and close it. The descriptor that is closed is the one that
        // was just opened.
        unsafe {
            let access = libc::fcntl(number, libc::F_GETFL) & libc::O_ACCMODE;
            let flags = access | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
            let mut own = libc::open(path.as_ptr().cast(), flags);
            if own == -1 {
                own = libc::eventfd(0, libc::EFD_CLOEXEC);
            }
            if own != -1 {
                libc::dup3(own, number, libc::O_CLOEXEC);
                libc::close(own);
            }
        }
    }
}

/// Other systems have no locks that belong to an open file's bytes, and so no handles that are shared.
#[cfg(everseen_portable)]
mod system {
    use std::fs::File;

    pub(super) fn wait_for_forks() -> u64 {
        0
    }

    pub(super) fn forks() -> u64 {
        0
    }

    pub(super) fn enter(_file: &File) {}

    pub(super) fn leave(_file: &File) {}
}
