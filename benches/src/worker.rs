//! Processes that do a part of a measurement: this program once more, told what to do by its
//! arguments, and when by its standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a worker says before it works, and hears to begin.
const READY: &str = "ready";
const GO: &str = "go";

/// A worker, as the one who started it sees it. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this program with arguments, and waits until it is ready to begin.
    ///
    /// # Errors
    /// What the system says, or that the worker ended.
    pub fn start(arguments: &[String]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut worker = Self {
            child,
            out: BufReader::new(out),
        };
        match worker.line()? {
            line if line == READY => Ok(worker),
            line => Err(io::Error::other(format!("the worker said {line:?}"))),
        }
    }

    /// The system's number of it.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Lets it begin, or go on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn go(&mut self) -> io::Result<()> {
        let stdin = self.child.stdin.as_mut();
        let stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stdin, "{GO}")
    }

    /// The next line that it says.
    ///
    /// # Errors
    /// If it ends before.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::Error::other("a worker ended early")),
        }
    }

    /// The numbers of the next line.
    ///
    /// # Errors
    /// If it ends before, or says something else.
    pub fn numbers(&mut self) -> io::Result<Vec<u64>> {
        let line = self.line()?;
        let numbers: Result<_, _> = line.split(' ').map(str::parse).collect();
        numbers.map_err(|_| io::Error::other(format!("the worker said {line:?}")))
    }

    /// Ends it as a power cut would, and waits for its end.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a worker: says that it is ready, and waits until all are.
///
/// # Errors
/// If who started it is gone.
pub fn wait_for_start() -> io::Result<()> {
    tell(READY)?;
    wait_to_go_on()
}

/// In a worker: waits until it is let go on.
///
/// # Errors
/// If who started it is gone.
pub fn wait_to_go_on() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if line.trim_end() == GO {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// In a worker: says a line.
///
/// # Errors
/// If who started it is gone.
pub fn tell(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
