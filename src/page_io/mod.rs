//! What reading and writing the pages of a filter takes, whatever the kind: what a probe gets and answers, and of a
//! checkpoint the parts of an open store that it borrows, why it runs and on how many threads, the steps that each kind
//! takes; and what applying a delta asks for.

pub(crate) mod checkpoint_state;
pub(crate) mod checkpoint_trigger;
pub(crate) mod map_error;
pub(crate) mod page_checkpoint;
pub(crate) mod page_delta;
pub(crate) mod probe;

pub(crate) use page_checkpoint::PageAccess;
