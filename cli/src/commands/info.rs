//! `everseen info`: show the contents of a store.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use everseen::sizing::Interval;
use everseen::{Commit, LayerStats, Measured, Options, RecoveryReport, Stats, VerifyReport};
use serde::Serialize;

use crate::error::CliError;
use crate::input::reading::{JsonReading, Kept};
use crate::options::named_file::named_file;
use crate::options::timeout::Timeout;
use crate::output::format::{
    bits_per_key, bytes, hex, many, rate, table as columns, thousands, utc,
};
use crate::output::{print, print_json};

/// Show what a store is and holds: kind, keys, fill, expected rate, layers, log, commits
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// Also read all pages: count the damaged ones (verify names them), and estimate keys and rate from the bits that
    /// are set
    #[arg(long)]
    pages: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen info visited.ever
  everseen info --pages visited.ever                    its rate by the bits that are set
  everseen info --json visited.ever | jq .keys";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let store = args
        .timeout
        .apply(Options::new())
        .open_read_only(&args.store)?;
    let stats = store.stats()?;
    let measured = store.measured()?;
    let recovery = store.recovery().clone();
    let label = store.label().map(<[u8]>::to_vec);
    let report = args.pages.then(|| store.verify()).transpose()?;
    store.close()?;
    let damage = JsonDamage::of(&recovery, report.as_ref());
    let estimate = report.as_ref().map(JsonEstimate::from);
    let mut json = Json::of(&stats, &recovery, damage, estimate);
    json.measured = measured.as_ref().map(JsonMeasured::from);
    if let Some(label) = &label {
        json.keep_label(label);
    }
    if args.json {
        print_json(&json)?;
    } else {
        let name = args.store.display().to_string();
        let rows = [
            what_it_is(&name, &stats),
            label.as_deref().map_or_else(Rows::new, how_lines_are_read),
            how_full_it_is(&stats, &json),
            how_it_lies(&stats, &recovery, &json),
        ];
        print(&text(rows.into_iter().flatten(), &stats.layers))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Json {
    kind: String,
    hash: String,
    /// Absent in a store that grows.
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
    estimate: Option<JsonEstimate>,
    /// Absent unless the store keeps a sample of its keys.
    measured: Option<JsonMeasured>,
    bytes: u64,
    bits_per_key: f64,
    generation: u64,
    log_bytes: u64,
    /// Memory for write buffers. Absent unless others have the store open.
    buffer_bytes: Option<u64>,
    transactional: bool,
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
    recovery: JsonRecovery,
    damage: JsonDamage,
}

/// The recovery that is needed, or was done, because the last user didn't close the store.
#[derive(Serialize)]
struct JsonRecovery {
    /// Other processes have the store open, so there is nothing to recover.
    in_use: bool,
    logs: u64,
    keys: u64,
    dropped: u64,
    checkpoint: bool,
}

/// The estimate from the bits set in the pages.
#[derive(Serialize)]
struct JsonEstimate {
    /// Different keys shown so far, including those mistaken for seen.
    keys: u64,
    fpr: f64,
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
struct JsonMeasured {
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
struct JsonInterval {
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
    fn describe(&self, target: f64) -> String {
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
struct JsonDamage {
    /// The fault of one of the two superblocks.
    superblock: Option<String>,
    /// Absent unless all pages were read.
    pages: Option<u64>,
}

impl JsonDamage {
    fn of(recovery: &RecoveryReport, report: Option<&VerifyReport>) -> Self {
        let superblock = recovery.superblock.as_ref();
        JsonDamage {
            superblock: superblock.map(ToString::to_string),
            pages: report.map(|report| report.damaged.len() as u64),
        }
    }
}

#[derive(Serialize)]
struct JsonCommit {
    writer: String,
    seq: u64,
    /// Absent where it isn't text.
    tag: Option<String>,
    tag_hex: String,
}

#[derive(Serialize)]
struct JsonLayer {
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
            store_id: hex(&stats.store_id),
            label: None,
            label_hex: None,
            lines: None,
            created: stats.created,
            commits: stats.commits.iter().map(JsonCommit::from).collect(),
            layers: stats.layers.iter().map(JsonLayer::from).collect(),
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
        if let Kept::Reading(reading) = Kept::of_label(label) {
            self.lines = Some(reading.into());
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

fn text(rows: impl Iterator<Item = (&'static str, String)>, layers: &[LayerStats]) -> String {
    let mut text = String::new();
    for (label, value) in rows {
        // Writing to a string never fails.
        let _ = writeln!(text, "{label:<12}{value}");
    }
    text + &table(layers)
}

/// Lines of the output: a label and a value.
type Rows = Vec<(&'static str, String)>;

fn what_it_is(name: &str, stats: &Stats) -> Rows {
    let transactional = match stats.transactional {
        true => ", transactional",
        false => "",
    };
    vec![
        ("store", name.to_owned()),
        ("id", hex(&stats.store_id)),
        ("created", utc(stats.created)),
        ("kind", format!("{}{transactional}", stats.kind)),
        ("hash", stats.hash.to_string()),
    ]
}

/// Describes a label: what it says about lines, or as it is.
fn how_lines_are_read(label: &[u8]) -> Rows {
    vec![match Kept::of_label(label) {
        Kept::Reading(reading) => ("lines", format!("compared {reading}")),
        Kept::Nothing | Kept::Unknown => ("label", shown(label)),
    }]
}

fn how_full_it_is(stats: &Stats, json: &Json) -> Rows {
    let capacity = match stats.capacity {
        Some(keys) => many(keys, "key"),
        None => "grows".to_owned(),
    };
    let (keys, left) = (thousands(stats.keys), thousands(stats.keys_left));
    let (now, target) = (rate(stats.fpr_now), rate(stats.fpr_target));
    let mut rows = vec![
        ("capacity", capacity),
        ("keys", format!("{keys}, room for {left} more")),
        ("fpr", format!("{now} now, target {target}")),
    ];
    if let Some(estimate) = &json.estimate {
        let (keys, fpr) = (many(estimate.keys, "key"), rate(estimate.fpr));
        let shown = format!("{keys} shown, fpr {fpr}, by the bits set in pages");
        rows.push(("estimate", shown));
    }
    if let Some(measured) = &json.measured {
        rows.push(("measured", measured.describe(stats.fpr_target)));
    }
    if stats.exempt > 0 {
        let keys = many(stats.exempt, "key");
        let known = format!("{keys}, known never to have been inserted");
        rows.push(("exempt", known));
    }
    rows
}

fn how_it_lies(stats: &Stats, recovery: &RecoveryReport, json: &Json) -> Rows {
    let per_key = bits_per_key(stats.bytes, stats.capacity, stats.keys);
    let size = [Some(bytes(stats.bytes)), per_key];
    let mut rows = vec![
        (
            "size",
            Vec::from_iter(size.into_iter().flatten()).join(", "),
        ),
        ("generation", thousands(stats.generation)),
        ("log", bytes(stats.log_bytes)),
    ];
    if let Some(taken) = json.buffer_bytes {
        rows.push(("buffers", format!("{} of memory", bytes(taken))));
    }
    if recovery.logs > 0 {
        let dropped = match recovery.dropped {
            0 => String::new(),
            dropped => format!(", {} not committed and dropped", thousands(dropped)),
        };
        let keys = many(recovery.keys, "key");
        rows.push(("recovery", format!("{keys} from the log{dropped}")));
    }
    rows.push(("damage", describe(&json.damage)));
    for commit in &stats.commits {
        let sequence = thousands(commit.sequence);
        let (writer, tag) = (commit.writer.escape_debug(), tag(&commit.tag));
        rows.push((
            "last commit",
            format!("number {sequence} of writer \"{writer}\"{tag}"),
        ));
    }
    rows
}

fn describe(damage: &JsonDamage) -> String {
    let pages = match damage.pages {
        None => "pages not looked at (verify reads them all)".to_owned(),
        Some(0) => "no page".to_owned(),
        Some(1) => "1 page (verify names it)".to_owned(),
        Some(pages) => format!("{} pages (verify names them)", thousands(pages)),
    };
    match &damage.superblock {
        None => pages,
        Some(fault) => format!("one of the two superblocks: {fault}; {pages}"),
    }
}

fn tag(tag: &[u8]) -> String {
    match tag.is_empty() {
        true => String::new(),
        false => format!(", tag {}", shown(tag)),
    }
}

/// Returns the start of some bytes in a form that a terminal can show.
fn shown(bytes: &[u8]) -> String {
    const MOST_SHOWN: usize = 60;
    match bytes.len() {
        length if length <= MOST_SHOWN => format!("\"{}\"", bytes.escape_ascii()),
        length => format!(
            "\"{}\"… ({length} bytes)",
            bytes[..MOST_SHOWN].escape_ascii()
        ),
    }
}

fn table(layers: &[LayerStats]) -> String {
    let header = [
        "layer", "capacity", "keys", "pages", "bits", "k", "fill", "fpr",
    ]
    .map(str::to_owned);
    let rows = layers.iter().enumerate().map(|(number, layer)| {
        [
            number.to_string(),
            thousands(layer.capacity),
            thousands(layer.keys),
            thousands(layer.pages),
            thousands(layer.bits),
            layer.k.to_string(),
            format!("{:.1} %", 100.0 * layer.fill),
            rate(layer.fpr),
        ]
    });
    "\n".to_owned() + &columns(std::iter::once(header).chain(rows))
}
