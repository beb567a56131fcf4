//! Streams that other processes may have set to fail where a call would wait.
//!
//! `O_NONBLOCK` is a flag of the open file, which all processes share that inherited it. A program that sets it for its own
//! use (Node, asyncio, a container's shim) gives this process a stream whose reads and writes fail with `EAGAIN`.
//! Clearing the flag would break that program, so this process waits by itself.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

/// A stream whose reads and writes wait, however its flags are set.
#[derive(Debug)]
pub struct SharedStream(File);

/// What a stream is waited for to be ready for.
#[derive(Clone, Copy)]
enum Ready {
    ToRead,
    ToWrite,
}

impl SharedStream {
    pub fn of(file: File) -> Self {
        SharedStream(file)
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    /// Repeats a call until it need not wait.
    fn patiently(
        &mut self,
        ready: Ready,
        mut call: impl FnMut(&File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match call(&self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&self.0, ready)?,
                outcome => return outcome,
            }
        }
    }
}

impl Read for SharedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(Ready::ToRead, |mut file| file.read(into))
    }
}

impl Write for SharedStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.patiently(Ready::ToWrite, |mut file| file.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits until a stream is ready, or has failed: then the next call says how.
#[cfg(unix)]
fn wait(file: &File, ready: Ready) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let flags = match ready {
        Ready::ToRead => PollFlags::IN,
        Ready::ToWrite => PollFlags::OUT,
    };
    match poll(&mut [PollFd::new(file, flags)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Such streams don't exist here.
#[cfg(not(unix))]
fn wait(_: &File, _: Ready) -> io::Result<()> {
    Err(ErrorKind::WouldBlock.into())
}
