//! What the figures were measured on.

use std::fmt;
use std::path::Path;

/// Processors, memory and file system, as far as the system tells.
#[derive(Debug)]
pub struct Machine {
    cores: usize,
    processor: Option<String>,
    memory_gib: Option<u64>,
    file_system: Option<String>,
    load: Option<String>,
}

impl Machine {
    /// This machine, and the file system that `folder` lies on.
    pub fn here(folder: &Path) -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field("/proc/cpuinfo", "model name"),
            memory_gib: number("/proc/meminfo", "MemTotal").map(|kib| (kib + (1 << 19)) >> 20),
            file_system: file_system(folder),
            load: std::fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| Some(text.split_whitespace().next()?.to_owned())),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} cores", self.cores)?;
        if let Some(processor) = &self.processor {
            write!(out, " ({processor})")?;
        }
        if let Some(memory) = self.memory_gib {
            write!(out, ", {memory} GiB")?;
        }
        if let Some(file_system) = &self.file_system {
            write!(out, ", {file_system}")?;
        }
        if let Some(load) = &self.load {
            write!(out, ", load {load} before")?;
        }
        Ok(())
    }
}

/// The number at the begin of the first line `name: number` of a file, whatever its unit.
pub fn number(path: &str, name: &str) -> Option<u64> {
    field(path, name)?.split_whitespace().next()?.parse().ok()
}

/// The value of the first line `name: value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let (_, value) = lines.find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

/// The kind of the innermost mount that holds the folder.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        if folder.starts_with(point) && best.is_none_or(|(length, _)| length <= point.len()) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}
