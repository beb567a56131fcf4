//! A run of the command `everseen`, fed with lines through a pipe, and what it used.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cgroup::MemoryGroup;
use crate::keys;
use crate::machine::number;

/// What lines look like.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Lines {
    Urls,
    Names,
}

/// A run that is still to come.
#[derive(Clone, Debug)]
pub struct Piped<'a> {
    pub command: &'a Path,
    /// The subcommand, then its options.
    pub subcommand: &'a str,
    pub options: &'a [OsString],
    pub store: &'a Path,
    /// The numbers of the lines: no two numbers have the same line.
    pub numbers: Range<u64>,
    pub lines: Lines,
    pub group: Option<&'a MemoryGroup>,
}

/// What a run used.
#[derive(Clone, Debug)]
pub struct Usage {
    pub seconds: f64,
    /// Lines that it printed.
    pub printed: u64,
    /// The most memory at a time, in bytes.
    pub memory: u64,
    /// Bytes of pages of files that the process made dirty, by writes and by maps: each is written once or more. A kernel
    /// that keeps files in large folios counts a folio for each page.
    pub dirtied: u64,
    /// Bytes that the disk wrote meanwhile, and until all was on it; `None` if the folder lies on no disk.
    pub disk: Option<u64>,
    /// The store's file in the end.
    pub file: u64,
}

/// The command that was named; else the one that lies beside this program.
///
/// # Errors
/// That none does, and how to build it.
pub fn command(named: Option<PathBuf>) -> io::Result<PathBuf> {
    if let Some(command) = named {
        return Ok(command);
    }
    let command = std::env::current_exe()?.with_file_name("everseen");
    match command.exists() {
        true => Ok(command),
        false => Err(io::Error::other(format!(
            "{} is missing: build it (cargo build --release -p everseen-cli), or name it with --command",
            command.display()
        ))),
    }
}

/// How often the memory of a run is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Makes a store before lines come to it.
///
/// # Errors
/// What the system says, and a status other than 0 as [`io::ErrorKind::Other`].
pub fn create(command: &Path, store: &Path, options: &[&str]) -> io::Result<()> {
    let mut create = Command::new(command);
    let status = create.arg("create").arg(store).args(options).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{create:?} ended with {status}"))),
    }
}

impl Piped<'_> {
    /// Runs it to its end, and until the disk has what it wrote.
    ///
    /// # Errors
    /// What the system says, and a status other than 0 as [`io::ErrorKind::Other`].
    pub fn run(&self) -> io::Result<Usage> {
        let folder = self.store.parent().unwrap_or(Path::new("."));
        sync();
        let before = disk_bytes(folder);
        let begun = Instant::now();
        let mut child = Command::new(self.command)
            .arg(self.subcommand)
            .arg(self.store)
            .args(self.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(group) = self.group {
            group.add(child.id())?;
        }
        let is_over = AtomicBool::new(false);
        let (seconds, fed, printed, memory) = thread::scope(|scope| {
            let stdin = child.stdin.take();
            let (numbers, lines) = (self.numbers.clone(), self.lines);
            let feeding = scope.spawn(move || feed(stdin, numbers, lines));
            let process = child.id();
            let watching = scope.spawn({
                let is_over = &is_over;
                move || watch(process, is_over)
            });
            let printed = count_lines(child.stdout.take());
            let ended = wait_for_end(&child);
            let seconds = begun.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            watching.thread().unpark();
            let fed = feeding.join().map_err(|_| io::Error::other("the feeder"));
            let memory = watching.join().map_err(|_| io::Error::other("the watcher"));
            (seconds, fed, ended.and(printed), memory)
        });
        // It is not waited for before this: what it did can then no longer be read.
        let dirtied = number(&format!("/proc/{}/io", child.id()), "write_bytes");
        let status = child.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!(
                "{} ended with {status}",
                self.subcommand
            )));
        }
        fed??;
        sync();
        let disk = before.and_then(|before| disk_bytes(folder)?.checked_sub(before));
        Ok(Usage {
            seconds,
            printed: printed?,
            memory: memory?,
            dirtied: dirtied.unwrap_or(0),
            disk,
            file: fs::metadata(self.store)?.len(),
        })
    }
}

/// Waits until the process has ended, and leaves it to be waited for.
fn wait_for_end(child: &Child) -> io::Result<()> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    waitid(
        WaitId::Pid(process),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    Ok(())
}

fn sync() {
    rustix::fs::sync();
}

fn feed(pipe: Option<impl Write>, numbers: Range<u64>, lines: Lines) -> io::Result<()> {
    let pipe = pipe.ok_or(io::ErrorKind::BrokenPipe)?;
    let mut out = BufWriter::with_capacity(1 << 18, pipe);
    let mut url = keys::Url::default();
    for number in numbers {
        match lines {
            Lines::Urls => out.write_all(url.line(number))?,
            Lines::Names => out.write_all(&url.line(number)[..][keys::NAME..])?,
        }
    }
    out.flush()
}

fn count_lines(pipe: Option<impl Read>) -> io::Result<u64> {
    let pipe = pipe.ok_or(io::ErrorKind::BrokenPipe)?;
    let mut out = BufReader::with_capacity(1 << 18, pipe);
    let mut lines = 0;
    loop {
        let part = out.fill_buf()?;
        if part.is_empty() {
            return Ok(lines);
        }
        // A byte's sum fits: no part has 2^32 of them.
        lines += part
            .iter()
            .map(|byte| u32::from(*byte == b'\n'))
            .sum::<u32>() as u64;
        let length = part.len();
        out.consume(length);
    }
}

/// Returns the most memory that a process had until it was over.
fn watch(process: u32, is_over: &AtomicBool) -> u64 {
    let mut most = 0;
    while !is_over.load(Ordering::Relaxed) {
        let kib = number(&format!("/proc/{process}/status"), "VmHWM");
        most = most.max(kib.unwrap_or(0) << 10);
        thread::park_timeout(INTERVAL);
    }
    most
}

/// The bytes that the disk under a folder has written so far.
fn disk_bytes(folder: &Path) -> Option<u64> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
    // Whatever a disk's blocks are, this counts in 512 bytes.
    sectors.checked_mul(512)
}
