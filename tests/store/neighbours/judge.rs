//! The end of a round: undoes what can be undone, and holds the store against what it owes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, OnDamage};

use super::evidence::{Evidence, kind_of};
use super::neighbour::{Neighbour, rename_to_free};
use super::plants::witness_complaint;
use super::task::{ALIAS, Id, NAME, Task, key};

/// How a round ended.
#[derive(Debug, Default)]
pub struct Outcome {
    pub complaints: Vec<String>,
    pub checked: u64,
    pub removed: u64,
    pub opened: u64,
    pub refused: Vec<String>,
    pub gone: u64,
}

pub struct Judge<'a> {
    pub neighbour: Neighbour,
    pub evidence: &'a Evidence,
    pub task: &'a Task,
    /// The round's first store.
    pub first: Id,
    /// The number that it bears, and its logs.
    pub number: Vec<u8>,
    pub outcome: Outcome,
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whether a log holds anything.
fn has_records(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.iter().skip(4096).any(|byte| *byte != 0))
}

impl Judge<'_> {
    fn complain(&mut self, what: String) {
        self.outcome.complaints.push(what);
    }

    fn options(&self) -> Options {
        // The most that a log can hold fits into this.
        self.task.options().buffer(1 << 21).exclusive(false)
    }

    pub fn judge(&mut self) {
        if self.neighbour.root.join("home-moved").exists() {
            self.neighbour.rename_folder().unwrap();
        }
        let home = self.neighbour.home();
        self.restore_modes(&home);
        self.check_plants(&home);
        let store = home.join(NAME);
        // Another store that took the name.
        if let Some(other) = Id::at(&store)
            && other != self.first
        {
            self.open(&store, other, false);
            self.name_again(&home);
            let _ = rename_to_free(&store, &self.neighbour.root.join("stash/other"));
        }
        self.clear_logs_of_others(&home);
        self.put_back_all(&home);
        match self.bring_back(&home, &store) {
            true => self.open(&store, self.first, true),
            false => self.outcome.gone += 1,
        }
    }

    fn restore_modes(&self, home: &Path) {
        let set = |path: &Path, mode| {
            let kind = fs::symlink_metadata(path).map(|found| found.file_type());
            if kind.is_ok_and(|kind| kind.is_file() || kind.is_dir()) {
                let _ = fs::set_permissions(path, Permissions::from_mode(mode));
            }
        };
        set(home, 0o777);
        for name in names(home) {
            let path = home.join(name);
            let mode = if path.is_dir() { 0o777 } else { 0o644 };
            set(&path, mode);
        }
    }

    /// What the neighbour planted is as it was, and goes.
    fn check_plants(&mut self, home: &Path) {
        for plant in std::mem::take(&mut self.neighbour.plants) {
            match plant.complaint(home) {
                Some(complaint) => self.complain(complaint),
                None => plant.remove(home),
            }
        }
        let witness = witness_complaint(&self.neighbour.root);
        self.outcome.complaints.extend(witness);
    }

    /// Logs of another store that was killed, or taken away, at the first one's name.
    fn clear_logs_of_others(&self, home: &Path) {
        for name in names(home) {
            let path = home.join(&name);
            if name.contains("-log.")
                && fs::read(&path).is_ok_and(|log| log.get(16..32) != Some(&self.number))
            {
                fs::remove_file(path).unwrap();
            }
        }
    }

    /// Gives logs their names back that the repair of another store has set aside.
    fn name_again(&mut self, home: &Path) {
        for name in names(home) {
            if let Some((log, _)) = name.split_once("-aside") {
                self.put_log(&home.join(&name), &home.join(log));
            }
        }
    }

    fn put_back_all(&mut self, home: &Path) {
        while let Some(stashed) = self.neighbour.stashed.pop() {
            if stashed.name.contains("-log.") {
                self.put_log(&stashed.path, &home.join(&stashed.name));
            }
        }
    }

    fn put_log(&mut self, from: &Path, to: &Path) {
        if rename_to_free(from, to).is_ok() || !has_records(from) {
            return;
        }
        match has_records(to) {
            true => self.neighbour.deeds.log_hits.push(0),
            false => fs::rename(from, to).unwrap(),
        }
    }

    /// Gives the first store its name back, if it has any, with the logs that it has under another.
    fn bring_back(&mut self, home: &Path, store: &Path) -> bool {
        let away = self.neighbour.away();
        let places = [store.to_owned(), home.join(ALIAS), away];
        let mut found = places
            .iter()
            .filter(|place| Id::at(place) == Some(self.first));
        let Some(place) = found.next() else {
            return false;
        };
        for other in found {
            fs::remove_file(other).unwrap();
        }
        if place != store
            && let Err(error) = rename_to_free(place, store)
        {
            let there = fs::symlink_metadata(store);
            self.complain(format!("the store can't be put back: {error}, {there:?}"));
            return false;
        }
        for other in [home.to_owned(), self.neighbour.root.join("stash")] {
            for name in names(&other) {
                let parts = name.split_once("-log.");
                if let Some((of, number)) = parts
                    && of != NAME
                {
                    let to = home.join(format!("{NAME}-log.{number}"));
                    self.put_log(&other.join(&name), &to);
                }
            }
        }
        true
    }

    /// Opens a store, which is whole, or refused for a reason.
    fn open(&mut self, store: &Path, id: Id, first: bool) {
        if !fs::symlink_metadata(store).is_ok_and(|found| found.is_file()) {
            return;
        }
        let deeds = &self.neighbour.deeds;
        let reason = !first
            || deeds.shortened.contains(&id)
            || deeds.copies.contains(&id)
            || !deeds.log_hits.is_empty();
        let strict = !(deeds.shortened.contains(&id) || deeds.copies.contains(&id));
        let opened = self.options().open(store);
        let held = match opened {
            Ok(held) => held,
            Err(error) => {
                // The neighbour put an old log back, or gave the store its name back beside a log that a kill had left.
                let is_old = matches!(
                    error,
                    Error::OtherMoment { generation, log_generation, .. } if log_generation < generation
                );
                let left = is_old && (deeds.moved || deeds.side_moved);
                let error = format!("{error:?}");
                self.outcome.refused.push(kind_of(&error));
                if !reason && !left {
                    self.complain(format!("the store can't be opened: {error}"));
                }
                self.repair(store, id);
                return;
            }
        };
        self.outcome.opened += 1;
        self.check_keys(&held, id, false);
        match held.verify() {
            Ok(report) if report.is_ok() || !strict => {}
            other => self.complain(format!("not whole: {other:?}")),
        }
        let closed = held.close();
        drop(held);
        match closed {
            Err(error) if strict => self.complain(format!("can't be closed: {error:?}")),
            _ => self.check_names(store, first),
        }
    }

    fn check_keys(&mut self, store: &everseen::Store, id: Id, told: bool) {
        let deeds = &self.neighbour.deeds;
        let owed = self.evidence.owed(id, deeds, told);
        let Some(found) = self.ask(store, id, owed.iter().map(|owed| owed.number)) else {
            return;
        };
        self.outcome.checked += owed.len() as u64;
        let lost: Vec<_> = owed
            .iter()
            .zip(found)
            .filter(|(_, found)| !found)
            .map(|(owed, _)| owed)
            .collect();
        if let Some(one) = lost.first() {
            self.complain(format!(
                "{} of {} keys are lost, {one:?} of run {} is one",
                lost.len(),
                owed.len(),
                one.run
            ));
        }
        self.check_removed(store, id, told);
        let twice = self.evidence.twice(id, &self.neighbour.deeds, told);
        if let Some(two) = twice.first() {
            self.complain(format!("{} keys were new twice, as {two:?}", twice.len()));
        }
    }

    /// Returns which of these keys the store has. Nothing, after a complaint unless it is a copy, if it can't be asked.
    fn ask(
        &mut self,
        store: &everseen::Store,
        id: Id,
        numbers: impl Iterator<Item = u64>,
    ) -> Option<Vec<bool>> {
        let keys: Vec<_> = numbers.map(key).collect();
        match store.contains_batch(&keys) {
            Ok(found) => Some(found),
            Err(_) if self.neighbour.deeds.copies.contains(&id) => None,
            Err(error) => {
                self.complain(format!("can't be asked: {error:?}"));
                None
            }
        }
    }

    fn check_removed(&mut self, store: &everseen::Store, id: Id, told: bool) {
        let deeds = &self.neighbour.deeds;
        let owed = self.evidence.owed_absent(id, deeds, told);
        let Some(found) = self.ask(store, id, owed.iter().map(|owed| owed.number)) else {
            return;
        };
        self.outcome.removed += owed.len() as u64;
        let back: Vec<_> = owed.iter().zip(found).filter(|(_, found)| *found).collect();
        if let Some((one, _)) = back.first() {
            self.complain(format!(
                "{} of {} removed keys are back, {one:?} is one",
                back.len(),
                owed.len()
            ));
        }
    }

    /// After an error there is a way forward, and settled keys are there.
    fn repair(&mut self, store: &Path, id: Id) {
        if self.neighbour.deeds.shortened.contains(&id) {
            let _ = self.options().repair(store, OnDamage::NeverSeen);
            return;
        }
        if self.options().repair(store, OnDamage::NeverSeen).is_err() {
            return;
        }
        match self.options().open(store) {
            Ok(held) => self.check_keys(&held, id, true),
            Err(error) => self.complain(format!("repaired, and can't be opened: {error:?}")),
        }
    }

    /// Nothing of the store's is left beside it, unless somebody moved its files.
    fn check_names(&mut self, store: &Path, first: bool) {
        let deeds = &self.neighbour.deeds;
        if deeds.moved || deeds.side_moved || !first {
            return;
        }
        let left = names(store.parent().unwrap());
        let left: Vec<_> = left.iter().filter(|name| name.contains('-')).collect();
        if !left.is_empty() {
            self.complain(format!("left behind: {left:?}"));
        }
    }
}
