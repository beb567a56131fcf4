//! `everseen create`: create a store.

use std::path::{Path, PathBuf};

use everseen::{CreateOptions, Hash, Kind, OpenOptions, Stats};
use serde::Serialize;

use crate::error::CliError;
use crate::input::reading::Reading;
use crate::input::records::KeyOptions;
use crate::options::forgetting::ForgetAfter;
use crate::options::named_file::named_file;
use crate::options::new_store::{can_be_transactional, ensure_keys, warn_of_limits};
use crate::options::timeout::Timeout;
use crate::options::units as size;
use crate::output::format as human;
use crate::output::{print_json, tell};
use crate::process::exit_code::ExitCode;
use crate::process::{disk, side_files};

/// Create a store; never overwrites
///
/// With a capacity, the store has its full size from the start and refuses more keys. Without one it grows. A store of kind
/// fingerprint always grows, up to its capacity or limit.
///
/// The store is transactional, as one that `dedup` creates, unless it is of kind counting, which can't be: after a crash
/// it returns to the last commit, so that it is never ahead of what was done with its answers. Every command commits what
/// it did. A program must do so itself, or its keys are dropped when it closes the store; in Python, a `with` block commits
/// when it ends. In a store that is not transactional `dedup` takes a fourth to a third longer, since it must hold new
/// lines apart until they are printed, and runs alone.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store's file
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// The maximum number of keys, such as 50_000_000, 50M or 5e7
    ///
    /// For a store that grows in layers: the keys of its first one.
    #[arg(long, value_name = "N", value_parser = size::positive_count)]
    capacity: Option<u64>,

    /// How many keys a fingerprint store may grow to [default: 2^36]
    ///
    /// Each doubling takes one bit more for each key. 2^36 are some 69 billion; it is fewer where the rate asks for
    /// that.
    #[arg(long, value_name = "N", value_parser = size::positive_count, conflicts_with = "capacity")]
    grows_to: Option<u64>,

    /// How often a new key may be taken for a seen one [default: 1e-6]
    #[arg(long, value_name = "P", value_parser = size::rate, conflicts_with = "bits_per_key")]
    fpr: Option<f64>,

    /// Bits to spend on each key, instead of a rate
    #[arg(long, value_name = "B", value_parser = size::bits)]
    bits_per_key: Option<f64>,

    /// Its kind: bloom, fingerprint, counting or scalable
    ///
    /// bloom is of fixed capacity; fingerprint grows and can remove keys; counting counts keys and can remove them;
    /// scalable grows in layers [default: bloom with a capacity, else fingerprint].
    #[arg(long)]
    kind: Option<Kind>,

    /// The hash function: highway, xxh3 or murmur3 [default: highway]
    ///
    /// highway resists keys that an attacker chooses; xxh3 and murmur3 do not.
    #[arg(long)]
    hash: Option<Hash>,

    /// The key of the hash function, 64 hex digits [default: random]
    #[arg(long, value_name = "HEX", value_parser = size::seed)]
    seed: Option<[u8; 32]>,

    /// Create a store that can be merged with this one
    ///
    /// See `everseen union`. It gets the same hash function, seed, kind, size and rate, and compares lines in the same
    /// way. It is transactional, and keeps a sample, if that one does.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["capacity", "grows_to", "fpr", "bits_per_key", "kind", "hash", "seed", "foldable", "forget_after"], value_parser = named_file())]
    like: Option<PathBuf>,

    /// With --like: this many times its pages, and room for more keys
    #[arg(long, value_name = "F", value_parser = size::positive_count, requires = "like")]
    times: Option<u64>,

    /// Let the number of pages be halved this often, 0 to 20 times
    ///
    /// With a capacity: rounds the number of pages up (`everseen fold`).
    #[arg(long, value_name = "LEVELS")]
    foldable: Option<u32>,

    /// Return to the last commit after a crash [default: by the kind]
    ///
    /// By default yes, but no for kind counting, and with --like as that store.
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = clap::builder::BoolishValueParser::new())]
    transactional: Option<bool>,

    /// Remember each key as it is added, for programs without commits
    ///
    /// In such a store `dedup` is slower, refuses a second run beside the first, and refuses -o.
    #[arg(long, conflicts_with = "transactional")]
    no_transactional: bool,

    /// Keep no sample, by which `info` measures the rate
    ///
    /// By default one key in 4096 is kept exactly (fewer where that takes more than a hundredth of the store).
    #[arg(long)]
    no_sample: bool,

    #[command(flatten)]
    forget: ForgetAfter,

    #[command(flatten)]
    keys: KeyOptions,

    #[command(flatten)]
    timeout: Timeout,

    /// Print what was created as JSON on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  everseen create visited.ever                             grows; for a crawler's visited set
  everseen create spam.ever --capacity 50M --fpr 1e-4      of fixed size
  everseen create live.ever --kind counting --capacity 10M keys can be removed; four times as large
  everseen create open.ever --grows-to 1e9 --fpr 1e-9      grows, and keys can be removed
  everseen create fetched.ever --forget-after 30d          forgets each key after 30 days
  everseen create links.ever --url --sort-query            for URLs; later commands know
  everseen create ids.ever --capacity 1e9 --bits-per-key 16
  everseen create tue.ever --like mon.ever                 can be merged with mon.ever
  everseen create big.ever --capacity 1e9 --foldable 6     can be halved six times";

impl Args {
    /// Returns whether the store is to be transactional; `None` leaves that to the store that it is to be like.
    fn is_transactional(&self) -> Option<bool> {
        match self.transactional {
            _ if self.no_transactional => Some(false),
            None if self.like.is_none() => Some(can_be_transactional(self.kind)),
            asked => asked,
        }
    }
}

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    check_template(&args)?;
    ensure_keys(args.kind, args.capacity, args.grows_to)?;
    let handle = args.timeout.apply(OpenOptions::new());
    let options = CreateOptions::new().open_options(handle);
    let mut options = args.forget.apply(options);
    if let Some(yes) = args.is_transactional() {
        options = options.transactional(yes);
    }
    if args.no_sample {
        options = options.measured(false);
    }
    if let Some(capacity) = args.capacity {
        options = options.capacity(capacity);
    }
    if let Some(limit) = args.grows_to {
        options = options.grows_to(limit);
    }
    if let Some(fpr) = args.fpr {
        options = options.fpr(fpr);
    }
    if let Some(bits) = args.bits_per_key {
        options = options.bits_per_key(bits);
    }
    if let Some(kind) = args.kind {
        options = options.kind(kind);
    }
    if let Some(hash) = args.hash {
        options = options.hash(hash);
    }
    if let Some(seed) = args.seed {
        options = options.seed(seed);
    }
    if let Some(levels) = args.foldable {
        options = options.foldable(levels);
    }
    options = match &args.like {
        Some(like) => options.like(like).times(args.times.unwrap_or(1)),
        None => {
            args.keys.ensure_complete()?;
            options.label(&Reading::asked(&args.keys)?.label())
        }
    };
    let store = options.create(&args.store)?;
    let stats = store.stats()?;
    store.close()?;
    tell(format_args!(
        "created {}: {}",
        args.store.display(),
        described(&stats)
    ));
    warn_of_limits(&stats, &args.store, args.capacity.or(args.grows_to));
    if args.json {
        print_json(&Json::of(&stats, &args.store))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Json {
    path: String,
    kind: String,
    hash: String,
    transactional: bool,
    /// Absent in a store that grows in layers.
    capacity: Option<u64>,
    fpr_target: f64,
    bytes: u64,
    /// Absent where the system can't tell.
    disk_free: Option<u64>,
}

impl Json {
    fn of(stats: &Stats, path: &Path) -> Self {
        Json {
            path: path.display().to_string(),
            kind: stats.kind.to_string(),
            hash: stats.hash.to_string(),
            transactional: stats.transactional,
            capacity: stats.capacity,
            fpr_target: stats.fpr_target,
            bytes: stats.bytes,
            disk_free: disk::free(path),
        }
    }
}

fn described(stats: &Stats) -> String {
    let transactional = match stats.transactional {
        true => ", transactional",
        false => "",
    };
    let forgets = stats.forgetting.map_or(String::new(), |forgetting| {
        format!(", forgets after {}", size::typed(forgetting.window))
    });
    let keys = |keys| human::many(keys, "key");
    let capacity = match stats.capacity {
        Some(limit) if stats.kind == Kind::Fingerprint => format!("grows to {}", keys(limit)),
        Some(capacity) => keys(capacity),
        None => "grows".to_owned(),
    };
    format!(
        "{}{transactional}, {capacity}{forgets}, false-positive rate {}, hash {}, {}",
        stats.kind,
        human::rate(stats.fpr_target),
        stats.hash,
        human::bytes(stats.bytes),
    )
}

/// Refuses a template that is in the way, and options that it decides.
fn check_template(args: &Args) -> Result<(), CliError> {
    let Some(like) = args.like.as_deref() else {
        return Ok(());
    };
    let both = [like, &args.store];
    side_files::refuse(&both, &both)?;
    match args.keys.is_given() {
        true => Err(CliError::Usage(
            "--like creates a store that compares lines as the other one does; leave out --url, --json-key and the like",
        )),
        false => Ok(()),
    }
}
