//! What a checkpoint needs to write pages, whatever the kind: the parts of an open store that it borrows, why it runs and on
//! how many threads, and what it found damaged.

pub(crate) mod access;
pub(crate) mod checkpoint_state;
pub(crate) mod checkpoint_trigger;
pub(crate) mod damage;

pub(crate) use access::PageAccess;
