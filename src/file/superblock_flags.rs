//! The flags of a superblock (FORMAT.md, "Superblocks").

use super::superblock_parts::wrong_field;
use super::{Superblock, SuperblockFault};
use crate::page::Kind;

pub(super) const FLAG_LOG_EXPECTED: u32 = 1;
const FLAG_PARTLY_MERGED: u32 = 2;
pub(super) const FLAG_MOMENT: u32 = 4;
pub(super) const FLAG_RUNS: u32 = 8;
const MERGING: u32 = FLAG_LOG_EXPECTED | FLAG_PARTLY_MERGED;
const SUPERBLOCK_FLAGS: u32 = MERGING | FLAG_MOMENT | FLAG_RUNS;

impl Superblock {
    pub(super) fn flags(&self) -> u32 {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        flag(self.log_expected, FLAG_LOG_EXPECTED)
            | flag(self.partly_merged.is_some(), FLAG_PARTLY_MERGED)
            | flag(self.moment != 0, FLAG_MOMENT)
            | flag(self.runs.is_some(), FLAG_RUNS)
    }
}

/// Refuses flags of a later version, before all else: what else that has changed can't be known. The CRC is right, so it is no
/// damage.
pub(super) fn expect_known(flags: u32) -> Result<(), SuperblockFault> {
    match flags & !SUPERBLOCK_FLAGS {
        0 => Ok(()),
        unknown => Err(SuperblockFault::UnknownFlags { unknown }),
    }
}

/// Returns whether the segments have a part of the next log already.
pub(super) fn is_partly_merged(flags: u32, kind: Kind) -> Result<bool, SuperblockFault> {
    let others = match kind {
        Kind::Fingerprint => FLAG_MOMENT | FLAG_RUNS,
        _ => FLAG_MOMENT,
    };
    match (flags & !others, kind) {
        (0 | FLAG_LOG_EXPECTED, _) => Ok(false),
        (MERGING, Kind::Fingerprint) => Ok(true),
        _ => {
            let expected = "bits 0 and 2, and in a store of fingerprints 1 and 3";
            wrong_field("flags", expected, flags.into())
        }
    }
}
