//! `everseen repair`: make a damaged store usable again.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use everseen::{Error, Escaped, OnDamage, RepairReport};
use serde::Serialize;

use crate::commands::verify::{JsonDamage, JsonSegmentDamage, pages, segments};
use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::on_damage::Repair;
use crate::options::units;
use crate::output::format::{bytes, many};
use crate::output::{print, print_json};
use crate::process::exit_code::ExitCode;

/// Repair a damaged store as far as possible
///
/// Restores a damaged header or superblock from its copies, and cuts off a log where a record is damaged. A log that does
/// not belong to the store file (because the file was replaced by a copy of another moment, or the log is of another
/// store) or whose header is damaged is set aside: it gets a name that ends in `-aside`, and the store goes on without
/// its keys. The keys of a damaged page are unknown: choose what they become. No process may have the store open. If you
/// may need what is lost, copy the store and its logs first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// What the keys of a damaged page become
    #[arg(long = "as", value_name = "WHAT", default_value = "never-seen")]
    policy: Repair,

    /// Make this the time of a store that forgets, such as 2026-11-27T13:30:00Z
    ///
    /// The time of a store never runs backwards otherwise: once lines were added by a clock that was ahead, all later ones
    /// are of that time. What the store forgot because of it stays forgotten.
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    set_clock: Option<SystemTime>,

    #[command(flatten)]
    memory: Memory,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  everseen verify visited.ever || everseen repair visited.ever
  everseen repair --as seen sent.ever      never send twice, at the cost of some never sent";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let policy: OnDamage = args.policy.into();
    let fate = match policy {
        OnDamage::Seen => " count as seen",
        _ => " lost",
    };
    let mut options = args.memory.options();
    if let Some(time) = args.set_clock {
        options = options.clock(time);
    }
    let report = everseen::repair(&args.store, policy, &options).map_err(explained)?;
    if args.json {
        print_json(&Json::from(&report))?;
    } else {
        print(&text(&report, fate))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains an error in words of the command.
fn explained(error: Error) -> CliError {
    match error {
        Error::InvalidOption {
            option: "repair", ..
        } => CliError::RepairAsSeen,
        error => error.into(),
    }
}

#[derive(Serialize)]
struct Json {
    /// Nothing was damaged.
    whole: bool,
    header: bool,
    superblock: bool,
    rolled_back: bool,
    log_missing: bool,
    log_bytes: u64,
    /// Logs that do not belong to the store file, by the names that they have now.
    set_aside: Vec<String>,
    exemptions: u64,
    sample: bool,
    pages: Vec<JsonDamage>,
    /// The number of damaged pages that are not listed.
    unlisted: u64,
    /// The damaged pages of a store of fingerprints, which has no layers.
    segments: Vec<JsonSegmentDamage>,
    /// Damaged pages that are holes and remain holes.
    blank: u64,
}

impl From<&RepairReport> for Json {
    fn from(report: &RepairReport) -> Self {
        Json {
            whole: report.is_whole(),
            header: report.header,
            superblock: report.superblock,
            rolled_back: report.rolled_back,
            log_missing: report.log_missing,
            log_bytes: report.log_bytes,
            set_aside: report
                .set_aside
                .iter()
                .map(|log| log.display().to_string())
                .collect(),
            exemptions: report.exemptions,
            sample: report.sample,
            pages: report.pages.iter().map(JsonDamage::from).collect(),
            unlisted: report.unlisted,
            segments: report
                .segments
                .iter()
                .map(JsonSegmentDamage::from)
                .collect(),
            blank: report.blank,
        }
    }
}

fn text(report: &RepairReport, fate: &str) -> String {
    if report.is_whole() {
        return "nothing is damaged\n".to_owned();
    }
    let mut text = String::new();
    if report.header {
        text += "the header was restored\n";
    }
    if report.superblock {
        text += "a superblock was restored\n";
    }
    if report.rolled_back {
        text += "the newest superblock or its log is lost: commits and tags are those of the one before it\n";
    }
    if report.log_missing {
        text += "the newest log is missing: the keys and commits in it are lost, those of the log before are kept\n";
    }
    if report.log_bytes > 0 {
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{} cut off a damaged log: keys in them are lost",
            bytes(report.log_bytes)
        );
    }
    for log in &report.set_aside {
        let _ = writeln!(
            text,
            "{} was set aside: it does not fit the store file, and its keys are in no store now",
            Escaped(log.display())
        );
    }
    if report.sample {
        text += "the sample was given up: the false positive rate is not measured any more\n";
    }
    if report.exemptions > 0 {
        let _ = writeln!(
            text,
            "the exemptions were given up: {} count as seen again",
            many(report.exemptions, "key")
        );
    }
    if report.blank > 0 {
        let _ = writeln!(
            text,
            "{} had been written and are blank now: their keys are unseen",
            many(report.blank, "page")
        );
    }
    text + &damaged(report, fate)
}

/// Returns what became of damaged pages.
fn damaged(report: &RepairReport, fate: &str) -> String {
    let mut text = String::new();
    if !report.pages.is_empty() {
        let _ = writeln!(
            text,
            "{} repaired:",
            many(report.pages.len() as u64 + report.unlisted, "page")
        );
        text += &pages(&report.pages, report.unlisted, fate);
    }
    if !report.segments.is_empty() {
        let _ = writeln!(
            text,
            "{} given up:",
            many(report.segments.len() as u64, "damaged page")
        );
        text += &segments(&report.segments, fate);
    }
    text
}
