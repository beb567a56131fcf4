//! Removing a store, which is several files: all of them go, even if the server dies in between.
//!
//! A log that outlives its store would keep its name from any other store. So what is about to be removed is noted in a file
//! beside it first, and a server that finds that note finishes the work.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use everseen::is_side_file;

use super::transfer::write_whole;

/// The ending of a note. It tells which file the store was, since another may have its name by then.
const ENDING: &str = "removing";

fn note_of(store: &Path) -> PathBuf {
    // The names of stores have one dot.
    store.with_extension(ENDING)
}

/// Tells a file from all others, and from one that has got its number since.
pub fn identity_of(store: &Path) -> io::Result<Option<String>> {
    match fs::metadata(store) {
        Ok(found) => {
            let born = found.created().ok();
            let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
            let born = born.map_or(0, |born| born.as_nanos());
            Ok(Some(format!("{} {} {born}", found.dev(), found.ino())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the store at `path` and all its files, and returns whether there was one.
pub fn remove(store: &Path) -> io::Result<bool> {
    let Some(identity) = identity_of(store)? else {
        return Ok(false);
    };
    let note = note_of(store);
    write_whole(&note, &format!("{identity}\n"))?;
    sync_folder(store)?;
    let removed = finish(store, &note);
    if removed.is_err() {
        // What can't be removed stays a store.
        let _ = fs::remove_file(&note);
    }
    removed.map(|()| true)
}

fn finish(store: &Path, note: &Path) -> io::Result<()> {
    remove_if_there(store)?;
    remove_side_files(store)?;
    remove_if_there(note)?;
    sync_folder(store)
}

/// Removes the files that belong to the store at `path`.
pub fn remove_side_files(store: &Path) -> io::Result<()> {
    for side in side_files(store)? {
        remove_if_there(&side)?;
    }
    Ok(())
}

/// Finishes what a server that died had begun to remove.
pub fn finish_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let note = entry?.path();
        if note.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let store = note.with_extension("ever");
        let noted = fs::read_to_string(&note)?;
        match identity_of(&store)? {
            // Another store has the name since, or the note was not yet written.
            Some(other) if other != noted.trim_end() => remove_if_there(&note)?,
            _ => finish(&store, &note)?,
        }
    }
    Ok(())
}

/// Returns the files that belong to the store at `path`: logs, shared memory. Logs that a repair has set aside and copies
/// that somebody made don't: they may be all that is left of their items.
pub fn side_files(store: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(file)) = (store.parent(), store.file_name()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_side_file(file, entry.file_name()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Makes a file's new name, or its end, durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync)
}

/// Makes all names in a folder durable, and that others are gone.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
pub mod tests {
    use std::fs;
    use std::path::Path;

    use super::{finish_all, identity_of, note_of, remove};

    /// Returns the names of all files in a folder, sorted.
    pub fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn store(folder: &Path) -> std::path::PathBuf {
        for name in [
            "a.ever",
            "a.ever-log.1",
            "a.ever-shm",
            "a.ever-shm.12",
            "a.ever-log.4-aside",
            "a.ever-monday",
            "ab.ever",
            "a.expires",
        ] {
            fs::write(folder.join(name), name).unwrap();
        }
        folder.join("a.ever")
    }

    const OTHERS: [&str; 4] = [
        "a.ever-log.4-aside",
        "a.ever-monday",
        "a.expires",
        "ab.ever",
    ];

    #[test]
    fn all_files_of_a_store_go_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        assert!(remove(&store(folder.path())).unwrap());
        assert_eq!(names(folder.path()), OTHERS);
        assert!(!remove(&folder.path().join("a.ever")).unwrap());
    }

    #[test]
    fn a_removal_that_was_cut_off_is_finished() {
        for is_store_gone in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = store(folder.path());
            let identity = identity_of(&path).unwrap().unwrap();
            fs::write(note_of(&path), identity).unwrap();
            if is_store_gone {
                fs::remove_file(&path).unwrap();
            }
            finish_all(folder.path()).unwrap();
            assert_eq!(names(folder.path()), OTHERS);
        }
    }

    #[test]
    fn a_store_that_took_the_name_since_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = store(folder.path());
        fs::write(note_of(&path), "1 1\n").unwrap();
        finish_all(folder.path()).unwrap();
        assert_eq!(names(folder.path()).len(), 8);
        assert!(!note_of(&path).exists());
    }
}
