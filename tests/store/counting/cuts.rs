//! Power cuts, and kills at each step.

use std::path::Path;

use tempfile::TempDir;

use super::model::{Crash, Event, Mark, Model, Tape};
use super::number;
use super::session::{Outcome, Session, Stop};
use crate::support::numbers::{Random, finalise};
use crate::support::recorded::Promises;
use crate::support::recorded::disk::{Image, Player, write_image};
use crate::support::recorded::fates;
use crate::support::share::Share;

/// Images unless EVERSEEN_COUNTING_IMAGES is set.
const IMAGES: u64 = 60;
const SEED: u64 = 1;
/// A seed whose first recording is enough for both syncs of a checkpoint to be missed.
const SOON: u64 = 6;
const IMAGES_OF_A_RECORDING: u64 = 60;
/// Events told of before the cut of a violation.
const LAST_EVENTS: usize = 25;
/// Where the second superblock lies, and the journal (FORMAT.md, "The whole file").
const SUPERBLOCK: u64 = 73_728;
const JOURNAL: u64 = 131_072;

/// In memory, where there is such a place: nobody waits for a disk then.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

fn told(outcome: Outcome) -> Result<(), String> {
    match outcome {
        Ok(()) | Err(Stop::Killed) => Ok(()),
        Err(Stop::Wrong(text)) => Err(text),
    }
}

/// Records a session.
fn record(seed: u64) -> Result<Vec<Event>, String> {
    let folder = folder();
    let tape = Tape::new(&Image::new(), None);
    let mut random = Random::new(seed);
    let model = Model::default();
    let mut session = Session::new(folder.path(), Some(tape.clone()), model, random.next());
    let steps = 20 + random.below(40);
    let created = session.create();
    let outcome = created.and_then(|()| session.steps(steps));
    session.kill();
    told(outcome)?;
    Ok(tape.take().0)
}

/// Opens what a power cut has left, and goes on with it.
fn examine(image: &Image, model: &Model, seed: u64, again: bool) -> Result<(), String> {
    let folder = folder();
    write_image(image, folder.path()).unwrap();
    let tape = again.then(|| Tape::new(image, None));
    let mut session = Session::new(folder.path(), tape.clone(), model.clone(), seed);
    let looked = session.look();
    let opened = looked.and_then(|()| session.open(Crash::Power));
    let outcome = opened.and_then(|()| match again {
        true => session.steps(4),
        false => session.go_on(),
    });
    session.kill();
    let found = session.found.take();
    drop(session);
    told(outcome)?;
    if let Some(tape) = tape {
        let mut model = model.clone();
        if let Some(found) = found {
            // What is on this disk is durable: recovery finds it however often it is cut.
            model.take(&Mark::Opened(found));
        }
        let mut random = Random::new(seed ^ 1);
        cut(image, &model, &tape.take().0, 4, &mut random, false)?;
    }
    Ok(())
}

/// Cuts the power at some points of a recording.
fn cut(
    image: &Image,
    model: &Model,
    events: &[Event],
    count: u64,
    random: &mut Random,
    may_again: bool,
) -> Result<u64, String> {
    let turns: Vec<_> = (0..events.len()).filter(|at| events[*at].turns()).collect();
    let mut cuts: Vec<_> = (0..count)
        .map(|_| match turns.is_empty() || random.below(3) == 0 {
            true => random.below(events.len() as u64 + 1) as usize,
            false => turns[random.below(turns.len() as u64) as usize],
        })
        .collect();
    cuts.sort_unstable();
    let mut player = Player::new(image, model.clone(), events);
    for cut in cuts {
        player.advance(cut);
        let pending = player.pending();
        let pending_events: Vec<_> = pending.iter().map(|index| &events[*index]).collect();
        let (strategy, fates) = fates::choose(&pending_events, random);
        let left = player.image(&pending, &fates);
        let again = may_again && random.below(6) == 0;
        examine(&left, &player.model, random.next(), again).map_err(|text| {
            let mut told = format!("cut at {cut}, {strategy}: {text}\n");
            for (index, event) in events.iter().enumerate().take(cut) {
                let fate = pending.binary_search(&index);
                if index + LAST_EVENTS >= cut || fate.is_ok() {
                    let fate = fate.map(|place| format!("{:?}", fates[place]));
                    told += &format!(
                        "  {index} {} {}\n",
                        event.describe(),
                        fate.unwrap_or_default()
                    );
                }
            }
            told
        })?;
    }
    Ok(count)
}

/// Hunts until so many images have been looked at; `change` makes another disk of a recording.
fn hunt(seed: u64, images: u64, change: impl Fn(&mut Vec<Event>)) -> Result<u64, String> {
    let (mut looked_at, mut recordings) = (0, 0);
    while looked_at < images {
        let own = finalise(seed) ^ recordings;
        let fail = |text| format!("seed {seed}, recording {recordings}: {text}");
        let mut events = record(own).map_err(fail)?;
        change(&mut events);
        let mut random = Random::new(own ^ 2);
        let (image, model) = (Image::new(), Model::default());
        let count = IMAGES_OF_A_RECORDING;
        looked_at += cut(&image, &model, &events, count, &mut random, true).map_err(fail)?;
        recordings += 1;
    }
    Ok(looked_at)
}

/// Invariant I10, power cuts.
#[test]
fn no_power_cut_counts_twice_or_loses_a_count() {
    let seed = number("EVERSEEN_SEED", SEED);
    let images = number("EVERSEEN_COUNTING_IMAGES", IMAGES);
    println!("EVERSEEN_SEED={seed} EVERSEEN_COUNTING_IMAGES={images}");
    let looked_at = hunt(seed, images, |_| {}).unwrap_or_else(|text| panic!("{text}"));
    println!("{looked_at} images");
}

/// Returns where the layer begins, by the first superblock; nowhere if there is none.
fn layer_in(events: &[Event]) -> u64 {
    let layer = events.iter().find_map(|event| match event {
        Event::Write {
            inode: 0,
            offset: SUPERBLOCK,
            bytes,
        } => {
            let first_page = bytes[320..]
                .first_chunk()
                .map(|bytes| u64::from_le_bytes(*bytes));
            first_page.map(|first_page| first_page * 4096)
        }
        _ => None,
    });
    layer.unwrap_or(u64::MAX)
}

/// Leaves out the syncs of the store file behind writes to the journal, or behind those of pages.
fn leave_out(events: &mut Vec<Event>, of_journal: bool) {
    let pages = layer_in(events);
    let mut last_write = None;
    events.retain(|event| match event {
        // The intent that is written with the journal changes nothing; a superblock is not left out.
        Event::Write {
            inode: 0, offset, ..
        } if *offset >= 16_384 => {
            last_write = (*offset >= JOURNAL).then_some(*offset < pages);
            true
        }
        Event::Sync { inode: 0, .. } => last_write.take() != Some(of_journal),
        _ => true,
    });
    // Places in the recording have moved: each sync covers what comes before it.
    for (index, event) in events.iter_mut().enumerate() {
        if let Event::Sync { covers, .. } | Event::SyncFolder { covers } = event {
            *covers = index;
        }
    }
}

/// The rig can fail: without the sync of the journal, or that of the pages, something is lost.
#[test]
fn each_sync_of_a_checkpoint_is_needed() {
    for of_journal in [true, false] {
        let found = hunt(SOON, 40 * IMAGES_OF_A_RECORDING, |events| {
            leave_out(events, of_journal);
        });
        let found = found.expect_err("a sync can be left out");
        println!("{found}");
    }
}

/// Does the same over and over, killed one step later each time.
fn at_each_step(folder: &Path, stop: u64) -> Result<bool, String> {
    let tape = Tape::new(&Image::new(), None);
    let mut session = Session::new(folder, Some(tape.clone()), Model::default(), 3);
    let created = session.create();
    told(created)?;
    tape.burn(stop);
    let outcome = session.script();
    let killed = matches!(outcome, Err(Stop::Killed));
    if !killed {
        told(outcome)?;
    }
    session.kill();
    let layer = layer_in(&tape.take().0);
    told(session.open(Crash::Kill))?;
    told(session.go_on())?;
    check_journal_first(&tape.take().0, layer)?;
    Ok(killed)
}

/// After a kill, the journal may be in memory alone: checks that it is made durable before a page is written that it has the
/// image of.
fn check_journal_first(events: &[Event], layer: u64) -> Result<(), String> {
    let (mut is_written, mut is_durable) = (false, false);
    for event in events {
        match event {
            Event::Write {
                inode: 0, offset, ..
            } if *offset >= layer && !is_durable => {
                return Err(format!("a page at {offset} before its image"));
            }
            Event::Write {
                inode: 0, offset, ..
            } => is_written |= (JOURNAL..layer).contains(offset),
            Event::Sync { inode: 0, .. } => is_durable |= is_written,
            _ => {}
        }
    }
    Ok(())
}

/// One step in so many is killed at, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

/// Invariant I10, kills.
#[test]
fn no_kill_at_any_step_counts_twice_or_loses_a_count() {
    let mut share = Share::one_in(FEW);
    let (mut stop, mut kills) = (0, 0);
    loop {
        if !share.takes() {
            stop += 1;
            continue;
        }
        let folder = folder();
        let killed = at_each_step(folder.path(), stop);
        if !killed.unwrap_or_else(|text| panic!("killed at step {stop}: {text}")) {
            break;
        }
        stop += 1;
        kills += 1;
    }
    assert!(stop > 100, "{stop} steps are few");
    println!("killed at {kills} of {stop} steps");
}
