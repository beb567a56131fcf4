//! Two handles on one store, one of them on a failing disk: the other goes on.

use std::path::Path;

use everseen::testing::Options;
use everseen::testing::storage::disk;
use everseen::{Error, Kind, Store};

use crate::support::ages::{BEGIN, WINDOW, steps_of, within};
use crate::support::fault::{Call, Event, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{held, place, ready_keys, small};
use crate::support::segments::Guard;
use crate::support::share::Share;

/// How the store is made and used.
#[derive(Debug, Clone, Copy)]
struct Way {
    kind: Kind,
    transactional: bool,
    /// Whether it forgets: steps pass then, fewer than a window has.
    forgets: bool,
}

impl Way {
    fn of(kind: Kind, transactional: bool) -> Self {
        Self {
            kind,
            transactional,
            forgets: false,
        }
    }
}

fn options(way: Way) -> Options {
    let options = match way.forgets {
        true => small().forget_after(WINDOW).clock(within(BEGIN)),
        false => small(),
    };
    options
        .kind(way.kind)
        .capacity(8000)
        .fpr(1e-9)
        .segment_pages(2)
        .step_segments(2)
        .seed([7; 32])
        .transactional(way.transactional)
}

/// What was promised so far: keys that must be there.
#[derive(Default)]
struct Promised {
    keys: Vec<Vec<u8>>,
    /// The step in which each of them came, and the one that it is now.
    came: Vec<u64>,
    now: u64,
    /// Inserted by one handle and not committed, in a transactional store.
    open: Vec<Vec<u8>>,
}

/// One thing that the handle on the failing disk does.
#[derive(Clone, Copy)]
enum Step {
    Insert(usize, usize),
    Commit,
    Checkpoint,
    /// A step passes, in a store that forgets.
    Pass,
}

const STEPS: [Step; 14] = [
    Step::Insert(0, 300),
    Step::Commit,
    Step::Pass,
    Step::Insert(300, 900),
    Step::Checkpoint,
    Step::Pass,
    Step::Insert(900, 1000),
    Step::Pass,
    Step::Commit,
    // More than the buffer takes: it rotates by itself.
    Step::Insert(1000, 2400),
    Step::Commit,
    Step::Insert(2400, 3400),
    Step::Commit,
    Step::Insert(3400, 3500),
];

impl Promised {
    fn keep(&mut self, keys: &[Vec<u8>], transactional: bool) {
        self.open.extend_from_slice(keys);
        if !transactional {
            self.commit();
        }
    }

    fn commit(&mut self) {
        self.keys.append(&mut self.open);
        self.came.resize(self.keys.len(), self.now);
    }

    fn check(&self, store: &Store) -> Result<(), String> {
        let found = held(store, &self.keys);
        if found == self.keys.len() {
            return Ok(());
        }
        Err(format!("{found} of {} keys are there", self.keys.len()))
    }

    /// None is older or younger than it was.
    fn check_ages(&self, path: &Path) -> Result<(), String> {
        let reader = small().clock(within(self.now)).open_read_only(path);
        let reader = reader.map_err(|error| format!("a reader: {error}"))?;
        let found = steps_of(&reader, &self.keys, self.now);
        let mut both = self.came.iter().zip(found);
        match both.find(|(came, found)| *found != Some(**came)) {
            None => Ok(()),
            Some((came, found)) => Err(format!("a key of step {came} is of {found:?}")),
        }
    }
}

/// Goes through the steps up to the first failure.
fn fail(store: &Store, promised: &mut Promised, way: Way) -> Result<(), Error> {
    let Way {
        transactional,
        forgets,
        ..
    } = way;
    for step in STEPS {
        match step {
            Step::Insert(first, last) => {
                let keys = &ready_keys()[first..last];
                // In parts, so that an error leaves few keys of which nobody knows.
                for part in keys.chunks(100) {
                    store.insert_batch(part)?;
                    promised.keep(part, transactional);
                }
            }
            Step::Commit => {
                store.commit()?;
                promised.commit();
            }
            Step::Checkpoint => store.checkpoint()?,
            Step::Pass if forgets => {
                promised.now += 1;
                store.advance_to(within(promised.now))?;
            }
            Step::Pass => {}
        }
    }
    Ok(())
}

fn run(way: Way, rule: Option<Rule>) -> Result<Vec<Event>, String> {
    let (_folder, path) = place();
    let well = FaultStorage::over(Guard::new(disk()));
    let other = options(way).storage(well.shared());
    let other = other.create(&path).unwrap();
    let storage = FaultStorage::over(Guard::new(disk()));
    let failing = options(way).storage(storage.shared());
    let failing = failing.open(&path).unwrap();
    if let Some(rule) = rule {
        storage.arm(rule);
    }
    let before = storage.events().len();
    let mut promised = Promised {
        now: BEGIN,
        ..Promised::default()
    };
    let outcome = fail(&failing, &mut promised, way);
    let events = storage.events().split_off(before);
    match &outcome {
        Ok(()) | Err(Error::Poisoned { .. } | Error::Io { .. } | Error::Log { .. }) => {}
        Err(error) => return Err(format!("an error that says something else: {error:?}")),
    }
    fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
        move |error| format!("{what} of the other: {error}")
    }
    // At once, beside the handle that can't go on.
    let mine: Vec<_> = ready_keys()[5000..5400].to_vec();
    let (first, second) = mine.split_at(200);
    other.insert_batch(first).map_err(failed("insert"))?;
    other.commit().map_err(failed("commit"))?;
    other.checkpoint().map_err(failed("checkpoint"))?;
    other.insert_batch(second).map_err(failed("insert"))?;
    other.commit().map_err(failed("commit"))?;
    let open = std::mem::take(&mut promised.open);
    promised.keep(&mine, false);
    promised.check(&other)?;
    let report = other.verify().map_err(failed("verify"))?;
    if !report.is_ok() {
        return Err(format!("damage: {:?}", report.damaged));
    }
    drop(failing);
    // What it had not committed is anybody's now.
    other.insert_batch(&open).map_err(failed("insert"))?;
    other.commit().map_err(failed("commit"))?;
    promised.keep(&open, false);
    other.close().map_err(failed("close"))?;
    let again = small().clock(within(promised.now));
    let again = again.open(&path).map_err(failed("reopening"))?;
    promised.check(&again)?;
    if way.forgets {
        promised.check_ages(&path)?;
    }
    Ok(events)
}

/// One call in so many fails, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

fn sweep(way: Way) {
    let events = run(way, None).unwrap();
    assert!(events.len() > 30, "{} calls are few", events.len());
    let mut wrong = Vec::new();
    let mut share = Share::one_in(FEW);
    for (nth, event) in (1..).zip(&events) {
        if !share.takes() {
            continue;
        }
        let mut ways = vec![Fault::Fails(Failure::Broken)];
        if event.call == Call::Write {
            ways.push(Fault::Torn(Failure::Broken));
        }
        if matches!(event.call, Call::Write | Call::Sync | Call::Remove) {
            ways.push(Fault::Lies(Failure::Broken));
        }
        for (turn, fault) in (0..).zip(ways) {
            // Most devices that fail go on failing; to see a few of those will do.
            let lasts = (nth + turn) % 4 == 0;
            let rule = match lasts {
                true => Rule::from(nth, fault),
                false => Rule::nth(nth, fault),
            };
            if let Err(text) = run(way, Some(rule)) {
                wrong.push(format!(
                    "call {nth} ({event}) {fault:?}, lasts {lasts}: {text}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn another_handle_of_a_bloom_store_goes_on() {
    sweep(Way::of(Kind::Bloom, false));
}

#[test]
fn another_handle_of_a_transactional_store_goes_on() {
    sweep(Way::of(Kind::Bloom, true));
}

#[test]
fn another_handle_of_a_growing_store_goes_on() {
    sweep(Way::of(Kind::Scalable, true));
}

#[test]
fn another_handle_of_a_store_of_fingerprints_goes_on() {
    sweep(Way::of(Kind::Fingerprint, false));
}

#[test]
fn another_handle_of_a_transactional_store_of_fingerprints_goes_on() {
    sweep(Way::of(Kind::Fingerprint, true));
}

#[test]
fn another_handle_of_a_store_that_forgets_goes_on() {
    for transactional in [false, true] {
        sweep(Way {
            forgets: true,
            ..Way::of(Kind::Fingerprint, transactional)
        });
    }
}
