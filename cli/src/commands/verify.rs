//! `everseen verify`: check every page of a store.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use everseen::{Damage, OpenOptions, SegmentDamage, VerifyReport};
use serde::Serialize;

use crate::error::CliError;
use crate::options::named_file::named_file;
use crate::options::timeout::Timeout;
use crate::output::format::{many, thousands};
use crate::output::progress::Progress;
use crate::output::{print, print_json};
use crate::process::exit_code::ExitCode;

/// Read all of a store, and name each damaged page
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen snapshot visited.ever copy.ever && everseen verify copy.ever
  everseen verify --json visited.ever | jq '.damaged[].page'

Exit status: 0 no damage, 1 damage, 2 error.";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let store = args
        .timeout
        .apply(OpenOptions::new().follow(true))
        .open_read_only(&args.store)?;
    let mut bar = Progress::of_bytes();
    let report = store.verify_watched(|progress| {
        bar.update_bytes(progress.done, progress.total);
        ControlFlow::Continue(())
    })?;
    drop(bar);
    store.close()?;
    if args.json {
        print_json(&Json::from(&report))?;
    } else {
        print(&text(&report))?;
    }
    Ok(ExitCode::from(u8::from(!report.is_ok())))
}

#[derive(Serialize)]
struct Json {
    ok: bool,
    pages: u64,
    /// The fault of one of the two superblocks.
    superblock: Option<String>,
    damaged: Vec<JsonDamage>,
    /// The number of damaged pages that are not listed.
    unlisted: u64,
    /// The damaged pages of a store of fingerprints, which has no layers.
    segments: Vec<JsonSegmentDamage>,
    /// The faults of sections (hashes that are kept exactly).
    sections: Vec<String>,
}

#[derive(Serialize)]
pub struct JsonSegmentDamage {
    page: u64,
    /// The number of keys that may be lost.
    keys: u64,
    reason: String,
}

impl From<&SegmentDamage> for JsonSegmentDamage {
    fn from(damage: &SegmentDamage) -> Self {
        JsonSegmentDamage {
            page: damage.page,
            keys: damage.keys,
            reason: damage.reason.clone(),
        }
    }
}

#[derive(Serialize)]
pub struct JsonDamage {
    layer: u32,
    page: u64,
    /// The number of keys that may be affected.
    keys: u64,
}

impl From<&Damage> for JsonDamage {
    fn from(damage: &Damage) -> Self {
        JsonDamage {
            layer: damage.layer,
            page: damage.page,
            keys: damage.keys,
        }
    }
}

impl From<&VerifyReport> for Json {
    fn from(report: &VerifyReport) -> Self {
        Json {
            ok: report.is_ok(),
            pages: report.pages,
            superblock: report.superblock.as_ref().map(ToString::to_string),
            damaged: report.damaged.iter().map(JsonDamage::from).collect(),
            unlisted: report.unlisted,
            segments: report
                .segments
                .iter()
                .map(JsonSegmentDamage::from)
                .collect(),
            sections: report.sections.iter().map(ToString::to_string).collect(),
        }
    }
}

fn text(report: &VerifyReport) -> String {
    let pages = many(report.pages, "page");
    let mut text = String::new();
    if let Some(fault) = &report.superblock {
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "one of the two superblocks: {fault}; the other one is in use, and the next checkpoint rewrites this one"
        );
    }
    if report.is_ok() {
        return text + &format!("{pages}, no damage\n");
    }
    for fault in &report.sections {
        // Writing to a string never fails.
        let _ = writeln!(text, "{fault}");
    }
    let found = damaged_pages(report);
    if found == 0 {
        return text + &format!("{pages}, none damaged\n");
    }
    text += &format!("{pages}, {} damaged:\n", thousands(found));
    text += &self::pages(&report.damaged, report.unlisted, "");
    text += &segments(&report.segments, "");
    text + "`everseen repair` makes the store usable again, without the keys that are lost\n"
}

/// Returns a line for each page of a store of fingerprints, which ends with what its keys have become.
pub fn segments(damaged: &[SegmentDamage], fate: &str) -> String {
    let line = |damage: &SegmentDamage| {
        let keys = match damage.keys {
            0 => "no key is lost with it".to_owned(),
            keys => format!("about {}{fate}", many(keys, "key")),
        };
        format!("  {}: {keys}\n", damage.reason)
    };
    damaged.iter().map(line).collect()
}

/// Returns how many damaged pages there are, whatever they hold.
pub fn damaged_pages(report: &VerifyReport) -> u64 {
    (report.damaged.len() + report.segments.len()) as u64 + report.unlisted
}

/// Returns a line for each page, which ends with what its keys have become, and one for the pages that are not listed.
pub fn pages(damaged: &[Damage], unlisted: u64, fate: &str) -> String {
    let line = |damage: &Damage| {
        let keys = many(damage.keys, "key");
        let (layer, page) = (damage.layer, damage.page);
        format!("  layer {layer}, page {page}: about {keys}{fate}\n")
    };
    let mut text: String = damaged.iter().map(line).collect();
    if unlisted > 0 {
        text += &format!("  and {} more\n", thousands(unlisted));
    }
    text
}
