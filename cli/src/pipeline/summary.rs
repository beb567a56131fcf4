//! What the commands that read lines say of them in JSON.

use serde::Serialize;

use crate::input::reading::Reading;
use crate::output::format::{self as human, many, thousands};
use crate::pipeline::{Ending, Outcome, Run};

/// What all of these commands say, and what one of them adds.
#[derive(Serialize)]
pub struct Summary<T> {
    command: &'static str,
    ending: &'static str,
    lines: u64,
    no_key: u64,
    not_urls: u64,
    dropped: u64,
    too_long: u64,
    first_too_long: Option<String>,
    #[serde(flatten)]
    more: T,
}

impl Outcome {
    /// Returns what a summary says of items that were skipped because they are too long; nothing if there were none.
    pub fn long_summary(&self) -> String {
        match self.tally.long {
            0 => String::new(),
            long => format!(", {} too long and skipped", thousands(long)),
        }
    }

    /// Returns how many items were judged, rather than dropped or skipped.
    pub fn judged(&self) -> u64 {
        self.tally.items - self.tally.dropped - self.tally.long
    }

    pub fn summary<T: Serialize>(&self, command: &'static str, more: T) -> Summary<T> {
        Summary {
            command,
            ending: match self.ending {
                Ending::Done => "done",
                Ending::Stopped(_) => "signal",
                Ending::Unread => "unread",
                Ending::Full => "full",
            },
            lines: self.tally.items,
            no_key: self.tally.keyless,
            not_urls: self.tally.strays,
            dropped: self.tally.dropped,
            too_long: self.tally.long,
            first_too_long: self
                .first_long
                .as_ref()
                .map(|place| format!("{}:{}", place.input.display(), place.line)),
            more,
        }
    }
}

impl<J> Run<'_, J> {
    /// Reports how many items there were of those that were not reported one by one.
    pub(super) fn tell_rest(&self, reading: &Reading, longest: u64) {
        for rest in reading.rest(&self.tally) {
            self.progress.tell(&rest);
        }
        if let Some(more @ 1..) = self.tally.long.checked_sub(1) {
            let (lines, limit) = (many(more, "more line"), human::bytes(longest));
            self.progress
                .tell(&format!("{lines} longer than {limit}; skipped"));
        }
    }
}
