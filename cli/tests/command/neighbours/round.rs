//! Rounds: a store of the command's, its output, and scenes in a random order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;

use super::model::{Model, Output, parse, text};
use super::runs::{Conditions, Ended, run};
use crate::support::Lab;

const ROUNDS: u64 = 8;
/// Rounds at a time: they wait more than they work.
const ABREAST: u64 = 4;
/// After so many rounds that failed no more are begun.
const FAILURES: usize = 5;

pub const STORE: &str = "s.ever";
pub const OUT: &str = "out";

/// Lines are drawn from so many, and from ever later ones.
const POOL: u32 = 4000;

pub struct Round {
    pub lab: Lab,
    pub random: fastrand::Rng,
    pub model: Model,
    /// In rounds with `-o`.
    pub output: Option<Output>,
    /// Lines that may be in the output twice, since their store was put back and the user kept them.
    pub twice: BTreeSet<u32>,
    /// Whether several runs may work at once, and `-o` may be used.
    pub transactional: bool,
    pub scenes: Vec<String>,
    /// Lines up to this number have been drawn.
    pub drawn: u32,
}

impl Round {
    fn new(seed: u64) -> Result<Self, String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let lab = Lab::new();
        let (create, transactional) = match random.u32(0..6) {
            0 | 1 => (None, true),
            2 => (Some("--fpr 1e-9"), true),
            3 => (Some("--capacity 300k --fpr 1e-9"), true),
            4 => (Some("--kind scalable --capacity 1000 --fpr 1e-9"), true),
            _ => (Some("--capacity 300k --fpr 1e-9 --no-transactional"), false),
        };
        if let Some(options) = create {
            let args = ["create", STORE].into_iter().chain(options.split(' '));
            let made = lab.run(&args.collect::<Vec<_>>());
            if made.code != Some(0) {
                return Err(format!("no store was made: {}", made.err));
            }
        }
        let output = (transactional && random.bool()).then(Output::default);
        let scene = format!("{create:?}, with -o: {}", output.is_some());
        Ok(Self {
            lab,
            random,
            model: Model::default(),
            output,
            twice: BTreeSet::new(),
            transactional,
            scenes: vec![scene],
            drawn: 0,
        })
    }

    /// Draws a list: lines that were drawn before, new ones, some twice.
    pub fn list(&mut self) -> Vec<u32> {
        let count = 1 << self.random.u32(0..12);
        let new = self.random.u32(1..=POOL);
        let end = self.drawn + new;
        let begin = self.drawn.saturating_sub(self.random.u32(0..POOL));
        self.drawn = end;
        (0..count).map(|_| self.random.u32(begin..end)).collect()
    }

    /// The content of the output file.
    pub fn out(&self) -> Vec<u8> {
        fs::read(self.lab.path(OUT)).unwrap_or_default()
    }

    /// The options of a run on the store, and of the output if the round has one.
    pub fn dedup(&mut self, more: &[&str]) -> Vec<String> {
        let mut args = vec!["dedup".to_owned()];
        if self.output.is_some() {
            args.extend(["-o".into(), OUT.into()]);
        }
        if self.random.bool() {
            args.extend(["--commit-every".into(), self.random.u32(1..500).to_string()]);
        }
        if self.random.u32(0..4) == 0 {
            args.extend(["--buffer".into(), "1M".into()]);
        }
        args.extend(more.iter().map(|one| (*one).to_owned()));
        args.push(STORE.into());
        args
    }

    /// Runs `dedup` on a list, and judges what came of it.
    pub fn run(&mut self, list: &[u32], how: &Conditions, more: &[&str]) -> Result<Ended, String> {
        let args = self.dedup(more);
        self.scenes.push(format!(
            "{} of {} lines, {how:?}",
            args.join(" "),
            list.len()
        ));
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let watched = self.output.is_some().then_some(OUT);
        let ended = run(&self.lab, &args, &text(list), how, watched);
        ended.check(how.killed_at.is_some())?;
        self.judge(list, &ended)?;
        Ok(ended)
    }

    /// Judges a run of `dedup` on a list.
    pub fn judge(&mut self, list: &[u32], ended: &Ended) -> Result<(), String> {
        let now = self.out();
        if ended.well() {
            match &mut self.output {
                Some(output) => {
                    output.ended(list, now, &self.twice)?;
                    self.model.remember(list);
                }
                None => self.model.printed(list, &ended.out)?,
            }
            return self.left_behind();
        }
        self.scenes.push(format!(
            "it ended with {:?}: {}",
            ended.code,
            ended.err.trim()
        ));
        match &mut self.output {
            Some(output) if !now.starts_with(&output.content) => {
                return Err("a run that failed took lines from the output".into());
            }
            Some(output) => output.open = true,
            // What it printed came of its list, each line once, the last one torn at worst.
            None => {
                let (printed, _) = parse(&ended.out)?;
                let listed: BTreeSet<_> = list.iter().collect();
                let once: BTreeSet<_> = printed.iter().collect();
                if once.len() != printed.len() || !once.is_subset(&listed) {
                    return Err("a run that failed printed lines twice, or others".into());
                }
                if let Some(again) = once.iter().find(|one| self.model.known.contains(**one)) {
                    return Err(format!("a run that failed printed {again} again"));
                }
            }
        }
        self.model.interrupt(list);
        Ok(())
    }

    /// After a run that ended well, the store is one file.
    fn left_behind(&self) -> Result<(), String> {
        let names = fs::read_dir(self.lab.path("")).unwrap();
        let names = names.map(|one| one.unwrap().file_name().to_string_lossy().into_owned());
        let left: Vec<_> = names
            .filter(|name| name.starts_with(STORE) && name != STORE)
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("{left:?} were left beside the store")),
        }
    }

    /// The store knows all that it must, by a command that only reads.
    pub fn check(&mut self) -> Result<(), String> {
        if self.model.known.is_empty() {
            return Ok(());
        }
        let known: Vec<_> = self.model.known.iter().copied().collect();
        let ran = self.lab.run_on(&["check", "-v", STORE], &text(&known));
        match (ran.code, &ran.out[..]) {
            (Some(1), b"") => Ok(()),
            (code, lost) => Err(format!(
                "check: {code:?} {:?}, {} lines that must be known are not",
                ran.err,
                parse(lost)?.0.len()
            )),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let count = self.random.u32(3..8);
        for _ in 0..count {
            match self.random.u32(0..24) {
                0..=2 => self.daily()?,
                3 | 4 => self.killed()?,
                5 | 6 => self.restored()?,
                7 => self.restored_beside_a_log()?,
                8 => self.replaced_under_a_reader()?,
                9 => self.read_beside_writers()?,
                10 => self.several_writers()?,
                11 => self.swapped()?,
                12 => self.limited()?,
                13 => self.copied_up()?,
                14 | 15 => self.moved_output()?,
                16 => self.spellings()?,
                17 => self.locked_folder()?,
                18 => self.left_by_a_creator()?,
                19 => self.odd_name()?,
                20 => self.full_disk()?,
                21 => self.read_only_mount()?,
                22 => self.long_name()?,
                _ => self.empty_file()?,
            }
        }
        // Whatever happened, the next day goes well.
        self.daily()?;
        self.check()
    }

    /// A run as on any day, perhaps started in an unusual way.
    pub fn daily(&mut self) -> Result<(), String> {
        let how = Conditions {
            nonblocking: self.random.u32(0..4) == 0,
            ignoring: self.random.u32(0..4) == 0,
            ..Conditions::default()
        };
        let list = self.list();
        let ended = self.run(&list, &how, &[])?;
        match ended.well() {
            true => Ok(()),
            false => Err("it was to end well".into()),
        }
    }

    /// A run that is killed, perhaps done again at once on the same list.
    pub fn killed(&mut self) -> Result<(), String> {
        let list = self.list();
        let most = 1 << self.random.u32(0..18);
        let how = Conditions {
            killed_at: Some(self.random.u64(0..most)),
            nonblocking: self.random.u32(0..4) == 0,
            ..Conditions::default()
        };
        self.run(&list, &how, &[])?;
        if self.random.bool() {
            let ended = self.run(&list, &Conditions::default(), &[])?;
            if !ended.well() {
                return Err("it was to end well".into());
            }
        }
        Ok(())
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok();
    value.map(|value| value.parse().expect("the variable is a number"))
}

#[test]
fn nothing_is_lost_or_silently_wrong_beside_a_neighbour() {
    let rounds = variable("EVERSEEN_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("EVERSEEN_SEED").unwrap_or(1);
    let (failed, counts) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
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
                    let mut scenes = Vec::new();
                    let played = Round::new(own).and_then(|mut round| {
                        let played = round.play();
                        scenes = round.scenes;
                        played
                    });
                    for scene in &scenes {
                        let kind = scene.split(&[' ', ','][..]).next().unwrap_or_default();
                        *counts.lock().unwrap().entry(kind.to_owned()).or_insert(0) += 1;
                    }
                    if let Err(complaint) = played {
                        eprintln!("seed {own}: {complaint}");
                        scenes.iter().for_each(|scene| eprintln!("  {scene}"));
                        failed.lock().unwrap().push(own);
                    }
                }
            });
        }
    });
    eprintln!("{rounds} rounds: {:#?}", counts.lock().unwrap());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed with seeds {failed:?}");
}
