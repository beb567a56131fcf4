//! What the commands that read lines say of them in JSON.

use serde::Serialize;

use crate::pipeline::{Ending, Outcome};

/// What all of these commands say, and what one of them adds.
#[derive(Serialize)]
pub struct Summary<T> {
    command: &'static str,
    ending: &'static str,
    lines: u64,
    not_urls: u64,
    dropped: u64,
    #[serde(flatten)]
    more: T,
}

impl Outcome {
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
            not_urls: self.tally.strays,
            dropped: self.tally.dropped,
            more,
        }
    }
}
