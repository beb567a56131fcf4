//! Checkpoints: the keys of a closed log go into the pages, and the log goes. Done again after any
//! interruption, one ends in the same pages.
//! May write pages, sections, the journal, intents and the next superblock; may remove a settled log.
//! Needs the checkpoint lock: `CheckpointState`'s within the process, the store file's between processes.

pub(crate) mod apply;
pub(crate) mod bloom_pass;
pub(crate) mod chunk_writer;
pub(crate) mod counting_pass;
pub(crate) mod run;
pub(crate) mod section_rewrite;
