//! Files that a forked child does not keep open, as POSIX.1-2024's `O_CLOFORK` would have it; Linux has no such flag.
//!
//! A lock belongs to the open file, and a forked child shares its parent's open files. Were the child to keep them, the
//! locks of a killed parent would last as long as the child, although it never uses them. So the child replaces each
//! such descriptor, before `fork` returns there, by one of its own: the same file, opened anew, without a lock. The
//! number stays in use, and whatever the child does with it touches none of its parent's locks. The parent may go on
//! before the child has run; the child shares its locks until then. Other Unix systems can't reopen a file by its
//! descriptor: there the child gets `/dev/null`.
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

#[cfg(unix)]
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
        if !HAS_HANDLERS.load(Ordering::SeqCst) {
            // Two threads may both get here, and handlers that run twice do no harm. Were the word set first, the second
            // thread would go on before there are any.
            //
            // SAFETY: the handlers are functions of this library, which is there as long as they are registered. What
            // runs in the child uses words and system calls alone. A failure (no memory) leaves children as they were.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
            HAS_HANDLERS.store(true, Ordering::SeqCst);
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
    #[cfg(not(everseen_portable))]
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

    /// Replaces a descriptor by one of no file: some systems' `/dev/fd` gives the open file again, with its locks.
    #[cfg(everseen_portable)]
    fn replace(number: RawFd) {
        // SAFETY: as above. Whatever the child does is done by its only thread, so nothing comes between the last calls.
        unsafe {
            let own = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if own != -1 {
                libc::dup2(own, number);
                libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::close(own);
            }
        }
    }
}

/// A process on Windows has no forked children.
#[cfg(windows)]
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

/// Forked children of tests.
#[cfg(all(test, unix))]
pub(super) mod forked {
    use std::time::{Duration, Instant};

    /// A child of this process, which ends with it at the latest.
    pub(in crate::sys) struct Child(libc::pid_t);

    impl Child {
        /// Forks a child that does `work` and exits with what it returns, or waits to be killed. It may not allocate.
        pub(in crate::sys) fn fork(work: impl FnOnce() -> Option<bool>) -> Self {
            // SAFETY: the child calls nothing but system calls before it ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    match work() {
                        Some(outcome) => libc::_exit(i32::from(outcome)),
                        None => {
                            libc::pause();
                            libc::_exit(2);
                        }
                    }
                }
                assert_ne!(child, -1);
                Self(child)
            }
        }

        /// Waits for what happens once the child has given up its parent's locks: the parent may go on before the child does,
        /// and other tests start programs.
        pub(in crate::sys) fn wait_until(has_happened: impl Fn() -> bool) {
            let limit = Instant::now() + Duration::from_secs(30);
            while !has_happened() {
                assert!(Instant::now() < limit, "the child keeps the lock");
                std::thread::yield_now();
            }
        }

        /// Waits for the child's end; returns its status.
        #[cfg(not(everseen_portable))]
        pub(in crate::sys) fn wait(self) -> i32 {
            let mut status = 0;
            // SAFETY: the call writes to a number of this function's own.
            let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            assert_eq!(waited, self.0);
            std::mem::forget(self);
            status
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: a child of this process that was not waited for, so that its number is still its own.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }
}
