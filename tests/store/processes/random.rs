//! Kills, stops and ends at random, of four children on one store at a time.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Kind, Store};

use super::model::Model;
use super::parent::{CLOSED, Process, names};
use super::task::{Task, Told, Work};
use crate::support::ages::BEGIN;
use crate::support::numbers::Random;
use crate::support::segments::count;
use crate::support::unsynced::Unsynced;

/// Kills of all eight tests here together, unless this variable says how many.
const KILLS: u64 = 40;
const VARIABLE: &str = "EVERSEEN_KILLS";
const CHILDREN: usize = 4;
/// Kills after which a store is checked to the last key, and checks after which there is a new store.
const KILLS_A_CHECK: u64 = 10;
const CHECKS_A_STORE: u64 = 5;
/// Keys of a store.
const KEYS: u64 = 1 << 16;
/// If for so long no child tells anything, they hang.
const SILENCE: Duration = Duration::from_secs(100);

/// A child at work.
struct Running {
    process: Process,
    number: u64,
    told: u64,
    last: Option<Told>,
    /// After how many lines, and turns of a loop, to kill it.
    kill_after: Option<(u64, u64)>,
}

struct Event {
    slot: usize,
    number: u64,
    /// Nothing once it is gone.
    told: Option<Told>,
}

#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    stops: u64,
    ends: u64,
    looks: u64,
    checks: u64,
    before_open: u64,
}

struct Rig {
    task: Task,
    random: Random,
    model: Model,
    slots: [Option<Running>; CHILDREN],
    sender: Sender<Event>,
    events: Receiver<Event>,
    started: u64,
    counts: Counts,
}

impl Rig {
    fn new(task: Task, random: Random) -> Self {
        let (sender, events) = channel();
        Self {
            model: Model::new(task.transactional, task.keys, CHILDREN),
            task,
            random,
            slots: [const { None }; CHILDREN],
            sender,
            events,
            started: 0,
            counts: Counts::default(),
        }
    }

    fn options(&self) -> Options {
        self.task.options().storage(Unsynced::new())
    }

    fn start(&mut self, slot: usize, work: Work, kill_after: Option<(u64, u64)>) {
        self.task.background = self.random.below(2) == 0;
        self.task.synced = self.random.below(16) == 0;
        self.task.buffer = LEAST_BUFFER << (self.random.below(8) / 6);
        self.task.follows = self.random.below(2) == 0;
        // Some begin before the others' step.
        let steps = (self.started + self.random.below(8)).min(240);
        self.task.clock = self.task.clock.map(|step| step.max(BEGIN + steps));
        let task = Task {
            work,
            slot,
            seed: self.random.next(),
            ..self.task.clone()
        };
        let (process, lines) = Process::start(&task);
        let number = self.started;
        self.started += 1;
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let told = lines.map(Some).chain([None]);
            for told in told {
                // Nobody listens when the test has failed.
                let _ = sender.send(Event { slot, number, told });
            }
        });
        self.slots[slot] = Some(Running {
            process,
            number,
            told: 0,
            last: None,
            kill_after,
        });
        self.kill_if_due(slot);
    }

    /// When to kill a child: some at once, some while they open, some never.
    fn moment(&mut self) -> Option<(u64, u64)> {
        let told = match self.random.below(16) {
            0 | 1 => return None,
            2 => 0,
            3 | 4 => 1,
            _ => {
                let most = 1 << self.random.below(8);
                2 + self.random.below(most)
            }
        };
        let most = 1 << self.random.below(if told == 0 { 24 } else { 17 });
        Some((told, self.random.below(most)))
    }

    fn kill_if_due(&mut self, slot: usize) {
        if let Some(running) = &mut self.slots[slot]
            && let Some((told, turns)) = running.kill_after
            && running.told >= told
        {
            for _ in 0..turns {
                std::hint::spin_loop();
            }
            running.process.kill();
            running.kill_after = None;
        }
    }

    fn take_in(&mut self, event: Event) {
        let slot = event.slot;
        let running = self.slots[slot].as_mut().unwrap();
        assert_eq!(running.number, event.number);
        match event.told {
            Some(told) => {
                running.told += 1;
                running.last = Some(told.clone());
                self.model.note(slot, told);
                self.kill_if_due(slot);
            }
            None => {
                let mut running = self.slots[slot].take().unwrap();
                if running.process.ended_by(9) {
                    self.counts.kills += 1;
                    self.counts.before_open += u64::from(running.told < 2);
                } else {
                    assert_eq!(running.last, Some(Told::End));
                    self.counts.ends += 1;
                }
                self.model.gone(slot);
            }
        }
    }

    /// Waits for what any child tells next. None may keep silent for long.
    fn next(&mut self) {
        match self.events.recv_timeout(SILENCE) {
            Ok(event) => self.take_in(event),
            Err(_) => {
                for running in self.slots.iter().flatten() {
                    let state = running.process.state();
                    eprintln!(
                        "hangs: {state}, after {} lines, last {:?}",
                        running.told, running.last
                    );
                }
                panic!("no child tells anything for {SILENCE:?}");
            }
        }
    }

    fn is_running(&self) -> bool {
        self.slots.iter().any(Option::is_some)
    }

    fn drain(&mut self) {
        while self.is_running() {
            self.next();
        }
    }

    /// Stops a child for a while. Others may have to wait for it, and must not take it for dead.
    fn stop(&mut self, slot: usize) {
        let Some(running) = &self.slots[slot] else {
            return;
        };
        let number = running.number;
        running.process.signal("STOP");
        self.counts.stops += 1;
        let most = 50 << self.random.below(4);
        let until = Instant::now() + Duration::from_millis(most);
        while let Ok(event) = self
            .events
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.take_in(event);
        }
        if let Some(running) = &mut self.slots[slot]
            && running.number == number
        {
            if self.random.below(3) == 0 {
                running.process.kill();
            } else {
                running.process.signal("CONT");
            }
        }
    }

    /// Looks for all that is acknowledged, at which nobody may be surprised.
    fn look(&mut self, observer: Option<&Store>) {
        self.counts.looks += 1;
        match observer {
            Some(store) => self.model.look(store).unwrap(),
            None => {
                // The most that a log can hold fits into this, should there be nobody else.
                let reader = self.options().buffer(1 << 21);
                let store = reader.open_read_only(&self.task.path).unwrap();
                match self.model.look(&store) {
                    Ok(()) | Err(everseen::Error::Ended) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Lets children work and kills them, `kills` times.
    fn kill(&mut self, kills: u64) {
        let observer = (self.random.below(2) == 0).then(|| {
            let options = self.options().writer("observer");
            options.open(&self.task.path).unwrap()
        });
        let goal = self.counts.kills + kills;
        while self.counts.kills < goal {
            for slot in 0..CHILDREN {
                if self.slots[slot].is_none() {
                    let most = 1 << self.random.below(8);
                    let work = Work::Random(1 + self.random.below(most));
                    let moment = self.moment();
                    self.start(slot, work, moment);
                }
            }
            self.next();
            match self.random.below(300) {
                0 => {
                    let slot = self.random.below(CHILDREN as u64);
                    self.stop(slot as usize);
                }
                1 | 2 => self.look(observer.as_ref()),
                _ => {}
            }
        }
        if self.random.below(2) == 0 {
            // All at once.
            for running in self.slots.iter_mut().flatten() {
                running.process.kill();
            }
        }
        let stays = self.random.below(2) == 0;
        if let Some(observer) = observer {
            if stays {
                self.drain();
                self.model.look(&observer).unwrap();
            }
            observer.close().unwrap();
        }
        self.drain();
    }

    /// Holds what is there against what is known to the last key, all ways there are.
    fn check(&mut self) -> u64 {
        self.counts.checks += 1;
        let reader = self.options().buffer(1 << 21);
        let path = self.task.path.clone();
        let read = self.model.check(&reader.open_read_only(&path).unwrap());
        let store = self.options().open(&path).unwrap();
        assert_eq!(
            self.model.check(&store),
            read,
            "a reader and a writer recover different keys"
        );
        let report = store.verify().unwrap();
        assert!(report.is_ok(), "{:?}", report.damaged);
        store.close().unwrap();
        assert_eq!(names(&path), CLOSED);
        let store = reader.open_read_only(&path).unwrap();
        assert_eq!(self.model.check(&store), read, "after closing");
        assert!(store.verify().unwrap().is_ok());
        read
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok();
    value.map(|value| value.parse().unwrap())
}

fn kill_often(kind: Kind, transactional: bool, forgets: bool) {
    let kills = variable(VARIABLE).unwrap_or(KILLS).div_ceil(8);
    let seed = variable("EVERSEEN_SEED").unwrap_or(1);
    let begun = Instant::now();
    let mut all = Counts::default();
    let (mut stores, mut keys) = (0, 0);
    while all.kills < kills {
        stores += 1;
        let own = seed.wrapping_add(stores * 4)
            + u64::from(transactional) * 2
            + match kind {
                Kind::Scalable => 1,
                Kind::Fingerprint => 1 << 32,
                _ => 0,
            };
        println!(
            "{kind}, transactional {transactional}, forgets {forgets}, seed {seed}, store {stores}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("store");
        let mut rig = Rig::new(
            Task::new(kind, transactional, KEYS, &path),
            Random::new(own),
        );
        rig.task.clock = forgets.then_some(BEGIN);
        if kind == Kind::Fingerprint {
            rig.model.passing.watch(KEYS);
        }
        rig.options().create(&path).unwrap().close().unwrap();
        for _ in 0..CHECKS_A_STORE {
            if all.kills + rig.counts.kills >= kills {
                break;
            }
            rig.kill(KILLS_A_CHECK);
            rig.check();
        }
        for slot in 0..CHILDREN {
            rig.start(slot, Work::All, None);
        }
        rig.drain();
        let held = rig.check();
        assert_eq!(held, KEYS, "after all children have claimed all keys");
        let segments = count(&rig.task.path);
        assert!(kind != Kind::Fingerprint || segments > 10, "{segments}");
        keys += held;
        all.kills += rig.counts.kills;
        all.stops += rig.counts.stops;
        all.ends += rig.counts.ends;
        all.looks += rig.counts.looks;
        all.checks += rig.counts.checks;
        all.before_open += rig.counts.before_open;
    }
    eprintln!(
        "{kind}, transactional {transactional}, forgets {forgets}, {stores} stores, {keys} keys, none lost, {:?}: {all:?}",
        begun.elapsed()
    );
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_bloom_store() {
    kill_often(Kind::Bloom, false, false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_transactional_bloom_store() {
    kill_often(Kind::Bloom, true, false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_scalable_store() {
    kill_often(Kind::Scalable, false, false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_transactional_scalable_store() {
    kill_often(Kind::Scalable, true, false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_store_of_fingerprints() {
    kill_often(Kind::Fingerprint, false, false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn random_kills_of_many_at_a_transactional_store_of_fingerprints() {
    kill_often(Kind::Fingerprint, true, false);
}

#[test]
fn random_kills_of_many_at_a_store_that_forgets() {
    kill_often(Kind::Fingerprint, false, true);
}

#[test]
fn random_kills_of_many_at_a_transactional_store_that_forgets() {
    kill_often(Kind::Fingerprint, true, true);
}
