//! `dedup -o FILE`: a file that holds each line once, however the runs that wrote it ended.
//!
//! With every commit, the store keeps the length that the file had when all lines of the commit were in it and durable,
//! in the tag of a writer that is named after the file. What lies behind that length belongs to lines that were never
//! committed and will come again, so the next run cuts it off. It does so only after a run that did not end, and only
//! in the very file that this run wrote: what follows an orderly end belongs to another program.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use everseen::hash::KeyHasher;
use everseen::{Hash, Store};

use crate::error::CliError;
use crate::process::handle::{self, FileId};

/// The beginning of each tag of this module.
const TAG: &str = "dedup-output 1";

/// Maximum number of committed bytes, counted from the end, that identify the file.
const TAIL: u64 = 4096;

/// Maximum bytes of the file's name in the name of the writer.
const NAME: usize = 32;

/// A file to write, before anything is done to it.
pub struct Target {
    /// The path without links, so that one file has one writer.
    path: PathBuf,
}

impl Target {
    pub fn new(path: &Path) -> Result<Self, CliError> {
        let path = resolve(path).map_err(|source| CliError::of_output(path, source))?;
        Ok(Target { path })
    }

    /// Returns the metadata of the file, if it exists.
    pub fn metadata(&self) -> Option<Metadata> {
        fs::metadata(&self.path).ok()
    }

    /// Returns the name under which a store keeps the length of the file.
    pub fn writer(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let end = (0..=NAME.min(name.len())).rfind(|end| name.is_char_boundary(*end));
        let whole = sum(self.path.as_os_str().as_encoded_bytes());
        format!("{}#{whole:016x}", &name[..end.unwrap_or(0)])
    }

    /// Opens the file for this run alone, and cuts it back to what the store has committed of it. The caller has opened
    /// the store under the name of [`writer`](Self::writer).
    pub fn open(self, store: &Store, store_path: &Path) -> Result<Sink, CliError> {
        let stats = store.stats()?;
        if !stats.transactional {
            return Err(CliError::NotTransactional {
                path: store_path.to_owned(),
            });
        }
        let own = self.writer();
        let (mut unfinished, mut others) = (None, Vec::new());
        for commit in &stats.commits {
            match Tag::decode(&commit.tag) {
                Some(tag) if tag.ended => {}
                Some(tag) if commit.writer == own => unfinished = Some(tag),
                Some(tag) => others.push((&commit.writer, tag)),
                None if commit.writer == own => {
                    return Err(self.changed("the store's note of it can't be read"));
                }
                None => {}
            }
        }
        for (writer, tag) in others {
            self.refuse_under_other_name(writer, &tag, unfinished.as_ref())?;
        }
        let file = self.lock(unfinished.as_ref())?;
        let metadata = file
            .metadata()
            .map_err(|error| CliError::of_output(&self.path, error))?;
        if fs::metadata(store_path).is_ok_and(|store| handle::is_same_file(&store, &metadata)) {
            return Err(CliError::OutputIsStore { path: self.path });
        }
        if let Some(tag) = &unfinished {
            self.cut(&file, tag)?;
        }
        let failed = |error| CliError::of_output(&self.path, error);
        let series = match &unfinished {
            Some(tag) => tag.series,
            None => RandomState::new().hash_one(&own),
        };
        handle::mark(&file, &mark(series)).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let standing = Cell::new(Standing::of(&file).map_err(failed)?);
        let sink = Sink {
            shared: Rc::new(Shared {
                path: self.path,
                file,
                series,
                standing,
            }),
        };
        // From here on, what follows this length belongs to this run.
        store.commit_with(&sink.tag(false))?;
        Ok(sink)
    }

    /// Refuses a file to which a run that did not end wrote under another name, and a copy of it. An append now would mix
    /// that run's rest with lines that count.
    fn refuse_under_other_name(
        &self,
        writer: &str,
        tag: &Tag,
        own: Option<&Tag>,
    ) -> Result<(), CliError> {
        let id = self.metadata().and_then(|file| handle::id(&file));
        let before = writer.split('#').next().unwrap_or_default();
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
            });
        }
        if handle::links(&metadata) > 1 {
            return Err(self.changed("it has several names"));
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

    /// Cuts off what a run that did not end has not committed.
    fn cut(&self, file: &File, tag: &Tag) -> Result<(), CliError> {
        let failed = |error| CliError::of_output(&self.path, error);
        let then = &tag.standing;
        let length = file.metadata().map_err(failed)?.len();
        if length < then.length {
            return Err(self.changed(&format!(
                "it has {length} bytes, where {} were committed",
                then.length
            )));
        }
        let now = Standing::at(file, then.length).map_err(failed)?;
        // The number of the device may change with a restart. The bytes then identify the file, if there are any.
        let same =
            now.id.inode == then.id.inode && (now.id.device == then.id.device || then.length > 0);
        if then.length > 0 && !same {
            return Err(self.changed("it is another file"));
        }
        if handle::mark_of(file).is_some_and(|found| found != mark(tag.series)) {
            return Err(
                self.changed("runs with another store, or another copy of it, wrote to it since")
            );
        }
        if now.tail != then.tail {
            return Err(self.changed("what was committed of it has changed"));
        }
        if same && length > then.length {
            file.set_len(then.length).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        Ok(())
    }

    fn changed(&self, why: &str) -> CliError {
        CliError::OutputChanged {
            path: self.path.clone(),
            why: why.to_owned(),
        }
    }
}

/// The file while a run writes to it. It stays locked until the last clone is dropped.
#[derive(Clone)]
pub struct Sink {
    shared: Rc<Shared>,
}

struct Shared {
    path: PathBuf,
    file: File,
    series: u64,
    /// The file's state when all of it was last durable.
    standing: Cell<Standing>,
}

impl Sink {
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns another handle on the same file, for writing.
    pub fn file(&self) -> io::Result<File> {
        self.shared.file.try_clone()
    }

    /// Notes that the whole file is durable.
    pub fn note(&self) -> io::Result<()> {
        let file = &self.shared.file;
        if handle::links(&file.metadata()?) == 0 {
            return Err(io::Error::other("it was removed meanwhile"));
        }
        self.shared.standing.set(Standing::of(file)?);
        Ok(())
    }

    /// Returns the tag of a commit of everything that was in the file at the last [`note`](Self::note).
    pub fn tag(&self, ended: bool) -> Vec<u8> {
        let tag = Tag {
            ended,
            series: self.shared.series,
            standing: self.shared.standing.get(),
        };
        tag.encode()
    }
}

/// The identity and the length of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standing {
    id: FileId,
    length: u64,
    /// The sum of the last bytes before `length`.
    tail: u64,
}

impl Standing {
    fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Self::at(file, length)
    }

    fn at(file: &File, length: u64) -> io::Result<Self> {
        let id = handle::id(&file.metadata()?).ok_or(io::ErrorKind::Unsupported)?;
        let mut tail = vec![0; length.min(TAIL) as usize];
        handle::read_at(file, &mut tail, length - length.min(TAIL))?;
        Ok(Standing {
            id,
            length,
            tail: sum(&tail),
        })
    }
}

/// The text that the store keeps, which `info` shows.
#[derive(Debug, PartialEq)]
struct Tag {
    ended: bool,
    /// Shared by a run and those that continue it.
    series: u64,
    standing: Standing,
}

/// Returns the mark that identifies the series that wrote a file last, where the file system keeps marks. Otherwise
/// runs with another store, or with an older copy of this one, go unnoticed.
fn mark(series: u64) -> String {
    format!("{series:016x}")
}

impl Tag {
    fn encode(&self) -> Vec<u8> {
        let ended = if self.ended { "ended" } else { "running" };
        let Standing { id, length, tail } = self.standing;
        let FileId { device, inode } = id;
        let series = mark(self.series);
        format!("{TAG} {ended} {series} {device} {inode} {length} {tail:016x}").into_bytes()
    }

    fn decode(tag: &[u8]) -> Option<Self> {
        let text = str::from_utf8(tag).ok()?;
        let mut words = text.strip_prefix(TAG)?.strip_prefix(' ')?.split(' ');
        let ended = match words.next()? {
            "ended" => true,
            "running" => false,
            _ => return None,
        };
        let series = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse().ok();
        let (device, inode, length) = (number()?, number()?, number()?);
        let tail = u64::from_str_radix(words.next()?, 16).ok()?;
        let standing = Standing {
            id: FileId { device, inode },
            length,
            tail,
        };
        words.next().is_none().then_some(Tag {
            ended,
            series,
            standing,
        })
    }
}

/// Returns a sum that is the same in every build.
fn sum(bytes: &[u8]) -> u64 {
    KeyHasher::new(Hash::Xxh3, &[0; 32]).key(bytes).bits()
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
    fn a_tag_is_read_as_it_was_written() {
        for ended in [true, false] {
            let id = FileId {
                device: 2049,
                inode: u64::MAX,
            };
            let standing = Standing {
                id,
                length: 180_000,
                tail: 7,
            };
            let tag = Tag {
                ended,
                series: 1 << 63,
                standing,
            };
            assert_eq!(Tag::decode(&tag.encode()), Some(tag));
        }
        for other in [
            "",
            "line 4711",
            "dedup-output 1",
            "dedup-output 12 ended 0 1 2 3 4",
            "dedup-output 1 ended 0 1 2 3 4 5",
        ] {
            assert_eq!(Tag::decode(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_writer_is_named_after_its_file() {
        let name = |path: &str| Target { path: path.into() }.writer();
        assert!(name("/a/fresh.txt").starts_with("fresh.txt#"));
        assert_ne!(name("/a/fresh.txt"), name("/b/fresh.txt"));
        let long = name(&format!("/a/{}", "é".repeat(100)));
        assert_eq!(long.len(), NAME + 17);
    }
}
