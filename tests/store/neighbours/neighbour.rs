//! The neighbour: tidy or hostile, one deed at a time.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::deeds::{Change, Deeds, Span};
use super::plants::{Kind, Plant, some_text, write_new};
use super::sides::Stashed;
use super::task::{ALIAS, Id, NAME, Task, key, now};
use super::theme::{Deed, Theme};
use crate::support::numbers::Random;

/// A name in another folder, where the neighbour puts things.
pub const AWAY: &str = "away";

/// Under which names plants are put; `+` stands for the next generation's number.
const PLANTED: [&str; 14] = [
    "-new",
    "-part",
    "-log.+",
    "-log.+",
    "-log.+",
    "-shm",
    "-shm",
    "-shm.+",
    "-shm.+",
    "-shm.making",
    "-shm.spare",
    "-gate",
    "-lock",
    "-handle.0",
];

/// How often in a row something may not come off.
const TRIES: usize = 4;

#[derive(Debug)]
pub struct Neighbour {
    pub root: PathBuf,
    pub random: Random,
    pub deeds: Deeds,
    pub plants: Vec<Plant>,
    pub stashed: Vec<Stashed>,
    /// Files without a name, so that their numbers are not given to others.
    held: Vec<File>,
    counter: u64,
    task: Task,
    theme: Theme,
}

/// What the round does for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Kill,
    KillAll,
    Reader,
}

pub fn refused() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

/// Renames unless something has the name.
pub fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Makes a store of its own in a generation.
fn make_store(task: &Task, path: &Path, generation: u64) -> everseen::Result<()> {
    let store = task.options().create(path)?;
    for number in 1..generation {
        store.insert(key(number))?;
        store.checkpoint()?;
    }
    store.close().map(drop)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

impl Neighbour {
    pub fn new(task: &Task, theme: Theme, random: Random) -> Self {
        Self {
            root: task.root.clone(),
            task: task.clone(),
            theme,
            random,
            deeds: Deeds::default(),
            plants: Vec::new(),
            stashed: Vec::new(),
            held: Vec::new(),
            counter: 0,
        }
    }

    /// The store's folder, wherever it is now.
    pub fn home(&self) -> PathBuf {
        let moved = self.root.join("home-moved");
        match moved.exists() {
            true => moved,
            false => self.root.join("home"),
        }
    }

    pub fn store(&self) -> PathBuf {
        self.home().join(NAME)
    }

    pub fn away(&self) -> PathBuf {
        self.root.join("stash").join(AWAY)
    }

    pub fn is_plant(&self, name: &str) -> bool {
        self.plants.iter().any(|plant| plant.name == name)
    }

    /// The store's name, if a store's file has it.
    fn held_store(&self) -> io::Result<PathBuf> {
        let store = self.store();
        match is_file(&store) && !self.is_plant(NAME) {
            true => Ok(store),
            false => Err(refused()),
        }
    }

    pub fn fresh(&mut self, what: &str) -> PathBuf {
        self.counter += 1;
        self.root
            .join("stash")
            .join(format!("{what}{}", self.counter))
    }

    /// Does something at random that can be done.
    pub fn act(&mut self) -> Wish {
        for _ in 0..TRIES {
            let wish = self.try_act();
            if let Some(wish) = wish {
                return wish;
            }
        }
        Wish::Nothing
    }

    /// Tries something, and tells what came of it; `None` if nothing did.
    fn try_act(&mut self) -> Option<Wish> {
        let from = now();
        let mut wish = Wish::Nothing;
        let (what, done) = match self.theme.draw(&mut self.random) {
            Deed::Link => ("link", self.link()),
            Deed::LinkSymbolically => ("link symbolically", self.link_symbolically()),
            Deed::Move => ("move", self.move_away()),
            Deed::MoveBack => ("move back", self.move_back()),
            Deed::MoveAndLink => ("move and link", self.move_and_link()),
            Deed::Remove => ("remove", self.remove()),
            Deed::Duplicate => ("replace by a copy", self.replace_by_copy()),
            Deed::Another => ("replace by another", self.replace_by_another()),
            Deed::Text => ("replace by a text", self.replace_by_text()),
            Deed::Side => self.side(),
            Deed::PutBack => ("put back", self.put_back()),
            Deed::CopySide => ("copy a side file", self.copy_side()),
            Deed::Plant => ("plant", self.plant()),
            Deed::PlantAtName => ("plant at the name", self.plant_at(NAME.to_owned())),
            Deed::RenameFolder => ("rename the folder", self.rename_folder()),
            Deed::ChangeMode => ("change a mode", self.change_mode()),
            Deed::Shorten => ("shorten", self.shorten()),
            Deed::Read => {
                wish = Wish::Reader;
                ("read", Ok(String::new()))
            }
            Deed::Kill => {
                wish = Wish::Kill;
                ("kill", Ok(String::new()))
            }
            Deed::KillAll => {
                wish = Wish::KillAll;
                ("kill all", Ok(String::new()))
            }
        };
        let (outcome, wish) = match done {
            Ok(detail) => (format!("{what} {detail}"), Some(wish)),
            Err(error) => (format!("{what}: {error}"), None),
        };
        self.deeds.log.push((from, outcome));
        wish
    }

    /// Notes that a name stands for another file since.
    fn note(
        &mut self,
        from: u64,
        name: &str,
        before: Option<Id>,
        work: io::Result<()>,
    ) -> io::Result<()> {
        work?;
        self.deeds.moved = true;
        let path = match name {
            AWAY => self.away(),
            name => self.home().join(name),
        };
        self.deeds.changes.push(Change {
            at: Span { from, to: now() },
            name: name.to_owned(),
            before,
            after: Id::at(&path),
        });
        Ok(())
    }

    fn keep(&mut self, path: &Path) {
        self.held.extend(File::open(path));
    }

    fn link(&mut self) -> io::Result<String> {
        let store = self.held_store()?;
        let (name, path) = match self.random.below(2) {
            0 => (ALIAS, self.home().join(ALIAS)),
            _ => (AWAY, self.away()),
        };
        let from = now();
        let linked = fs::hard_link(store, path);
        self.note(from, name, None, linked)?;
        Ok(name.to_owned())
    }

    fn link_symbolically(&mut self) -> io::Result<String> {
        symlink(NAME, self.home().join(ALIAS))?;
        let plant = Plant::of(&self.home(), ALIAS, Kind::Link(NAME.into()))?;
        self.plants.push(plant);
        Ok(String::new())
    }

    /// Moves a file between two of its names.
    fn rename(&mut self, one: &str, other: &str) -> io::Result<()> {
        let path = |name: &str| match name {
            AWAY => self.away(),
            name => self.home().join(name),
        };
        let (from, to) = (path(one), path(other));
        if !is_file(&from) || self.is_plant(one) {
            return Err(refused());
        }
        let id = Id::at(&from);
        let begun = now();
        let renamed = rename_to_free(&from, &to);
        self.note(begun, one, id, renamed)?;
        self.note(begun, other, None, Ok(()))
    }

    fn move_away(&mut self) -> io::Result<String> {
        let to = [ALIAS, AWAY][self.random.below(2) as usize];
        self.rename(NAME, to)?;
        Ok(format!("to {to}"))
    }

    fn move_back(&mut self) -> io::Result<String> {
        let first = self.random.below(2) as usize;
        let names = [ALIAS, AWAY];
        let back = self.rename(names[first], NAME);
        back.or_else(|_| self.rename(names[1 - first], NAME))?;
        Ok(String::new())
    }

    fn move_and_link(&mut self) -> io::Result<String> {
        self.rename(NAME, ALIAS)?;
        let store = self.store();
        symlink(ALIAS, &store)?;
        // A link of the neighbour's own: it may be replaced by nobody.
        let plant = Plant::of(&self.home(), NAME, Kind::Link(ALIAS.into()))?;
        self.plants.push(plant);
        Ok(String::new())
    }

    fn remove(&mut self) -> io::Result<String> {
        let store = self.held_store()?;
        self.keep(&store);
        let id = Id::at(&store);
        let from = now();
        let removed = fs::remove_file(store);
        self.note(from, NAME, id, removed)?;
        Ok(String::new())
    }

    /// Puts a file at the store's name, which is kept elsewhere or not.
    fn replace(&mut self, by: &Path) -> io::Result<String> {
        let store = self.store();
        if self.random.below(2) == 0 {
            self.rename(NAME, ALIAS)?;
            let from = now();
            let put = rename_to_free(by, &store);
            self.note(from, NAME, None, put)?;
            return Ok("and keep it".to_owned());
        }
        self.keep(&store);
        let id = Id::at(&store);
        let from = now();
        let put = fs::rename(by, &store);
        self.note(from, NAME, id, put)?;
        Ok(String::new())
    }

    fn replace_by_copy(&mut self) -> io::Result<String> {
        let store = self.held_store()?;
        let copy = self.fresh("copy");
        fs::copy(store, &copy)?;
        self.deeds.copies.extend(Id::at(&copy));
        // Such a copy may take up the store's log.
        self.deeds.log_hits.push(now());
        self.replace(&copy)
    }

    fn replace_by_another(&mut self) -> io::Result<String> {
        self.held_store()?;
        // Its logs would have the numbers of the store's own, and of those beside them.
        let generation = (self.generation() + self.random.below(4)).clamp(2, 12) - 1;
        let another = self.fresh("another");
        make_store(&self.task, &another, generation).map_err(io::Error::other)?;
        self.replace(&another)
    }

    fn replace_by_text(&mut self) -> io::Result<String> {
        self.held_store()?;
        let text = some_text(&mut self.random);
        let path = self.fresh("text");
        write_new(&path, &text)?;
        let done = self.replace(&path)?;
        let plant = Plant::of(&self.home(), NAME, Kind::Text(text))?;
        self.plants.push(plant);
        Ok(done)
    }

    /// The highest number of a log beside the store.
    fn generation(&self) -> u64 {
        let names = fs::read_dir(self.home()).into_iter().flatten().flatten();
        let numbers = names.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("store-log.")?.parse::<u64>().ok()
        });
        numbers.max().unwrap_or(0)
    }

    fn plant(&mut self) -> io::Result<String> {
        let suffix = PLANTED[self.random.below(PLANTED.len() as u64) as usize];
        let next = self.generation() + 1 + self.random.below(2);
        let suffix = suffix.replace('+', &next.to_string());
        let whose = match self.random.below(8) {
            0 => ALIAS,
            _ => NAME,
        };
        self.plant_at(format!("{whose}{suffix}"))
    }

    fn plant_at(&mut self, name: String) -> io::Result<String> {
        let plant = Plant::put(&self.home(), &name, &self.root, &mut self.random)?;
        let what = match &plant.kind {
            Kind::Text(_) => "text".to_owned(),
            other => format!("{other:?}"),
        };
        self.plants.push(plant);
        Ok(format!("{what} at {name}"))
    }

    pub fn rename_folder(&mut self) -> io::Result<String> {
        let (home, moved) = (self.root.join("home"), self.root.join("home-moved"));
        match moved.exists() {
            true => rename_to_free(&moved, &home)?,
            false => rename_to_free(&home, &moved)?,
        }
        Ok(String::new())
    }

    fn change_mode(&mut self) -> io::Result<String> {
        let home = self.home();
        let mode = [0, 0o400, 0o444, 0o600, 0o666][self.random.below(5) as usize];
        let (path, mode) = match self.random.below(3) {
            0 => (
                home,
                [0o500, 0o555, 0o300, 0o111][self.random.below(4) as usize],
            ),
            1 => (self.store(), mode),
            _ => {
                let log = format!("{NAME}-log.{}", self.generation());
                (home.join(log), mode)
            }
        };
        let kind = fs::symlink_metadata(&path)?;
        if kind.is_symlink() {
            return Err(refused());
        }
        // What can't be looked at can't be told from a stranger's, and is left behind.
        self.deeds.side_moved = true;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(format!("{mode:o} {}", path.display()))
    }

    fn shorten(&mut self) -> io::Result<String> {
        let store = self.held_store()?;
        let file = File::options().write(true).open(&store)?;
        let length = file.metadata()?.len();
        let length = match self.random.below(3) {
            0 => self.random.below(length.max(1)),
            1 => self.random.below(length / 4096 + 1) * 4096,
            _ => 0,
        };
        self.deeds.shortened.extend(Id::at(&store));
        self.deeds.moved = true;
        file.set_len(length)?;
        Ok(format!("to {length}"))
    }
}
