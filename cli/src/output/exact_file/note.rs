//! What an output keeps of the run that wrote to it last: a note in an attribute of the file, or, where the file system
//! keeps no attributes, in a small file beside it for as long as the run goes on.
//!
//! The store's tag alone can't tell what lies behind the committed length: the rest of a killed run, or good lines of
//! later commits of which this store, restored from a copy, knows nothing. The note names the last commit and the one
//! under way, so the store's tag is one of the two after a kill at any moment.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::output::exact_file::tag::{Moment, sum};
use crate::process::handle;

/// The beginning of each note.
const NOTE: &str = "2";

/// The longest note, with room to spare.
const LONGEST: usize = 256;

/// Maximum bytes of the output's name in the name of the file beside it.
const NAME: usize = 32;

/// Which store wrote to the file last, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note {
    /// The beginning of the store's number.
    pub store: u64,
    /// The inode of the store's file: a copy has another one.
    pub inode: u64,
    /// Whether the run came to its end.
    pub ended: bool,
    /// The last commit that is known to be in the store.
    pub last: Option<Moment>,
    /// The commit under way, which the store may have or not.
    pub next: Option<Moment>,
}

impl Note {
    fn encode(&self) -> String {
        let moment = |moment: Option<Moment>| match moment {
            Some(Moment { run, length }) => format!("{run:016x}:{length}"),
            None => "-".to_owned(),
        };
        let state = if self.ended { "ended" } else { "running" };
        let (store, inode) = (self.store, self.inode);
        let (last, next) = (moment(self.last), moment(self.next));
        let text = format!("{NOTE} {state} {store:016x} {inode} {last} {next}");
        // In a file, a note may be torn by a power cut.
        format!("{text} {:016x}", sum(text.as_bytes()))
    }

    fn decode(text: &str) -> Option<Self> {
        let (text, sum_of_text) = text.rsplit_once(' ')?;
        if u64::from_str_radix(sum_of_text, 16).ok()? != sum(text.as_bytes()) {
            return None;
        }
        let mut words = text.split(' ');
        if words.next()? != NOTE {
            return None;
        }
        let ended = match words.next()? {
            "ended" => true,
            "running" => false,
            _ => return None,
        };
        let store = u64::from_str_radix(words.next()?, 16).ok()?;
        let inode = words.next()?.parse().ok()?;
        let mut moment = || match words.next()? {
            "-" => Some(None),
            word => {
                let (run, length) = word.split_once(':')?;
                let run = u64::from_str_radix(run, 16).ok()?;
                let length = length.parse().ok()?;
                Some(Some(Moment { run, length }))
            }
        };
        let (last, next) = (moment()?, moment()?);
        words.next().is_none().then_some(Note {
            store,
            inode,
            ended,
            last,
            next,
        })
    }
}

/// Where the note of a file is.
pub struct NotePlace {
    file: File,
    /// The name beside the file.
    beside: PathBuf,
    /// Whether the file system keeps attributes.
    in_attribute: bool,
    /// The open file beside, while it is there.
    open: Option<File>,
}

impl NotePlace {
    pub fn of(file: &File, path: &Path) -> io::Result<Self> {
        Ok(NotePlace {
            file: file.try_clone()?,
            beside: beside(path),
            in_attribute: true,
            open: None,
        })
    }

    /// Returns the note of the file, if it has one that can be read.
    pub fn read(&self) -> Option<Note> {
        let text = handle::mark_of(&self.file, LONGEST).or_else(|| self.read_beside());
        Note::decode(&text?)
    }

    fn read_beside(&self) -> Option<String> {
        let mut options = OpenOptions::new();
        let file = open_beside(options.read(true), &self.beside).ok()?;
        let mut text = String::new();
        let read = file.take(LONGEST as u64).read_to_string(&mut text);
        read.ok().map(|_| text.trim_end().to_owned())
    }

    /// Writes the note. It is durable once the file is synced. Where neither the file system keeps attributes nor the
    /// folder takes a file, there is no note: after a kill the user has to decide.
    pub fn write(&mut self, note: &Note) -> io::Result<()> {
        let text = note.encode();
        if self.in_attribute {
            if handle::mark(&self.file, &text)? {
                return Ok(());
            }
            self.in_attribute = false;
        }
        match note.ended {
            true => self.remove_beside(),
            false => self.write_beside(&text),
        }
    }

    fn write_beside(&mut self, text: &str) -> io::Result<()> {
        if self.open.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            self.open = match open_beside(&mut options, &self.beside) {
                Ok(file) => Some(file),
                Err(error) if is_closed_folder(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            handle::sync_folder(folder(&self.beside))?;
        }
        let Some(file) = &self.open else {
            return Ok(());
        };
        // One write of one length, so that a kill leaves one note or the other.
        let line = format!("{text:<width$}\n", width = LONGEST - 1);
        handle::write_at(file, line.as_bytes(), 0)?;
        file.sync_data()
    }

    /// A note that a run has ended is needed only by file systems that can't lose it with the file.
    fn remove_beside(&mut self) -> io::Result<()> {
        self.open = None;
        match fs::remove_file(&self.beside) {
            Err(error) if error.kind() == ErrorKind::NotFound || is_closed_folder(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => handle::sync_folder(folder(&self.beside)),
        }
    }
}

fn is_closed_folder(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Opens a regular file that is no link.
fn open_beside(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    handle::without_following(options);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("its note is not a regular file")),
    }
}

/// Returns the name of the file that keeps the note of an output.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    path.with_file_name(format!(".{}.everseen", short_name(name, name)))
}

/// Returns the beginning of a name, and the sum of what tells it from others.
pub fn short_name(name: &OsStr, whole: &OsStr) -> String {
    let name = name.to_string_lossy();
    let end = (0..=NAME.min(name.len())).rfind(|end| name.is_char_boundary(*end));
    let whole = sum(whole.as_encoded_bytes());
    format!("{}#{whole:016x}", &name[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<Note> {
        let moment = |run| Some(Moment { run, length: 90 });
        let mut notes = Vec::new();
        for (last, next) in [
            (None, None),
            (None, moment(1)),
            (moment(u64::MAX), None),
            (moment(7), moment(8)),
        ] {
            for ended in [true, false] {
                notes.push(Note {
                    store: 1 << 63,
                    inode: u64::MAX,
                    ended,
                    last,
                    next,
                });
            }
        }
        notes
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_no_other_text_is_one() {
        for note in notes() {
            let text = note.encode();
            assert_eq!(Note::decode(&text), Some(note));
            assert!(text.len() < LONGEST, "{text}");
            for at in 0..text.len() {
                let mut other = text.clone().into_bytes();
                other[at] ^= 1;
                let other = String::from_utf8(other).expect("still text");
                assert_eq!(Note::decode(&other), None, "{other}");
                assert_eq!(Note::decode(&text[..at]), None, "{at}");
            }
        }
        // What earlier builds wrote.
        assert_eq!(Note::decode("00000000000000ff"), None);
    }

    #[test]
    fn without_attributes_a_note_lies_beside_the_file_until_the_run_ends() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("é".repeat(120));
        let file = File::create(&path).expect("a new file");
        let place = || {
            let mut place = NotePlace::of(&file, &path).expect("a place");
            place.in_attribute = false;
            place
        };
        for note in notes() {
            let mut writing = place();
            writing.write(&note).expect("written");
            let expected = (!note.ended).then_some(note);
            assert_eq!(place().read(), expected);
        }
        let mut writing = place();
        for note in notes().into_iter().filter(|note| !note.ended) {
            writing.write(&note).expect("written again");
            assert_eq!(place().read(), Some(note));
        }
        let beside = beside(&path);
        fs::write(&beside, "2 running").expect("torn");
        assert_eq!(place().read(), None);
        fs::remove_file(&beside).expect("there");
        std::os::unix::fs::symlink("elsewhere", &beside).expect("a link");
        place().write(&notes()[1]).expect_err("no link is followed");
        assert!(!folder.path().join("elsewhere").exists());
    }
}
