//! A memory limit for one process: a control group of its own, inside the one that this process is
//! in, so that it takes nothing that this one was not given.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The files of the two versions of control groups.
#[derive(Debug)]
struct Names {
    limit: &'static str,
    /// Of memory and swap together, or of swap.
    swap: &'static str,
    peak: &'static str,
    /// In `memory.stat`.
    anonymous: &'static str,
    cache: &'static str,
    mapped: &'static str,
    dirty: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    anonymous: "total_rss",
    cache: "total_cache",
    mapped: "total_mapped_file",
    dirty: "total_dirty",
};

const VERSION_2: Names = Names {
    limit: "memory.max",
    swap: "memory.swap.max",
    peak: "memory.peak",
    anonymous: "anon",
    cache: "file",
    mapped: "file_mapped",
    dirty: "file_dirty",
};

/// A control group with a memory limit. It is removed when this is dropped, unless a process is
/// still in it.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    names: &'static Names,
}

/// What a group's memory is used for, in bytes; 0 where the system doesn't tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The most of all of it together, ever.
    pub peak: u64,
    pub anonymous: u64,
    /// Pages of files, mapped or not.
    pub cache: u64,
    /// Those of them that are mapped.
    pub mapped: u64,
    /// And those that have not been written back.
    pub dirty: u64,
}

impl MemoryGroup {
    /// Makes a group with a limit in bytes.
    ///
    /// # Errors
    /// Why there can't be one, for people to read.
    pub fn create(limit: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let mut refusals = Vec::new();
        for (parent, names) in parents(&mounts, &own) {
            match Self::create_in(&parent, names, limit) {
                Ok(made) => return Ok(made),
                Err(error) => refusals.push(format!("{}: {error}", parent.display())),
            }
        }
        if refusals.is_empty() {
            return Err("no memory controller is mounted".to_owned());
        }
        Err(refusals.join("; "))
    }

    fn create_in(parent: &Path, names: &'static Names, limit: u64) -> io::Result<Self> {
        let folder = parent.join(format!("everseen-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let made = Self { folder, names };
        fs::write(made.folder.join(names.limit), limit.to_string())?;
        // Where swap is not counted, this file is missing.
        let swap = if made.folder.join("cgroup.controllers").exists() {
            0
        } else {
            limit
        };
        let _ = fs::write(made.folder.join(names.swap), swap.to_string());
        Ok(made)
    }

    /// Moves a process into it. What memory it has used before stays counted where it was.
    ///
    /// # Errors
    /// What the system says.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// What its memory is used for now.
    ///
    /// # Errors
    /// What the system says.
    pub fn memory(&self) -> io::Result<Memory> {
        let stat = fs::read_to_string(self.folder.join("memory.stat"))?;
        let of = |name: &str| {
            let mut words = stat.lines().map(|line| line.split(' '));
            let value = words.find_map(|mut words| (words.next()? == name).then(|| words.next()));
            value.flatten().and_then(|value| value.parse().ok())
        };
        let peak = fs::read_to_string(self.folder.join(self.names.peak));
        let peak = peak.ok().and_then(|text| text.trim().parse().ok());
        Ok(Memory {
            peak: peak.unwrap_or(0),
            anonymous: of(self.names.anonymous).unwrap_or(0),
            cache: of(self.names.cache).unwrap_or(0),
            mapped: of(self.names.mapped).unwrap_or(0),
            dirty: of(self.names.dirty).unwrap_or(0),
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just ended may be in it for a moment still.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Folders in which a group with a memory limit may be made, from what the system tells of mounts
/// and of this process's own groups.
fn parents(mounts: &str, own: &str) -> Vec<(PathBuf, &'static Names)> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((mount, system)) = line.split_once(" - ") else {
            continue;
        };
        let mount: Vec<_> = mount.split(' ').collect();
        let system: Vec<_> = system.split(' ').collect();
        let ([_, _, _, root, point, ..], [kind, _, options, ..]) = (&mount[..], &system[..]) else {
            continue;
        };
        // A container sees a part of the tree only.
        let place = |path: &str| {
            let inside = Path::new(path).strip_prefix(root).ok()?;
            Some(Path::new(point).join(inside))
        };
        let is_memory = |list: &str| list.split(',').any(|name| name == "memory");
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            let Some(folder) = place(path) else {
                continue;
            };
            match *kind {
                "cgroup" if is_memory(options) && is_memory(controllers) => {
                    found.push((folder, &VERSION_1));
                }
                // A group with processes in it can't have groups with limits, but for the root; the
                // one above it can.
                "cgroup2" if controllers.is_empty() => {
                    let above = folder.parent().filter(|_| path != "/").map(Path::to_owned);
                    let both = [Some(folder), above].into_iter().flatten();
                    found.extend(
                        both.filter(|it| gives_memory(it))
                            .map(|it| (it, &VERSION_2)),
                    );
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether groups in this one of version 2 can have memory limits as it is set up.
fn gives_memory(group: &Path) -> bool {
    let control = fs::read_to_string(group.join("cgroup.subtree_control"));
    control.is_ok_and(|control| control.split_whitespace().any(|name| name == "memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let own = "4:memory:/jobs/7\n1:cpu:/\n0::/\n";
        let found: Vec<_> = parents(mounts, own).into_iter().map(|(it, _)| it).collect();
        assert_eq!(found, [Path::new("/sys/fs/cgroup/memory/jobs/7")]);
    }

    #[test]
    fn a_container_sees_a_part_of_the_tree() {
        let mounts = "35 31 0:32 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "4:memory:/docker/a/b\n";
        let found: Vec<_> = parents(mounts, own).into_iter().map(|(it, _)| it).collect();
        assert_eq!(found, [Path::new("/sys/fs/cgroup/memory/b")]);
        assert!(parents(mounts, "4:memory:/elsewhere\n").is_empty());
    }
}
