//! How many keys of a store that forgets are how old.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::engine::Engine;
use crate::engine::view::View;
use crate::error::{Error, Result};
use crate::filter::StepsOfKeys;

/// Pages that are read to estimate the ages of all keys: 4 MiB.
const MOST_PAGES: u64 = 1024;
/// How often pages may be written again while they are read.
const MOST_TRIES: usize = 20;

/// The keys of a store that forgets, by when they came; the result of [`Store::keys_by_age`](crate::Store::keys_by_age).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysByAge {
    /// Of each step in which keys came, the oldest first.
    pub steps: Vec<KeysOfStep>,
    /// Whether all pages were read. Otherwise the numbers are estimated from 1,024 of them.
    pub are_all_read: bool,
}

/// Keys that came in one step.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeysOfStep {
    /// When the step began.
    pub came: SystemTime,
    /// When these keys are forgotten.
    pub forgotten: SystemTime,
    /// How many they are, at most or estimated. A key that came again, or went, may be counted once more until the runs
    /// that have it are merged.
    pub keys: u64,
}

/// Counts the keys of a store by their steps. Returns `None` if it forgets nothing.
pub(crate) fn keys_by_age(engine: &Engine) -> Result<Option<KeysByAge>> {
    let Some(window) = engine.file.header.window else {
        return Ok(None);
    };
    let (view, mut found) = counted(engine)?;
    add_buffers(&view, &mut found);
    let steps = u64::from(window.steps());
    let time = |step| UNIX_EPOCH + Duration::from_millis(window.begin_of(step));
    let of_step = |(step, keys): (&u64, &u64)| KeysOfStep {
        came: time(*step),
        forgotten: time(step.saturating_add(steps + 1)),
        keys: *keys,
    };
    Ok(Some(KeysByAge {
        steps: found.keys.iter().map(of_step).collect(),
        are_all_read: found.are_all,
    }))
}

/// Counts those in the pages of a view.
fn counted(engine: &Engine) -> Result<(Arc<View>, StepsOfKeys)> {
    for _ in 0..MOST_TRIES {
        let view = Arc::clone(&*engine.views.current()?);
        let found = view
            .filter
            .steps_of_keys(engine.file.header.binding(), MOST_PAGES);
        if let Some(found) = found {
            return Ok((view, found));
        }
    }
    Err(Error::Busy {
        path: engine.file.place.to_path_buf(),
        what: "checkpoints that overtake each look-up",
        process: None,
    })
}

/// Adds those that are in logs alone.
fn add_buffers(view: &View, found: &mut StepsOfKeys) {
    let (Some(clock), generation) = (view.clock.as_ref(), view.superblock.generation) else {
        return;
    };
    let sealed = view.sealed.iter().filter(|one| generation <= one.number());
    for one in sealed.chain([&view.active]).filter(|one| one.has_log()) {
        let told = one.buffer.clock();
        let step = told.map_or(clock.this_step(), |told| clock.step_of(told));
        let keys = one.buffer.inserted_keys().unsigned_abs();
        if keys > 0 {
            *found.keys.entry(step).or_default() += keys;
        }
    }
}
