//! Rounds: a store, its workers and its neighbour.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everseen::Kind;
use tempfile::TempDir;

use super::deeds::Deeds;
use super::evidence::{Evidence, Run};
use super::judge::{Judge, Outcome};
use super::neighbour::{Neighbour, Wish};
use super::parent::{Event, NOBODY, Process, signal_of};
use super::plants::make_witness;
use super::task::{Id, NAME, Task, Way};
use super::theme::Theme;
use crate::support::numbers::Random;

const ROUNDS: u64 = 10;
/// Rounds at a time: they wait more than they work.
const ABREAST: u64 = 4;
/// After so many rounds that failed no more are begun.
const FAILURES: usize = 5;
/// If for so long no child tells anything, they hang.
const SILENCE: Duration = Duration::from_secs(60);
const BUS_ERROR: i32 = 7;
const KILLED: i32 = 9;

struct Running {
    process: Option<Process>,
    killed: bool,
}

struct Round {
    _folder: TempDir,
    task: Task,
    random: Random,
    neighbour: Neighbour,
    theme: Theme,
    unprivileged: bool,
    running: Vec<Running>,
    runs: Vec<Run>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    lines: u64,
    bus_errors: u64,
    complaints: Vec<String>,
}

impl Round {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home", "stash", "links"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        make_witness(&root);
        let target = ["../home/store".into(), root.join("home/store")];
        symlink(&target[random.below(2) as usize], root.join("links/store")).unwrap();
        let (kind, transactional, forgets) = match random.below(9) {
            0 => (Kind::Bloom, false, false),
            1 => (Kind::Bloom, true, false),
            2 => (Kind::Counting, false, false),
            3 => (Kind::Scalable, false, false),
            4 => (Kind::Fingerprint, false, false),
            5 => (Kind::Fingerprint, true, false),
            6 => (Kind::Fingerprint, false, true),
            7 => (Kind::Fingerprint, true, true),
            _ => (Kind::Scalable, true, false),
        };
        let task = Task {
            kind,
            transactional,
            forgets,
            background: false,
            exclusive: false,
            creates: false,
            reads: false,
            way: Way::Direct,
            run: 0,
            seed,
            steps: 0,
            root: root.clone(),
        };
        let store = task.options().create(root.join("home").join(NAME)).unwrap();
        store.close().unwrap();
        let unprivileged = random.below(3) == 0 && give_away(&root);
        let (sender, events) = channel();
        let theme = Theme::new(&mut random);
        Self {
            theme,
            _folder: folder,
            neighbour: Neighbour::new(&task, theme, Random::new(random.next())),
            task,
            random,
            unprivileged,
            running: Vec::new(),
            runs: Vec::new(),
            sender,
            events,
            lines: 0,
            bus_errors: 0,
            complaints: Vec::new(),
        }
    }

    fn start(&mut self, reads: bool) {
        let random = &mut self.random;
        let most = 1 << random.below(6);
        let task = Task {
            background: random.below(2) == 0,
            exclusive: random.below(12) == 0,
            creates: random.below(6) == 0,
            reads,
            way: match random.below(8) {
                0 | 1 => Way::Link,
                2 | 3 => Way::Relative,
                4 => Way::Alias,
                5 | 6 if self.theme == Theme::Names => Way::Alias,
                _ => Way::Direct,
            },
            run: self.runs.len() as u64,
            seed: random.next(),
            steps: match reads {
                true => 1 + random.below(4),
                false => 8 + random.below(most + 24),
            },
            ..self.task.clone()
        };
        let run = self.runs.len();
        let process = Process::start(&task, run, self.unprivileged, &self.sender);
        self.running.push(Running {
            process: Some(process),
            killed: false,
        });
        self.runs.push(Run {
            told: Vec::new(),
            ended: u64::MAX,
            transactional: task.transactional,
            reads,
        });
    }

    fn is_running(&self) -> bool {
        self.running.iter().any(|one| one.process.is_some())
    }

    /// Waits for what any child tells next; `false` if all keep silent for too long.
    fn next(&mut self) -> bool {
        let Ok(event) = self.events.recv_timeout(SILENCE) else {
            let running = self.running.iter().zip(&self.runs);
            for (number, (one, run)) in running.enumerate() {
                if let Some(process) = &one.process {
                    let last = run.told.last();
                    self.complaints.push(format!(
                        "run {number} hangs: {}, last {last:?}",
                        process.state()
                    ));
                }
            }
            return false;
        };
        self.lines += 1;
        let run = &mut self.runs[event.run];
        match event.told {
            Some(told) => run.told.push(told),
            None => {
                let running = &mut self.running[event.run];
                let (status, at) = running.process.take().unwrap().ended();
                run.ended = at;
                match signal_of(status) {
                    Ok(None) => {}
                    Ok(Some(KILLED)) if running.killed => {}
                    Ok(Some(BUS_ERROR)) if self.neighbour.deeds.may_end_a_process() => {
                        self.bus_errors += 1;
                    }
                    other => self
                        .complaints
                        .push(format!("run {}: ended by {other:?}", event.run)),
                }
            }
        }
        true
    }

    fn kill_one(&mut self) {
        let numbers = 0..self.running.len();
        let living: Vec<_> = numbers
            .filter(|one| self.running[*one].process.is_some())
            .collect();
        if !living.is_empty() {
            let one = self.random.below(living.len() as u64) as usize;
            self.kill(living[one]);
        }
    }

    fn kill(&mut self, one: usize) {
        let one = &mut self.running[one];
        if let Some(process) = &mut one.process {
            process.kill();
            one.killed = true;
        }
    }

    fn act(&mut self) {
        let most = 1 << self.random.below(18);
        for _ in 0..self.random.below(most) {
            std::hint::spin_loop();
        }
        match self.neighbour.act() {
            Wish::Nothing => {}
            Wish::Kill => self.kill_one(),
            Wish::KillAll => (0..self.running.len()).for_each(|one| self.kill(one)),
            Wish::Reader => self.start(true),
        }
    }

    /// Lets workers and neighbour at it.
    fn work(&mut self) {
        for _ in 0..1 + self.random.below(3) {
            self.start(false);
        }
        let mut deeds = self.random.below(7);
        let mut restarts = self.random.below(4);
        let mut due = self.random.below(60);
        while self.is_running() {
            if !self.next() {
                return;
            }
            if deeds > 0 && (self.lines >= due || !self.is_running()) {
                deeds -= 1;
                let most = 1 << self.random.below(7);
                due = self.lines + self.random.below(most);
                self.act();
            }
            let workers = self.running.iter().zip(&self.runs);
            let idle = workers
                .filter(|(one, run)| one.process.is_some() && !run.reads)
                .count();
            if idle < 2 && restarts > 0 {
                restarts -= 1;
                self.start(false);
            }
        }
    }
}

/// Gives the folders to a user without privileges, if this process may.
fn give_away(root: &Path) -> bool {
    let given = chown(root, Some(NOBODY), Some(NOBODY)).and_then(|()| {
        for name in ["home", "links", "home/store"] {
            chown(root.join(name), Some(NOBODY), Some(NOBODY))?;
        }
        // The program itself must be within reach.
        let mut folders = std::env::current_exe()?;
        while folders.pop() {
            if fs::metadata(&folders)?.permissions().mode() & 0o001 == 0 {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
        }
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))
    });
    given.is_ok()
}

#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    runs: u64,
    deeds: u64,
    kills: u64,
    bus_errors: u64,
    checked: u64,
    removed: u64,
    opened: u64,
    gone: u64,
    refused: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    by_deed: BTreeMap<String, u64>,
}

fn play(seed: u64, counts: &Mutex<Counts>) -> Vec<String> {
    let mut round = Round::new(seed);
    let first = Id::at(&round.neighbour.store()).unwrap();
    let number = fs::read(round.neighbour.store()).unwrap()[112..128].to_vec();
    round.work();
    let mut complaints = std::mem::take(&mut round.complaints);
    let mut report = Vec::new();
    for (at, deed) in &round.neighbour.deeds.log {
        report.push((*at, format!("  {at} {deed}")));
    }
    for (number, run) in round.runs.iter().enumerate() {
        for told in &run.told {
            let mut what = format!("{:?}", told.what);
            what.truncate(240);
            report.push((told.at, format!("  {} run {number}: {what}", told.at)));
        }
    }
    report.sort();
    let evidence = Arc::new(Evidence::of(&round.runs, &round.neighbour.deeds));
    complaints.extend(evidence.complaints.clone());
    if round.neighbour.deeds.log.is_empty() {
        complaints.extend(evidence.without_a_reason());
    }
    let deeds = std::mem::take(&mut round.neighbour.deeds.log);
    let mut outcome = Outcome::default();
    if complaints.iter().all(|one| !one.contains("hangs")) {
        let empty = Neighbour::new(&round.task, Theme::Any, Random::new(0));
        let neighbour = std::mem::replace(&mut round.neighbour, empty);
        // It may hang as well.
        let (done, judged) = channel();
        let (task, evidence) = (round.task.clone(), Arc::clone(&evidence));
        std::thread::spawn(move || {
            let mut judge = Judge {
                neighbour,
                evidence: &evidence,
                task: &task,
                first,
                number,
                outcome: Outcome::default(),
            };
            judge.judge();
            let _ = done.send(judge.outcome);
        });
        match judged.recv_timeout(SILENCE) {
            Ok(judged) => outcome = judged,
            Err(error) => complaints.push(format!("the judge hangs or failed: {error}")),
        }
    }
    complaints.append(&mut outcome.complaints);
    count(&round, &deeds, &evidence, &outcome, counts);
    if !complaints.is_empty() {
        let Round {
            task, unprivileged, ..
        } = &round;
        eprintln!("seed {seed}: {complaints:#?}\n{task:?}, unprivileged {unprivileged}, {first:?}");
        for (_, line) in report {
            eprintln!("{line}");
        }
    }
    complaints
}

fn count(
    round: &Round,
    deeds: &[(u64, String)],
    evidence: &Evidence,
    outcome: &Outcome,
    counts: &Mutex<Counts>,
) {
    let mut counts = counts.lock().unwrap();
    counts.rounds += 1;
    counts.runs += round.runs.len() as u64;
    counts.deeds += deeds.len() as u64;
    counts.kills += round.running.iter().filter(|one| one.killed).count() as u64;
    counts.bus_errors += round.bus_errors;
    counts.checked += outcome.checked;
    counts.removed += outcome.removed;
    counts.opened += outcome.opened;
    counts.gone += outcome.gone;
    for refused in &outcome.refused {
        *counts.refused.entry(refused.clone()).or_default() += 1;
    }
    for (error, times) in &evidence.errors {
        *counts.errors.entry(error.clone()).or_default() += times;
    }
    for (_, deed) in deeds {
        let failed = if deed.contains(": ") {
            " (in vain)"
        } else {
            ""
        };
        // Without what differs from one to the next.
        let words = deed.split(": ").next().unwrap_or(deed);
        let words = words.split([' ']).filter(|word| !word.contains(['/', '(']));
        let words = words.collect::<Vec<_>>().join(" ");
        let words = words.trim_end_matches(char::is_numeric).to_owned() + failed;
        *counts.by_deed.entry(words).or_default() += 1;
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok();
    value.map(|value| value.parse().unwrap())
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn nothing_acknowledged_is_lost_to_a_neighbour() {
    let rounds = variable("EVERSEEN_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("EVERSEEN_SEED").unwrap_or(1);
    let begun = Instant::now();
    let (counts, failed) = (Mutex::default(), Mutex::new(Vec::new()));
    let next = Mutex::new(0..rounds);
    std::thread::scope(|scope| {
        for _ in 0..ABREAST {
            scope.spawn(|| {
                loop {
                    let round = next.lock().unwrap().next();
                    let Some(round) = round.filter(|_| failed.lock().unwrap().len() < FAILURES)
                    else {
                        break;
                    };
                    let own = seed.wrapping_add(round);
                    println!("seed {own}");
                    let complaints = play(own, &counts);
                    if !complaints.is_empty() {
                        failed.lock().unwrap().push(own);
                    }
                }
            });
        }
    });
    eprintln!("{:?}: {:#?}", begun.elapsed(), counts.lock().unwrap());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed with seeds {failed:?}");
}

/// What the neighbour did is taken apart as it is meant.
#[test]
fn a_name_that_is_taken_and_given_back_is_away_between() {
    use super::deeds::{Change, Span};
    let (one, other) = (Id(1, 1), Id(1, 2));
    let change = |from, before, after| Change {
        at: Span { from, to: from + 1 },
        name: NAME.to_owned(),
        before,
        after,
    };
    let deeds = Deeds {
        changes: vec![
            change(10, Some(one), None),
            change(20, None, Some(other)),
            change(30, Some(other), Some(one)),
            change(40, Some(one), Some(other)),
        ],
        ..Deeds::default()
    };
    let spans = [
        Span { from: 11, to: 30 },
        Span {
            from: 41,
            to: u64::MAX,
        },
    ];
    assert_eq!(deeds.away(one, NAME), spans);
    assert_eq!(deeds.away(one, "alias"), []);
}
