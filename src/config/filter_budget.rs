//! The memory that a handle may spend on filters of absent keys, beside its buffers.

use super::memory_budget::default_share;
use super::open_options::OpenOptions;

/// In a handle whose caller set its memory, the filter of the runs above the oldest one takes at most that, divided by this.
const GRANTED_SHARE: u64 = 4;

/// What limits the memory of filters. What the machine has left is looked up when one is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterBudget {
    /// The memory that the handle's caller set.
    granted: Option<u64>,
    /// The most that the caller allows.
    most: u64,
}

impl FilterBudget {
    pub(crate) fn of(options: &OpenOptions) -> Self {
        Self {
            granted: options.granted.then_some(options.buffer),
            most: options.most_buffer(),
        }
    }

    /// Returns how many bytes a filter of all keys may have: as many as the buffers of an exclusive handle. A handle whose
    /// caller set its memory has none.
    pub(crate) fn of_all(self) -> u64 {
        match self.granted {
            Some(_) => 0,
            None => self.most.min(default_share(None, 0)),
        }
    }

    /// Returns how many bytes a filter of the runs above the oldest one may have.
    pub(crate) fn of_young(self) -> u64 {
        match self.granted {
            Some(buffer) => buffer / GRANTED_SHARE,
            None => self.of_all(),
        }
    }
}
