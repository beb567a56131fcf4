//! One damaged image, opened and used, beside the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everseen::testing::storage::Storage;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Store};
use tempfile::TempDir;

use super::excuse::{Excuse, excuse};
use super::image::{Image, STORE, clear};
use super::judge::{Answer, Page, Reading, mix};
use super::memory::{FIXED, bounded};
use super::scenarios::Scenario;
use crate::support::files::small;
use crate::support::numbers::key;
use crate::support::unsynced::Unsynced;

/// Keys that are inserted into what is left, from this number on.
const NEW: std::ops::Range<u64> = 1 << 50..(1 << 50) + 12;
/// What a store file may grow by when these are inserted, in bytes: a layer.
const GROWTH: u64 = 1 << 20;

/// Where images are tried.
pub struct Bench {
    folder: TempDir,
    path: PathBuf,
    storage: Arc<dyn Storage>,
}

/// How an image that was treated well came out.
#[derive(Debug, Default)]
pub struct Outcome {
    pub refused: Option<&'static str>,
    /// Keys that are absent, by the reason why the format can't tell.
    pub excused: BTreeMap<Excuse, u64>,
    /// Keys whose page is damaged.
    pub damaged: u64,
}

/// An image, what it was before, and what is to be said of it.
struct Trial<'a> {
    reading: &'a Reading<'a>,
    scenario: &'a Scenario,
    options: Options,
    path: &'a Path,
    /// Whether anything has been inserted since.
    grown: bool,
    /// Keys that were gone and have been inserted again.
    again: BTreeSet<u64>,
    /// New keys.
    added: BTreeSet<u64>,
}

impl Bench {
    pub fn new() -> Self {
        // Where files are made and removed fastest.
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let folder = folder.unwrap();
        Self {
            path: folder.path().join(STORE),
            folder,
            storage: Unsynced::new(),
        }
    }

    /// Tries a damaged image of a scenario. `known` is the undamaged one's reading, if its keys are to be looked for.
    pub fn run(
        &self,
        image: &Image,
        scenario: &Scenario,
        known: Option<&Reading<'_>>,
        exclusive: bool,
    ) -> Result<Outcome, String> {
        image.write(self.folder.path()).unwrap();
        let options = small()
            .timeout(Duration::from_secs(5))
            .exclusive(exclusive)
            .storage(Arc::clone(&self.storage));
        let judged = Reading::of(image);
        let bound = image.bytes() + LEAST_BUFFER + FIXED;
        let outcome = bounded(bound, || {
            let tried = || match &judged {
                Err(error) => self.expect_refusal(&options, error),
                Ok(reading) => Trial {
                    reading,
                    scenario,
                    options,
                    path: &self.path,
                    grown: false,
                    again: BTreeSet::new(),
                    added: BTreeSet::new(),
                }
                .run(),
            };
            catch_unwind(AssertUnwindSafe(tried)).unwrap_or_else(|_| Err("panicked".to_owned()))
        });
        self.expect_small_files(image)?;
        clear(self.folder.path());
        outcome?;
        match judged {
            Err(error) => Ok(Outcome {
                refused: Some(error),
                ..Outcome::default()
            }),
            Ok(reading) => summarise(&reading, scenario, known),
        }
    }

    fn expect_refusal(&self, options: &Options, expected: &str) -> Result<(), String> {
        for outcome in [options.open_read_only(&self.path), options.open(&self.path)] {
            let got = match &outcome {
                Ok(_) => "no error".to_owned(),
                Err(error) => name_of(error),
            };
            if got != expected {
                return Err(format!("{expected} expected, got {got}: {outcome:?}"));
            }
        }
        Ok(())
    }

    /// No file may have grown by more than what was inserted calls for.
    fn expect_small_files(&self, image: &Image) -> Result<(), String> {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let before = image
                .0
                .get(&name)
                .map_or(LEAST_BUFFER, |bytes| bytes.len() as u64);
            let length = entry.metadata().unwrap().len();
            if length > before + GROWTH {
                return Err(format!("{name} has grown from {before} to {length} bytes"));
            }
        }
        Ok(())
    }
}

/// An error's innermost name: that of what is wrong with the bytes.
fn name_of(error: &Error) -> String {
    let text = match error {
        Error::Format { source, .. } => format!("{source:?}"),
        Error::Log { source, .. } => format!("{source:?}"),
        other => format!("{other:?}"),
    };
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Says which inserted keys are gone, and sees that each has its excuse.
fn summarise(
    reading: &Reading<'_>,
    scenario: &Scenario,
    known: Option<&Reading<'_>>,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let Some(known) = known else {
        return Ok(outcome);
    };
    for raw in &scenario.inserted {
        let hash = mix(known.image.store(), *raw);
        match reading.answer(hash) {
            Answer::Present => {}
            Answer::Damaged => outcome.damaged += 1,
            Answer::Absent => {
                let why = excuse(known, reading, hash)
                    .ok_or_else(|| format!("key {raw:x} is gone, and nothing excuses it"))?;
                *outcome.excused.entry(why).or_default() += 1;
            }
        }
    }
    Ok(outcome)
}

impl Trial<'_> {
    fn run(mut self) -> Result<(), String> {
        self.read("at first")?;
        let store = match self.options.open(self.path) {
            Ok(store) => store,
            // The checkpoint that was due has met a damaged page.
            Err(error) if self.may_fail(&error) => return self.read("after it was not opened"),
            Err(error) => return Err(format!("not opened for writing: {error:?}")),
        };
        self.ask(&store, "opened for writing")?;
        self.expect_commits(&store)?;
        self.add(&store)?;
        self.ask(&store, "after inserts")?;
        self.verify(&store)?;
        self.allow(store.checkpoint(), "checkpoint")?;
        self.ask(&store, "after a checkpoint")?;
        self.allow(store.close().map(drop), "close")?;
        drop(store);
        self.read("at last")
    }

    /// Opens for reading and asks everything.
    fn read(&self, when: &str) -> Result<(), String> {
        let store = match self.options.open_read_only(self.path) {
            Ok(store) => store,
            Err(error) => return Err(format!("not opened {when}: {error:?}")),
        };
        self.ask(&store, when)?;
        if !self.grown {
            self.verify(&store)?;
            self.expect_commits(&store)?;
        }
        store
            .stats()
            .map_err(|error| format!("stats {when}: {error:?}"))?;
        Ok(())
    }

    /// Asks for each key.
    fn ask(&self, store: &Store, when: &str) -> Result<(), String> {
        let inserted = self.scenario.inserted.iter().map(|raw| (raw, true));
        let absent = self.scenario.absent.iter().map(|raw| (raw, false));
        for (raw, inserted) in inserted.chain(absent) {
            let expected = self.answer(*raw);
            let got = store.contains(*raw);
            let right = match &got {
                // Other keys may have set the bits that damage has cleared, and a block that came
                // to lie in a torn page of a layer to be made may hold the key.
                Ok(true) if self.reading.due && inserted => true,
                Ok(true) if self.is_torn(*raw) => true,
                Ok(true) => expected == Answer::Present,
                Ok(false) => expected == Answer::Absent,
                Err(error) if is_poisoned(error) => self.has_damage(),
                Err(error) => expected == Answer::Damaged && name_of(error) == "PageDamaged",
            };
            if !right {
                return Err(format!(
                    "{when}, key {raw:x}: {expected:?} expected, got {got:?}"
                ));
            }
        }
        if self.grown {
            for raw in self.added.iter().copied() {
                match store.contains(raw) {
                    Ok(true) => {}
                    Err(_) if self.has_damage() => {}
                    other => return Err(format!("{when}, new key {raw:x}: {other:?}")),
                }
            }
        }
        Ok(())
    }

    /// Inserts new keys, and some that are there, and commits.
    fn add(&mut self, store: &Store) -> Result<(), String> {
        for raw in self.scenario.inserted.iter().step_by(7) {
            let expected = self.answer(*raw);
            let got = store.insert(*raw);
            let right = match &got {
                Ok(true) => {
                    self.again.insert(*raw);
                    expected == Answer::Absent
                }
                Ok(false) => expected == Answer::Present || self.reading.due,
                Err(error) => expected == Answer::Damaged || self.is_held_up(error),
            };
            if !right {
                return Err(format!(
                    "inserting {raw:x}: {expected:?} expected, got {got:?}"
                ));
            }
        }
        for raw in NEW.map(key) {
            match store.insert(raw) {
                Ok(true) => {
                    self.added.insert(raw);
                }
                Ok(false) if self.is_torn(raw) => {}
                Err(_) if self.answer(raw) == Answer::Damaged => {}
                Err(error) if self.is_held_up(&error) => {}
                other => return Err(format!("inserting {raw:x}: {other:?}")),
            }
        }
        self.allow(store.commit_with(b"late").map(drop), "commit")?;
        store.stats().map_err(|error| format!("stats: {error:?}"))?;
        self.grown = true;
        Ok(())
    }

    fn verify(&self, store: &Store) -> Result<(), String> {
        let report = store
            .verify()
            .map_err(|error| format!("verify: {error:?}"))?;
        let got: BTreeSet<_> = report
            .damaged
            .iter()
            .map(|one| (one.layer, one.page))
            .collect();
        let expected = self.reading.pages_in(Page::Damaged);
        if got != expected {
            return Err(format!("verify names {got:?}, expected {expected:?}"));
        }
        Ok(())
    }

    fn expect_commits(&self, store: &Store) -> Result<(), String> {
        for writer in ["default", "other"] {
            let got = store
                .last_commit(writer)
                .map_err(|error| format!("{error:?}"))?;
            let got = got.map(|commit| (commit.sequence, commit.tag));
            let expected = self.reading.commits.get(writer);
            if got.as_ref() != expected {
                return Err(format!("last commit {got:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }

    /// A failure is allowed if what is damaged explains it.
    fn allow(&self, outcome: everseen::Result<()>, what: &str) -> Result<(), String> {
        match outcome {
            Err(error) if !self.may_fail(&error) => Err(format!("{what}: {error:?}")),
            _ => Ok(()),
        }
    }

    /// Whether there is no room for a key because a damaged page holds up the checkpoint before.
    fn is_held_up(&self, error: &Error) -> bool {
        self.reading.due && self.may_fail(error)
    }

    fn may_fail(&self, error: &Error) -> bool {
        let cause = match error {
            Error::Poisoned { cause } => name_of(cause),
            other => name_of(other),
        };
        match cause.as_str() {
            "PageDamaged" => self.has_damage(),
            "InTheWay" => self.reading.has_strange_log(),
            _ => false,
        }
    }

    /// Whether there is a page that a checkpoint refuses.
    fn has_damage(&self) -> bool {
        [Page::Damaged, Page::Torn]
            .iter()
            .any(|state| !self.reading.pages_in(*state).is_empty())
    }

    /// Whether a page of the key's counts although its CRC is wrong: damage may have set any bits.
    fn is_torn(&self, raw: u64) -> bool {
        let hash = mix(self.reading.image.store(), raw);
        let mut numbers = self
            .reading
            .layers
            .iter()
            .map(|layer| layer.number_of(hash));
        numbers.any(|number| self.reading.state(number) == Some(Page::Torn))
    }

    fn answer(&self, raw: u64) -> Answer {
        if self.again.contains(&raw) {
            return Answer::Present;
        }
        self.reading.answer(mix(self.reading.image.store(), raw))
    }
}

fn is_poisoned(error: &Error) -> bool {
    matches!(error, Error::Poisoned { .. })
}
