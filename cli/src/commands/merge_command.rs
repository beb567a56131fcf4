//! The shared part of `union` and `fold`: the terms of the result, progress, Ctrl-C, and the report.

use std::path::Path;

use everseen::{Error, Merge, MergeReport, OpenOptions};
use serde::Serialize;

use crate::error::CliError;
use crate::options::units as size;
use crate::output::format::{bytes, many, rate, thousands};
use crate::output::progress::{Progress, Tally};
use crate::output::{print_json, tell};
use crate::process::exit_code::ExitCode;
use crate::process::signals::Signals;

/// Bytes in a page.
const PAGE: u64 = everseen::sizing::PAGE_BYTES;

/// The part of the command line that says what the result is like.
#[derive(clap::Args)]
pub struct Terms {
    /// The rate at which the result may err, if it may differ from before
    ///
    /// That is how often it may take an unseen key for a seen one.
    #[arg(long, value_name = "P", value_parser = size::rate)]
    fpr: Option<f64>,

    /// Return to the last commit after a crash [default: if all stores do]
    #[arg(long, conflicts_with = "no_transactional")]
    transactional: bool,

    /// Remember each key as it is added, for programs without commits
    #[arg(long)]
    no_transactional: bool,

    /// Print a report as JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Terms {
    pub fn is_json(&self) -> bool {
        self.json
    }

    fn apply<'a>(&self, merge: Merge<'a>) -> Merge<'a> {
        let merge = match (self.transactional, self.no_transactional) {
            (true, _) => merge.transactional(true),
            (_, true) => merge.transactional(false),
            // As the stores are.
            _ => merge,
        };
        match self.fpr {
            Some(fpr) => merge.fpr(fpr),
            None => merge,
        }
    }
}

/// Creates a store and shows the progress; ends in order when a signal requests it.
pub fn run(
    options: OpenOptions,
    terms: &Terms,
    out: &Path,
    make: impl FnOnce(Merge<'_>) -> everseen::Result<MergeReport>,
) -> Result<ExitCode, CliError> {
    let signals = Signals::catch()?;
    let mut progress: Option<Progress> = None;
    let merge = terms
        .apply(Merge::new().open_options(options))
        .watch(|read, total| {
            let shown = progress.get_or_insert_with(|| Progress::of_pages(total * PAGE));
            shown.update(Tally {
                items: read,
                bytes: read * PAGE,
                ..Tally::default()
            });
            signals.go_on()
        });
    let made = make(merge);
    drop(progress);
    let report = match (made, signals.ending()) {
        (Err(Error::Cancelled), Some(status)) => {
            let out = out.display();
            tell(format_args!("everseen: stopped; {out} was not created"));
            return Ok(ExitCode::from(status));
        }
        (made, _) => made?,
    };
    if terms.json {
        print_json(&Json::from(&report))?;
    }
    tell(text(out, &report));
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Json {
    keys: u64,
    fpr_now: f64,
    fpr_target: f64,
    /// Absent in a store that grows in layers.
    capacity: Option<u64>,
    layers: u32,
    pages: u64,
    pages_read: u64,
    bytes: u64,
}

impl From<&MergeReport> for Json {
    fn from(report: &MergeReport) -> Self {
        Json {
            keys: report.keys,
            fpr_now: report.fpr_now,
            fpr_target: report.fpr,
            capacity: report.capacity,
            layers: report.layers,
            pages: report.pages,
            pages_read: report.pages_read,
            bytes: report.bytes,
        }
    }
}

fn text(out: &Path, report: &MergeReport) -> String {
    let room = match report.capacity {
        Some(capacity) => {
            let left = capacity.saturating_sub(report.keys);
            format!("room for {} more", thousands(left))
        }
        None => format!("{}, grows", many(report.layers as u64, "layer")),
    };
    format!(
        "created {}: about {}, {room}, false-positive rate {} now, target {}, {}",
        out.display(),
        many(report.keys, "key"),
        rate(report.fpr_now),
        rate(report.fpr),
        bytes(report.bytes),
    )
}
