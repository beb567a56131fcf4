//! Entry points: creating, opening and repairing a store.

use std::path::Path;

use crate::api::store::Store;
use crate::config::create_options::CreateOptions;
use crate::config::damage_policy::OnDamage;
use crate::config::open_options::OpenOptions;
use crate::config::template::Template;
use crate::engine::check::offline_repair;
use crate::engine::check::repair::RepairReport;
use crate::engine::open::handle::check_exists;
use crate::engine::open::{create, handle, read_only};
use crate::error::{Error, Result};
use crate::file::SectionKind;
use crate::file::label::label_of;
use crate::storefile::meta::identify;

impl CreateOptions {
    /// Creates a store and opens it. An empty file at `path` becomes the store: it keeps its owner, its mode, and the
    /// locks that other programs have on it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::DanglingLink`], [`Error::MissingFolder`], [`Error::IsFolder`],
    /// [`Error::Sizing`] and [`Error::InvalidOption`] for invalid parameters, and errors of the operating system. After
    /// an error there is no store. [`Error::Emptied`] for an empty file that was a store. Of the store that it is to be
    /// [like](Self::like), [`Error::NotFound`] and [`Error::Format`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        let like = self.template()?;
        Ok(Store::of(create::create(
            self,
            like.as_ref(),
            path.as_ref(),
        )?))
    }

    /// Opens a store, or creates it if there is none, or an empty file. A store that is there keeps what it was created with;
    /// [`differences`](Self::differences) tells which of these options it does not follow.
    ///
    /// # Errors
    /// The same as [`OpenOptions::open`] and [`create`](Self::create).
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        match self.open.open(&path) {
            Err(Error::NotFound { .. } | Error::EmptyFile { .. }) => match self.create(&path) {
                // Another process has created it meanwhile.
                Err(Error::AlreadyExists { .. }) => self.open.open(path),
                outcome => outcome,
            },
            outcome => outcome,
        }
    }

    /// Reads the header and the superblock of the store that a new one is to be like.
    pub(crate) fn template(&self) -> Result<Option<Template>> {
        let Some(path) = &self.like else {
            return Ok(None);
        };
        check_exists(&self.open, path)?;
        let (_, meta) = identify(&self.open, path, false)?;
        let mut sections = meta.superblock.sections.iter();
        Ok(Some(Template {
            measured: sections.any(|section| section.kind == SectionKind::Sample),
            label: label_of(&meta.header, &meta.superblock.commits).map(<[u8]>::to_vec),
            header: meta.header,
        }))
    }
}

impl OpenOptions {
    /// Opens a store for reading and writing, and recovers it if its last user was killed.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Locked`] while an exclusive handle has it open, or, for an exclusive one, while any
    /// handle has; [`Error::Format`] and [`Error::Log`] for damage. After an error nothing has changed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        Ok(Store::of(handle::open(self, path.as_ref())?))
    }

    /// Opens a store to read what it holds at this moment, logs included. Writes nothing.
    ///
    /// While writers have the store open, the handle follows them. If there are none at this moment, it keeps what it has
    /// read, whatever later ones do; in a store of fingerprints it lasts until a checkpoint of theirs uses the room of the
    /// pages that it reads, and then its look-ups fail with [`Error::Ended`]. With [`follow`](Self::follow), the handle
    /// goes on from one writer to the next instead.
    ///
    /// A handle that reads looks about once a second while it works, and at its [close](Store::close), whether the name
    /// still leads to its file, and fails with [`Error::Replaced`] or [`Error::Moved`] if not. It looks before it reports
    /// damage, too.
    ///
    /// # Errors
    /// The same as [`open`](Self::open). If a log holds more keys than the buffer takes, the error is
    /// [`Error::InvalidOption`]: a read-only handle can't move them into the filter.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        let opened = read_only::open_read_only(self, path.as_ref())?;
        match self.follow {
            true => Store::following(self, opened),
            false => Ok(Store::of(opened)),
        }
    }
}

/// Repairs a store that no handle has open, as far as what is left of it allows. It restores a damaged header or
/// superblock from its copies, truncates damaged logs at the damage, and moves what they hold into the pages. It
/// rewrites each damaged page as `policy` says: as one that holds no key, or as one that holds every key. Copy the
/// store first if what is lost matters.
///
/// Of a store that [forgets](crate::CreateOptions::forget_after), no key is forgotten that was not by the time that it has
/// recorded. If the options name a [`clock`](OpenOptions::clock), that is the time of the store from here on, be it earlier or
/// later: the way back once a wrong clock has put it forward. What came later has come at this time then; what the store
/// forgot meanwhile is gone.
///
/// # Errors
/// The same as [`OpenOptions::open`], for damage that can't be repaired: both superblocks, a log's header, a
/// superblock that recorded a layer which no other superblock records. [`Error::InvalidOption`] for
/// [`OnDamage::Error`]. [`Error::NeverForgets`] for a clock of a store that forgets nothing; it is repaired all the same.
pub fn repair(
    path: impl AsRef<Path>,
    policy: OnDamage,
    options: &OpenOptions,
) -> Result<RepairReport> {
    options.check()?;
    offline_repair::repair(options, path.as_ref(), policy)
}
