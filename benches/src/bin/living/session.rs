//! Stores and the runs on them.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::piped::{self, Lines, Piped, Usage};
use everseen_benches::scratch::Scratch;

/// One run of this program.
pub struct Session<'a> {
    command: &'a Path,
    folder: &'a Scratch,
    pub rounds: u64,
    /// The number of the next line that no store has seen.
    fresh: Cell<u64>,
}

impl<'a> Session<'a> {
    pub fn new(command: &'a Path, folder: &'a Scratch, rounds: u64) -> Self {
        let fresh = Cell::new(0);
        Self {
            command,
            folder,
            rounds,
            fresh,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of a store that doesn't exist.
    pub fn store(&self, name: &str) -> io::Result<PathBuf> {
        self.folder.clear()?;
        Ok(self.folder.file(&format!("{name}.ever")))
    }

    /// Makes a store before lines come to it.
    pub fn create(&self, store: &Path, options: &[&str]) -> io::Result<()> {
        piped::create(self.command, store, options)
    }

    /// Runs `dedup` on as many lines as no store has seen.
    pub fn dedup(&self, store: &Path, count: u64) -> io::Result<Usage> {
        self.dedup_with(store, count, &[], None)
    }

    /// The same with options, or in a control group.
    pub fn dedup_with(
        &self,
        store: &Path,
        count: u64,
        options: &[OsString],
        group: Option<&MemoryGroup>,
    ) -> io::Result<Usage> {
        let first = self.fresh.get();
        self.fresh.set(first + count);
        let usage = self.run("dedup", store, first, count, options, group)?;
        // Few are lost to false positives: one in a thousand at most.
        if usage.printed > count || usage.printed * 1000 + 1000 < count * 999 {
            let wrong = format!("{} of {count} lines were new", usage.printed);
            return Err(io::Error::other(wrong));
        }
        Ok(usage)
    }

    /// Runs `dedup` on the lines that came last, which the store has seen.
    pub fn dedup_again(
        &self,
        store: &Path,
        count: u64,
        group: Option<&MemoryGroup>,
    ) -> io::Result<Usage> {
        let usage = self.run("dedup", store, self.last(count), count, &[], group)?;
        match usage.printed {
            0 => Ok(usage),
            printed => Err(io::Error::other(format!("{printed} seen lines were new"))),
        }
    }

    /// Runs `remove` on the lines that came last.
    pub fn remove(&self, store: &Path, count: u64) -> io::Result<Usage> {
        self.run("remove", store, self.last(count), count, &[], None)
    }

    /// Runs `verify`, and returns the seconds that it took; damage is an error.
    pub fn verify(&self, store: &Path) -> io::Result<f64> {
        let mut verify = Command::new(self.command);
        let begun = Instant::now();
        let output = verify.arg("verify").arg(store).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        match output.status.success() {
            true => Ok(begun.elapsed().as_secs_f64()),
            false => Err(io::Error::other(format!(
                "{verify:?} ended with {}: {text}",
                output.status
            ))),
        }
    }

    fn last(&self, count: u64) -> u64 {
        self.fresh.get() - count
    }

    fn run(
        &self,
        subcommand: &str,
        store: &Path,
        first: u64,
        count: u64,
        options: &[OsString],
        group: Option<&MemoryGroup>,
    ) -> io::Result<Usage> {
        let command = self.command;
        let numbers = first..first + count;
        let lines = Lines::Names;
        let piped = Piped {
            command,
            subcommand,
            options,
            store,
            numbers,
            lines,
            group,
        };
        piped.run()
    }
}
