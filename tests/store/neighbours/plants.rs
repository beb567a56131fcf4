//! What a stranger puts under names that a store uses: it must stay as it is.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::neighbour::rename_to_free;
use super::task::Id;
use crate::support::numbers::Random;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Text(String),
    /// To a file of the stranger's, or to nothing.
    Link(PathBuf),
    Pipe,
    /// With a text in it.
    Folder,
}

#[derive(Debug, Clone)]
pub struct Plant {
    /// Its name in the store's folder.
    pub name: String,
    pub kind: Kind,
    /// It took the place of a file that the store may have been about to remove.
    pub may_go: bool,
    id: Id,
}

fn witnesses() -> [(&'static str, Vec<u8>); 3] {
    let file = WITNESS.as_bytes().to_vec();
    [
        ("file", file),
        ("empty", Vec::new()),
        ("zeros", vec![0; 8192]),
    ]
}

/// What a link of a stranger's leads to.
const WITNESS: &str = "the witness saw nothing\n";
/// Where links lead: to the witness, to what might be taken for a store's own, to nothing.
const TARGETS: [&str; 4] = ["file", "empty", "zeros", "none"];
const INNER: &str = "in a folder of a stranger's\n";

/// Makes the folder that links lead to.
pub fn make_witness(root: &Path) {
    fs::create_dir(root.join("witness")).unwrap();
    for (name, text) in witnesses() {
        fs::write(root.join("witness").join(name), text).unwrap();
    }
}

/// A file that must not exist yet.
pub fn write_new(path: &Path, text: &str) -> io::Result<()> {
    fs::File::create_new(path)?.write_all(text.as_bytes())
}

/// The same in one step: while a file is empty it is anybody's.
fn put_whole(root: &Path, path: &Path, text: &str) -> io::Result<()> {
    let whole = root.join("stash/whole");
    fs::write(&whole, text)?;
    rename_to_free(&whole, path)
}

pub fn some_text(random: &mut Random) -> String {
    let most = 1 << random.below(12);
    let count = 1 + random.below(most);
    (0..count)
        .map(|_| format!("line {:x}\n", random.next()))
        .collect()
}

impl Plant {
    /// Puts something at a free name.
    pub fn put(home: &Path, name: &str, root: &Path, random: &mut Random) -> io::Result<Self> {
        let path = home.join(name);
        let kind = match random.below(5) {
            0 | 1 => Kind::Text(some_text(random)),
            2 => {
                let target = TARGETS[random.below(TARGETS.len() as u64) as usize];
                Kind::Link(root.join("witness").join(target))
            }
            3 => Kind::Pipe,
            _ => Kind::Folder,
        };
        match &kind {
            Kind::Text(text) => put_whole(root, &path, text)?,
            Kind::Link(target) => symlink(target, &path)?,
            Kind::Pipe => mknodat(CWD, &path, FileType::Fifo, Mode::from(0o666), 0)?,
            Kind::Folder => {
                fs::create_dir(&path)?;
                fs::write(path.join("inner"), INNER)?;
            }
        }
        Self::of(home, name, kind)
    }

    /// A text that is there by now.
    pub fn of(home: &Path, name: &str, kind: Kind) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        Ok(Self {
            id: Id::at(&home.join(name)).ok_or_else(gone)?,
            name: name.to_owned(),
            kind,
            may_go: false,
        })
    }

    /// What is wrong with it, if anything.
    pub fn complaint(&self, home: &Path) -> Option<String> {
        let path = home.join(&self.name);
        let wrong = |what: String| Some(format!("a stranger's {:?} {what}", self));
        let Ok(found) = fs::symlink_metadata(&path) else {
            return wrong("is gone".to_owned()).filter(|_| !self.may_go);
        };
        if Id::at(&path) != Some(self.id) {
            return wrong("is another file now".to_owned());
        }
        let kind = found.file_type();
        let same = match &self.kind {
            Kind::Text(text) => {
                kind.is_file() && fs::read(&path).is_ok_and(|now| now == text.as_bytes())
            }
            Kind::Link(target) => fs::read_link(&path).is_ok_and(|now| now == *target),
            Kind::Pipe => kind.is_fifo(),
            Kind::Folder => {
                let inner = fs::read(path.join("inner"));
                let names = fs::read_dir(&path).map(Iterator::count);
                inner.is_ok_and(|inner| inner == INNER.as_bytes())
                    && names.is_ok_and(|count| count == 1)
            }
        };
        match same {
            true => None,
            false => wrong(format!("was changed: {kind:?}, {} bytes", found.len())),
        }
    }

    pub fn remove(&self, home: &Path) {
        let path = home.join(&self.name);
        let _ = match self.kind {
            Kind::Folder => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
    }
}

/// What is wrong with what links lead to.
pub fn witness_complaint(root: &Path) -> Option<String> {
    let names = fs::read_dir(root.join("witness")).unwrap().count();
    let mut changed = witnesses().into_iter().filter(|(name, text)| {
        let now = fs::read(root.join("witness").join(name));
        now.ok().as_ref() != Some(text)
    });
    match (names, changed.next()) {
        (3, None) => None,
        (_, one) => {
            let name = one.map(|(name, _)| name);
            Some(format!(
                "the witnesses were changed: {names} files, {name:?}"
            ))
        }
    }
}
