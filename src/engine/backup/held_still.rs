//! A store that does not change while it is copied, whichever way it was opened.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::open::recover::{Recovered, recover};
use crate::engine::open::unpublished::open_draft;
use crate::engine::write::quiesce::{Quiesced, quiesce};
use crate::error::{Error, Result};
use crate::file::FormatError;
use crate::filter::checkpoint as filter;
use crate::filter::checkpoint::target_of;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::shm::locks::{Intention, OpenCloseLock, Others, locked};
use crate::storefile::atomic_file::AtomicFile;
use crate::storefile::meta::Meta;
use crate::wal::LogFile;

/// A store whose pages do not change while this is held.
pub(super) enum HeldStill<'a> {
    /// Everything acknowledged is in the pages.
    ByWriter(Box<Quiesced<'a>>),
    /// What a killed writer left in its logs is still there, since this handle can't move it.
    ByReader(Box<Untouched>),
}

/// A store that no handle has open for writing.
pub(super) struct Untouched {
    meta: Meta,
    logs: Recovered,
    /// Keeps writers from opening the store.
    _gate: OpenCloseLock,
}

impl<'a> HeldStill<'a> {
    pub(super) fn of(engine: &'a Engine) -> Result<Self> {
        match engine.handle.writes() {
            true => Ok(Self::ByWriter(Box::new(quiesce(engine)?))),
            false => Ok(Self::ByReader(Box::new(Untouched::of(engine)?))),
        }
    }

    pub(super) fn meta(&self) -> &Meta {
        match self {
            Self::ByWriter(quiesced) => &quiesced.meta,
            Self::ByReader(untouched) => &untouched.meta,
        }
    }

    /// Fails if keys are in the logs, which only a whole copy can take in.
    pub(super) fn expect_no_keys_in_logs(&self, engine: &Engine) -> Result<()> {
        match self {
            Self::ByReader(untouched) if untouched.has_logs() => Err(Error::KeysInLog {
                path: engine.file.place.to_path_buf(),
                keys: untouched.keys_in_logs(),
            }),
            _ => Ok(()),
        }
    }

    /// Moves what the logs hold into the pages of a copy. Returns whether there was a log.
    pub(super) fn move_logs_into(&self, engine: &Engine, draft: &AtomicFile) -> Result<bool> {
        match self {
            Self::ByReader(untouched) if untouched.has_logs() => {
                untouched.move_logs_into(engine, draft).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}

/// Refuses a handle that can't copy its store: one that was forked or closed, or whose store has features that a program
/// must know to write what the copy gets.
pub(super) fn check_copyable(engine: &Engine) -> Result<()> {
    if !engine.handle.is_own() {
        return Err(Error::Forked);
    }
    engine.handle.check_usable()?;
    match engine.file.header.unknown_to_writers() {
        0 => Ok(()),
        unknown => Err(engine
            .file
            .format_error(FormatError::ReadOnlyFeatures { unknown })),
    }
}

impl Untouched {
    fn of(engine: &Engine) -> Result<Self> {
        let (place, options) = (&engine.file.place, &engine.options);
        let gate = OpenCloseLock::enter(place, Intention::Read, options.timeout)?;
        if gate.state.id != engine.handle.locks.id() {
            return Err(engine.handle.lose_name(true));
        }
        let known = engine.views.cell.load().superblock.sequence;
        engine.file.expect_name(&engine.handle, known)?;
        if engine.handle.locks.others()? != Others::None {
            return Err(locked(place));
        }
        let meta = engine.file.read_meta()?;
        let own = Self {
            logs: recover(options, place, &meta, false)?,
            meta,
            _gate: gate,
        };
        if own.has_logs() {
            // The copy gets superblocks of its own.
            own.meta.expect_writable(place)?;
        }
        Ok(own)
    }

    fn has_logs(&self) -> bool {
        self.logs.sealed.is_some() || self.logs.active.is_some()
    }

    fn keys_in_logs(&self) -> u64 {
        let logs = self.logs.sealed.iter().chain(&self.logs.active);
        logs.map(|found| found.scan.committed_keys)
            .fold(0, u64::saturating_add)
    }

    /// Does in a copy what recovery does in a store, and closes it, without a change to the logs.
    fn move_logs_into(&self, engine: &Engine, draft: &AtomicFile) -> Result<()> {
        if let Some(sealed) = &self.logs.sealed {
            let copy = open_draft(&engine.options, draft)?;
            filter::replay_journal(&copy.file)?;
            apply_to(&copy, &sealed.log, true)?;
        }
        if let Some(active) = &self.logs.active {
            apply_to(&*open_draft(&engine.options, draft)?, &active.log, false)?;
        }
        let copy = open_draft(&engine.options, draft)?;
        Checkpointer::of(&copy).compact()
    }
}

fn apply_to(copy: &Engine, log: &Arc<LogFile>, is_closed: bool) -> Result<()> {
    let meta = copy.file.read_meta()?;
    let applier = Checkpointer::of(copy).applier();
    let applied = match is_closed {
        true => applier.apply(&meta, log, None, CheckpointTrigger::Awaited),
        false => applier.apply_unclosed(&meta, log, |count| {
            target_of(&copy.file, &meta.superblock, count)
        }),
    };
    applied.map(drop)
}
