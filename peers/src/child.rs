//! A child: one variant, once, in a process that has done nothing else.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use everseen_benches::worker::{tell, wait_for_start};

use crate::list;
use crate::outcome::{Outcome, Timed};
use crate::sequence::{Counted, Listed, Sequence};
use crate::system;
use crate::variants::{Peer, Setup, Variant};

/// What a child is to do.
pub struct Task {
    pub variant: &'static Variant,
    pub source: Source,
    /// Look-ups of present keys, and of absent ones.
    pub lookups: u64,
    /// Seconds after which a phase is stopped.
    pub longest: u64,
    pub setup: Setup,
}

/// Where keys come from.
pub enum Source {
    /// Files in this folder.
    Lists(PathBuf),
    /// They are numbers, hashed: those below the number of keys are present.
    Numbers,
}

/// Tells the order in which keys are looked up.
const ORDER: u64 = 1;

/// Does the task and tells the outcome.
pub fn work(task: &Task) -> Result<()> {
    let keys = task.setup.keys;
    let (inserted, present, absent) = match &task.source {
        Source::Lists(folder) => {
            let inserted = Listed::read(&folder.join(list::PRESENT), keys)?;
            let present = inserted.shuffled(ORDER, task.lookups);
            let absent = Listed::read(&folder.join(list::ABSENT), task.lookups)?;
            (
                Sequence::Listed(inserted),
                Sequence::Listed(present),
                Sequence::Listed(absent),
            )
        }
        Source::Numbers => (
            Sequence::Counted(Counted::all(0, keys)),
            Sequence::Counted(Counted::spread(keys, task.lookups)),
            Sequence::Counted(Counted::all(keys, task.lookups)),
        ),
    };
    wait_for_start()?;
    let before = system::reset_peak();
    let written_before = system::written();
    let mut peer = (task.variant.make)(&task.setup)?;
    let longest = Duration::from_secs(task.longest);
    let mut outcome = Outcome {
        insert: time(peer.as_mut(), &inserted, longest, Phase::Insert)?,
        ..Outcome::default()
    };
    outcome.written = system::written().saturating_sub(written_before);
    outcome.disk = system::used_disk(&task.setup.folder)?;
    if !outcome.insert.stopped() {
        outcome.present = time(peer.as_mut(), &present, longest, Phase::LookUp)?;
        outcome.absent = time(peer.as_mut(), &absent, longest, Phase::LookUp)?;
    }
    if let (Some(before), Some(peak)) = (before, system::peak()) {
        outcome.peak = peak.saturating_sub(before);
    }
    peer.close()?;
    outcome.closed = system::used_disk(&task.setup.folder)?;
    Ok(tell(&outcome.to_line())?)
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Insert,
    LookUp,
}

/// Hands over all keys, and times it from the first to the last, or until time is up.
fn time(peer: &mut dyn Peer, keys: &Sequence, longest: Duration, phase: Phase) -> Result<Timed> {
    let mut timed = Timed {
        asked: keys.len(),
        ..Timed::default()
    };
    let size = peer.portion();
    let begun = Instant::now();
    keys.in_portions(size, |portion| {
        timed.present += match phase {
            Phase::Insert => peer.insert(portion)?,
            Phase::LookUp => peer.look_up(portion)?,
        };
        timed.done += portion.len() as u64;
        Ok(begun.elapsed() < longest)
    })?;
    if phase == Phase::Insert {
        peer.settle()?;
    }
    timed.nanoseconds = begun.elapsed().as_nanos() as u64;
    Ok(timed)
}
