//! Names of files that a store may create, replace and remove: no input or output may have one of them.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use everseen::is_side_file;

use crate::error::CliError;
use crate::input::Items;
use crate::process::handle::{is_same_file, links};

/// A file, given by its name and its folder, both without links. It may have other names.
struct Place {
    folder: PathBuf,
    name: OsString,
}

/// Refuses files that have the name of a file of one of the stores. Opens nothing.
pub fn refuse(stores: &[&Path], files: &[&Path]) -> Result<(), CliError> {
    refuse_named(stores, files.iter().map(|file| (file.display(), *file)))
}

/// Refuses to read from, or print to, anything that has the name of a file of the store.
pub fn refuse_items(store: &Path, items: &Items, prints: bool) -> Result<(), CliError> {
    let is_stdin = |path: &&PathBuf| *path == Path::new("-");
    let named = items.files.iter().filter(|path| !is_stdin(path));
    refuse_named(&[store], named.map(|path| (path.display(), path.as_path())))?;
    let reads_stdin = items.files.is_empty() && items.given.is_empty()
        || items.files.iter().any(|path| is_stdin(&path));
    let streams = [
        ("standard input", "/proc/self/fd/0", reads_stdin),
        ("standard output", "/proc/self/fd/1", prints),
    ];
    for (name, link, used) in streams {
        // A pipe has no name, and some systems report none.
        if let (true, Ok(path)) = (used, fs::read_link(link)) {
            refuse_named(&[store], [(name, path.as_path())].into_iter())?;
        }
    }
    Ok(())
}

/// Returns whether an input is the store itself or, under whatever name, another file of its own.
pub fn owns(store: &Path, input: &Metadata) -> bool {
    let is_input = |path: &Path| fs::metadata(path).is_ok_and(|file| is_same_file(&file, input));
    if is_input(store) {
        return true;
    }
    // A file with a single name is known by that.
    if links(input) <= 1 {
        return false;
    }
    places(store).iter().any(|place| {
        let entries = fs::read_dir(&place.folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| is_side_file(&place.name, entry.file_name()))
            .any(|entry| is_input(&entry.path()))
    })
}

fn refuse_named<'a>(
    stores: &[&Path],
    files: impl Iterator<Item = (impl ToString, &'a Path)>,
) -> Result<(), CliError> {
    let owned: Vec<(&Path, Vec<Place>)> =
        stores.iter().map(|store| (*store, places(store))).collect();
    for (name, file) in files {
        let files = places(file);
        let is_side_file = |(_, stores): &&(&Path, Vec<Place>)| {
            let mut pairs = stores
                .iter()
                .flat_map(|store| files.iter().map(move |file| (store, file)));
            pairs.any(|(store, file)| file.is_side_file_of(store))
        };
        if let Some((store, _)) = owned.iter().find(is_side_file) {
            return Err(CliError::SideFile {
                name: name.to_string(),
                store: store.to_path_buf(),
            });
        }
    }
    Ok(())
}

/// Returns the places of a file: under its own name and, if that is a link, where it leads.
fn places(path: &Path) -> Vec<Place> {
    let place = |path: &Path| {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        Some(Place {
            name: path.file_name()?.to_owned(),
            folder: folder.canonicalize().ok()?,
        })
    };
    let target = match path.is_symlink() {
        true => path.canonicalize().ok(),
        false => None,
    };
    place(path)
        .into_iter()
        .chain(target.and_then(|target| place(&target)))
        .collect()
}

impl Place {
    fn is_side_file_of(&self, store: &Place) -> bool {
        is_side_file(&store.name, &self.name) && is_one_folder(&self.folder, &store.folder)
    }
}

/// Returns whether two folders are the same, possibly mounted at several places.
fn is_one_folder(a: &Path, b: &Path) -> bool {
    let same = |a, b| Some(is_same_file(&fs::metadata(a).ok()?, &fs::metadata(b).ok()?));
    a == b || same(a, b).unwrap_or(false)
}
