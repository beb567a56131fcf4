//! What the system keeps of a file in memory.

use std::ops::Range;

use super::storage::StorageFile;

/// Advises the system that this range, which is synced, will not be needed soon, so that its memory can serve other
/// data. Affects only speed, and does nothing where a test's wrapper lies in between.
#[cfg(not(everseen_portable))]
pub(crate) fn drop_cached(file: &dyn StorageFile, range: Range<u64>) {
    if let Some(file) = file.as_file() {
        let length = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
        let advice = rustix::fs::Advice::DontNeed;
        let _ = rustix::fs::fadvise(file, range.start, length, advice);
    }
}

#[cfg(everseen_portable)]
pub(crate) fn drop_cached(_: &dyn StorageFile, _: Range<u64>) {}

/// Returns whether the byte at `offset` is in memory, so that reading it waits for no disk; `None` where the system
/// can't say. Finds out by reading the byte unless that would block (`RWF_NOWAIT`).
#[cfg(not(everseen_portable))]
pub(crate) fn is_cached(file: &dyn StorageFile, offset: u64) -> Option<bool> {
    let mut byte = [0];
    let read = rustix::io::preadv2(
        file.as_file()?,
        &mut [std::io::IoSliceMut::new(&mut byte)],
        offset,
        rustix::io::ReadWriteFlags::NOWAIT,
    );
    match read {
        Ok(1) => Some(true),
        Err(rustix::io::Errno::AGAIN) => Some(false),
        _ => None,
    }
}

#[cfg(everseen_portable)]
pub(crate) fn is_cached(_: &dyn StorageFile, _: u64) -> Option<bool> {
    None
}

#[cfg(all(test, not(everseen_portable)))]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::sys::disk::system_of;
    use crate::sys::storage::{disk, write_all_at};
    use crate::sys::wait_until;

    #[test]
    fn what_was_given_up_is_not_cached_and_what_was_read_is() {
        let folder = tempfile::tempdir().unwrap();
        let path: &Path = &folder.path().join("file");
        let file = disk().create_new(path).unwrap();
        write_all_at(&*file, &vec![1; 1 << 20], 0).unwrap();
        file.sync().unwrap();
        let reader = disk().open(path, false).unwrap();
        const EXT: u64 = 0xEF53;
        if reader.as_file().and_then(system_of) != Some(EXT) {
            // The file may lie in memory alone, or the system can't say.
            return;
        }
        // The system keeps pages that it is still working on, so one call may not be enough.
        let is_gone = || {
            drop_cached(&*file, 0..1 << 20);
            Ok::<_, Infallible>(is_cached(&*reader, 1 << 19) == Some(false))
        };
        assert_eq!(wait_until(Duration::from_secs(60), is_gone), Ok(true));
        reader.read_at(&mut [0; 4096], 0).unwrap();
        assert_eq!(is_cached(&*reader, 0), Some(true));
        assert_eq!(is_cached(&*reader, 1 << 20), None, "after the end");
    }
}
