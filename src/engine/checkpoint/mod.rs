//! Checkpoints move the keys of a closed log into the pages, and then remove the log. A checkpoint that is repeated
//! after any interruption ends in the same pages.
//! This module may write pages, sections, the journal, intents and the next superblock, and may remove a settled log.
//! It needs the checkpoint lock: `CheckpointState`'s within the process, the store file's between processes.

pub(crate) mod apply;
pub(crate) mod run;
pub(crate) mod section_rewrite;
