//! The exemptions of a store that is built from others.

use std::path::Path;

use super::input::Input;
use crate::error::Result;
use crate::file::layout::FIRST_PAGE;
use crate::file::section::{pages_for, place_for};
use crate::file::{Section, SectionKind, Superblock};
use crate::page::place::{first_hash_of, last_hash_below};
use crate::storefile::section_writer::SectionWriter;
use crate::sys::storage::StorageFile;

/// The approximate number of exemptions in memory at a time.
const MAX_EXEMPTIONS: u64 = 1 << 16;

/// Writes the hashes that stay exempt behind the layers of the new store: those that are exempt in an input, unless an
/// input answers "seen" for them.
pub(crate) fn keep(
    inputs: &[Input],
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
) -> Result<Option<Section>> {
    let counts = inputs.iter().map(Input::exempt);
    let most: u64 = counts.sum::<Result<u64>>()?;
    if most == 0 {
        return Ok(None);
    }
    let mut taken = superblock.named();
    taken.push(FIRST_PAGE..superblock.end_offset() / crate::page::PAGE_BYTES as u64);
    let place = place_for(pages_for(most), &mut taken);
    let (kind, generation) = (SectionKind::Exempt, superblock.generation);
    // A section isn't begun before a hash is kept: there may be none.
    let mut writer: Option<SectionWriter<'_>> = None;
    let parts = most.div_ceil(MAX_EXEMPTIONS);
    let mut hashes = Vec::new();
    for part in 0..parts {
        let Some(first) = first_hash_of(part, parts) else {
            break;
        };
        hashes.clear();
        for input in inputs {
            input.load_exempt(first..=last_hash_below(part + 1, parts), &mut hashes)?;
        }
        // One of another part would come twice.
        let range = first..=last_hash_below(part + 1, parts);
        assert!(hashes.iter().all(|hash| range.contains(hash)), "{range:x?}");
        hashes.sort_unstable();
        hashes.dedup();
        let mut kept = Vec::with_capacity(hashes.len());
        for hash in &hashes {
            let seen = inputs.iter().map(|input| input.contains(*hash));
            if !seen.collect::<Result<Vec<bool>>>()?.contains(&true) {
                kept.push(*hash);
            }
        }
        if kept.is_empty() {
            continue;
        }
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(SectionWriter::begin(file, path, kind, place, generation)?),
        };
        writer.put(&kept)?;
    }
    writer.map(SectionWriter::finish).transpose()
}
