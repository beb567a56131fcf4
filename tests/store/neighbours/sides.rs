//! What the neighbour does to the files beside the store.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::neighbour::{Neighbour, refused, rename_to_free};
use super::plants::{Kind, Plant, some_text, write_new};
use super::task::{ALIAS, NAME, now};

/// A file beside the store that was moved away.
#[derive(Debug)]
pub struct Stashed {
    pub name: String,
    pub path: PathBuf,
}

impl Neighbour {
    /// Does something to a file beside the store.
    pub fn side(&mut self) -> (&'static str, io::Result<String>) {
        let home = self.home();
        let mut names: Vec<_> = fs::read_dir(&home)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.contains('-') && !self.is_plant(name))
            .collect();
        names.sort();
        if names.is_empty() {
            return ("side", Err(refused()));
        }
        let name = names.swap_remove(self.random.below(names.len() as u64) as usize);
        let path = home.join(&name);
        let is_log = name.contains("-log.");
        let from = now();
        let (what, done) = match self.random.below(5) {
            0 => ("remove a side file", fs::remove_file(&path)),
            1 | 2 => ("move a side file", self.stash(&name)),
            3 => ("shorten a side file", self.shorten_side(&path)),
            _ => ("replace a side file", self.replace_side(&name)),
        };
        if done.is_ok() {
            match what {
                "shorten a side file" if !is_log => self.deeds.memory_hits.push(from),
                "move a side file" => {}
                _ if is_log => self.deeds.log_hits.push(from),
                _ => {}
            }
            self.deeds.side_moved = true;
        }
        (what, done.map(|()| name))
    }

    fn stash(&mut self, name: &str) -> io::Result<()> {
        let path = self.fresh("side");
        rename_to_free(&self.home().join(name), &path)?;
        self.stashed.push(Stashed {
            name: name.to_owned(),
            path,
        });
        Ok(())
    }

    fn shorten_side(&mut self, path: &Path) -> io::Result<()> {
        let file = File::options().write(true).open(path)?;
        let pages = file.metadata()?.len() / 4096;
        file.set_len(self.random.below(pages.max(1)) * 4096)
    }

    fn replace_side(&mut self, name: &str) -> io::Result<()> {
        let text = some_text(&mut self.random);
        let path = self.fresh("text");
        write_new(&path, &text)?;
        fs::rename(&path, self.home().join(name))?;
        let mut plant = Plant::of(&self.home(), name, Kind::Text(text))?;
        // Between a look at what was there and its removal no system lets nothing come.
        plant.may_go = true;
        self.plants.push(plant);
        Ok(())
    }

    pub fn put_back(&mut self) -> io::Result<String> {
        let stashed = self.stashed.pop().ok_or_else(refused)?;
        let back = rename_to_free(&stashed.path, &self.home().join(&stashed.name));
        if back.is_err() {
            self.stashed.push(stashed);
            back?;
            return Err(refused());
        }
        Ok(stashed.name)
    }

    /// Beside another name of the store, where it is not believed.
    pub fn copy_side(&mut self) -> io::Result<String> {
        let home = self.home();
        let (from, to) = match self.random.below(2) {
            0 => (NAME, ALIAS),
            _ => (ALIAS, NAME),
        };
        let mut copied = 0;
        self.deeds.side_moved = true;
        for entry in fs::read_dir(&home)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let Some(rest) = name
                .strip_prefix(from)
                .filter(|rest| rest.starts_with("-shm"))
            else {
                continue;
            };
            if self.is_plant(&name) || home.join(format!("{to}{rest}")).exists() {
                continue;
            }
            let bytes = fs::read(home.join(&name))?;
            let mut copy = File::create_new(home.join(format!("{to}{rest}")))?;
            io::Write::write_all(&mut copy, &bytes)?;
            copied += 1;
        }
        match copied {
            0 => Err(refused()),
            _ => Ok(format!("from {from}")),
        }
    }
}
