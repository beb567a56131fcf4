//! How often a thread has waited for the disk.

#[cfg(not(everseen_portable))]
use std::sync::LazyLock;

/// Whether the system counts at all: no process gets far without a fault of the other kind. gVisor tells of none.
#[cfg(not(everseen_portable))]
static IS_COUNTED: LazyLock<bool> =
    LazyLock::new(|| usage(libc::RUSAGE_SELF).is_some_and(|usage| usage.ru_minflt > 0));

/// Returns how many of this thread's page faults have read from a disk so far; `None` where the system can't say.
#[cfg(not(everseen_portable))]
pub(crate) fn major_faults() -> Option<u64> {
    let usage = usage(libc::RUSAGE_THREAD).filter(|_| *IS_COUNTED)?;
    u64::try_from(usage.ru_majflt).ok()
}

#[cfg(not(everseen_portable))]
fn usage(who: libc::c_int) -> Option<libc::rusage> {
    // SAFETY: zeros are a valid value of each of its numbers, and the call writes no more than one such structure.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(who, &mut usage) == 0).then_some(usage)
    }
}

#[cfg(everseen_portable)]
pub(crate) fn major_faults() -> Option<u64> {
    None
}

#[cfg(all(test, not(any(everseen_portable, loom))))]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::sys::disk::system_of;
    use crate::sys::storage::{disk, write_all_at};
    use crate::sys::{Map, drop_cached, is_cached, wait_until};

    const LENGTH: u64 = 1 << 20;

    #[test]
    fn pages_that_come_from_the_disk_count_and_those_in_memory_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path: &Path = &folder.path().join("file");
        let file = disk().create_new(path).unwrap();
        write_all_at(&*file, &vec![1; LENGTH as usize], 0).unwrap();
        file.sync().unwrap();
        let waits_for_all_pages = || {
            let map = Map::new(file.as_file().unwrap(), 0, LENGTH).unwrap();
            let before = major_faults().unwrap();
            for word in (0..LENGTH as usize / 8).step_by(512) {
                assert_eq!(map.word(word), 0x0101_0101_0101_0101);
            }
            major_faults().unwrap() - before
        };
        assert_eq!(waits_for_all_pages(), 0);
        const EXT: u64 = 0xEF53;
        if file.as_file().and_then(system_of) != Some(EXT) {
            // The file may lie in memory alone.
            return;
        }
        // The system keeps pages that it is still working on, so one call may not be enough.
        let is_gone = || {
            drop_cached(&*file, 0..LENGTH);
            Ok::<_, Infallible>(is_cached(&*file, LENGTH / 2) == Some(false))
        };
        assert_eq!(wait_until(Duration::from_secs(60), is_gone), Ok(true));
        assert!(waits_for_all_pages() > 0);
    }
}
