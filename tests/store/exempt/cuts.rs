//! Power cuts while keys are exempted and inserted, and while that is recovered: of what was not synced each write is kept,
//! lost or torn at sectors, and so are names.

use std::collections::BTreeMap;
use std::sync::Arc;

use everseen::testing::Options;
use everseen::{Kind, Store};

use super::setting::{hashes, options};
use crate::support::numbers::Random;
use crate::support::recorded::disk::{self, Image, Player, write_image};
use crate::support::recorded::fates;
use crate::support::recorded::site::Site;
use crate::support::recorded::tape::{self, Recorder};
use crate::support::recorded::{Promises, Remark};
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

/// Keys of a script.
const KEYS: u64 = 1200;
const SEED: u64 = 11;
/// A seed whose first recording is enough for a section that is not synced to be missed.
const SOON: u64 = 1;
/// Images of one recording with `EVERSEEN_ALL=1`, and without it.
const IMAGES: u64 = 150;
const FEW: u64 = 20;

fn seed() -> u64 {
    let told = std::env::var("EVERSEEN_SEED").ok();
    let seed = told.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("EVERSEEN_SEED={seed}");
    seed
}

/// A step of the script begins, or has returned.
#[derive(Debug, Clone)]
enum Mark {
    Begins(usize),
    Returned(usize),
}

impl Remark for Mark {
    fn describe(&self) -> String {
        format!("-- {self:?}")
    }
}

type Event = disk::Event<Mark>;
type Tape = tape::Tape<Mark>;

/// The promises are reckoned from the script.
struct Nothing;

impl Promises for Nothing {
    type Remark = Mark;

    fn take(&mut self, _: &Mark) {}
}

/// One thing that is durable when it has returned.
#[derive(Debug, Clone)]
enum Step {
    InsertAndCommit(std::ops::Range<u64>),
    Exempt(std::ops::Range<u64>),
    Checkpoint,
    Reopen,
}

/// Whether each key is there, as far as that is certain: the rate of these stores leaves no false positive.
type State = BTreeMap<u64, bool>;

fn script(random: &mut Random) -> Vec<Step> {
    let range = |random: &mut Random, most: u64| {
        let start = random.below(KEYS);
        start..KEYS.min(start + 1 + random.below(most))
    };
    let mut steps = vec![Step::InsertAndCommit(0..KEYS / 2), Step::Checkpoint];
    for _ in 0..6 + random.below(6) {
        steps.push(match random.below(8) {
            0..=2 => Step::Exempt(range(random, 1000)),
            3..=5 => Step::InsertAndCommit(range(random, 300)),
            6 => Step::Checkpoint,
            _ => Step::Reopen,
        });
    }
    steps
}

/// What holds after each step: those before the first are none.
fn states(steps: &[Step]) -> Vec<State> {
    let mut state: State = (0..KEYS).map(|key| (key, false)).collect();
    let mut buffered: Vec<u64> = Vec::new();
    let mut states = vec![state.clone()];
    for step in steps {
        match step {
            Step::InsertAndCommit(keys) => {
                for key in keys.clone() {
                    if state.insert(key, true) == Some(false) {
                        buffered.push(key);
                    }
                }
            }
            Step::Exempt(keys) => {
                for key in keys.clone().filter(|key| !buffered.contains(key)) {
                    state.insert(key, false);
                }
            }
            Step::Checkpoint | Step::Reopen => buffered.clear(),
        }
        states.push(state.clone());
    }
    states
}

struct Recording {
    options: Options,
    events: Vec<Event>,
    states: Vec<State>,
    last: Image,
}

fn record(kind: Kind, transactional: bool, random: &mut Random, lie: Option<Site>) -> Recording {
    let capacity = match kind {
        Kind::Scalable => 300,
        _ => 20_000,
    };
    let options = options(kind)
        .fpr(1e-9)
        .capacity(capacity)
        .transactional(transactional);
    let mut steps = script(random);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let tape = Tape::new(&Image::new(), lie);
    let recorded = || options.clone().storage(Arc::new(Recorder::new(&tape)));
    let mut store = recorded().create(&path).unwrap();
    let mut index = 0;
    while index < steps.len() {
        tape.mark(&Mark::Begins(index));
        match steps[index].clone() {
            Step::InsertAndCommit(keys) => {
                store.insert_batch(&hashes(keys)).unwrap();
                store.commit().unwrap();
            }
            Step::Exempt(keys) => {
                let report = store.exempt(&hashes(keys)).unwrap();
                if report.exempted > 0 {
                    // It has emptied the buffer.
                    steps.insert(index + 1, Step::Checkpoint);
                }
            }
            Step::Checkpoint => store.checkpoint().unwrap(),
            Step::Reopen => {
                store.close().unwrap();
                store = recorded().open(&path).unwrap();
            }
        }
        tape.mark(&Mark::Returned(index));
        index += 1;
    }
    drop(store);
    let (events, _) = tape.take();
    let mut player = Player::new(&Image::new(), Nothing, &events);
    player.advance(events.len());
    let pending = player.pending();
    let kept = vec![fates::Keep::Whole; pending.len()];
    Recording {
        last: player.image(&pending, &kept),
        options,
        states: states(&steps),
        events,
    }
}

/// What is wrong with an image, if anything is; `done` steps had returned, and one more may have begun.
fn judge(
    recording: &Recording,
    image: &Image,
    done: usize,
    cut_again: &mut Random,
) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    write_image(image, folder.path()).unwrap();
    let path = folder.path().join("store");
    let tape = Tape::new(image, None);
    let recorder = Recorder::new(&tape);
    let options = recording.options.clone().storage(Arc::new(recorder));
    let opened = options
        .open(&path)
        .map_err(|error| format!("open: {error}"))?;
    check(recording, &opened, done)?;
    // It goes on, from whatever was left.
    let all = hashes(0..KEYS);
    let wish = |what: &str, error: everseen::Error| format!("{what}: {error}");
    opened
        .checkpoint()
        .map_err(|error| wish("checkpoint", error))?;
    check(recording, &opened, done)?;
    opened.exempt(&all).map_err(|error| wish("exempt", error))?;
    let there = opened.contains_batch(&all).unwrap();
    if there.contains(&true) {
        return Err("an exempt key is there".to_owned());
    }
    opened.close().map_err(|error| wish("close", error))?;
    let (events, _) = tape.take();
    if cut_again.below(3) > 0 {
        return Ok(());
    }
    // And another cut, while that was under way.
    let cut = cut_again.below(events.len() as u64 + 1) as usize;
    let mut player = Player::new(image, Nothing, &events);
    player.advance(cut);
    let pending = player.pending();
    let concerned: Vec<_> = pending.iter().map(|index| &events[*index]).collect();
    let (_, kept) = fates::choose(&concerned, cut_again);
    let image = player.image(&pending, &kept);
    let folder = tempfile::tempdir().unwrap();
    write_image(&image, folder.path()).unwrap();
    let options = recording.options.clone().storage(Unsynced::new());
    let opened = options.open(folder.path().join("store"));
    let opened = opened.map_err(|error| format!("open after a second cut: {error}"))?;
    let report = opened.verify().map_err(|error| wish("verify", error))?;
    match report.is_ok() {
        true => Ok(()),
        false => Err("damage after a second cut".to_owned()),
    }
}

fn check(recording: &Recording, store: &Store, done: usize) -> Result<(), String> {
    let states = &recording.states;
    let next = &states[(done + 1).min(states.len() - 1)];
    let found = store
        .contains_batch(&hashes(0..KEYS))
        .map_err(|error| format!("contains: {error}"))?;
    for ((number, before), found) in states[done].iter().zip(found) {
        if found != *before && found != next[number] {
            return Err(format!("key {number} is there: {found}, after step {done}"));
        }
    }
    let report = store.verify().map_err(|error| format!("verify: {error}"))?;
    if !report.is_ok() {
        return Err(format!("damage: {report:?}"));
    }
    let listed: Result<Vec<_>, _> = store.exemptions().collect();
    let listed = listed.map_err(|error| format!("list: {error}"))?;
    let stats = store.stats().map_err(|error| format!("stats: {error}"))?;
    match listed.len() as u64 == stats.exempt {
        true => Ok(()),
        false => Err("exemptions are not as many as are told".to_owned()),
    }
}

/// Steps that had returned before a cut.
fn done_before(events: &[Event], cut: usize) -> Option<usize> {
    events[..cut].iter().rev().find_map(|event| match event {
        Event::Mark(Mark::Returned(step)) => Some(step + 1),
        Event::Mark(Mark::Begins(step)) => Some(*step),
        _ => None,
    })
}

/// Cuts a recording at many places; answers how many images there were before the first that is wrong.
fn cut(recording: &Recording, random: &mut Random, images: u64) -> Result<u64, String> {
    let events = &recording.events;
    assert_eq!(
        done_before(events, events.len()),
        Some(recording.states.len() - 1)
    );
    let mut looked_at = 0;
    for _ in 0..images {
        let cut = random.below(events.len() as u64 + 1) as usize;
        // Before the first step there may be no store yet.
        let Some(done) = done_before(events, cut) else {
            continue;
        };
        let mut player = Player::new(&Image::new(), Nothing, events);
        player.advance(cut);
        let pending = player.pending();
        let concerned: Vec<_> = pending.iter().map(|index| &events[*index]).collect();
        let (strategy, kept) = fates::choose(&concerned, random);
        let image = player.image(&pending, &kept);
        let judged = judge(recording, &image, done, random);
        judged.map_err(|wrong| {
            let from = cut.saturating_sub(12);
            let last: Vec<_> = events[from..cut].iter().map(Event::describe).collect();
            format!("cut {cut}, {strategy}: {wrong}\n{}", last.join("\n"))
        })?;
        looked_at += 1;
    }
    Ok(looked_at)
}

#[test]
fn no_power_cut_takes_an_exemption_or_a_key() {
    let mut random = Random::new(seed());
    let each = all_some_or(IMAGES, 3 * FEW, FEW);
    let mut images = 0;
    for turn in 0..8 {
        let kind = [Kind::Bloom, Kind::Scalable][turn % 2];
        let recording = record(kind, turn / 2 % 2 == 1, &mut random, None);
        assert!(recording.last.contains_key("store"));
        images += cut(&recording, &mut random, each).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{images} images");
    assert!(images > 8 * each * 2 / 3, "{images} images are few");
}

/// The sync that makes pages and sections durable before a superblock names them is missed when it is left out.
#[test]
fn a_section_that_is_not_synced_is_missed() {
    let mut random = Random::new(SOON);
    let missed = (0..20).any(|turn| {
        let kind = [Kind::Bloom, Kind::Scalable][turn % 2];
        let recording = record(kind, false, &mut random, Some(Site::Pages));
        let outcome = cut(&recording, &mut random, IMAGES);
        outcome.is_err_and(|wrong| wrong.contains("section"))
    });
    assert!(missed, "the sync can be left out");
}
