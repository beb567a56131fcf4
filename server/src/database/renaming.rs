//! Giving a store another name, whose own store and date give way: all of it happens, even if the server dies in between.
//!
//! What is about to happen is noted in a file beside the store first, and a server that finds that note finishes the work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::expiry;
use super::name::Name;
use super::removal::{identity_of, remove_if_there, remove_side_files, sync};
use super::transfer::write_whole;

/// The ending of a note.
const ENDING: &str = ".renaming";

/// A store that gets another name.
#[derive(Debug, PartialEq, Eq)]
pub struct Renaming {
    from: Name,
    to: Name,
    /// When it is removed.
    date: Option<u64>,
    /// Which file it is.
    identity: String,
}

impl Renaming {
    /// Notes, for good, that the store `from`, which is closed, is to be `to`. `None` if there is no such store.
    pub fn begin(
        folder: &Path,
        [from, to]: [&Name; 2],
        date: Option<u64>,
    ) -> io::Result<Option<Self>> {
        let Some(identity) = identity_of(&from.path(folder))? else {
            return Ok(None);
        };
        let (from, to) = (from.clone(), to.clone());
        let renaming = Renaming {
            from,
            to,
            date,
            identity,
        };
        write_whole(&renaming.note(folder), &renaming.text(folder))?;
        sync(folder)?;
        Ok(Some(renaming))
    }

    fn note(&self, folder: &Path) -> PathBuf {
        self.from.beside(folder, ENDING)
    }

    /// Returns the lines of a note.
    fn text(&self, folder: &Path) -> String {
        let to = self.to.path(folder);
        let file = to.file_name().unwrap_or_default().to_string_lossy();
        let date = self.date.map_or("-".to_owned(), |date| date.to_string());
        format!("{file}\n{date}\n{}\n", self.identity)
    }

    fn of_text(from: Name, text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (file, date, identity) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Renaming {
            from,
            to: Name::of_file(file.as_ref())?,
            date: match date {
                "-" => None,
                date => Some(date.parse().ok()?),
            },
            identity: identity.to_owned(),
        })
    }

    /// Does what was noted, from wherever it ended.
    pub fn finish(&self, folder: &Path) -> io::Result<()> {
        let is_it = |name: &Name| {
            let found = identity_of(&name.path(folder))?;
            io::Result::Ok(found.as_ref() == Some(&self.identity))
        };
        if is_it(&self.from)? {
            // Its logs would keep the name from any other store.
            remove_side_files(&self.to.path(folder))?;
            fs::rename(self.from.path(folder), self.to.path(folder))?;
        }
        // Otherwise somebody else has moved it since.
        if is_it(&self.to)? {
            match self.date {
                Some(date) => expiry::write(folder, &self.to, date)?,
                None => expiry::remove(folder, &self.to)?,
            }
            expiry::remove(folder, &self.from)?;
        }
        sync(folder)?;
        self.forget(folder)
    }

    /// Removes the note.
    pub fn forget(&self, folder: &Path) -> io::Result<()> {
        remove_if_there(&self.note(folder))?;
        sync(folder)
    }
}

/// Finishes what a server that died had begun.
pub fn finish_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(from) = Name::of_file_ending(&entry.file_name(), ENDING) else {
            continue;
        };
        match Renaming::of_text(from, &fs::read_to_string(entry.path())?) {
            Some(renaming) => renaming.finish(folder)?,
            // Nobody began before all of it was there.
            None => remove_if_there(&entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::removal::tests::names;

    /// Two stores, the second with a log and a date.
    fn stores(folder: &Path) -> [Name; 2] {
        for file in ["a%3A.ever", "b.ever", "b.ever-log.3", "b.expires"] {
            fs::write(folder.join(file), file).unwrap();
        }
        [b"a:", &b"b"[..]].map(|name| Name::new(name).unwrap())
    }

    fn text(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_renaming_is_finished_from_wherever_it_ended() {
        for date in [None, Some(1234)] {
            for step in 0..4 {
                let folder = tempfile::tempdir().unwrap();
                let folder = folder.path();
                let [a, b] = stores(folder);
                if let Some(date) = date {
                    expiry::write(folder, &a, date).unwrap();
                }
                let renaming = Renaming::begin(folder, [&a, &b], date).unwrap().unwrap();
                if step > 0 {
                    remove_side_files(&b.path(folder)).unwrap();
                }
                if step > 1 {
                    fs::rename(a.path(folder), b.path(folder)).unwrap();
                }
                if step > 2 {
                    expiry::remove(folder, &b).unwrap();
                }
                let noted = text(renaming.note(folder));
                assert_eq!(Renaming::of_text(a.clone(), &noted), Some(renaming));
                finish_all(folder).unwrap();
                let expected: &[&str] = match date {
                    None => &["b.ever"],
                    Some(_) => &["b.ever", "b.expires"],
                };
                assert_eq!(names(folder), expected, "step {step}");
                assert_eq!(text(b.path(folder)), "a%3A.ever");
                if let Some(date) = date {
                    assert_eq!(text(folder.join("b.expires")), format!("{date}\n"));
                }
            }
        }
    }

    #[test]
    fn what_others_have_done_since_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let [a, b] = stores(folder);
        Renaming::begin(folder, [&a, &b], None).unwrap().unwrap();
        fs::rename(a.path(folder), folder.join("elsewhere")).unwrap();
        let note = b.beside(folder, ENDING);
        fs::write(&note, "half a no").unwrap();
        finish_all(folder).unwrap();
        let left = ["b.ever", "b.ever-log.3", "b.expires", "elsewhere"];
        assert_eq!(names(folder), left);
        assert!(Renaming::begin(folder, [&a, &b], None).unwrap().is_none());
    }
}
