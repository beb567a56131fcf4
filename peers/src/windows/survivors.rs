//! A child after the kill: it opens what is left, and looks for the keys that were acknowledged and are under the window.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use everseen_benches::worker::{tell, wait_for_start};

use super::child::{Task, portion};
use super::stream::{Key, STEPS};

/// When a stream was killed.
#[derive(Clone, Copy, Debug)]
pub struct Killed {
    /// When it began, in milliseconds since 1970.
    pub begun: u64,
    /// The step after the measured ones that it was in.
    pub step: u64,
    /// Portions of that step that were acknowledged.
    pub portions: u64,
}

/// Looks for them, and tells how many were asked for and how many of them are known.
pub fn work(task: &Task, killed: Killed) -> Result<()> {
    wait_for_start()?;
    let mut peer = (task.variant.make)(&task.setup)?;
    let refused = refused(&task.refused)?;
    let begins = begins(&task.begins)?;
    let (mut asked, mut known) = (0, 0);
    // Oldest first: by the system's clock they go on ageing.
    for born in task.steps - STEPS..=killed.step {
        // Steps after the measured ones followed at once.
        let begin = begins[born.min(task.steps - 1) as usize];
        let keys = acknowledged(task, killed, born);
        let keys: Vec<Key> = keys
            .into_iter()
            .filter(|key| !refused.contains(key))
            .collect();
        for keys in keys.chunks(portion(&task.stream)) {
            let texts: Vec<_> = keys.iter().map(|key| task.stream.text(*key)).collect();
            let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            let seen = peer.look_up(&texts)?;
            if task.variant.is_server && !is_under_window(task, killed, begin) {
                continue;
            }
            asked += seen.len() as u64;
            known += seen.iter().map(|seen| u64::from(*seen)).sum::<u64>();
        }
    }
    peer.close()?;
    Ok(tell(&format!("{asked} {known}"))?)
}

/// The new keys of a step that were acknowledged.
fn acknowledged(task: &Task, killed: Killed, born: u64) -> Vec<Key> {
    if born < killed.step {
        return task.stream.born(born).collect();
    }
    let brought = task.stream.step(born);
    let portions = brought.chunks(portion(&task.stream));
    let portions = portions.take(killed.portions as usize).flatten();
    portions.filter(|key| key.born == born).copied().collect()
}

/// When each measured step began, in steps.
fn begins(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| Ok(line.parse()?)).collect()
}

/// Whether, by the system's clock, the keys of a step that began then are still under the window now.
fn is_under_window(task: &Task, killed: Killed, begin: f64) -> bool {
    let begun = UNIX_EPOCH + Duration::from_millis(killed.begun);
    let begin = begun + task.setup.window.mul_f64(begin / STEPS as f64);
    SystemTime::now() < begin + task.setup.window
}

/// The keys that were called seen when they were new.
fn refused(path: &Path) -> Result<HashSet<Key>> {
    let notes = std::fs::read(path)?;
    let (notes, _) = notes.as_chunks::<16>();
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let key = |note: &[u8; 16]| Key {
        born: number(&note[..8]),
        place: number(&note[8..]),
    };
    Ok(notes.iter().map(key).collect())
}
