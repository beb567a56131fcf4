//! Detects whether this process is a copy that `fork` created.

#[cfg(not(everseen_portable))]
use memmap2::{MmapMut, MmapOptions};

/// The process that created this value.
#[derive(Debug)]
pub(crate) struct Process {
    /// A byte that is 1 in this process and 0 in a forked copy, where the system wipes the page. Reading it takes no
    /// call, unlike the process's number. `None` if the system does not promise the wipe.
    #[cfg(not(everseen_portable))]
    mark: Option<MmapMut>,
    number: u32,
}

impl Process {
    /// Returns this process.
    pub(crate) fn current() -> Self {
        Self {
            #[cfg(not(everseen_portable))]
            mark: make_mark(),
            number: std::process::id(),
        }
    }

    /// Returns whether the process still has its number. An emulator of the system may promise to wipe the page but not
    /// do it.
    pub(crate) fn has_its_number(&self) -> bool {
        self.number == std::process::id()
    }

    /// Returns whether the process is still the same.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        #[cfg(not(everseen_portable))]
        if let Some(mark) = &self.mark {
            return mark[0] == 1;
        }
        self.has_its_number()
    }
}

#[cfg(not(everseen_portable))]
fn make_mark() -> Option<MmapMut> {
    let mut mark = MmapOptions::new().len(4096).map_anon().ok()?;
    // SAFETY: the advice covers the whole of a mapping of this process's own, changes nothing in this process, and
    // makes a child's copy a page of zeros, which is a valid value of these bytes.
    unsafe {
        rustix::mm::madvise(
            mark.as_mut_ptr().cast(),
            mark.len(),
            rustix::mm::Advice::LinuxWipeOnFork,
        )
    }
    .ok()?;
    mark[0] = 1;
    Some(mark)
}
