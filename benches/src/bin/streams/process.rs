//! A run of the command, fed through a pipe, and what it used.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::keys;
use everseen_benches::machine::number;

use crate::report::Row;

/// What lines look like.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Lines {
    Urls,
    Names,
}

/// What a run used.
#[derive(Clone, Debug)]
pub struct Usage {
    pub seconds: f64,
    pub printed: u64,
    /// The most memory at a time, in bytes.
    pub memory: u64,
    /// Bytes of pages of files that the process made dirty, by writes and by maps: each is written once or more.
    pub dirtied: u64,
    /// Bytes that the disk wrote meanwhile, and until all was on it; `None` if the folder lies on no disk.
    pub disk: Option<u64>,
    /// The store's file in the end.
    pub file: u64,
}

/// How often the memory of a run is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `dedup` on generated lines.
pub fn dedup(
    command: &Path,
    store: &Path,
    row: &Row,
    lines: Lines,
    group: Option<&MemoryGroup>,
) -> io::Result<Usage> {
    let folder = store.parent().unwrap_or(Path::new("."));
    sync();
    let before = disk_bytes(folder);
    let begun = Instant::now();
    let mut child = Command::new(command)
        .arg("dedup")
        .arg(store)
        .args(&row.options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(group) = group {
        group.add(child.id())?;
    }
    let is_over = AtomicBool::new(false);
    let (fed, printed, memory) = thread::scope(|scope| {
        let stdin = child.stdin.take();
        let feeding = scope.spawn(move || feed(stdin, row.keys, lines));
        let process = child.id();
        let watching = scope.spawn({
            let is_over = &is_over;
            move || watch(process, is_over)
        });
        let printed = count_lines(child.stdout.take());
        let ended = wait_for_end(&child);
        is_over.store(true, Ordering::Relaxed);
        let fed = feeding.join().map_err(|_| io::Error::other("the feeder"));
        let memory = watching.join().map_err(|_| io::Error::other("the watcher"));
        (fed, ended.and(printed), memory)
    });
    let seconds = begun.elapsed().as_secs_f64();
    // It is not waited for before this: what it did can then no longer be read.
    let dirtied = number(&format!("/proc/{}/io", child.id()), "write_bytes");
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("dedup ended with {status}")));
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
        file: fs::metadata(store)?.len(),
    })
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

fn feed(pipe: Option<impl Write>, count: u64, lines: Lines) -> io::Result<()> {
    let pipe = pipe.ok_or(io::ErrorKind::BrokenPipe)?;
    let mut out = BufWriter::with_capacity(1 << 18, pipe);
    let mut url = keys::Url::default();
    for number in 0..count {
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
        thread::sleep(INTERVAL);
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
