//! One file for each subcommand, each with `Args` and `run`.

pub(crate) mod add;
pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod create;
pub(crate) mod dedup;
pub(crate) mod exempt;
pub(crate) mod fingerprint_plan;
pub(crate) mod fold;
pub(crate) mod forgetting_plan;
pub(crate) mod growth_plan;
pub(crate) mod info;
pub(crate) mod info_text;
pub(crate) mod man;
pub(crate) mod merge_command;
pub(crate) mod plan;
pub(crate) mod remove;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod sets;
pub(crate) mod snapshot;
pub(crate) mod verify;

use std::path::Path;

use everseen::{OpenOptions, Store};

use crate::error::CliError;
use crate::input::own_files::Purpose;
use crate::input::{Input, Items};
use crate::process::side_files;

/// Opens the store and the input of a command that prints no items. The input comes first: what can't be read changes
/// no store.
fn open_both(
    command: &'static str,
    store: &Path,
    items: &mut Items,
    options: OpenOptions,
) -> Result<(Store, Input), CliError> {
    items.read_list()?;
    side_files::refuse_items(store, items, false)?;
    let mut input = Input::open(items, Purpose::new(command, store))?;
    let opened = options.open(store);
    let opened = opened.map_err(CliError::of_changed)?;
    input.follow(&opened, store)?;
    Ok((opened, input))
}
