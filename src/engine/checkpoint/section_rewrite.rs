//! How a checkpoint rewrites the sections, and where it puts them.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::config::damage_policy::OnDamage;
use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::layout::PAGE_LIMIT;
use crate::file::section::{MOST_SAMPLE_PARTS, pages_for, place_for};
use crate::file::section_hashes::{Gone, Hashes};
use crate::file::{Section, SectionKind};
use crate::generation::hash_stream::KeySource;
use crate::generation::log_summary::LogSummary;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page_io::page_checkpoint::InsertedKeys;
use crate::storefile::meta::Meta;
use crate::storefile::meta::section_error;
use crate::storefile::section_writer::SectionWriter;
use crate::storefile::store_file::StoreFile;
use crate::wal::{LogFile, RecordKind};

/// A part of a sample is merged with what comes unless it is at least this many times as large.
const PART_RATIO: u64 = 8;

/// The contents of a section at a checkpoint: the old hashes and the added ones, without the keys that were inserted.
struct Remade<'a> {
    path: &'a Path,
    /// Those of the sections that it replaces.
    old: Vec<Hashes>,
    added: &'a KeySource<'a>,
    without: Option<&'a dyn InsertedKeys>,
    /// The approximate number of hashes in memory at a time.
    most: u64,
    /// The number of ranges of hashes, which are processed one after another.
    parts: u64,
}

impl Remade<'_> {
    /// Passes the hashes to `each`, and returns whether they are unchanged.
    fn for_each(&self, mut each: impl FnMut(&[u64]) -> Result<()>) -> Result<bool> {
        let mut added = self.added.stream(self.most);
        let (mut hashes, mut fresh) = (Vec::new(), Vec::new());
        let mut remove_inserted = self.without.map(|without| without.remover(self.most));
        let mut same = true;
        for part in 0..self.parts {
            let Some(first) = first_hash_of(part, self.parts) else {
                break;
            };
            let range = first..=last_hash_below(part + 1, self.parts);
            hashes.clear();
            for old in &self.old {
                let loaded = old.load(range.clone(), usize::MAX, &mut hashes);
                loaded.map_err(|gone| gone_error(self.path, gone))?;
            }
            let before = hashes.len();
            added.load(range.clone(), &mut fresh)?;
            hashes.append(&mut fresh);
            hashes.sort_unstable();
            hashes.dedup();
            same &= hashes.len() == before;
            let united = hashes.len();
            // A hash of another part would come twice, and the section would not rise.
            let mut ends = hashes.first().into_iter().chain(hashes.last());
            assert!(ends.all(|hash| range.contains(hash)), "{range:x?}");
            if let Some(remove_inserted) = &mut remove_inserted {
                remove_inserted(range, &mut hashes)?;
            }
            same &= hashes.len() == united;
            each(&hashes)?;
        }
        Ok(same)
    }

    /// Returns how many hashes there are, and whether they are unchanged.
    fn count(&self) -> Result<(u64, bool)> {
        let mut count = 0;
        let same = self.for_each(|hashes| {
            count += hashes.len() as u64;
            Ok(())
        })?;
        Ok((count, same))
    }
}

/// What a log adds to the sections.
pub(crate) struct AddedHashes {
    /// How many exemptions the log holds.
    exempt: u64,
    /// Sampled keys, in no order.
    sampled: Vec<u64>,
    lost: Vec<u64>,
}

impl AddedHashes {
    /// Takes the sample's hashes out of what was found in a log: nothing else needs them.
    pub(crate) fn take(found: &mut LogSummary) -> Self {
        Self {
            exempt: found.exempt,
            sampled: std::mem::take(&mut found.sampled),
            lost: std::mem::take(&mut found.lost),
        }
    }
}

/// The parameters of a checkpoint that concern sections.
pub(crate) struct SectionRewrite<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) file: &'a StoreFile,
    pub(crate) meta: &'a Meta,
    /// The generation of the next superblock.
    pub(crate) generation: u64,
    /// The pages that hold anything but sections.
    pub(crate) taken: &'a [Range<u64>],
}

impl SectionRewrite<'_> {
    /// Returns the sections after the checkpoint of a log with these keys. Writes changed sections where no superblock
    /// names anything, and does not sync them.
    pub(crate) fn after(
        &self,
        log: &Arc<LogFile>,
        added: AddedHashes,
        inserted: &dyn InsertedKeys,
    ) -> Result<Vec<Section>> {
        let mut sections = self.meta.superblock.sections.clone();
        let exempt = KeySource::Log {
            log: Arc::clone(log),
            kind: RecordKind::Exempt,
            committed: None,
            count: added.exempt,
        };
        let count = added.exempt;
        self.remake(
            &mut sections,
            SectionKind::Exempt,
            &exempt,
            count,
            Some(inserted),
        )?;
        if self.meta.superblock.section(SectionKind::Sample).is_some() {
            let AddedHashes { mut lost, .. } = added;
            lost.sort_unstable();
            let count = lost.len() as u64;
            let lost = KeySource::Sorted(lost);
            let whole = self.extend_sample(&mut sections, added.sampled)?
                && self.remake(&mut sections, SectionKind::Lost, &lost, count, None)?;
            if !whole {
                // A part of the sample would report false losses, or too few.
                sections.retain(|section| section.kind == SectionKind::Exempt);
            }
        }
        Ok(sections)
    }

    /// Adds hashes to the sample, as a part of their own or together with its youngest ones. Returns `false` if a part was
    /// damaged, and the sample is given up.
    fn extend_sample(&self, sections: &mut Vec<Section>, mut sampled: Vec<u64>) -> Result<bool> {
        if sampled.is_empty() {
            return Ok(true);
        }
        let superblock = &self.meta.superblock;
        let parts = superblock.sections_of(SectionKind::Sample);
        let parts: Vec<Section> = parts.filter(|part| part.count > 0).copied().collect();
        let mut held = Vec::new();
        for part in &parts {
            match self.hashes_of(part)? {
                Some(hashes) => held.push(hashes),
                None => return Ok(false),
            }
        }
        sampled.sort_unstable();
        sampled.dedup();
        // A key that was removed and came again would be counted twice.
        for part in &held {
            self.drop_held(part, &mut sampled)?;
        }
        if sampled.is_empty() {
            return Ok(true);
        }
        let counts: Vec<u64> = parts.iter().map(|part| part.count).collect();
        let count = sampled.len() as u64;
        let kept = kept_parts(&counts, count, self.options.least_part);
        let merged = counts[kept..].iter().fold(count, |sum, part| sum + part);
        let most = self.options.chunk_keys();
        let remade = Remade {
            path: &self.file.place,
            old: held.split_off(kept),
            added: &KeySource::Sorted(sampled),
            without: None,
            most,
            parts: merged.div_ceil(most).max(1),
        };
        sections.retain(|section| {
            section.kind != SectionKind::Sample || parts[..kept].contains(section)
        });
        sections.push(self.write_sample(sections, &remade)?);
        // The new part comes behind the others of its kind.
        sections.sort_by_key(|section| section.kind);
        Ok(true)
    }

    /// Drops the hashes that a section has.
    fn drop_held(&self, held: &Hashes, hashes: &mut Vec<u64>) -> Result<()> {
        let mut looked = Ok(());
        hashes.retain(|hash| {
            let found = held.contains(*hash);
            let found = found.map_err(|gone| looked = Err(gone_error(&self.file.place, gone)));
            found == Ok(false)
        });
        looked
    }

    /// Writes a part of the sample.
    fn write_sample(&self, sections: &[Section], remade: &Remade<'_>) -> Result<Section> {
        let kind = SectionKind::Sample;
        // Nothing says that the parts of a forged file have no hash in common.
        let (count, _) = remade.count()?;
        let first = self.meta.superblock.section(kind);
        let rarity = first.map_or(0, |part| part.rarity);
        self.write(sections, (kind, rarity), remade, count)
    }

    /// Replaces the section of a kind with its new contents. Returns `false` if the section was damaged and given up.
    fn remake(
        &self,
        sections: &mut Vec<Section>,
        kind: SectionKind,
        added: &KeySource<'_>,
        count: u64,
        without: Option<&dyn InsertedKeys>,
    ) -> Result<bool> {
        let old = self.meta.superblock.section(kind);
        let full = old.filter(|old| old.count > 0);
        if count == 0 && (full.is_none() || without.is_none()) {
            return Ok(true);
        }
        let held = match full {
            Some(old) => self.hashes_of(old)?,
            None => None,
        };
        let given_up = held.is_none() && full.is_some();
        let from_log = without.map_or(0, InsertedKeys::count_in_log);
        let most = self.options.chunk_keys();
        let total = held.as_ref().map_or(0, Hashes::count) + count + from_log;
        let remade = Remade {
            path: &self.file.place,
            old: held.into_iter().collect(),
            added,
            without,
            most,
            parts: total.div_ceil(most).max(1),
        };
        let (count, same) = remade.count()?;
        if same && !given_up {
            return Ok(true);
        }
        let rarity = old.map_or(0, |old| old.rarity);
        sections.retain(|section| section.kind != kind);
        if count > 0 {
            let section = self.write(sections, (kind, rarity), &remade, count)?;
            sections.push(section);
            sections.sort_by_key(|section| section.kind);
        }
        Ok(!given_up)
    }

    /// Writes a section of so many hashes, apart from those that are named already.
    fn write(
        &self,
        sections: &[Section],
        (kind, rarity): (SectionKind, u32),
        remade: &Remade<'_>,
        count: u64,
    ) -> Result<Section> {
        let first_page = self.place(sections, count)?;
        let (file, path) = (&*self.file.raw, &*self.file.place);
        let mut writer = SectionWriter::begin(file, path, kind, first_page, self.generation)?;
        remade.for_each(|hashes| writer.put(hashes))?;
        let section = Section {
            rarity,
            ..writer.finish()?
        };
        // A section that can't be read back must be found before a superblock names it.
        assert_eq!(section.count, count, "both passes over the hashes");
        let checked = Hashes::open(&section, file).map_err(|error| section_error(path, error))?;
        checked.map_err(|source| self.file.format_error(source))?;
        Ok(section)
    }

    /// Returns the first of the pages for `count` hashes, in space that neither superblock names.
    fn place(&self, sections: &[Section], count: u64) -> Result<u64> {
        let superblock = &self.meta.superblock;
        let named = superblock.sections.iter().chain(self.meta.other_sections());
        let named = named.chain(sections).map(Section::numbers);
        let mut taken: Vec<_> = named.filter(|pages| !pages.is_empty()).collect();
        taken.extend_from_slice(self.taken);
        let pages = pages_for(count);
        let start = place_for(pages, &mut taken);
        match start.checked_add(pages).filter(|end| *end <= PAGE_LIMIT) {
            Some(_) => Ok(start),
            None => Err(Error::NoSpace {
                action: "find a place for a section of",
                path: self.file.place.to_path_buf(),
            }),
        }
    }

    /// Returns the hashes of a section that is to be rewritten; `None` if it is damaged and this handle may give up
    /// damaged sections.
    fn hashes_of(&self, section: &Section) -> Result<Option<Hashes>> {
        let hashes = Hashes::open(section, &*self.file.raw);
        match hashes.map_err(|error| section_error(&self.file.place, error))? {
            Ok(hashes) => Ok(Some(hashes)),
            Err(source) if self.options.on_damage == OnDamage::Error => {
                Err(self.file.format_error(source))
            }
            Err(_) => Ok(None),
        }
    }
}

/// Returns how many parts of a sample stay as they are where so many hashes come. The younger ones are merged with these, so
/// that a few hashes don't cost writing all of them.
fn kept_parts(counts: &[u64], added: u64, least: u64) -> usize {
    let (mut kept, mut merged) = (counts.len(), added);
    while let Some(last) = kept.checked_sub(1) {
        let is_larger = counts[last] >= merged.saturating_mul(PART_RATIO).max(least);
        if is_larger && kept < MOST_SAMPLE_PARTS {
            break;
        }
        merged = merged.saturating_add(counts[last]);
        kept = last;
    }
    kept
}

/// The error of a section that the newest superblock names, and whose pages change all the same.
fn gone_error(path: &Path, _: Gone) -> Error {
    section_error(path, ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::open_options::LEAST_PART;

    #[test]
    fn a_sample_that_grows_is_rarely_written_as_a_whole() {
        let (mut parts, mut written): (Vec<u64>, u64) = (Vec::new(), 0);
        for _ in 0..2_000_000 {
            let kept = kept_parts(&parts, 1, LEAST_PART);
            let merged = 1 + parts.drain(kept..).sum::<u64>();
            parts.push(merged);
            written += merged.max(512);
            assert!(parts.len() <= MOST_SAMPLE_PARTS);
        }
        assert_eq!(parts.iter().sum::<u64>(), 2_000_000);
        println!("{} hashes written for each, {parts:?}", written / 2_000_000);
        assert!(written / 2_000_000 < 2 * LEAST_PART, "{written}");
    }

    #[test]
    fn what_comes_is_merged_with_parts_that_are_not_much_larger() {
        let kept_parts = |counts: &[u64], added| kept_parts(counts, added, LEAST_PART);
        assert_eq!(kept_parts(&[], 1), 0);
        assert_eq!(kept_parts(&[LEAST_PART - 1], 1), 0);
        assert_eq!(kept_parts(&[LEAST_PART], 1), 1);
        assert_eq!(kept_parts(&[80_000], 10_000), 1);
        assert_eq!(kept_parts(&[79_999], 10_000), 0);
        assert_eq!(kept_parts(&[1 << 20, 5000, 7], 1), 2);
        // There is no room for a fifth.
        assert_eq!(kept_parts(&[1 << 40, 1 << 30, 1 << 20, 5000], 1), 3);
    }
}
