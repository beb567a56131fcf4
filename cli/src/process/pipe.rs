//! Pipes that take a whole block of lines.
//!
//! With the 64 KiB that a pipe has by default, its two ends wait for each other sixteen times a block: a fifth of all time
//! on two processors (docs/experiments.md).

#[cfg(target_os = "linux")]
pub use linux::Widened;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Widened;

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
    /// The longest pause between two looks at what is unread.
    const LONGEST_PAUSE: Duration = Duration::from_millis(32);

    /// A pipe that has more room than it was made with.
    #[derive(Clone, Copy, Debug)]
    pub struct Widened {
        /// The bytes that it had room for.
        before: usize,
    }

    impl Widened {
        /// Enlarges a pipe. Returns `None` if the file is no pipe, has as much room, or the system refuses.
        pub fn of(file: &File) -> Option<Self> {
            let before = fcntl_getpipe_size(file).ok()?;
            let is_small = before < WIDE;
            (is_small && fcntl_setpipe_size(file, WIDE).is_ok()).then_some(Self { before })
        }

        /// Waits until no more is unread than a pipe of the size before could hold: whoever is at the other end takes
        /// what is written no sooner for lack of room. Called at the end for writing.
        ///
        /// # Errors
        /// `BrokenPipe` if nobody is left to read it.
        pub fn wait_until_read(self, file: &File) -> io::Result<()> {
            let mut pause = Duration::from_millis(1);
            while ioctl_fionread(file)? > self.before as u64 {
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

    /// There is none.
    #[derive(Clone, Copy, Debug)]
    pub enum Widened {}

    impl Widened {
        pub fn of(_file: &File) -> Option<Self> {
            None
        }

        pub fn wait_until_read(self, _file: &File) -> io::Result<()> {
            match self {}
        }
    }
}
