//! Memory and disk, as the system tells.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everseen_benches::machine::number;

use crate::sys;

/// Takes what this process has in memory now for its peak from here on, and answers it in bytes;
/// `None` where the system can't do that.
pub fn reset_peak() -> Option<u64> {
    sys::give_back_freed();
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    let now = status("VmRSS")?;
    // What was set back is close to what is.
    (status("VmHWM")? < now + (4 << 20)).then_some(now)
}

/// The most bytes that this process had in memory since: of its own, and of files that it has mapped.
pub fn peak() -> Option<u64> {
    status("VmHWM")
}

/// The bytes of files' pages that this process has made dirty so far; 0 if the system doesn't tell.
pub fn written() -> u64 {
    number("/proc/self/io", "write_bytes").unwrap_or(0)
}

fn status(name: &str) -> Option<u64> {
    kib_field("/proc/self/status", name)
}

/// A line such as `VmRSS:   1234 kB`, in bytes.
fn kib_field(path: &str, name: &str) -> Option<u64> {
    Some(number(path, name)? << 10)
}

/// Bytes of memory that this process and the page cache under it may have: the machine's, or less
/// where its control group says so. `None` if the system doesn't tell.
pub fn memory() -> Option<u64> {
    least(kib_field("/proc/meminfo", "MemTotal"), group_limit())
}

/// Bytes of memory that are free, or can be made so.
pub fn free_memory() -> Option<u64> {
    least(kib_field("/proc/meminfo", "MemAvailable"), group_limit())
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The smallest limit of this process's control group and of those above it.
fn group_limit() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let root = PathBuf::from(root);
        let group = root.join(path.trim_start_matches('/'));
        for folder in group.ancestors().take_while(|at| at.starts_with(&root)) {
            let limit = std::fs::read_to_string(folder.join(name));
            let limit = limit.ok().and_then(|text| text.trim().parse().ok());
            least = self::least(least, limit);
        }
    }
    least
}

/// Bytes that are free on the disk of a folder.
pub fn free_disk(folder: &Path) -> io::Result<u64> {
    fs2::available_space(folder)
}

/// Bytes that the files of a folder take on the disk, holes left out.
pub fn used_disk(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += used_disk(&entry.path())?,
            Ok(metadata) => bytes += metadata.blocks() * 512,
            // Files come and go while a database tidies up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_no_room() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 20_000]).unwrap();
        let hole = std::fs::File::create(folder.path().join("hole")).unwrap();
        hole.set_len(1 << 30).unwrap();
        let used = used_disk(folder.path()).unwrap();
        assert!((20_000..1 << 20).contains(&used), "{used}");
    }

    #[test]
    fn a_peak_is_noticed() {
        let (Some(before), Some(memory)) = (reset_peak(), memory()) else {
            return;
        };
        let bytes = std::hint::black_box(vec![1_u8; 64 << 20]);
        drop(bytes);
        let grown = peak().unwrap() - before;
        assert!(grown >= 60 << 20, "{grown}");
        assert!(free_memory().unwrap() <= memory);
    }
}
