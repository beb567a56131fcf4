//! What each reader checks in a superblock, asserted before one is written.
//!
//! A superblock that no reader takes is a lost checkpoint, whose log is removed as soon as the superblock is written. So a
//! wrong one must stop the process that made it, in a release too: what lies on the disk is still whole then. A superblock
//! from the disk is never asserted: [`Superblock::decode`] refuses it with an error.

use super::commits::writers_bytes;
use super::directory_ref::DIRECTORY_REF_BYTES;
use super::layer::LAYER_BYTES;
use super::layout::{FIRST_PAGE, LAYER_ALIGNMENT, PAGE_LIMIT, SUPERBLOCK_BYTES};
use super::section::{MAX_RARITY, MAX_SECTIONS, SECTION_BYTES, pages_for};
use super::superblock::FIXED_BYTES;
use super::{DirectoryRef, Header, Layer, Section, SectionKind, Superblock};
use crate::page::Kind;
use crate::sizing::{MAX_LAYERS, MAX_PROBES};

/// Bytes of the moment, behind the writers.
const MOMENT_BYTES: usize = 8;
/// How many kinds of sections there are, each of which a store may have once.
const SECTION_KINDS: usize = 3;

const _: () = assert!(DIRECTORY_REF_BYTES <= MAX_LAYERS as usize * LAYER_BYTES);
/// The moment has no room of its own: it takes that of sections which no store has yet.
const _: () = assert!(MOMENT_BYTES <= (MAX_SECTIONS - SECTION_KINDS) * SECTION_BYTES);

impl Superblock {
    pub(super) fn expect_writable(&self, header: &Header) {
        assert!(self.generation > 0);
        assert_eq!(self.directory.is_some(), header.kind == Kind::Fingerprint);
        assert_eq!(self.check_header(header), Ok(()));
        assert!(self.layers.len() <= MAX_LAYERS as usize);
        let cell = header.kind.cell();
        assert!(self.layers.iter().all(|layer| layer.cell == cell));
        let is_behind = |one: &Layer, next: &Layer| one.end_page() <= next.first_page;
        assert!(self.layers.is_sorted_by(is_behind), "{:?}", self.layers);
        assert!(self.sections.len() <= MAX_SECTIONS);
        assert!(self.sections.is_sorted_by(|one, next| one.kind < next.kind));
        let mut named = self.named();
        named.sort_by_key(|pages| pages.start);
        // Whatever shares a page with something else is overwritten by it sooner or later.
        assert!(
            named.is_sorted_by(|one, next| one.end <= next.start),
            "{named:?}"
        );
        let mut commits = self.commits.values();
        assert!(commits.all(|entry| entry.sequence <= self.commit_sequence));
        self.expect_writable_directory();
    }

    fn expect_writable_directory(&self) {
        let Some(directory) = &self.directory else {
            assert_eq!(self.partly_merged, None);
            return;
        };
        // The log has the keys that the segments don't have yet.
        assert!(self.partly_merged.is_none() || self.log_expected);
        let newest = self.generation + u64::from(self.partly_merged.is_some());
        assert!(directory.generation <= newest, "{directory:?}");
        assert!(directory.version <= self.sequence.max(1), "{directory:?}");
    }

    /// Asserts that the superblock takes `length` bytes, all entries included, and that its place has room for them.
    pub(super) fn expect_length(&self, length: usize) {
        let directory = self.directory.map_or(0, |_| DIRECTORY_REF_BYTES);
        let sections = self.sections.len() * SECTION_BYTES;
        let moment = if self.moment == 0 { 0 } else { MOMENT_BYTES };
        let others = self.layers.len() * LAYER_BYTES + directory + sections + moment;
        // By the sum of the writers' bytes commits are refused that no superblock has room for.
        let writers = length - FIXED_BYTES - others;
        assert_eq!(writers as u64, writers_bytes(&self.commits));
        // One byte more would lie in the other superblock, or in the first page.
        assert!(length <= SUPERBLOCK_BYTES, "{length} bytes");
        assert!(length.is_multiple_of(8), "{length} bytes");
    }
}

impl Layer {
    pub(super) fn expect_writable(&self) {
        assert!(self.first_page >= FIRST_PAGE, "{self:?}");
        assert!(self.first_page.is_multiple_of(LAYER_ALIGNMENT), "{self:?}");
        assert!(self.pages > 0 && self.capacity > 0, "{self:?}");
        assert!(self.fpr > 0.0 && self.fpr < 1.0, "{self:?}");
        assert!((1..=MAX_PROBES).contains(&self.probes), "{self:?}");
    }
}

impl Section {
    pub(super) fn expect_writable(&self) {
        let is_sample = self.kind == SectionKind::Sample;
        let is_rare = (1..=MAX_RARITY).contains(&self.rarity);
        assert!(
            is_rare == is_sample && (is_sample || self.rarity == 0),
            "{self:?}"
        );
        if self.count == 0 {
            // Only a sample may have no hash yet, and then it has no page.
            assert!(
                is_sample && *self == Self::empty_sample(self.rarity),
                "{self:?}"
            );
            return;
        }
        assert!(self.first_page >= FIRST_PAGE, "{self:?}");
        assert!(self.first_page.is_multiple_of(LAYER_ALIGNMENT), "{self:?}");
        let room = PAGE_LIMIT.saturating_sub(self.first_page);
        assert!(pages_for(self.count) <= room, "{self:?}");
    }
}

impl DirectoryRef {
    pub(super) fn expect_writable(&self) {
        assert!(
            (FIRST_PAGE..=PAGE_LIMIT).contains(&self.end_page),
            "{self:?}"
        );
        assert!(self.pages <= self.end_page - FIRST_PAGE, "{self:?}");
        assert!(self.segments <= self.pages, "{self:?}");
        assert!(self.version > 0 && self.generation > 0, "{self:?}");
        if self.segments == 0 {
            assert!(self.places == [0, 0] && self.keys == 0, "{self:?}");
            assert_eq!(self.pages, 0);
            return;
        }
        let [one, other] = self.copies();
        assert!(one.start.min(other.start) >= FIRST_PAGE, "{self:?}");
        assert!(one.end.max(other.end) <= self.end_page, "{self:?}");
        // What is damaged in one copy is read from the other.
        let are_apart = one.end <= other.start || other.end <= one.start;
        assert!(are_apart, "{self:?}");
    }
}
