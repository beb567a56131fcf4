//! The hunt: recordings, cuts, and what is found after them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use everseen::ForgetBy;
use tempfile::TempDir;

use super::model::{Crash, Event, Mark, Model, Tape};
use super::session::{Outcome, Session, Stop};
use super::setup::Setup;
use crate::support::ages::BEGIN;
use crate::support::numbers::{Random, finalise};
use crate::support::recorded::Promises;
use crate::support::recorded::disk::{Image, Player, write_image};
use crate::support::recorded::fates;
use crate::support::recorded::site::Site;
use crate::support::segments::Seen;

/// Power cuts in a row.
const LEVELS: u32 = 3;
/// Images of one recording.
const IMAGES_OF_A_RECORDING: u64 = 120;
/// Events told of before the cut of a violation.
const LAST_EVENTS: usize = 25;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub images: u64,
    pub threads: u64,
    /// One recording alone, to see a violation again.
    pub only: Option<u64>,
    /// Stores of fingerprints, in place of the kinds that have layers.
    pub of_fingerprints: bool,
    /// Those that forget, of these.
    pub forgets: bool,
    /// A sync that is left out.
    pub lie: Option<Site>,
    /// Whether checkpoints run on a thread of their own, if not as it comes.
    pub background: Option<bool>,
    /// End with the first violation.
    pub first: bool,
    /// What was seen of segments.
    pub seen: Arc<Seen>,
}

impl Plan {
    pub fn new(seed: u64, images: u64) -> Self {
        Self {
            seed,
            images,
            threads: 2,
            only: None,
            of_fingerprints: false,
            forgets: false,
            lie: None,
            background: None,
            first: false,
            seen: Arc::default(),
        }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub recordings: u64,
    pub images: u64,
    /// Images by the number of power cuts that led to them.
    pub levels: [u64; LEVELS as usize],
    pub violations: Vec<String>,
    pub sites: BTreeMap<Site, u64>,
    pub strategies: BTreeMap<&'static str, u64>,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.recordings += other.recordings;
        self.images += other.images;
        for (sum, count) in self.levels.iter_mut().zip(other.levels) {
            *sum += count;
        }
        self.violations.extend(other.violations);
        for (site, count) in other.sites {
            *self.sites.entry(site).or_default() += count;
        }
        for (strategy, count) in other.strategies {
            *self.strategies.entry(strategy).or_default() += count;
        }
    }
}

/// Hunts with several threads until enough images have been looked at.
pub fn hunt(plan: &Plan) -> Found {
    let next = AtomicU64::new(plan.only.unwrap_or(0));
    let images = AtomicU64::new(0);
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for _ in 0..plan.threads {
            scope.spawn(|| {
                let folder = folder();
                loop {
                    let recording = next.fetch_add(1, Ordering::Relaxed);
                    let over = match plan.only {
                        Some(only) => recording > only,
                        None => images.load(Ordering::Relaxed) >= plan.images,
                    };
                    if over {
                        break;
                    }
                    let run = Run::new(plan, folder.path(), recording).whole();
                    images.fetch_add(run.images, Ordering::Relaxed);
                    if plan.first && !run.violations.is_empty() {
                        images.store(plan.images, Ordering::Relaxed);
                    }
                    lock(&found).add(run);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn lock(found: &Mutex<Found>) -> std::sync::MutexGuard<'_, Found> {
    found.lock().unwrap()
}

/// In memory, where there is such a place: nobody waits for a disk then.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

/// One recording and the images of it.
struct Run<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    recording: u64,
    random: RefCell<Random>,
    setup: Setup,
    found: RefCell<Found>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, folder: &'a Path, recording: u64) -> Self {
        let mut random = Random::new(finalise(plan.seed) ^ recording);
        let mut setup = Setup::draw(&mut random);
        if plan.of_fingerprints {
            setup.take_fingerprints(&plan.seen, recording, &mut random);
        }
        setup.forgets = plan.forgets.then_some(match recording % 2 {
            0 => ForgetBy::First,
            _ => ForgetBy::Last,
        });
        if let Some(background) = plan.background {
            setup.background = background;
        }
        Self {
            plan,
            folder,
            recording,
            random: RefCell::new(random),
            setup,
            found: RefCell::default(),
        }
    }

    fn next(&self) -> u64 {
        self.random.borrow_mut().next()
    }

    fn below(&self, end: u64) -> u64 {
        self.random.borrow_mut().below(end)
    }

    fn subfolder(&self) -> TempDir {
        tempfile::tempdir_in(self.folder).unwrap()
    }

    fn whole(self) -> Found {
        let outcome = self.record_and_cut();
        if let Err(text) = outcome {
            self.violation("while recording", &text);
        }
        let mut found = self.found.into_inner();
        found.recordings = 1;
        found
    }

    fn violation(&self, place: &str, text: &str) {
        let text = format!(
            "seed {} recording {} {:?}\n{place}\n=> {text}\n",
            self.plan.seed, self.recording, self.setup
        );
        self.found.borrow_mut().violations.push(text);
    }

    fn record_and_cut(&self) -> Result<(), String> {
        let folder = self.subfolder();
        let image = Image::new();
        let tape = Tape::new(&image, self.plan.lie);
        let mut model = Model::new(self.setup.transactional);
        model.ages.clock = self.setup.forgets.map(|by| (BEGIN, by));
        let seed = self.next();
        let mut session = Session::new(
            &self.setup,
            folder.path(),
            Some(tape.clone()),
            model.clone(),
            seed,
        );
        let steps = 10 + self.below(40);
        // Where a store or its first log is made, each event is a place to die at.
        let burn = self.below(40);
        let close = self.below(2) == 0;
        let outcome = guarded(|| {
            if self.setup.kills && burn < 20 {
                tape.burn(burn);
            }
            let created = session.create();
            session.revive(created)?;
            let filled = session.fill();
            session.revive(filled)?;
            session.steps(steps)?;
            if close {
                let closed = session.close();
                match closed {
                    Err(Stop::Killed) => {}
                    outcome => outcome?,
                }
            }
            Ok(())
        });
        session.kill();
        let events = self.take(&tape);
        drop(folder);
        outcome?;
        while self.found.borrow().images < IMAGES_OF_A_RECORDING && !self.is_over() {
            self.cut(&image, &model, &events, 40, 1, "");
        }
        Ok(())
    }

    fn take(&self, tape: &Tape) -> Vec<Event> {
        let (events, sites) = tape.take();
        for (site, count) in sites {
            *self.found.borrow_mut().sites.entry(site).or_default() += count;
        }
        events
    }

    fn is_over(&self) -> bool {
        self.plan.first && !self.found.borrow().violations.is_empty()
    }

    /// Cuts the power at several points of a journal, and looks at what is left.
    fn cut(
        &self,
        image: &Image,
        model: &Model,
        events: &[Event],
        count: u64,
        level: u32,
        before: &str,
    ) {
        let turns: Vec<_> = (0..events.len()).filter(|at| events[*at].turns()).collect();
        let mut cuts: Vec<_> = (0..count)
            .map(|_| match self.below(10) {
                0..=2 => self.below(events.len() as u64 + 1) as usize,
                dice if !turns.is_empty() => {
                    let turn = turns[self.below(turns.len() as u64) as usize];
                    turn + usize::from(dice == 3)
                }
                _ => events.len(),
            })
            .collect();
        cuts.sort_unstable();
        let mut player = Player::new(image, model.clone(), events);
        for cut in cuts {
            player.advance(cut);
            let pending = player.pending();
            let pending_events: Vec<_> = pending.iter().map(|index| &events[*index]).collect();
            let (strategy, fates) = fates::choose(&pending_events, &mut self.random.borrow_mut());
            let left = player.image(&pending, &fates);
            {
                let mut found = self.found.borrow_mut();
                found.images += 1;
                found.levels[level as usize - 1] += 1;
                *found.strategies.entry(strategy).or_default() += 1;
            }
            let place = || {
                let mut text = format!("{before}cut {level} at {cut}, {strategy}\n");
                for (index, event) in events.iter().enumerate().take(cut) {
                    let fate = pending.binary_search(&index);
                    if index + LAST_EVENTS >= cut || fate.is_ok() {
                        let fate = fate.map(|place| format!("{:?}", fates[place]));
                        let fate = fate.unwrap_or_default();
                        text += &format!("  {index} {} {fate}\n", event.describe());
                    }
                }
                text
            };
            if let Err(text) = self.examine(&left, &player.model, level, &place) {
                self.violation(&place(), &text);
            }
            if self.is_over() {
                return;
            }
        }
    }

    /// Opens what a power cut has left, and goes on with it.
    fn examine(
        &self,
        image: &Image,
        model: &Model,
        level: u32,
        place: &dyn Fn() -> String,
    ) -> Result<(), String> {
        let folder = self.subfolder();
        write_image(image, folder.path()).map_err(|error| error.to_string())?;
        let again = level < LEVELS && self.below(6) == 0;
        let tape = again.then(|| Tape::new(image, self.plan.lie));
        let seed = self.next();
        let mut session = Session::new(
            &self.setup,
            folder.path(),
            tape.clone(),
            model.clone(),
            seed,
        );
        let steps = self.below(6);
        let outcome = guarded(|| {
            session.open(Crash::Power)?;
            match again {
                true => session.steps(steps)?,
                false => return session.go_on(),
            }
            match session.close() {
                Err(Stop::Killed) => Ok(()),
                outcome => outcome,
            }
        });
        session.kill();
        let found = session.found.take();
        drop(session);
        drop(folder);
        outcome?;
        if let Some(tape) = tape {
            let events = self.take(&tape);
            let mut model = model.clone();
            // What is on this disk is durable, so recovery finds the same however often it is cut.
            if let Some(found) = found {
                model.take(&Mark::Opened(found));
            }
            let count = 3 + self.below(6);
            self.cut(image, &model, &events, count, level + 1, &place());
        }
        Ok(())
    }
}

/// Does something, and takes a panic for a broken promise.
fn guarded(work: impl FnOnce() -> Outcome) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(()) | Err(Stop::Killed)) => Ok(()),
        Ok(Err(Stop::Wrong(text))) => Err(text),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
        }
    }
}
