//! A store file that nothing changes while it is read or copied.

use std::path::Path;

use crate::file::{Header, Superblock};
use crate::sys::storage::StorageFile;

/// A store file, as a superblock of it describes it. Nothing else writes to it meanwhile: it is a copy, or its checkpoints
/// are held off.
#[derive(Clone, Copy)]
pub(crate) struct StillFile<'a> {
    pub(crate) file: &'a dyn StorageFile,
    pub(crate) path: &'a Path,
    pub(crate) header: &'a Header,
    pub(crate) superblock: &'a Superblock,
}
