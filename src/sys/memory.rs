//! How much memory this process may have, as far as the system tells.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::AddressSpace;

/// The memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The most that it may ever have: physical memory, or the least limit of its control groups, of those above them,
    /// and of its address space.
    pub(crate) total: u64,
    /// What it could have now without pushing anything out.
    pub(crate) available: u64,
    /// The dirty pages of files from which on the system writes them back in the background.
    pub(crate) background: u64,
}

impl Memory {
    /// Returns the memory of this process; `None` if the system does not tell.
    pub(crate) fn of_process() -> Option<Self> {
        match cfg!(not(everseen_portable)) {
            true => Self::read(&text_of).map(|found| found.within(AddressSpace::of_process())),
            false => None,
        }
    }

    /// Returns the bytes of physical memory; `None` if the system does not tell.
    pub(crate) fn physical() -> Option<u64> {
        static PHYSICAL: OnceLock<Option<u64>> = OnceLock::new();
        let read = || {
            let reported = text_of(Path::new("/proc/meminfo"))?;
            Some(value_of(&reported, "MemTotal:")?.saturating_mul(1024))
        };
        *PHYSICAL.get_or_init(read)
    }

    /// Reads what the system tells in files; `read` returns the text of one.
    fn read(read: &dyn Fn(&Path) -> Option<String>) -> Option<Self> {
        let reported = read(Path::new("/proc/meminfo"))?;
        let kibibytes = |name: &str| Some(value_of(&reported, name)?.saturating_mul(1024));
        let mut found = Self {
            total: kibibytes("MemTotal:")?,
            available: kibibytes("MemAvailable:")?,
            background: 0,
        };
        let setting = |name: &str| -> Option<u64> {
            let path = Path::new("/proc/sys/vm").join(name);
            read(&path)?.trim().parse().ok()
        };
        // One of the two is 0, and the other one counts.
        let bytes = setting("dirty_background_bytes").unwrap_or(0);
        let percent = match bytes {
            0 => setting("dirty_background_ratio").unwrap_or(10),
            bytes => bytes.saturating_mul(100) / found.available.max(1),
        };
        let part = |available: u64| available / 100 * percent.min(100);
        found.background = match bytes {
            0 => part(found.available),
            bytes => bytes,
        };
        let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let physical = found.total;
        for group in Group::all(&mounts, &own) {
            let Some((limit, available)) = group.memory(physical, read) else {
                continue;
            };
            found.total = found.total.min(limit);
            found.available = found.available.min(available);
            if group.names.counts_dirty {
                found.background = found.background.min(part(available));
            }
        }
        Some(found)
    }

    /// Returns what a limit of the address space leaves of it.
    fn within(self, space: Option<AddressSpace>) -> Self {
        let Some(space) = space else {
            return self;
        };
        Self {
            total: self.total.min(space.limit),
            available: self.available.min(space.left()),
            ..self
        }
    }
}

/// What a version of control groups calls its files.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    limits: &'static [&'static str],
    usage: &'static str,
    /// The pages of files that are counted in the usage, with those of the groups below.
    files: [&'static str; 2],
    /// Whether a group has a share of its own of dirty pages.
    counts_dirty: bool,
}

const VERSION_1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
    counts_dirty: false,
};

const VERSION_2: Names = Names {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    files: ["inactive_file", "active_file"],
    counts_dirty: true,
};

/// A control group that may limit this process's memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    names: &'static Names,
}

impl Group {
    /// Returns the groups of a process and those above them, as far as they are mounted. `mounts` is the text of
    /// `mountinfo` and `own` that of `cgroup`.
    fn all(mounts: &str, own: &str) -> Vec<Self> {
        let mut found = Vec::new();
        for line in mounts.lines() {
            let Some((mount, system)) = line.split_once(" - ") else {
                continue;
            };
            let mount: Vec<_> = mount.split(' ').collect();
            let system: Vec<_> = system.split(' ').collect();
            let ([_, _, _, root, point, ..], [kind, _, options, ..]) = (&mount[..], &system[..])
            else {
                continue;
            };
            let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
            for line in own.lines() {
                let mut fields = line.splitn(3, ':').skip(1);
                let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                    continue;
                };
                let names = match *kind {
                    "cgroup" if has_memory(options) && has_memory(controllers) => &VERSION_1,
                    "cgroup2" if controllers.is_empty() => &VERSION_2,
                    _ => continue,
                };
                let (point, path) = (Path::new(point), Path::new(path));
                // A container may see a part of the tree only, in which its own group is the root.
                let inside = path.strip_prefix(root).unwrap_or(Path::new(""));
                let folders = inside.ancestors().map(|folder| point.join(folder));
                found.extend(folders.map(|folder| Self { folder, names }));
            }
        }
        found
    }

    /// Returns the group's limit, and what it may have beyond what it uses now; `None` if it has no limit below
    /// physical memory.
    fn memory(&self, physical: u64, read: &dyn Fn(&Path) -> Option<String>) -> Option<(u64, u64)> {
        let read = |name: &str| read(&self.folder.join(name));
        let limits = self.names.limits.iter();
        let limits = limits.filter_map(|name| read(name)?.trim().parse::<u64>().ok());
        // To count what a group uses, the system goes through all processors, for a millisecond.
        let limit = limits.min().filter(|limit| *limit < physical)?;
        let usage = read(self.names.usage)?.trim().parse::<u64>().ok()?;
        let reported = read("memory.stat").unwrap_or_default();
        let files = self.names.files.map(|name| value_of(&reported, name));
        let files = files.into_iter().flatten().fold(0, u64::saturating_add);
        Some((limit, limit.saturating_sub(usage.saturating_sub(files))))
    }
}

/// Returns the text of one of the system's files, whose length it doesn't tell: most fit into one read.
pub(super) fn text_of(path: &Path) -> Option<String> {
    let mut text = String::with_capacity(8 << 10);
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    read.is_ok().then_some(text)
}

/// Returns the number that follows a name at the beginning of a line.
pub(super) fn value_of(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MEMINFO: &str =
        "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n";
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn memory(files: &[(&str, &str)]) -> Option<Memory> {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        Memory::read(&|path| files.get(path.to_str()?).map(|text| (*text).to_owned()))
    }

    #[test]
    fn a_process_without_groups_has_physical_memory() {
        let found = memory(&[("/proc/meminfo", MEMINFO)]).unwrap();
        assert_eq!((found.total, found.available), (16 * GIB, 8 * GIB));
        assert_eq!(found.background, 8 * GIB / 100 * 10);
        let ratio = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/sys/vm/dirty_background_ratio", "5\n"),
        ];
        assert_eq!(memory(&ratio).unwrap().background, 8 * GIB / 100 * 5);
        let bytes = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/sys/vm/dirty_background_ratio", "0\n"),
            ("/proc/sys/vm/dirty_background_bytes", "1048576\n"),
        ];
        assert_eq!(memory(&bytes).unwrap().background, MIB);
        assert_eq!(memory(&[]), None);
        assert_eq!(memory(&[("/proc/meminfo", "MemTotal: much kB")]), None);
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let mounts = "25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 25 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      34 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      nonsense\n";
        let found = memory(&[
            ("/proc/meminfo", MEMINFO),
            ("/proc/self/mountinfo", mounts),
            ("/proc/self/cgroup", "4:memory:/jobs/7\n1:cpu:/jobs\n0::/\n"),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712",
            ),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824"),
            (
                "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                "536870912",
            ),
            (
                "/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes",
                "209715200",
            ),
            (
                "/sys/fs/cgroup/memory/jobs/memory.stat",
                "cache 3\ntotal_inactive_file 52428800\ntotal_active_file 52428800\n",
            ),
            (
                "/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes",
                "2147483648",
            ),
            ("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "1"),
        ]);
        let found = found.unwrap();
        assert_eq!((found.total, found.available), (512 * MIB, 412 * MIB));
        // Groups of version 1 have no threshold of their own.
        assert_eq!(found.background, 8 * GIB / 100 * 10);
    }

    #[test]
    fn a_group_of_version_2_may_be_the_root_of_what_a_container_sees() {
        for (root, own) in [("/box", "0::/box/a\n"), ("/box/a", "0::/../a\n")] {
            let mounts = format!("35 31 0:32 {root} /groups rw - cgroup2 cgroup2 rw\n");
            let folder = if root == "/box" {
                "/groups/a"
            } else {
                "/groups"
            };
            let files = ["memory.max", "memory.high", "memory.current", "memory.stat"];
            let files = files.map(|name| format!("{folder}/{name}"));
            let found = memory(&[
                ("/proc/meminfo", MEMINFO),
                ("/proc/self/mountinfo", &mounts),
                ("/proc/self/cgroup", own),
                (&files[0], "max\n"),
                (&files[1], "104857600\n"),
                (&files[2], "41943040\n"),
                (&files[3], "file 7\ninactive_file 0\nactive_file 20971520\n"),
            ]);
            let found = found.unwrap();
            assert_eq!((found.total, found.available), (100 * MIB, 80 * MIB));
            assert_eq!(found.background, 80 * MIB / 100 * 10);
        }
    }

    #[test]
    fn a_limit_of_the_address_space_counts_with_what_is_mapped() {
        let space = AddressSpace::of(80 * MIB, "VmSize:\t   20480 kB\n");
        let found = memory(&[("/proc/meminfo", MEMINFO)]).unwrap();
        assert_eq!(found.within(None), found);
        let found = found.within(space);
        assert_eq!((found.total, found.available), (80 * MIB, 60 * MIB));
        assert_eq!(found.background, 8 * GIB / 100 * 10);
    }

    #[cfg(not(everseen_portable))]
    #[test]
    fn this_process_has_memory() {
        let found = Memory::of_process().unwrap();
        assert!(
            found.total > 0 && found.available <= found.total,
            "{found:?}"
        );
    }
}
