//! One file for each subcommand, each with `Args` and `run`.

pub(crate) mod add;
pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod create;
pub(crate) mod dedup;
pub(crate) mod exempt;
pub(crate) mod fold;
pub(crate) mod info;
pub(crate) mod merge_command;
pub(crate) mod plan;
pub(crate) mod remove;
pub(crate) mod repair;
pub(crate) mod snapshot;
pub(crate) mod union;
pub(crate) mod verify;
