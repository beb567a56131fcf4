//! The runs of a store: when one is written, what it is merged with, and how all of them are read as one set.

mod below;
mod drain;
pub(crate) mod forgotten_runs;
pub(crate) mod levels;
mod list_writer;
pub(crate) mod run_checkpoint;
pub(crate) mod run_directories;
pub(crate) mod run_set;
pub(crate) mod steps_of_keys;
mod undecided;
pub(crate) mod young_changes;
mod young_filter;
