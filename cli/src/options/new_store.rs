//! What a store is like that a command creates on the way.

use std::path::Path;

use everseen::sizing::{Growth, PAGE_BYTES};
use everseen::{CreateOptions, ForgetBy, Forgetting, Kind, OptionDifference, Stats, Store};

use crate::error::CliError;
use crate::options::forgetting::{At, ForgetAfter};
use crate::options::units as size;
use crate::output::format::{bytes, many, rate, thousands};
use crate::output::tell;
use crate::process::disk;

/// The false positive rate, unless the command line says otherwise.
const RATE: f64 = 1e-6;

/// The part of the command line that describes the store to create.
#[derive(clap::Args)]
pub struct NewStore {
    /// Create it for this many keys, such as 50M: of fixed size, and faster
    ///
    /// A store that exists stays as it is: more keys than it was created for are an error,
    /// fewer a warning.
    #[arg(long, value_name = "N", value_parser = size::positive_count, help_heading = "A new store")]
    capacity: Option<u64>,

    /// Let a fingerprint store grow to this many keys [default: 2^36]
    ///
    /// A store that exists stays as it is: more keys than it may grow to are an error, fewer a warning.
    #[arg(long, value_name = "N", value_parser = size::positive_count, conflicts_with = "capacity", help_heading = "A new store")]
    grows_to: Option<u64>,

    /// Create it with this false positive rate [default: 1e-6]
    ///
    /// A store that exists stays as it is: a lower rate than it was created with is an error, a higher one a warning.
    #[arg(long, value_name = "P", value_parser = size::rate, help_heading = "A new store")]
    fpr: Option<f64>,

    /// Create it of this kind [default: bloom with a capacity, else fingerprint]
    ///
    /// If the store exists and is of another kind, that is an error.
    #[arg(long, help_heading = "A new store")]
    kind: Option<Kind>,

    #[command(flatten)]
    forget: ForgetAfter,
}

impl NewStore {
    /// Applies the description to the options of a store, which is transactional if its kind can be.
    pub fn apply(&self, options: CreateOptions) -> CreateOptions {
        let options = options.fpr(self.fpr.unwrap_or(RATE));
        let options = self.forget.apply(options);
        let mut options = options.transactional(can_be_transactional(self.kind));
        if let Some(kind) = self.kind {
            options = options.kind(kind);
        }
        match (self.capacity, self.grows_to) {
            (Some(capacity), _) => options.capacity(capacity),
            (None, Some(limit)) => options.grows_to(limit),
            (None, None) => options,
        }
    }

    /// Refuses a kind without the number of keys that it needs, or with one that it has no use for: for a store that is
    /// to be created. Also refuses a time at which lines come if it never forgets them.
    pub fn ensure_possible(&self, at: &At) -> Result<(), CliError> {
        at.ensure_forgetting(&self.forget)?;
        ensure_keys(self.kind, self.capacity, self.grows_to)
    }

    /// Warns of what may end the use of a store that was just created.
    pub fn warn_of_limits(&self, stats: &Stats, path: &Path) {
        warn_of_limits(stats, path, self.capacity.or(self.grows_to));
    }

    /// Compares a store that existed before with what the command line asks for. Refuses one that is less, and returns
    /// warnings of what has no effect since it is more.
    pub fn compare(&self, store: &Store, stats: &Stats, path: &Path) -> Result<Warnings, CliError> {
        let mut texts = Vec::new();
        for found in self.asked().differences(store)? {
            let (option, value) = self.named(&found);
            let asked = format!("{option} {value}");
            if found.is_unmet {
                return Err(CliError::OtherStore {
                    path: path.to_owned(),
                    asked,
                    has: unmet(&found, stats),
                });
            }
            let has = exceeding(&found, stats);
            let path = path.display();
            texts.push(format!("{path} was created {has}; {asked} has no effect"));
        }
        Ok(Warnings(texts))
    }

    /// Returns the options that the command line names.
    fn asked(&self) -> CreateOptions {
        let mut options = self.forget.apply(CreateOptions::new());
        if let Some(kind) = self.kind {
            options = options.kind(kind);
        }
        if let Some(fpr) = self.fpr {
            options = options.fpr(fpr);
        }
        match (self.capacity, self.grows_to) {
            (Some(capacity), _) => options.capacity(capacity),
            (None, Some(limit)) => options.grows_to(limit),
            (None, None) => options,
        }
    }

    /// Returns an option as the command line has it, and its value.
    fn named(&self, found: &OptionDifference) -> (String, String) {
        let value = match found.option {
            "kind" => self.kind.map(|kind| kind.to_string()),
            "capacity" => self.capacity.map(|keys| keys.to_string()),
            "grows_to" => self.grows_to.map(|keys| keys.to_string()),
            "fpr" => self.fpr.map(rate),
            option => self.forget.value_of(option),
        };
        let option = found.option.replace('_', "-");
        (format!("--{option}"), value.unwrap_or_default())
    }
}

/// Returns what a store is that is less than an option asks for.
fn unmet(found: &OptionDifference, stats: &Stats) -> String {
    match (found.option, stats.kind, stats.capacity) {
        ("fpr", ..) => format!("of rate {}", rate(stats.fpr_target)),
        ("forget_after" | "forget_steps" | "forget_by", ..) => forgetting(stats),
        ("capacity", _, Some(keys)) | ("grows_to", Kind::Fingerprint, Some(keys)) => {
            format!("for {} keys", thousands(keys))
        }
        _ => format!("of kind {}", stats.kind),
    }
}

/// Returns how a store forgets.
fn forgetting(stats: &Stats) -> String {
    match stats.forgetting {
        None => "one that keeps keys for ever".to_owned(),
        Some(Forgetting {
            window, steps, by, ..
        }) => {
            let window = size::typed(window);
            let by = match by {
                ForgetBy::Last => " since a key last came",
                _ => "",
            };
            format!("one that forgets after {window}{by}, in {steps} steps")
        }
    }
}

/// Returns how a store was created that is more than an option asks for.
fn exceeding(found: &OptionDifference, stats: &Stats) -> String {
    match (found.option, stats.kind, stats.capacity) {
        ("fpr", ..) => format!("with --fpr {}", rate(stats.fpr_target)),
        ("forget_steps", ..) => match stats.forgetting {
            Some(forgetting) => format!("with --forget-steps {}", forgetting.steps),
            None => "to keep keys for ever".to_owned(),
        },
        (_, Kind::Fingerprint, Some(keys)) => format!("to grow to {}", many(keys, "key")),
        (_, _, Some(keys)) => format!("with --capacity {keys}"),
        (_, _, None) => "to grow as needed".to_owned(),
    }
}

/// What the command line asks for and has no effect on a store that existed before.
pub struct Warnings(Vec<String>);

impl Warnings {
    pub fn tell(&self) {
        for text in &self.0 {
            tell(format_args!("everseen: warning: {text}"));
        }
    }
}

/// Returns whether a new store of a kind can be transactional. None is of kind counting unless it is asked for.
pub fn can_be_transactional(kind: Option<Kind>) -> bool {
    kind != Some(Kind::Counting)
}

/// The least limit of a store that grows at which a warning is due, unless it was asked for.
const FEW_KEYS: u64 = 1_000_000;

/// Warns of what may end the use of a new store long before its capacity. `capacity` is the number that the command line
/// names, if any.
pub fn warn_of_limits(stats: &Stats, path: &Path, capacity: Option<u64>) {
    let tell = |warning: String| {
        tell(format_args!(
            "everseen: warning: {}: {warning}",
            path.display()
        ));
    };
    let size = full_size(stats, capacity);
    if let Some(free) = disk::free(path).filter(|free| size > *free) {
        tell(format!(
            "takes {} once keys lie in all of its pages, and the disk has {} free, which some {} fill; make room, ask for \
             fewer keys or a higher rate, or leave out --capacity: a store that grows takes what its keys need",
            bytes(size),
            bytes(free),
            many(keys_that_fill(free, size), "key"),
        ));
    }
    if let (Kind::Fingerprint, None, Some(limit @ ..FEW_KEYS)) =
        (stats.kind, capacity, stats.capacity)
    {
        tell(format!(
            "takes {} at most, since a rate of {} leaves room for no more among 64-bit hashes; a higher --fpr does",
            many(limit, "key"),
            rate(stats.fpr_target),
        ));
    }
}

/// Returns the bytes of a new store once all of its pages, or those of its first layer, have keys; 0 if its size follows
/// its keys.
fn full_size(stats: &Stats, capacity: Option<u64>) -> u64 {
    match (stats.kind, capacity) {
        (Kind::Bloom | Kind::Counting, _) => stats.bytes,
        (Kind::Scalable, Some(first)) => {
            let growth = Growth::new(
                first,
                stats.fpr_target,
                CreateOptions::DEFAULT_GROWTH,
                CreateOptions::DEFAULT_TIGHTENING,
            );
            let layer = growth.and_then(|growth| growth.layer(0, first));
            layer.map_or(0, |layer| layer.bytes())
        }
        _ => 0,
    }
}

/// Returns after about how many keys the pages that have some take `free` of `size` bytes. Each key is in one page, drawn
/// at random, so that a few keys a page touch nearly all pages.
fn keys_that_fill(free: u64, size: u64) -> u64 {
    let untouched = 1.0 - free as f64 / size as f64;
    let keys = -untouched.ln() * (size / PAGE_BYTES) as f64;
    // Two digits are as exact as the estimate.
    let unit = 10_f64.powf(keys.max(1.0).log10().floor() - 1.0).max(1.0);
    ((keys / unit).round() * unit) as u64
}

/// Refuses a kind of fixed capacity without a capacity, and a limit for a kind that has none.
pub fn ensure_keys(
    kind: Option<Kind>,
    capacity: Option<u64>,
    grows_to: Option<u64>,
) -> Result<(), CliError> {
    match (kind, capacity) {
        (None | Some(Kind::Fingerprint), _) => Ok(()),
        _ if grows_to.is_some() => Err(CliError::Usage(
            "--grows-to is for --kind fingerprint; --kind scalable grows without a limit, and other kinds have a --capacity",
        )),
        (Some(kind), None) if kind != Kind::Scalable => Err(CliError::NeedsCapacity(kind)),
        _ => Ok(()),
    }
}
