//! A workload with a model beside it, and what the model allows when a call fails.

use everseen::testing::{Appending, Options};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::testing::storage::disk;
use everseen::{Error, ForgetBy, Kind, Store};
use tempfile::TempDir;

use super::ages::Ages;
use crate::support::ages::BEGIN;
use crate::support::fault::{Call, Event, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{held, image, key, place, ready_keys, small};
use crate::support::segments::{Guard, Seen};

/// One thing that a user does.
#[derive(Debug, Clone)]
pub enum Step {
    Insert(Range<u64>),
    /// Of keys that are there.
    Remove(Range<u64>),
    Commit,
    Checkpoint,
    /// A checkpoint that drops what is forgotten.
    Purge,
    /// Inserts keys that are there.
    Again(Range<u64>),
    /// Renews keys that are there.
    Renew(Range<u64>),
    /// So many steps pass, in a store that forgets.
    Pass(u64),
    /// Close and open.
    Reopen,
    /// Go on with what `kill -9` would leave, in another folder.
    Kill,
}

/// What the store must and what it may hold.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) held: BTreeSet<u64>,
    /// Not committed, in a transactional store.
    pub(super) pending: BTreeSet<u64>,
    /// Removed and not committed, in a transactional store.
    pub(super) gone: BTreeSet<u64>,
    /// Never acknowledged, and perhaps in a log whose handle could not go on.
    pub(super) maybe: BTreeSet<u64>,
    pub(super) ages: Ages,
    commits: u64,
}

/// A store on a failing disk.
pub struct Run {
    pub(super) storage: FaultStorage,
    /// What was seen of segments.
    pub(super) seen: Arc<Seen>,
    pub(super) options: Options,
    pub(super) transactional: bool,
    folder: TempDir,
    pub(super) path: PathBuf,
    store: Option<Store>,
    pub(super) model: Model,
    /// Faults that have been judged.
    judged: usize,
    /// Faults after which all keys have been looked at.
    checked: usize,
}

/// What went against the promises, in words.
pub type Outcome<T = ()> = Result<T, String>;

/// How the store of a run is made and used.
#[derive(Debug, Clone)]
pub struct Setup {
    pub options: Options,
    pub transactional: bool,
    /// From when on the age of a key counts, in a store that forgets.
    pub forgets: Option<ForgetBy>,
}

/// That of all runs with stores that never forget.
pub fn setup(kind: Kind, transactional: bool) -> Setup {
    let capacity = match kind {
        Kind::Bloom | Kind::Fingerprint => 8000,
        _ => 1000,
    };
    let options = small()
        .kind(kind)
        .capacity(capacity)
        .fpr(1e-9)
        .segment_pages(2)
        .step_segments(2)
        // Half of the stores have several runs.
        .least_run(if transactional { 16 } else { 8192 })
        .least_at_once(if transactional { 1 } else { 32_768 })
        .filtered_from(0)
        .seed([7; 32])
        .transactional(transactional);
    Setup {
        options,
        transactional,
        forgets: None,
    }
}

fn tag(commit: u64) -> [u8; 8] {
    commit.to_le_bytes()
}

fn ready(number: u64) -> &'static [u8] {
    &ready_keys()[number as usize]
}

impl Run {
    /// A run that begins by making the store.
    pub fn create(setup: &Setup, rule: Option<Rule>) -> Outcome<Self> {
        let mut run = Self::at(setup, place(), rule);
        for attempt in 0.. {
            match run.options_now().create(&run.path) {
                Ok(store) => {
                    run.store = Some(store);
                    break;
                }
                Err(Error::AlreadyExists { .. }) if attempt > 0 && run.named_in_spite() => {
                    run.open()?;
                    break;
                }
                Err(error) => run.judge("create", &error)?,
            }
        }
        Ok(run)
    }

    /// A run on a copy of a killed process's store, which holds the keys of these numbers.
    pub fn recover(
        setup: &Setup,
        killed: &Path,
        numbers: Range<u64>,
        rule: Option<Rule>,
    ) -> Outcome<Self> {
        let mut run = Self::at(setup, image(killed), rule);
        numbers.for_each(|number| run.model.accept(number));
        run.model.commits = 1;
        run.open()?;
        Ok(run)
    }

    fn at(setup: &Setup, (folder, path): (TempDir, PathBuf), rule: Option<Rule>) -> Self {
        let seen = Arc::default();
        let storage = FaultStorage::over(Guard::telling(disk(), &seen));
        if let Some(rule) = rule {
            storage.arm(rule);
        }
        let mut model = Model::default();
        model.ages.clock = setup.forgets.map(|by| (BEGIN, by));
        Self {
            options: setup.options.clone().storage(storage.shared()),
            storage,
            seen,
            transactional: setup.transactional,
            folder,
            path,
            store: None,
            model,
            judged: 0,
            checked: 0,
        }
    }

    pub fn events(&self) -> Vec<Event> {
        self.storage.events()
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// The new store has got its name although it was told that it had not, or could not be
    /// removed again.
    fn named_in_spite(&self) -> bool {
        self.storage.struck().iter().any(|event| {
            let published = event.call == Call::Publish;
            event.call == Call::Remove || published && matches!(event.fault, Some(Fault::Lies(_)))
        })
    }

    pub fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Insert(numbers) => self.insert(numbers.clone()),
            Step::Remove(numbers) => self.remove(numbers.clone()),
            Step::Commit => self.commit(),
            Step::Checkpoint => self.until_done("checkpoint", Store::checkpoint),
            Step::Purge => self.until_done("checkpoint", Store::checkpoint_full),
            Step::Again(numbers) => self.bring_again(numbers, true),
            Step::Renew(numbers) => self.bring_again(numbers, false),
            Step::Pass(steps) => self.pass(*steps),
            Step::Reopen => {
                self.until_done("close", |store| store.close().map(drop))?;
                self.store = None;
                self.model.drop_open();
                self.open()
            }
            Step::Kill => {
                let (folder, path) = image(&self.path);
                // The old folder's store closes where nobody looks, on a disk that is well.
                let faults_to_come = self.storage.pause();
                self.store = None;
                self.storage.resume(faults_to_come);
                (self.folder, self.path) = (folder, path);
                self.model.drop_open();
                self.open()
            }
        }
    }

    fn insert(&mut self, numbers: Range<u64>) -> Outcome {
        let mut rest = numbers;
        while !rest.is_empty() {
            let mut verdicts = Vec::new();
            let outcome = self.store().claim_into(
                &ready_keys()[rest.start as usize..rest.end as usize],
                &mut verdicts,
            );
            let done = rest.start..rest.start + verdicts.len() as u64;
            for (number, verdict) in done.clone().zip(verdicts) {
                let new = verdict == everseen::Verdict::New;
                if !new && !self.model.maybe.contains(&number) {
                    return Err(format!("key {number}: {verdict:?} at its first insert"));
                }
                match self.transactional {
                    true => _ = self.model.pending.insert(number),
                    false => self.model.accept(number),
                }
            }
            rest.start = done.end;
            match outcome {
                Ok(()) if rest.is_empty() => {}
                Ok(()) => return Err("a batch that is done lacks verdicts".to_owned()),
                Err(error) => {
                    if !self.transactional && matches!(error, Error::Poisoned { .. }) {
                        self.model.maybe.extend(rest.clone());
                    }
                    self.judge_and_redo("insert", &error)?;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Outcome {
        let next = tag(self.model.commits + 1);
        loop {
            let outcome = self.store().commit_with(&next);
            match outcome {
                Ok(_) => break,
                Err(error) => {
                    let pending = self.model.pending.clone();
                    self.model.maybe.extend(&pending);
                    let renewed = self.model.ages.renewed.clone();
                    self.model.doubt_ages(renewed.clone());
                    let gone = self.model.doubt_removals();
                    let reopened = self.judge_and_go_on("commit", &error)?;
                    for number in &pending {
                        self.model.maybe.remove(number);
                    }
                    let counts = reopened && self.came_through(&pending, &next)?;
                    self.end_doubt(gone, (reopened, counts))?;
                    if counts {
                        self.model.pending = pending;
                        self.model.ages.renewed = renewed;
                        break;
                    }
                    if reopened {
                        self.model.ages.doubtful.clear();
                        self.renew_all(&renewed)?;
                    }
                }
            }
        }
        self.model.commits += 1;
        let pending = std::mem::take(&mut self.model.pending);
        pending
            .into_iter()
            .for_each(|number| self.model.accept(number));
        self.model.accept_renewed();
        let gone = std::mem::take(&mut self.model.gone);
        self.model.held.retain(|number| !gone.contains(number));
        let last = self.last_tag();
        match last.as_deref() == Some(&next) {
            true => Ok(()),
            false => Err(format!("commit {next:?} is {last:?}")),
        }
    }

    /// The tag of the last commit, read from an honest disk.
    fn last_tag(&self) -> Option<Vec<u8>> {
        let faults_to_come = self.storage.pause();
        let last = self.store().last_commit("default").unwrap();
        self.storage.resume(faults_to_come);
        last.map(|last| last.tag)
    }

    /// Whether a commit that failed counts after all; if not, its keys are inserted again.
    fn came_through(&mut self, pending: &BTreeSet<u64>, next: &[u8]) -> Outcome<bool> {
        let counts = self.last_tag().is_some_and(|last| last == next);
        match (counts, self.found(pending)) {
            (true, found) if found == pending.len() => Ok(true),
            (false, 0) => {
                self.insert_all(pending)?;
                Ok(false)
            }
            (counts, found) => Err(format!(
                "a commit, {counts}, of which {found} keys are there"
            )),
        }
    }

    /// How many of these keys are there, by an honest disk.
    pub(super) fn found(&self, numbers: &BTreeSet<u64>) -> usize {
        let faults_to_come = self.storage.pause();
        let numbers: Vec<_> = numbers.iter().map(|number| ready(*number)).collect();
        let found = held(self.store(), &numbers);
        self.storage.resume(faults_to_come);
        found
    }

    pub(super) fn insert_all(&mut self, numbers: &BTreeSet<u64>) -> Outcome {
        for number in numbers {
            self.insert(*number..number + 1)?;
        }
        Ok(())
    }

    fn until_done(&mut self, what: &str, work: fn(&Store) -> everseen::Result<()>) -> Outcome {
        while let Err(error) = work(self.store()) {
            self.judge_and_redo(what, &error)?;
        }
        Ok(())
    }

    /// Opens the store, at the second try if the first one met a fault.
    fn open(&mut self) -> Outcome {
        let options = self.options_now();
        let mut store = options.open(&self.path);
        if let Err(error) = &store {
            self.judge("open", error)?;
            store = options.open(&self.path);
        }
        match store {
            Ok(store) => self.store = Some(store),
            Err(error) => return Err(format!("does not open on a disk that is well: {error:?}")),
        }
        // Once after each fault is enough.
        let struck = self.storage.struck().len();
        if struck > self.checked {
            self.checked = struck;
            self.check()?;
        }
        Ok(())
    }

    /// Judges an error of a handle, and reopens the store if that is what it takes; answers
    /// whether it was.
    pub(super) fn judge_and_go_on(&mut self, what: &str, error: &Error) -> Outcome<bool> {
        self.judge(what, error)?;
        if !matches!(error, Error::Poisoned { .. }) {
            self.check_ages_honestly()?;
            return Ok(false);
        }
        let again = self.store().contains(key(0));
        if !matches!(again, Err(Error::Poisoned { .. })) {
            return Err(format!("{what}: was poisoned and answers {again:?}"));
        }
        self.store = None;
        self.model.drop_open();
        self.open()?;
        Ok(true)
    }

    /// Whether this error is what this fault may lead to. The disk is well from now on.
    fn judge(&mut self, what: &str, error: &Error) -> Outcome {
        let struck = self.storage.struck();
        self.storage.heal();
        if struck.is_empty() {
            return Err(format!("{what}: {error:?}, and the disk is well"));
        }
        let new = &struck[self.judged..];
        self.judged = struck.len();
        if new.is_empty() {
            return Err(format!("{what}: {error:?}, after the disk is well again"));
        }
        // Of all that failed until now, cleaning up included, one has to explain it.
        let fits = new.iter().any(|event| explains(event, what, error));
        match fits {
            true => Ok(()),
            false => Err(format!("{what}: {error:?}")),
        }
    }

    /// Everything that must hold of an open store.
    fn check(&self) -> Outcome {
        let faults_to_come = self.storage.pause();
        let outcome = self.check_honestly();
        self.storage.resume(faults_to_come);
        outcome
    }

    fn check_honestly(&self) -> Outcome {
        let store = self.store();
        let (must, may) = (&self.model.there(), &self.model.maybe);
        for numbers in [must, &self.model.pending] {
            let numbers: Vec<_> = numbers.iter().map(|number| ready(*number)).collect();
            let (found, count) = (held(store, &numbers), numbers.len());
            if found != count {
                return Err(format!("{found} of {count} keys that must be there"));
            }
        }
        let present = |number: &u64| must.contains(number) || self.model.pending.contains(number);
        let absent: Vec<_> = (0..7_000)
            .filter(|number| !present(number) && !may.contains(number))
            .map(ready)
            .collect();
        match held(store, &absent) {
            0 => self.check_ages(),
            found => Err(format!("{found} keys that must not be there")),
        }
    }

    /// Closes the store and looks at it with an honest disk.
    pub fn finish(mut self) -> Outcome {
        self.until_done("close", |store| store.close().map(drop))?;
        self.store = None;
        self.model.drop_open();
        self.storage.heal();
        self.open()?;
        self.check()?;
        if self.model.ages.clock.is_some() {
            self.purge()?;
        }
        let store = self.store();
        let report = store
            .verify()
            .map_err(|error| format!("verify: {error:?}"))?;
        if !report.is_ok() {
            return Err(format!("verify: {report:?}"));
        }
        let (keys, least) = (store.stats().unwrap().keys, self.model.held.len() as u64);
        let most = least + self.model.maybe.len() as u64;
        if !(least..=most).contains(&keys) {
            return Err(format!("counts {keys} keys of {least} to {most}"));
        }
        Ok(())
    }
}

/// Whether this fault may lead to this error.
fn explains(event: &Event, what: &str, error: &Error) -> bool {
    let (cause, poisoned) = match error {
        Error::Poisoned { cause } => (&**cause, true),
        error => (error, false),
    };
    match event.fault {
        None | Some(Fault::Short) => false,
        // Failed syncs of a new log are no loss: it is made again.
        Some(_) if matches!(event.call, Call::StartWriting | Call::Sync) => {
            let harmless = matches!(what, "open" | "create")
                || matches!(cause, Error::Io { action, .. } if *action == "sync the new log");
            matches!(cause, Error::Io { .. }) && (poisoned || harmless)
        }
        Some(Fault::Fails(failure) | Fault::Torn(failure) | Fault::Lies(failure)) => {
            match failure {
                Failure::NoSpace if event.call == Call::SyncFolder => {
                    matches!(cause, Error::Io { .. })
                }
                Failure::NoSpace => !poisoned && matches!(cause, Error::NoSpace { .. }),
                Failure::Denied => matches!(cause, Error::PermissionDenied { .. }),
                // Reads and writes are made again.
                Failure::Interrupted if matches!(event.call, Call::Read | Call::Write) => false,
                Failure::Broken | Failure::Interrupted => matches!(cause, Error::Io { .. }),
            }
        }
    }
}
