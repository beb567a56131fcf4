//! Opens an output for a run, and cuts off what a killed run has left.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use everseen::{Stats, Store};

use crate::error::CliError;
use crate::output::exact_file::known::{Known, Other, Rest};
use crate::output::exact_file::note::{Note, NotePlace, short_name};
use crate::output::exact_file::tag::{Moment, Standing, Tag};
use crate::output::exact_file::{Longer, Shared, Sink};
use crate::process::handle;

/// A file to write, before anything is done to it.
pub struct Target {
    /// The path without links, so that one file has one writer.
    path: PathBuf,
}

/// An output that is ready for a run, and what the user should learn of it.
pub struct Opened {
    pub sink: Sink,
    pub notice: Option<String>,
}

/// What was done about the bytes behind those that the store knows.
#[derive(Default)]
struct Settled {
    /// Whether bytes that the store doesn't know were left where they are.
    keeps_unknown: bool,
    notice: Option<String>,
}

impl Target {
    pub fn new(path: &Path) -> Result<Self, CliError> {
        let path = resolve(path).map_err(|source| unnamed(path, source))?;
        Ok(Target { path })
    }

    /// Returns the metadata of the file, if it exists.
    pub fn metadata(&self) -> Option<Metadata> {
        fs::metadata(&self.path).ok()
    }

    /// Refuses a store of the same name, before it is created.
    pub fn refuse_store(&self, store: &Path) -> Result<(), CliError> {
        match resolve(store) {
            Ok(store) if store == self.path => Err(CliError::OutputIsStore { path: store }),
            _ => Ok(()),
        }
    }

    /// Returns the name under which a store keeps the length of the file.
    pub fn writer(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        short_name(name, self.path.as_os_str())
    }

    /// Opens the file for this run alone, and cuts it back to what the store has committed of it. The caller has opened
    /// the store under the name of [`writer`](Self::writer).
    pub fn open(
        self,
        store: &Store,
        store_path: &Path,
        longer: Option<Longer>,
    ) -> Result<Opened, CliError> {
        let (_, known) = self.ask(store, store_path)?;
        let file = self.lock(known.unfinished())?;
        // Until the lock was free, another run may have committed more.
        let (stats, known) = self.ask(store, store_path)?;
        let failed = |error| CliError::of_output(&self.path, error);
        let metadata = file.metadata().map_err(failed)?;
        let store_file = fs::metadata(store_path).ok();
        if store_file
            .as_ref()
            .is_some_and(|store| handle::is_same_file(store, &metadata))
        {
            return Err(CliError::OutputIsStore { path: self.path });
        }
        let place = NotePlace::of(&file, &self.path).map_err(failed)?;
        let found = place.read();
        let own = blank_note(&stats, store_file.as_ref());
        let settled = self.settle(&file, &known, found.as_ref(), &own, longer)?;
        let before = Note {
            // A kill before the commit must not make what was kept look like the rest of a killed run.
            last: match settled.keeps_unknown {
                true => None,
                false => known.moment(found.as_ref()),
            },
            ..own
        };
        let sink = self.begin(file, place, before)?;
        // From here on, what follows this length belongs to this run.
        let begun = store.commit_with(&sink.tag(false));
        begun.map_err(|error| match error {
            everseen::Error::TooManyWriters { .. } => CliError::TooManyOutputs {
                store: store_path.to_owned(),
            },
            error => error.into(),
        })?;
        sink.committed();
        Ok(Opened {
            sink,
            notice: settled.notice,
        })
    }

    /// Returns what the store knows of the file.
    fn ask(&self, store: &Store, store_path: &Path) -> Result<(Stats, Known), CliError> {
        let stats = store.stats()?;
        if !stats.transactional {
            return Err(CliError::NotTransactional {
                path: store_path.to_owned(),
            });
        }
        let (mut known, others) = Known::of(&stats.commits, &self.writer())
            .ok_or_else(|| self.changed("the store's note of it can't be read"))?;
        for other in others {
            match self.is_moved_from(&other, known.unfinished()) {
                true if other.is_youngest => known.own = Some(other.tag),
                // The store knows what has become of it since.
                true => {}
                false => self.refuse_under_other_name(&other, known.unfinished())?,
            }
        }
        Ok((stats, known))
    }

    /// Notes that a run begins.
    fn begin(self, file: File, mut place: NotePlace, before: Note) -> Result<Sink, CliError> {
        let failed = |error| CliError::of_output(&self.path, error);
        let standing = Standing::of(&file).map_err(failed)?;
        let begun = Moment {
            run: RandomState::new().hash_one(&self.path),
            length: standing.length,
        };
        let note = Note {
            next: Some(begun),
            ..before
        };
        place.write(&note).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(Sink {
            shared: Rc::new(Shared {
                path: self.path,
                file,
                run: begun.run,
                standing: Cell::new(standing),
                place: RefCell::new(place),
                note: Cell::new(note),
            }),
        })
    }

    /// Returns whether the file is one of the same name in another folder, or a copy of it: somebody has moved it, mostly
    /// together with the store. `own` is the last run under the name that it has now, if that did not end.
    fn is_moved_from(&self, other: &Other, own: Option<&Tag>) -> bool {
        let Some(metadata) = self
            .metadata()
            .filter(|_| other.may_have_moved(&self.writer()))
        else {
            return false;
        };
        let then = &other.tag.standing;
        let is_same = handle::id(&metadata).is_some_and(|id| then.is_same_file(id));
        match then.length {
            // A new file may have the number of one that was removed. Its note tells.
            0 => is_same,
            // Its last run by another name may be younger than the one by its own.
            _ if is_same => self.begins_as(then, None),
            // A copy of a file whose last run ended is a file like any other.
            _ => !other.tag.ended && self.begins_as(then, own),
        }
    }

    /// Refuses a file to which a run that did not end wrote under another name, and a copy of it. An append now would mix
    /// that run's rest with lines that count.
    fn refuse_under_other_name(&self, other: &Other, own: Option<&Tag>) -> Result<(), CliError> {
        let (before, tag) = (other.name(), &other.tag);
        if tag.ended {
            return Ok(());
        }
        let id = self.metadata().and_then(|file| handle::id(&file));
        if id.is_some_and(|id| id == tag.standing.id) {
            return Err(self.changed(&format!(
                "a run that was cut off wrote to it under another name, {before}"
            )));
        }
        if self.begins_as(&tag.standing, own) {
            return Err(self.changed(&format!(
                "it is a copy of {before}, whose last lines a run that was cut off did not commit"
            )));
        }
        Ok(())
    }

    /// Returns whether the file begins with what was committed of another one. What its `own` last run has not committed
    /// is left out: it is going to be cut off, and may well be the lines that the other one has printed since.
    fn begins_as(&self, other: &Standing, own: Option<&Tag>) -> bool {
        let Some(metadata) = self.metadata().filter(Metadata::is_file) else {
            return false;
        };
        let own = own.filter(|own| Some(own.standing.id) == handle::id(&metadata));
        let kept = own.map_or(u64::MAX, |own| own.standing.length);
        let is_long_enough = (1..=metadata.len().min(kept)).contains(&other.length);
        let mut options = OpenOptions::new();
        handle::without_waiting(options.read(true));
        is_long_enough
            && options
                .open(&self.path)
                .and_then(|file| Standing::at(&file, other.length))
                .is_ok_and(|standing| standing.tail == other.tail)
    }

    fn lock(&self, unfinished: Option<&Tag>) -> Result<File, CliError> {
        let failed = |error| CliError::of_output(&self.path, error);
        // A file without committed lines can be lost without harm.
        let make = unfinished.is_none_or(|tag| tag.standing.length == 0);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(make);
        // A file that would make the open wait is not a regular one.
        handle::without_waiting(&mut options);
        let file = match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !make => {
                return Err(self.changed("it is gone"));
            }
            opened => opened.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() || handle::id(&metadata).is_none() {
            return Err(CliError::OutputIsNoFile {
                path: self.path.clone(),
                what: handle::sort_of(&metadata),
            });
        }
        if handle::links(&metadata) > 1 {
            return Err(self.changed("it has several names, which are hard links"));
        }
        if !handle::lock(&file).map_err(failed)? {
            return Err(CliError::OutputInUse {
                path: self.path.clone(),
            });
        }
        // Another program may have replaced the file before it was locked.
        let there = fs::metadata(&self.path).map_err(failed)?;
        if !handle::is_same_file(&metadata, &there) {
            return Err(self.changed("it was replaced just now"));
        }
        file.sync_all().map_err(failed)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        handle::sync_folder(folder).map_err(failed)?;
        Ok(file)
    }

    /// Decides what becomes of the bytes that the store doesn't know: cuts off those of a killed run, and refuses others
    /// unless the user has said what to do with them.
    fn settle(
        &self,
        file: &File,
        known: &Known,
        found: Option<&Note>,
        own: &Note,
        longer: Option<Longer>,
    ) -> Result<Settled, CliError> {
        let failed = |error| CliError::of_output(&self.path, error);
        let length = file.metadata().map_err(failed)?.len();
        if let Some(tag) = known.unfinished() {
            self.check(file, &tag.standing, longer)?;
        }
        let now = Standing::of(file).map_err(failed)?;
        match known.rest(&now, found, own) {
            Rest::Nothing => Ok(Settled::default()),
            Rest::Shorter(before) => Ok(Settled {
                keeps_unknown: false,
                notice: Some(format!(
                    "{}: has {length} bytes, where its last run left {before}; if it was restored from a copy, the \
                     lines it lacks are not printed again",
                    self.path.display()
                )),
            }),
            Rest::OfKilledRun(until) => {
                self.cut(file, until)?;
                Ok(Settled::default())
            }
            Rest::Unknown(why) => match longer {
                None => Err(CliError::OutputLonger {
                    path: self.path.clone(),
                    length,
                    known: known.length(),
                    why,
                }),
                Some(Longer::Keep) => Ok(Settled {
                    keeps_unknown: true,
                    notice: Some(format!(
                        "{}: kept all of its {length} bytes",
                        self.path.display()
                    )),
                }),
                Some(Longer::Cut) => self.cut_unknown(file, known, length),
            },
        }
    }

    /// Cuts off what the store doesn't know, because the user wants it so.
    fn cut_unknown(&self, file: &File, known: &Known, length: u64) -> Result<Settled, CliError> {
        let Some(tag) = &known.own else {
            return Err(CliError::OutputUnknown {
                path: self.path.clone(),
            });
        };
        self.check(file, &tag.standing, Some(Longer::Cut))?;
        self.cut(file, tag.standing.length)?;
        Ok(Settled {
            keeps_unknown: false,
            notice: Some(format!(
                "{}: cut from {length} to {} bytes",
                self.path.display(),
                tag.standing.length
            )),
        })
    }

    /// Refuses a file that is not the one of which this was committed, or no longer begins so. Another file that begins so
    /// was restored together with the store, if the user says so.
    fn check(&self, file: &File, then: &Standing, longer: Option<Longer>) -> Result<(), CliError> {
        let failed = |error| CliError::of_output(&self.path, error);
        let length = file.metadata().map_err(failed)?.len();
        if length < then.length {
            return Err(self.changed(&format!(
                "it has {length} bytes, where {} were committed",
                then.length
            )));
        }
        let now = Standing::at(file, then.length).map_err(failed)?;
        let is_other = then.length > 0 && !then.is_same_file(now.id);
        if now.tail != then.tail {
            return Err(self.changed(match is_other {
                true => "it is another file",
                false => "what was committed of it has changed",
            }));
        }
        if is_other && longer.is_none() {
            return Err(CliError::OutputLonger {
                path: self.path.clone(),
                length,
                known: Some(then.length),
                why: "it is another file, which may have been restored from a copy",
            });
        }
        Ok(())
    }

    fn cut(&self, file: &File, length: u64) -> Result<(), CliError> {
        let cut = file.set_len(length).and_then(|()| file.sync_all());
        cut.map_err(|error| CliError::of_output(&self.path, error))
    }

    fn changed(&self, why: &str) -> CliError {
        CliError::OutputChanged {
            path: self.path.clone(),
            why: why.to_owned(),
        }
    }
}

/// Returns a note of this store that names no moment.
fn blank_note(stats: &Stats, store_file: Option<&Metadata>) -> Note {
    let mut number = [0; 8];
    number.copy_from_slice(&stats.store_id[..8]);
    Note {
        store: u64::from_le_bytes(number),
        inode: store_file.and_then(handle::id).map_or(0, |file| file.inode),
        ended: false,
        last: None,
        next: None,
    }
}

/// Explains why an output has no path: it may be a pipe, or a file without a name, that a link of the system leads to.
fn unnamed(path: &Path, source: io::Error) -> CliError {
    match fs::metadata(path) {
        Ok(metadata) if source.kind() == io::ErrorKind::NotFound => CliError::OutputIsNoFile {
            path: path.to_owned(),
            what: handle::sort_of(&metadata),
        },
        _ => CliError::of_output(path, source),
    }
}

/// Returns the path, without links, of a file that may be missing.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        // A dangling link remains an error: the file would have another name once it exists.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() =>
        {
            let name = path
                .file_name()
                .filter(|name| *name != OsStr::new(".."))
                .ok_or(error)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            Ok(fs::canonicalize(folder)?.join(name))
        }
        resolved => resolved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_named_after_its_file() {
        let name = |path: &str| Target { path: path.into() }.writer();
        assert!(name("/a/fresh.txt").starts_with("fresh.txt#"));
        assert_ne!(name("/a/fresh.txt"), name("/b/fresh.txt"));
        let long = name(&format!("/a/{}", "é".repeat(100)));
        assert_eq!(long.len(), 32 + 17);
    }
}
