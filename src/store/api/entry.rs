//! How a program gets at a store: to make, to open and to repair it.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::SectionKind;
use crate::store::api::store::Store;
use crate::store::check::offline_repair;
use crate::store::check::repair::RepairReport;
use crate::store::config::damage_policy::OnDamage;
use crate::store::config::options::Options;
use crate::store::config::template::Template;
use crate::store::open::handle::check_exists;
use crate::store::open::{create, handle};
use crate::store::storefile::meta::identify;

impl Options {
    /// Makes a store and opens it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::DanglingLink`], [`Error::MissingFolder`], [`Error::IsFolder`],
    /// [`Error::Sizing`] and [`Error::InvalidOption`] for parameters that don't fit, and what the
    /// operating system says. After an error there is no store.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        Ok(Store::of(create::create(self, path.as_ref())?))
    }

    /// Opens a store for reading and writing, and recovers it if its last user was killed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Locked`] while another handle has it open,
    /// [`Error::Format`] and [`Error::Log`] for damage. After an error nothing has changed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        Ok(Store::of(handle::open(self, path.as_ref())?))
    }

    /// Opens a store, or makes it when there is none. What is for new stores counts only then.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store> {
        match self.open(&path) {
            Err(Error::NotFound { .. }) => match self.create(&path) {
                // Another process has made it meanwhile.
                Err(Error::AlreadyExists { .. }) => self.open(path),
                outcome => outcome,
            },
            outcome => outcome,
        }
    }

    /// Opens a store for reading what it held when it was opened, logs included. Writes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::Locked`] while somebody has it open for writing. A log of
    /// more keys than the buffer takes is [`Error::InvalidOption`]: read-only, it can't be emptied
    /// into the filter.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        Ok(Store::of(handle::open_read_only(self, path.as_ref())?))
    }

    /// Repairs a store that nobody has open, so far as what is left of it allows: restores a damaged
    /// header or superblock from its copies, cuts damaged logs off at the damage, brings what they
    /// hold into the pages, and makes of each damaged page one of which no key is seen, or every
    /// one. Copy the store first if what is lost matters.
    ///
    /// # Errors
    /// As [`open`](Self::open), for damage that can't be repaired: both superblocks, a log's header,
    /// a superblock that told of a layer which no other tells of.
    /// [`Error::InvalidOption`] for [`OnDamage::Error`].
    pub fn repair(&self, path: impl AsRef<Path>, policy: OnDamage) -> Result<RepairReport> {
        self.check()?;
        offline_repair::repair(self, path.as_ref(), policy)
    }

    /// For a new store: all that decides where a key's bits are is as in the store at `path`, and so
    /// are capacity and rate: kind, hash, seed, probes, pages, growth. Such stores can be
    /// [merged](crate::Merge). Whatever else these options say of that does not count;
    /// [`times`](Self::times) does. Whether the new store is [`transactional`](Self::transactional) and whether it is
    /// [`measured`](Self::measured) is as in the other one too, unless these options tell. Nothing but header and
    /// superblock of the store at `path` is read, and only now.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Format`] if its header is damaged.
    pub fn like(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        check_exists(&self, path)?;
        let (_, meta) = identify(&self, path, false)?;
        let mut sections = meta.superblock.sections.iter();
        self.like = Some(Arc::new(Template {
            measured: sections.any(|section| section.kind == SectionKind::Sample),
            header: meta.header,
        }));
        Ok(self)
    }
}
