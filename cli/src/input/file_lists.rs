//! `--files-from`: the names of files to read, in a list.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::input::Items;

impl Items {
    /// Adds the files of the list, if there is one.
    pub fn read_list(&mut self) -> Result<(), CliError> {
        let Some(list) = self.files_from.take() else {
            return Ok(());
        };
        let is_stdin = list == Path::new("-");
        self.expect_no_stdin(is_stdin)?;
        let names = match is_stdin {
            true => {
                let mut names = Vec::new();
                io::stdin().read_to_end(&mut names).map(|_| names)
            }
            false => fs::read(&list),
        };
        let names = names.map_err(|source| CliError::Input {
            name: list.display().to_string(),
            source,
        })?;
        let before = self.files.len();
        self.files.extend(paths(&names));
        self.expect_no_stdin(is_stdin)?;
        match self.files.len() == before {
            true => Err(CliError::EmptyList {
                name: list.display().to_string(),
            }),
            false => Ok(()),
        }
    }

    /// Refuses to read standard input where it is the list: nothing of it would be left.
    fn expect_no_stdin(&self, is_list: bool) -> Result<(), CliError> {
        match is_list && self.files.iter().any(|file| file == Path::new("-")) {
            true => Err(CliError::Usage(
                "--files-from -: standard input is the list, so it can't be read as well; leave out one - (a file of that \
                 name is ./-)",
            )),
            false => Ok(()),
        }
    }
}

/// Returns the paths of a list.
fn paths(names: &[u8]) -> impl Iterator<Item = PathBuf> {
    // No name has one.
    let separator = if names.contains(&0) { 0 } else { b'\n' };
    let names = names.split(move |byte| *byte == separator);
    names.filter(|name| !name.is_empty()).map(path)
}

#[cfg(unix)]
fn path(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(name).into()
}

#[cfg(not(unix))]
fn path(name: &[u8]) -> PathBuf {
    String::from_utf8_lossy(name).into_owned().into()
}
