//! A disk that is recorded, and what it holds after a power cut. All rigs that cut the power stand on it; each has
//! promises of its own.

pub mod disk;
pub mod fates;
pub mod site;
pub mod tape;

use std::fmt;

/// What a rig writes on the tape between the events of the disk: what the store's user did.
pub trait Remark: Clone + fmt::Debug + Send + Sync + 'static {
    /// For people.
    fn describe(&self) -> String;

    /// Whether a commit begins or has returned, if this tells of one. The syncs of a commit are told from others so.
    fn committing(&self) -> Option<bool> {
        None
    }
}

/// What a store was promised to hold.
pub trait Promises {
    type Remark: Remark;

    /// Takes note of what the user did.
    fn take(&mut self, remark: &Self::Remark);
}
