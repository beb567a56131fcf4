//! The parts of a superblock, flags first, as they are decoded one after the other (FORMAT.md, "Superblocks").

use std::ops::Range;

use super::layout::{FIRST_PAGE, MAX_COUNTER};
use super::section::MAX_SECTIONS;
use super::{DirectoryRef, Layer, RunTable, Section, Superblock, SuperblockFault};
use crate::codec::Decoder;
use crate::page::Kind;
use crate::page::ages::{MOST_CLOCK, MOST_STEP};
use crate::sizing::MAX_LAYERS;

pub(super) const FLAG_LOG_EXPECTED: u32 = 1;
const FLAG_PARTLY_MERGED: u32 = 2;
const FLAG_MOMENT: u32 = 4;
const FLAG_RUNS: u32 = 8;
const MERGING: u32 = FLAG_LOG_EXPECTED | FLAG_PARTLY_MERGED;
const FLAG_CLOCK: u32 = 16;
const FLAG_EARLIEST: u32 = 32;
const OF_FINGERPRINTS: u32 = FLAG_MOMENT | FLAG_RUNS | FLAG_CLOCK | FLAG_EARLIEST;
const SUPERBLOCK_FLAGS: u32 = MERGING | OF_FINGERPRINTS;

impl Superblock {
    pub(super) fn flags(&self) -> u32 {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        flag(self.log_expected, FLAG_LOG_EXPECTED)
            | flag(self.partly_merged.is_some(), FLAG_PARTLY_MERGED)
            | flag(self.moment != 0, FLAG_MOMENT)
            | flag(self.runs.is_some(), FLAG_RUNS)
            | flag(self.clock != 0, FLAG_CLOCK)
            | flag(self.earliest != 0, FLAG_EARLIEST)
    }
}

/// Checks what stands before all lists: flags, counters (sequence, generation, commit sequence), and how many layers and
/// sections there are. Returns whether the segments have a part of the next log.
pub(super) fn check_front(
    (flags, kind): (u32, Kind),
    counters: (u64, u64, u64),
    (layers, sections): (u32, u32),
) -> Result<bool, SuperblockFault> {
    expect_known(flags)?;
    check_counters(counters)?;
    check_counts(layers, sections)?;
    is_partly_merged(flags, kind)
}

/// Refuses flags of a later version, before all else: what else that has changed can't be known. The CRC is right, so it is no
/// damage.
fn expect_known(flags: u32) -> Result<(), SuperblockFault> {
    match flags & !SUPERBLOCK_FLAGS {
        0 => Ok(()),
        unknown => Err(SuperblockFault::UnknownFlags { unknown }),
    }
}

/// Returns whether the segments have a part of the next log already.
fn is_partly_merged(flags: u32, kind: Kind) -> Result<bool, SuperblockFault> {
    let others = match kind {
        Kind::Fingerprint => OF_FINGERPRINTS,
        _ => FLAG_MOMENT,
    };
    match (flags & !others, kind) {
        (0 | FLAG_LOG_EXPECTED, _) => Ok(false),
        (MERGING, Kind::Fingerprint) => Ok(true),
        _ => {
            let expected = "bits 0 and 2, and in a store of fingerprints 1 and 3 to 5";
            wrong_field("flags", expected, flags.into())
        }
    }
}

fn check_counters(
    (sequence, generation, commit_sequence): (u64, u64, u64),
) -> Result<(), SuperblockFault> {
    if generation == 0 || generation > MAX_COUNTER {
        return wrong_field("generation", "1 to 2^60", generation);
    }
    if sequence > MAX_COUNTER {
        return wrong_field("sequence", "at most 2^60", sequence);
    }
    match commit_sequence > MAX_COUNTER {
        true => wrong_field("commit_sequence", "at most 2^60", commit_sequence),
        false => Ok(()),
    }
}

fn check_counts(layers: u32, sections: u32) -> Result<(), SuperblockFault> {
    if layers > MAX_LAYERS {
        return wrong_field("layer_count", "at most 64", layers.into());
    }
    match sections as usize > MAX_SECTIONS {
        true => wrong_field("section_count", "at most 8", sections.into()),
        false => Ok(()),
    }
}

/// What stands behind the writers.
pub(super) struct End {
    pub(super) moment: u64,
    pub(super) clock: u64,
    pub(super) earliest: u64,
    pub(super) runs: Option<RunTable>,
}

/// Takes what stands behind the writers, which nothing may follow. `newest` is the highest sequence and generation.
pub(super) fn take_end(
    input: &mut Decoder<'_>,
    (flags, forgets): (u32, bool),
    newest: (u64, u64),
) -> Option<Result<End, SuperblockFault>> {
    let moment = match flags & FLAG_MOMENT {
        0 => 0,
        _ => input.u64()?,
    };
    if flags & FLAG_MOMENT != 0 && moment == 0 {
        return wrong("moment", "not 0", moment);
    }
    let clock = match flags & FLAG_CLOCK {
        0 => 0,
        _ => input.u64()?,
    };
    if flags & FLAG_CLOCK != 0 && !(1..=MOST_CLOCK).contains(&clock) {
        return wrong("clock", "1 to 2^56", clock);
    }
    let earliest = match flags & FLAG_EARLIEST {
        0 => 0,
        _ => input.u64()?,
    };
    if flags & FLAG_EARLIEST != 0 && !(1..=MOST_STEP).contains(&earliest) {
        return wrong("earliest", "1 to 2^55", earliest);
    }
    let runs = match flags & FLAG_RUNS {
        0 => None,
        _ => match RunTable::decode(input, newest, forgets)? {
            Ok(table) => Some(table),
            Err(fault) => return Some(Err(fault)),
        },
    };
    match input.rest_is_zero() {
        true => Some(Ok(End {
            moment,
            clock,
            earliest,
            runs,
        })),
        false => wrong("length", "the end of the last writer", u64::MAX),
    }
}

pub(super) fn take_layers(
    input: &mut Decoder<'_>,
    count: u32,
    kind: Kind,
) -> Option<Result<Vec<Layer>, SuperblockFault>> {
    let mut layers: Vec<Layer> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let least = layers.last().map_or(FIRST_PAGE, Layer::end_page);
        match Layer::decode(input, least)? {
            Ok(layer) if layer.cell != kind.cell() => {
                let (expected, got) = ("that of the kind", layer.cell.run_length(layer.probes));
                return wrong("run_length", expected, got.into());
            }
            Ok(layer) => layers.push(layer),
            Err(fault) => return Some(Err(fault)),
        }
    }
    Some(Ok(layers))
}

pub(super) fn take_directory(
    input: &mut Decoder<'_>,
    kind: Kind,
    (sequence, generation): (u64, u64),
) -> Option<Result<Option<DirectoryRef>, SuperblockFault>> {
    match kind {
        Kind::Fingerprint => {
            let directory = DirectoryRef::decode(input, sequence, generation)?;
            Some(directory.map(Some))
        }
        _ => Some(Ok(None)),
    }
}

pub(super) fn take_sections(
    input: &mut Decoder<'_>,
    count: u32,
    (layers, directory): (&[Layer], Option<&DirectoryRef>),
) -> Option<Result<Vec<Section>, SuperblockFault>> {
    let mut taken: Vec<Range<u64>> = layers.iter().map(Layer::numbers).collect();
    taken.extend(directory.into_iter().flat_map(DirectoryRef::copies));
    let mut sections: Vec<Section> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let section = match Section::decode(input, &sections)? {
            Ok(section) => section,
            Err(fault) => return Some(Err(fault)),
        };
        let own = section.numbers();
        if taken
            .iter()
            .any(|pages| pages.start < own.end && own.start < pages.end)
        {
            return wrong(
                "section_page",
                "apart from layers and others",
                section.first_page,
            );
        }
        taken.push(own);
        sections.push(section);
    }
    Some(Ok(sections))
}

pub(super) fn wrong<T>(
    field: &'static str,
    expected: &'static str,
    got: u64,
) -> Option<Result<T, SuperblockFault>> {
    Some(wrong_field(field, expected, got))
}

pub(super) fn wrong_field<T>(
    field: &'static str,
    expected: &'static str,
    got: u64,
) -> Result<T, SuperblockFault> {
    Err(SuperblockFault::Field {
        field,
        expected,
        got,
    })
}
