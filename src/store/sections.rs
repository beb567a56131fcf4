//! Writing sections: what a checkpoint makes of them, and how they get their place.

use std::io::ErrorKind;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use super::damage::OnDamage;
use super::engine::Engine;
use super::exempt::failed;
use super::identity::Identity;
use super::keys::KeySource;
use super::nets::NetSource;
use super::scan::Scan;
use crate::buffer::Presence;
use crate::error::{Error, Result};
use crate::file::layout::{FIRST_PAGE, PAGE_LIMIT, page_offset};
use crate::file::section::{Gone, Hashes, pages_for, place_for};
use crate::file::{Layer, Section, SectionKind};
use crate::log::{LogFile, RecordKind};
use crate::page::PAGE_BYTES;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::sys::storage::{StorageFile, write_all_at};

/// Bytes written at a time.
const PIECE: usize = 64 * PAGE_BYTES;

/// Writes a section, hash after hash, where no superblock names anything.
///
/// Whoever still looks into what was there before is told by the stamp, which changes first.
pub(crate) struct SectionWriter<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    section: Section,
    hasher: crc32fast::Hasher,
    /// The first page, which is written last.
    front: Vec<u8>,
    /// What is still to be written, and to which page on.
    pending: Vec<u8>,
    at: u64,
}

impl<'a> SectionWriter<'a> {
    pub(crate) fn begin(
        file: &'a dyn StorageFile,
        path: &'a Path,
        kind: SectionKind,
        first_page: u64,
        generation: u64,
    ) -> Result<Self> {
        let mut writer = Self {
            file,
            path,
            section: Section {
                kind,
                first_page,
                count: 0,
                crc: 0,
            },
            hasher: crc32fast::Hasher::new(),
            front: generation.to_le_bytes().to_vec(),
            pending: vec![0; PAGE_BYTES],
            at: first_page,
        };
        writer.hasher.update(&writer.front);
        writer.flush()?;
        Ok(writer)
    }

    /// Adds hashes above all before them, sorted.
    pub(crate) fn put(&mut self, hashes: &[u64]) -> Result<()> {
        for hash in hashes {
            let bytes = hash.to_le_bytes();
            self.hasher.update(&bytes);
            match self.front.len() < PAGE_BYTES {
                true => self.front.extend_from_slice(&bytes),
                false => self.pending.extend_from_slice(&bytes),
            }
            if self.pending.len() == PIECE {
                self.flush()?;
            }
        }
        self.section.count += hashes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let length = self.pending.len().next_multiple_of(PAGE_BYTES);
        self.pending.resize(length, 0);
        self.write(&self.pending, self.at)?;
        self.at += (length / PAGE_BYTES) as u64;
        self.pending.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], page: u64) -> Result<()> {
        write_all_at(self.file, bytes, page_offset(page))
            .map_err(|error| Error::io("write a section of", self.path, error))
    }

    /// All has been put. It is yet to be synced.
    pub(crate) fn finish(mut self) -> Result<Section> {
        self.flush()?;
        self.front.resize(PAGE_BYTES, 0);
        self.write(&self.front, self.section.first_page)?;
        Ok(Section {
            crc: self.hasher.finalize(),
            ..self.section
        })
    }
}

/// Which keys a log inserts.
#[derive(Clone, Copy)]
pub(crate) enum Inserted<'a> {
    Keys(&'a KeySource<'a>),
    /// Of a counting store: those that are there more often than before.
    Nets(NetSource<'a>),
}

impl Inserted<'_> {
    /// Hashes in the log, at most; 0 if they are in memory.
    fn count(self) -> u64 {
        match self {
            Inserted::Keys(KeySource::Log { count, .. }) => *count,
            Inserted::Nets(NetSource::Log { count, .. }) => count,
            _ => 0,
        }
    }
}

/// What the exemptions are made of at a checkpoint: those there were, and those of the log, without
/// the keys that were inserted.
struct Remade<'a> {
    path: &'a Path,
    old: Option<Hashes>,
    added: KeySource<'a>,
    inserted: Inserted<'a>,
    /// Hashes in memory at a time, about.
    most: u64,
    /// Ranges of hashes that are looked at one after the other.
    parts: u64,
}

impl Remade<'_> {
    /// Goes through them; answers whether they are what they were.
    fn for_each(&self, mut each: impl FnMut(&[u64]) -> Result<()>) -> Result<bool> {
        let mut added = self.added.stream(self.most);
        let (mut hashes, mut fresh) = (Vec::new(), Vec::new());
        let mut same = true;
        for part in 0..self.parts {
            let Some(first) = first_hash_of(part, self.parts) else {
                break;
            };
            let range = first..=last_hash_below(part + 1, self.parts);
            hashes.clear();
            if let Some(old) = &self.old {
                let loaded = old.load(range.clone(), usize::MAX, &mut hashes);
                // Named by the newest superblock, it stays what it is.
                loaded.map_err(|Gone| failed(self.path, ErrorKind::InvalidData.into()))?;
            }
            let before = hashes.len();
            added.load(range.clone(), &mut fresh)?;
            hashes.append(&mut fresh);
            hashes.sort_unstable();
            hashes.dedup();
            same &= hashes.len() == before;
            let united = hashes.len();
            self.leave_out_inserted(range, &mut hashes)?;
            same &= hashes.len() == united;
            each(&hashes)?;
        }
        Ok(same)
    }
}

impl Remade<'_> {
    /// Leaves out of the exemptions of a range the keys that were inserted.
    fn leave_out_inserted(&self, range: RangeInclusive<u64>, hashes: &mut Vec<u64>) -> Result<()> {
        match self.inserted {
            Inserted::Keys(KeySource::Buffer(buffer)) => {
                hashes.retain(|hash| buffer.lookup(*hash) != Presence::Settled);
            }
            Inserted::Nets(NetSource::Buffer(buffer)) => {
                hashes.retain(|hash| buffer.net(*hash) <= 0);
            }
            Inserted::Keys(source) => {
                let mut keys = Vec::new();
                source.stream(self.most).load(range, &mut keys)?;
                hashes.retain(|hash| keys.binary_search(hash).is_err());
            }
            Inserted::Nets(source) => {
                let mut nets = Vec::new();
                source.stream(self.most).load(range, &mut nets)?;
                let net = |hash: &u64| {
                    let place = nets.binary_search_by_key(hash, |(hash, _)| *hash);
                    place.map_or(0, |place| nets[place].1)
                };
                hashes.retain(|hash| net(hash) <= 0);
            }
        }
        Ok(())
    }
}

impl Engine {
    /// The sections as they are after the checkpoint of a log, whose keys go into the last of `layers`.
    /// What changes is written where no superblock names anything, and is yet to be synced.
    pub(crate) fn sections_after(
        &self,
        identity: &Identity,
        log: &Arc<LogFile>,
        found: &Scan,
        inserted: Inserted<'_>,
        layers: &[Layer],
    ) -> Result<Vec<Section>> {
        let mut sections = identity.superblock.sections.clone();
        let old = identity.superblock.section(SectionKind::Exempt);
        if old.is_none() && found.exempt == 0 {
            return Ok(sections);
        }
        let held = match old {
            Some(old) => self.hashes_of(old)?,
            None => None,
        };
        let given_up = held.is_none() && old.is_some();
        let most = self.options.chunk_keys();
        let total = held.as_ref().map_or(0, Hashes::count) + found.exempt + inserted.count();
        let remade = Remade {
            path: &self.path,
            old: held,
            added: KeySource::Log {
                log: Arc::clone(log),
                kind: RecordKind::Exempt,
                committed: None,
                count: found.exempt,
            },
            inserted,
            most,
            parts: total.div_ceil(most).max(1),
        };
        let mut count = 0;
        let same = remade.for_each(|hashes| {
            count += hashes.len() as u64;
            Ok(())
        })?;
        if same && !given_up {
            return Ok(sections);
        }
        sections.retain(|section| section.kind != SectionKind::Exempt);
        if count > 0 {
            let place = self.place_of_section(identity, layers, count)?;
            let (file, generation) = (&*self.file, log.generation + 1);
            let kind = SectionKind::Exempt;
            let mut writer = SectionWriter::begin(file, &self.path, kind, place.start, generation)?;
            remade.for_each(|hashes| writer.put(hashes))?;
            let section = writer.finish()?;
            // What can't be read again is better known before it is named.
            let checked =
                Hashes::open(&section, file).map_err(|error| failed(&self.path, error))?;
            checked.map_err(|source| self.format_error(source))?;
            sections.push(section);
            sections.sort_by_key(|section| section.kind);
        }
        Ok(sections)
    }

    /// The hashes of a section to be written anew; `None` if it is damaged, and this handle may give up
    /// what is.
    fn hashes_of(&self, section: &Section) -> Result<Option<Hashes>> {
        let hashes = Hashes::open(section, &*self.file);
        match hashes.map_err(|error| failed(&self.path, error))? {
            Ok(hashes) => Ok(Some(hashes)),
            Err(source) if self.options.on_damage == OnDamage::Error => {
                Err(self.format_error(source))
            }
            Err(_) => Ok(None),
        }
    }

    /// Pages for so many hashes that neither superblock names.
    fn place_of_section(
        &self,
        identity: &Identity,
        layers: &[Layer],
        count: u64,
    ) -> Result<Range<u64>> {
        let sections = identity.superblock.sections.iter();
        let sections = sections.chain(&identity.other_sections);
        let mut taken: Vec<_> = sections.map(Section::numbers).collect();
        taken.extend(layers.iter().map(Layer::numbers));
        taken.extend(identity.superblock.layers.iter().map(Layer::numbers));
        if self.is_counting()
            && let Some(layer) = layers.first()
        {
            // Its journal.
            taken.push(FIRST_PAGE..layer.first_page);
        }
        let pages = pages_for(count);
        let start = place_for(pages, &mut taken);
        match start.checked_add(pages).filter(|end| *end <= PAGE_LIMIT) {
            Some(end) => Ok(start..end),
            None => Err(Error::NoSpace {
                action: "find a place for a section of",
                path: self.path.clone(),
            }),
        }
    }
}
