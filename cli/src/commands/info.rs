//! `everseen info`: show the contents of a store.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use everseen::sizing::Interval;
use everseen::{
    Commit, Escaped, Forgetting, KeysByAge, LayerStats, Measured, OpenOptions, RecoveryReport,
    RunStats, Stats, VerifyReport,
};
use everseen_keys::rule::Kept;
use serde::Serialize;

use crate::commands::info_text::Facts;
use crate::commands::verify::damaged_pages;
use crate::error::CliError;
use crate::input::reading::JsonReading;
use crate::options::forgetting::At;
use crate::options::named_file::named_file;
use crate::options::timeout::Timeout;
use crate::output::format::{hex, many, rate, thousands};
use crate::output::{print, print_json};
use crate::process::exit_code::ExitCode;

/// Show what a store is and holds: kind, keys, fill, expected rate, layers, log, commits
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// Also read all pages: count damaged ones, estimate keys and rate
    ///
    /// verify names the damaged ones. Keys and rate are estimated from the bits that are set, or the fingerprints are
    /// counted.
    #[arg(long)]
    pages: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen info visited.ever
  everseen info --pages visited.ever                    its rate by the bits that are set
  everseen info --json visited.ever | jq .keys";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let options = args.timeout.apply(OpenOptions::new().follow(true));
    let store = args.at.apply(options).open_read_only(&args.store)?;
    args.at.tell(&store)?;
    let stats = store.stats()?;
    let measured = stats.measured;
    let by_age = store.keys_by_age()?;
    let recovery = store.recovery().clone();
    let label = store.label().map(<[u8]>::to_vec);
    let report = args.pages.then(|| store.verify()).transpose()?;
    store.close()?;
    let damage = JsonDamage::of(&recovery, report.as_ref());
    let estimate = report.as_ref().map(JsonEstimate::from);
    let mut json = Json::of(&stats, &recovery, damage, estimate);
    json.measured = measured.as_ref().map(JsonMeasured::from);
    if let (Some(forgetting), Some(by_age)) = (&mut json.forgetting, &by_age) {
        forgetting.keep_ages(by_age);
    }
    if let Some(label) = &label {
        json.keep_label(label);
    }
    if args.json {
        print_json(&json)?;
    } else {
        let name = Escaped(args.store.display()).to_string();
        let facts = Facts {
            name: &name,
            stats: &stats,
            label: label.as_deref(),
            recovery: &recovery,
            by_age: by_age.as_ref(),
            json: &json,
        };
        print(&facts.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
pub struct Json {
    kind: String,
    hash: String,
    /// Absent in a store that grows in layers. Otherwise the most keys that it takes.
    capacity: Option<u64>,
    fpr_target: f64,
    fpr_now: f64,
    keys: u64,
    /// The maximum number of keys, and how many more the store accepts.
    key_limit: u64,
    keys_left: u64,
    /// Keys that are absent, whatever the pages say.
    exempt: u64,
    /// Absent unless all pages were read.
    pub estimate: Option<JsonEstimate>,
    /// Absent unless the store keeps a sample of its keys.
    pub measured: Option<JsonMeasured>,
    bytes: u64,
    bits_per_key: f64,
    generation: u64,
    log_bytes: u64,
    /// Memory for write buffers. Absent unless others have the store open.
    pub buffer_bytes: Option<u64>,
    transactional: bool,
    /// Absent in a store that keeps keys for ever.
    forgetting: Option<JsonForgetting>,
    store_id: String,
    /// The bytes that the store was created with: as text if they are, and in hexadecimal.
    label: Option<String>,
    label_hex: Option<String>,
    /// What the label says about lines, if it is the command's.
    lines: Option<JsonReading>,
    /// Seconds since 1970.
    created: u64,
    commits: Vec<JsonCommit>,
    layers: Vec<JsonLayer>,
    runs: Vec<JsonRun>,
    recovery: JsonRecovery,
    pub damage: JsonDamage,
}

/// The recovery that is needed, or was done, because the last user didn't close the store.
#[derive(Serialize)]
pub struct JsonRecovery {
    /// Other processes have the store open, so there is nothing to recover.
    in_use: bool,
    logs: u64,
    keys: u64,
    dropped: u64,
    checkpoint: bool,
}

/// How the store forgets. Times are in seconds.
#[derive(Serialize)]
struct JsonForgetting {
    after: f64,
    by: &'static str,
    steps: u32,
    /// Since 1970.
    now: f64,
    /// Absent before the first checkpoint.
    latest: Option<f64>,
    earliest: Option<f64>,
    due: Vec<JsonDue>,
    due_is_estimate: bool,
}

/// Keys that are forgotten at one time.
#[derive(Serialize)]
struct JsonDue {
    /// Since 1970.
    at: f64,
    keys: u64,
}

/// Returns seconds since 1970.
fn since_1970(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

impl JsonForgetting {
    fn keep_ages(&mut self, by_age: &KeysByAge) {
        let due = by_age.steps.iter().map(|step| JsonDue {
            at: since_1970(step.forgotten),
            keys: step.keys,
        });
        (self.due, self.due_is_estimate) = (due.collect(), !by_age.are_all_read);
    }
}

impl From<&Forgetting> for JsonForgetting {
    fn from(forgetting: &Forgetting) -> Self {
        JsonForgetting {
            after: forgetting.window.as_secs_f64(),
            by: forgetting.by.name(),
            steps: forgetting.steps,
            now: since_1970(forgetting.now),
            latest: forgetting.latest.map(since_1970),
            earliest: forgetting.earliest.map(since_1970),
            due: Vec::new(),
            due_is_estimate: false,
        }
    }
}

/// The estimate from the bits set in the pages.
#[derive(Serialize)]
pub struct JsonEstimate {
    /// Different keys shown so far, including those mistaken for seen.
    pub keys: u64,
    pub fpr: f64,
}

impl From<&VerifyReport> for JsonEstimate {
    fn from(report: &VerifyReport) -> Self {
        JsonEstimate {
            keys: report.keys_estimate().round() as u64,
            fpr: report.fpr(),
        }
    }
}

/// The wrong answers so far, according to the sample.
#[derive(Serialize)]
pub struct JsonMeasured {
    /// One key in this many is sampled.
    one_in: u64,
    sampled: u64,
    false_positives: u64,
    /// The total number of keys lost.
    lost: JsonInterval,
    /// Lost keys divided by keys shown.
    rate: JsonInterval,
}

/// The interval that holds the true value with 95 % confidence. Without a false positive, only `high` is meaningful: a
/// bound.
#[derive(Serialize)]
pub struct JsonInterval {
    estimate: f64,
    low: f64,
    high: f64,
}

impl From<Interval> for JsonInterval {
    fn from(interval: Interval) -> Self {
        JsonInterval {
            estimate: interval.estimate,
            low: interval.low,
            high: interval.high,
        }
    }
}

impl From<&Measured> for JsonMeasured {
    fn from(measured: &Measured) -> Self {
        JsonMeasured {
            one_in: measured.one_in,
            sampled: measured.sampled,
            false_positives: measured.false_positives,
            lost: measured.lost.into(),
            rate: measured.rate.into(),
        }
    }
}

impl JsonMeasured {
    /// Describes what was measured of a store with this target rate. A bound above that tells nothing, and is left out.
    pub fn describe(&self, target: f64) -> String {
        let keys = |keys: f64| thousands(keys.round() as u64);
        let one_in = thousands(self.one_in);
        match self.false_positives {
            0 if self.sampled == 0 => format!("nothing yet: one key in {one_in} is kept exactly"),
            0 if self.rate.high > target => format!(
                "none of {} kept exactly was lost (one in {one_in}): too few to measure a rate of {}",
                many(self.sampled, "key"),
                rate(target)
            ),
            0 => format!(
                "none of {} kept exactly was lost (one in {one_in}): at most {} in all, fpr at most {} (95 %)",
                many(self.sampled, "key"),
                keys(self.lost.high.ceil()),
                rate(self.rate.high)
            ),
            lost => format!(
                "{} lost of {} kept exactly (one in {one_in}): about {} in all, {} to {} (95 %), fpr {}, {} to {}",
                thousands(lost),
                many(lost + self.sampled, "key"),
                keys(self.lost.estimate),
                keys(self.lost.low),
                keys(self.lost.high),
                rate(self.rate.estimate),
                rate(self.rate.low),
                rate(self.rate.high)
            ),
        }
    }
}

#[derive(Serialize)]
pub struct JsonDamage {
    /// The fault of one of the two superblocks.
    pub superblock: Option<String>,
    /// Absent unless all pages were read.
    pub pages: Option<u64>,
}

impl JsonDamage {
    fn of(recovery: &RecoveryReport, report: Option<&VerifyReport>) -> Self {
        let superblock = recovery.superblock.as_ref();
        JsonDamage {
            superblock: superblock.map(ToString::to_string),
            pages: report.map(damaged_pages),
        }
    }
}

#[derive(Serialize)]
pub struct JsonCommit {
    writer: String,
    seq: u64,
    /// Absent where it isn't text.
    tag: Option<String>,
    tag_hex: String,
}

#[derive(Serialize)]
struct JsonRun {
    added: u64,
    removed: u64,
    pages: u64,
    due: u64,
}

#[derive(Serialize)]
pub struct JsonLayer {
    capacity: u64,
    keys: u64,
    pages: u64,
    bits: u64,
    k: u32,
    fill: f64,
    fpr: f64,
}

impl Json {
    fn of(
        stats: &Stats,
        recovery: &RecoveryReport,
        damage: JsonDamage,
        estimate: Option<JsonEstimate>,
    ) -> Self {
        Json {
            kind: stats.kind.to_string(),
            hash: stats.hash.to_string(),
            capacity: stats.capacity,
            fpr_target: stats.fpr_target,
            fpr_now: stats.fpr_now,
            keys: stats.keys,
            key_limit: stats.key_limit,
            keys_left: stats.keys_left,
            exempt: stats.exempt,
            estimate,
            measured: None,
            bytes: stats.bytes,
            bits_per_key: stats.bits_per_key,
            generation: stats.generation,
            log_bytes: stats.log_bytes,
            buffer_bytes: recovery.joined.then_some(stats.buffer_bytes),
            transactional: stats.transactional,
            forgetting: stats.forgetting.as_ref().map(JsonForgetting::from),
            store_id: hex(&stats.store_id),
            label: None,
            label_hex: None,
            lines: None,
            created: stats.created,
            commits: stats.commits.iter().map(JsonCommit::from).collect(),
            layers: stats.layers.iter().map(JsonLayer::from).collect(),
            runs: stats.runs.iter().map(JsonRun::from).collect(),
            recovery: JsonRecovery {
                in_use: recovery.joined,
                logs: recovery.logs,
                keys: recovery.keys,
                dropped: recovery.dropped,
                checkpoint: recovery.checkpoint,
            },
            damage,
        }
    }
}

impl Json {
    fn keep_label(&mut self, label: &[u8]) {
        self.label = str::from_utf8(label).ok().map(str::to_owned);
        self.label_hex = Some(hex(label));
        if let Kept::Rule(rule) = Kept::of_label(label) {
            self.lines = Some(rule.into());
        }
    }
}

impl From<&Commit> for JsonCommit {
    fn from(commit: &Commit) -> Self {
        JsonCommit {
            writer: commit.writer.clone(),
            seq: commit.sequence,
            tag: str::from_utf8(&commit.tag).ok().map(str::to_owned),
            tag_hex: hex(&commit.tag),
        }
    }
}

impl From<&RunStats> for JsonRun {
    fn from(run: &RunStats) -> Self {
        JsonRun {
            added: run.added,
            removed: run.removed,
            pages: run.pages,
            due: run.due,
        }
    }
}

impl From<&LayerStats> for JsonLayer {
    fn from(layer: &LayerStats) -> Self {
        JsonLayer {
            capacity: layer.capacity,
            keys: layer.keys,
            pages: layer.pages,
            bits: layer.bits,
            k: layer.k,
            fill: layer.fill,
            fpr: layer.fpr,
        }
    }
}
