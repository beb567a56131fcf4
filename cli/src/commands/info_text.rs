//! What `everseen info` tells people.

use std::fmt::Write;

use everseen::{
    ForgetBy, Forgetting, KeysByAge, KeysOfStep, Kind, LayerStats, RecoveryReport, RunStats, Stats,
};
use everseen_keys::rule::Kept;

use crate::commands::info::{Json, JsonDamage};
use crate::options::forgetting::moment;
use crate::options::units::typed;
use crate::output::format::{
    bits_per_key, bytes, hex, many, planned_for, rate, table as columns, thousands, utc,
};

/// Lines of the output: a label and a value.
type Rows = Vec<(&'static str, String)>;

/// Everything that the text says.
pub struct Facts<'a> {
    pub name: &'a str,
    pub stats: &'a Stats,
    pub label: Option<&'a [u8]>,
    pub recovery: &'a RecoveryReport,
    pub by_age: Option<&'a KeysByAge>,
    pub json: &'a Json,
}

/// Lines that say when keys are forgotten.
const MOST_DUE: usize = 8;

impl Facts<'_> {
    /// Says how many keys are forgotten at which time.
    fn when_keys_go(&self) -> Rows {
        let (Some(by_age), Some(forgetting)) = (self.by_age, self.stats.forgetting) else {
            return Rows::new();
        };
        let about = if by_age.are_all_read { "" } else { "about " };
        let is_gone = |step: &&KeysOfStep| step.forgotten <= forgetting.now;
        let gone = by_age.steps.iter().take_while(is_gone).count();
        let (gone, due) = by_age.steps.split_at(gone);
        let sum = |steps: &[KeysOfStep]| {
            let keys = steps.iter().map(|step| step.keys);
            format!("{about}{}", many(keys.sum(), "key"))
        };
        let mut rows = Rows::new();
        if !gone.is_empty() {
            rows.push((
                "forgotten",
                format!(
                    "{}, dropped by and by (checkpoint drops them now)",
                    sum(gone)
                ),
            ));
        }
        for some in due.chunks(due.len().div_ceil(MOST_DUE).max(1)) {
            let label = match rows.last() {
                Some(("due", _) | ("", _)) => "",
                _ => "due",
            };
            let at = some.last().map_or(forgetting.now, |step| step.forgotten);
            rows.push((label, format!("{} by {}", sum(some), moment(at))));
        }
        rows
    }

    pub fn text(&self) -> String {
        let rows = [
            what_it_is(self.name, self.stats),
            self.label.map_or_else(Rows::new, how_lines_are_read),
            how_full_it_is(self.stats, self.json),
            self.when_keys_go(),
            how_it_lies(self.stats, self.recovery, self.json),
        ];
        let mut text = String::new();
        for (label, value) in rows.into_iter().flatten() {
            // Writing to a string never fails.
            let _ = writeln!(text, "{label:<12}{value}");
        }
        match self.stats.kind {
            Kind::Fingerprint => text,
            _ => text + &table(&self.stats.layers),
        }
    }
}

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
        Kept::Rule(rule) => ("lines", format!("compared {rule}")),
        Kept::Nothing | Kept::Unknown => ("label", shown(label)),
    }]
}

fn how_full_it_is(stats: &Stats, json: &Json) -> Rows {
    let capacity = match stats.capacity {
        Some(keys) if stats.kind == Kind::Fingerprint => {
            format!("grows to {}", many(keys, "key"))
        }
        Some(keys) => many(keys, "key"),
        None => "grows".to_owned(),
    };
    let (keys, left) = (thousands(stats.keys), thousands(stats.keys_left));
    let (now, target) = (rate(stats.fpr_now), rate(stats.fpr_target));
    let mut rows = stats.forgetting.as_ref().map_or_else(Rows::new, forgetting);
    rows.extend([
        ("capacity", capacity),
        (
            "keys",
            match stats.forgetting {
                // Those that are forgotten, and not dropped yet, count too.
                Some(_) => format!("{keys} at most, room for {left} more"),
                None => format!("{keys}, room for {left} more"),
            },
        ),
        ("fpr", format!("{now} now, target {target}")),
    ]);
    if let Some(estimate) = &json.estimate {
        let (keys, fpr) = (many(estimate.keys, "key"), rate(estimate.fpr));
        rows.push(match stats.kind {
            Kind::Fingerprint => ("counted", format!("{keys} in pages, fpr {fpr}")),
            _ => (
                "estimate",
                format!("{keys} shown, fpr {fpr}, by the bits set in pages"),
            ),
        });
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

/// Describes how keys are forgotten, and what time it is for them.
fn forgetting(forgetting: &Forgetting) -> Rows {
    let Forgetting { window, steps, .. } = *forgetting;
    let (after, step) = (typed(window), typed(window / steps));
    let since = match forgetting.by {
        ForgetBy::Last => "last came",
        _ => "were added",
    };
    vec![
        (
            "forgets",
            format!("keys {after} after they {since}, or up to {step} later"),
        ),
        ("time", moment(forgetting.now)),
    ]
}

fn how_it_lies(stats: &Stats, recovery: &RecoveryReport, json: &Json) -> Rows {
    let per_key = bits_per_key(stats.bytes, planned_for(stats), stats.keys);
    let per_key = per_key.map(|bits| match stats.kind {
        // Checkpoints write beside what they replace. The next ones use that room again.
        Kind::Fingerprint => format!("{bits} ({:.1} without free pages)", stats.bits_per_key),
        _ => bits,
    });
    let size = [Some(bytes(stats.bytes)), per_key];
    let mut rows = vec![
        (
            "size",
            Vec::from_iter(size.into_iter().flatten()).join(", "),
        ),
        ("generation", thousands(stats.generation)),
        ("log", bytes(stats.log_bytes)),
    ];
    rows.extend(describe_runs(&stats.runs).map(|runs| ("runs", runs)));
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

/// Returns `None` for a store without runs.
fn describe_runs(runs: &[RunStats]) -> Option<String> {
    let (_, young) = runs.split_first()?;
    let changes = young
        .iter()
        .map(|run| run.added.saturating_add(run.removed));
    let changes = match changes.fold(0, u64::saturating_add) {
        0 => return Some("1".to_owned()),
        changes => many(changes, "change"),
    };
    let due = young.iter().map(|run| run.due);
    let due = match due.fold(0, u64::saturating_add) {
        0 => String::new(),
        due => format!(", {} due to be merged as keys come", thousands(due)),
    };
    Some(format!(
        "{}, with {changes} since the oldest{due} (checkpoint --full makes them one)",
        runs.len(),
    ))
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
