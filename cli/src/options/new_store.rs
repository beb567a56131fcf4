//! What a store is like that a command creates on the way.

use std::path::Path;

use everseen::{Kind, Options, Stats};

use crate::error::CliError;
use crate::options::units as size;
use crate::output::format::{rate, thousands};

/// The false positive rate, unless the command line says otherwise.
const RATE: f64 = 1e-6;

/// How much larger the rate of an existing store may be than the one that is asked for: plans round.
const TOLERANCE: f64 = 1.001;

/// The part of the command line that describes the store to create.
#[derive(clap::Args)]
pub struct NewStore {
    /// Create the store for this many keys, such as 50M or 5e7: a fixed size, and smaller and faster than one that grows
    #[arg(long, value_name = "N", value_parser = size::positive_count, help_heading = "A new store")]
    capacity: Option<u64>,

    /// Create the store with this false positive rate [default: 1e-6]
    #[arg(long, value_name = "P", value_parser = size::rate, help_heading = "A new store")]
    fpr: Option<f64>,

    /// Create a store of this kind [default: bloom with a capacity, else scalable]
    #[arg(long, help_heading = "A new store")]
    kind: Option<Kind>,
}

impl NewStore {
    /// Applies the description to the options of a store, which is transactional if its kind can be.
    pub fn apply(&self, options: Options) -> Options {
        let default = match self.capacity {
            Some(_) => Kind::Bloom,
            None => Kind::Scalable,
        };
        let kind = self.kind.unwrap_or(default);
        let options = options.kind(kind).fpr(self.fpr.unwrap_or(RATE));
        let options = options.transactional(kind != Kind::Counting);
        match self.capacity {
            Some(capacity) => options.capacity(capacity),
            None => options,
        }
    }

    /// Refuses a store that existed before and is less than what the command line asks for.
    pub fn expect(&self, stats: &Stats, path: &Path) -> Result<(), CliError> {
        let wrong = |asked: String, has: String| CliError::OtherStore {
            path: path.to_owned(),
            asked,
            has,
        };
        if let Some(kind) = self.kind
            && kind != stats.kind
        {
            let (asked, has) = (format!("--kind {kind}"), format!("of kind {}", stats.kind));
            return Err(wrong(asked, has));
        }
        if let (Some(asked), Some(has)) = (self.capacity, stats.capacity)
            && asked > has
        {
            let has = format!("for {} keys", thousands(has));
            return Err(wrong(format!("--capacity {asked}"), has));
        }
        if let Some(fpr) = self.fpr
            && stats.fpr_target > fpr * TOLERANCE
        {
            let has = format!("of rate {}", rate(stats.fpr_target));
            return Err(wrong(format!("--fpr {}", rate(fpr)), has));
        }
        Ok(())
    }
}
