//! Pipes that take a whole block of lines.
//!
//! With the 64 KiB that a pipe has by default, its two ends wait for each other sixteen times a block: an eighth of the
//! time of a stream on two processors. A thread of its own for writing would save as much, at the price of a hand-over
//! and of a second place where lines wait.

#[cfg(target_os = "linux")]
pub use linux::{OutputPipe, widen};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{OutputPipe, widen};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::{Errno, ioctl_fionread};
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

    /// What the system lets everybody have by default (`fs.pipe-max-size`).
    const WIDE: usize = 1 << 20;
    /// What a pipe holds by default.
    const USUAL: usize = 64 << 10;
    /// The longest pause between two looks at what is unread.
    const LONGEST_PAUSE: Duration = Duration::from_millis(32);

    /// Enlarges a pipe. It stays as it is if it has as much room or the system refuses. Other files are left alone.
    pub fn widen(file: &File) {
        if fcntl_getpipe_size(file).is_ok_and(|bytes| bytes < WIDE) {
            let _ = fcntl_setpipe_size(file, WIDE);
        }
    }

    /// A pipe for output, of which no more may be unread at a commit than a pipe of the usual size holds.
    #[derive(Clone, Copy, Debug)]
    pub struct OutputPipe {
        most_unread: u64,
    }

    impl OutputPipe {
        /// Enlarges a pipe. Returns `None` if the file is no pipe, or the system does not tell what is unread; then it is
        /// left as it is.
        ///
        /// A pipe keeps its size when the process that enlarged it ends, so a large one has the same limit, whoever made
        /// it so.
        pub fn of(file: &File) -> Option<Self> {
            let bytes = fcntl_getpipe_size(file).ok()?;
            ioctl_fionread(file).ok()?;
            widen(file);
            let most_unread = bytes.min(USUAL) as u64;
            Some(Self { most_unread })
        }

        /// Waits until no more is unread than a pipe of the usual size holds, whoever wrote it. Called at the end for
        /// writing.
        ///
        /// # Errors
        /// `BrokenPipe` if nobody is left to read it.
        pub fn wait_until_read(self, file: &File) -> io::Result<()> {
            let mut pause = Duration::from_millis(1);
            while ioctl_fionread(file)? > self.most_unread {
                let timeout = Timespec::try_from(pause).ok();
                let mut ends = [PollFd::new(file, PollFlags::empty())];
                match poll(&mut ends, timeout.as_ref()) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                if ends[0].revents().contains(PollFlags::ERR) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            Ok(())
        }
    }
}

/// Systems whose pipes have one size.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::fs::File;
    use std::io;

    /// Does nothing.
    pub fn widen(_file: &File) {}

    /// There is none.
    #[derive(Clone, Copy, Debug)]
    pub enum OutputPipe {}

    impl OutputPipe {
        pub fn of(_file: &File) -> Option<Self> {
            None
        }

        pub fn wait_until_read(self, _file: &File) -> io::Result<()> {
            match self {}
        }
    }
}
