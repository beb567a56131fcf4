//! `dedup -o FILE`: a file that holds each line once, however the runs that wrote it ended.
//!
//! With every commit, the store keeps the length that the file had when all lines of the commit were in it and durable,
//! in the tag of a writer that is named after the file. What lies behind that length belongs to lines that were never
//! committed and will come again, so the next run cuts it off. It does so only after a run that did not end, and only
//! in the very file that this run wrote: what follows an orderly end belongs to another program.
//!
//! The store may also be older than the file: restored from a copy, or one of several stores that write to it. Then what
//! lies behind the length may be good lines. So the file keeps a note of its own, of the last commit and the one under
//! way, and the store's tag must be one of the two:
//!
//! ```text
//! file:  write lines · note "last n, next n + 1" · sync · · · · · · · · · · · note "last n + 1"
//! store:                                                commit with tag n + 1
//! ```

mod known;
mod note;
mod tag;
mod target;

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::ValueEnum;

use crate::error::CliError;
use crate::output::exact_file::note::{Note, NotePlace};
use crate::output::exact_file::tag::{Moment, Standing, Tag};
use crate::process::handle;
pub use target::Target;

/// What to do with a file that has more than the store knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Longer {
    /// Cut it to what the store knows
    Cut,
    /// Keep all of it, and append
    Keep,
}

/// The file while a run writes to it. It stays locked until the last clone is dropped.
#[derive(Clone)]
pub struct Sink {
    shared: Rc<Shared>,
}

struct Shared {
    path: PathBuf,
    file: File,
    /// The random number of this run.
    run: u64,
    /// The file's state when all of it was last durable.
    standing: Cell<Standing>,
    place: RefCell<NotePlace>,
    note: Cell<Note>,
}

impl Sink {
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns another handle on the same file, for writing.
    pub fn file(&self) -> io::Result<File> {
        self.shared.file.try_clone()
    }

    /// Makes the whole file durable, with a note that it is about to be committed.
    pub fn sync(&self) -> Result<(), CliError> {
        self.ensure_name()?;
        let failed = |error| CliError::of_output(self.path(), error);
        let Shared { file, run, .. } = &*self.shared;
        let standing = Standing::of(file).map_err(failed)?;
        let next = Moment {
            run: *run,
            length: standing.length,
        };
        let note = Note {
            next: Some(next),
            ..self.shared.note.get()
        };
        self.write(note).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.shared.standing.set(standing);
        Ok(())
    }

    /// Notes that the last tag is committed.
    pub fn committed(&self) {
        let note = self.shared.note.get();
        if note.next.is_some() {
            // As if the run were killed here: the next note says it again.
            let _ = self.write(Note {
                last: note.next,
                next: None,
                ..note
            });
        }
    }

    /// Notes that the run came to its end, after the commit that says so.
    pub fn ended(&self) -> Result<(), CliError> {
        let note = self.shared.note.get();
        let ended = self.write(Note {
            ended: true,
            ..note
        });
        let synced = ended.and_then(|()| self.shared.file.sync_all());
        synced.map_err(|error| CliError::of_output(self.path(), error))
    }

    /// Refuses to go on if the lines are no longer where the user expects them.
    pub fn ensure_name(&self) -> Result<(), CliError> {
        let failed = |error| CliError::of_output(self.path(), error);
        let own = self.shared.file.metadata().map_err(failed)?;
        match fs::metadata(self.path()) {
            Ok(there) if handle::is_same_file(&own, &there) => Ok(()),
            _ => Err(CliError::OutputGone {
                path: self.path().to_owned(),
            }),
        }
    }

    /// Returns the tag of a commit of everything that was in the file at the last [`sync`](Self::sync).
    pub fn tag(&self, ended: bool) -> Vec<u8> {
        let tag = Tag {
            ended,
            run: self.shared.run,
            standing: self.shared.standing.get(),
        };
        tag.encode()
    }

    fn write(&self, note: Note) -> io::Result<()> {
        self.shared.place.borrow_mut().write(&note)?;
        self.shared.note.set(note);
        Ok(())
    }
}
