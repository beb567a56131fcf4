//! `everseen plan`: how large, how exact, how many?

use everseen::sizing::Plan;
use everseen::{CreateOptions, Kind};
use serde::Serialize;

use crate::commands::fingerprint_plan::{JsonFill, Outlook};
use crate::commands::forgetting_plan::{Forgetting, JsonForgetting};
use crate::commands::growth_plan::GrowthPlan;
use crate::error::CliError;
use crate::options::units as size;
use crate::output::format::{bytes, rate, thousands};
use crate::output::{print, print_json};
use crate::process::exit_code::ExitCode;

/// Compute what a store takes, from two of capacity, rate, bits per key, and size
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The number of keys, such as 50_000_000, 50M or 5e7
    #[arg(long, value_name = "N", value_parser = size::positive_count)]
    capacity: Option<u64>,

    /// With --kind fingerprint: how many keys it may grow to [default: 2^36]
    ///
    /// Which is its capacity under another name.
    #[arg(long, value_name = "N", value_parser = size::positive_count, conflicts_with = "capacity")]
    grows_to: Option<u64>,

    /// The rate at which unseen keys may be taken for seen ones, such as 1e-6
    #[arg(long, value_name = "P", value_parser = size::rate)]
    fpr: Option<f64>,

    /// Bits to spend on each key
    #[arg(long, value_name = "B", value_parser = size::bits)]
    bits_per_key: Option<f64>,

    /// The size of the pages, such as 64M or 1GiB; the header is extra
    #[arg(long, value_name = "S", value_parser = size::size)]
    size: Option<u64>,

    /// The kind: bloom, counting, scalable or fingerprint
    ///
    /// bloom is of fixed size; counting takes four times as much; scalable grows in layers; fingerprint grows without
    /// them, as stores do that are created without --capacity. Layers are planned for keys that come little by little.
    /// Fingerprints are planned from --capacity, or --grows-to, and --fpr [default: 1e-6], for several numbers of keys
    /// up to that [default: bloom, but fingerprint with --forget-after].
    #[arg(long)]
    kind: Option<Kind>,

    /// Let the number of pages be halved this often, 0 to 20
    ///
    /// It is rounded up for that. Shows what the store holds then.
    #[arg(long, value_name = "LEVELS", default_value_t = 0)]
    foldable: u32,

    #[command(flatten)]
    forget: Forgetting,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  everseen plan --capacity 1e9 --fpr 1e-6       how large is it?
  everseen plan --capacity 1e9 --size 2GiB      how exact can it be?
  everseen plan --fpr 1e-4 --size 1GiB --json   how many keys go in?
  everseen plan --capacity 1e9 --fpr 1e-6 --kind scalable      how large if it grows in layers?
  everseen plan --kind fingerprint --grows-to 1e10     how large with how many keys?
  everseen plan --forget-after 30d --keys-per-day 1M   how large if it forgets?
  everseen plan --capacity 1e9 --fpr 1e-6 --foldable 3   and how many in an eighth of it?";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let default = match args.forget.is_given() {
        true => Kind::Fingerprint,
        false => Kind::Bloom,
    };
    let kind = args.kind.unwrap_or(default);
    match kind {
        Kind::Fingerprint => return run_fingerprints(&args),
        _ if args.forget.is_given() => {
            return Err(CliError::Usage(
                "only kind fingerprint forgets; leave out --kind, or --forget-after",
            ));
        }
        _ if args.grows_to.is_some() => {
            return Err(CliError::Usage(
                "--grows-to is for --kind fingerprint; give other kinds a --capacity",
            ));
        }
        Kind::Scalable => return run_growing(&args),
        _ => {}
    }
    let cell = kind.cell();
    let asked = match (args.capacity, args.fpr, args.bits_per_key, args.size) {
        (Some(capacity), Some(fpr), None, None) => cell.plan_for_rate(capacity, fpr)?,
        (Some(capacity), None, Some(bits), None) => cell.plan_for_bits_per_key(capacity, bits)?,
        (Some(capacity), None, None, Some(size)) => cell.plan_for_size(capacity, size)?,
        (None, Some(fpr), None, Some(size)) => cell.plan_for_rate_and_size(fpr, size)?,
        (None, None, Some(bits), Some(size)) => cell.plan_for_bits_and_size(bits, size)?,
        (None, Some(_), Some(_), None) => {
            return Err(CliError::Usage(
                "--fpr and --bits-per-key follow from each other; give one of them with --capacity or --size",
            ));
        }
        _ => {
            return Err(CliError::Usage(
                "give two of --capacity, --fpr, --bits-per-key and --size, no more, no less",
            ));
        }
    };
    let plan = asked.foldable(args.foldable)?;
    let folds = folds(&plan, args.foldable)?;
    if args.json {
        print_json(&Json::of(&plan, &folds))?;
    } else {
        print(&text(&plan, &folds))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_growing(args: &Args) -> Result<ExitCode, CliError> {
    if args.bits_per_key.is_some() {
        return Err(CliError::Usage(
            "--bits-per-key differs from layer to layer in a store that grows; give --fpr",
        ));
    }
    if args.foldable > 0 {
        return Err(CliError::Usage(
            "--foldable is for stores of fixed size: one that grows is as large as its keys need",
        ));
    }
    let plan = GrowthPlan::of(args.capacity, args.fpr, args.size)?;
    match args.json {
        true => print_json(&plan.json())?,
        false => print(&plan.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_fingerprints(args: &Args) -> Result<ExitCode, CliError> {
    let refused = [
        (
            args.bits_per_key.is_some(),
            "--bits-per-key changes with the keys in a store of fingerprints; give --fpr",
        ),
        (
            args.size.is_some(),
            "--size follows from the keys in a store of fingerprints; give --capacity or --grows-to, and --fpr",
        ),
        (
            args.foldable > 0,
            "--foldable is for stores of fixed size: one of fingerprints is as large as its keys need",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(given, _)| *given) {
        return Err(CliError::Usage(why));
    }
    let fpr = args.fpr.unwrap_or(CreateOptions::DEFAULT_FPR);
    let limit = args.capacity.or(args.grows_to);
    if args.forget.is_given() {
        let plan = args.forget.plan(limit, fpr)?;
        match args.json {
            true => print_json(&plan.json())?,
            false => print(&plan.text())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outlook = Outlook::of(limit, fpr, 0)?;
    match args.json {
        true => print_json(&outlook.json())?,
        false => print(&outlook.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what is left after each halving: keys at the rate that the plan was made for.
fn folds(plan: &Plan, levels: u32) -> Result<Vec<Plan>, CliError> {
    let half = |level| {
        let pages = plan.pages >> level;
        plan.cell
            .plan_for_most_keys(pages, plan.probes, plan.target)
    };
    Ok((1..=levels).map(half).collect::<Result<_, _>>()?)
}

#[derive(Serialize)]
pub struct JsonFold {
    factor: u64,
    pages: u64,
    bytes: u64,
    capacity: u64,
}

#[derive(Serialize)]
pub struct Json {
    pub capacity: u64,
    /// The expected rate of a full store, including hash collisions.
    pub fpr: f64,
    pub bits: u64,
    pub bits_per_key: f64,
    /// Absent in a store that grows: its layers differ, or it has fingerprints instead.
    pub k: Option<u32>,
    pub pages: u64,
    pub bytes: u64,
    /// Bits per key of the best possible Bloom filter at the same rate.
    pub ideal_bits_per_key: f64,
    /// What is left after one halving, two, and so on.
    pub folds: Vec<JsonFold>,
    /// Of a store that grows.
    pub layers: Vec<JsonLayer>,
    /// Of a store of fingerprints: what it takes on the way to its limit.
    pub fills: Vec<JsonFill>,
    /// Of a store that forgets: as many keys as come each day.
    pub forgetting: Option<JsonForgetting>,
}

#[derive(Serialize)]
pub struct JsonLayer {
    capacity: u64,
    fpr: f64,
    bits_per_key: f64,
    k: u32,
    pages: u64,
    bytes: u64,
}

impl From<&Plan> for JsonLayer {
    fn from(plan: &Plan) -> Self {
        JsonLayer {
            capacity: plan.capacity,
            fpr: plan.fpr,
            bits_per_key: plan.bits_per_key(),
            k: plan.probes,
            pages: plan.pages,
            bytes: plan.bytes(),
        }
    }
}

impl Json {
    fn of(plan: &Plan, folds: &[Plan]) -> Self {
        Json {
            capacity: plan.capacity,
            fpr: plan.fpr,
            bits: plan.bits(),
            bits_per_key: plan.bits_per_key(),
            k: Some(plan.probes),
            pages: plan.pages,
            bytes: plan.bytes(),
            layers: Vec::new(),
            fills: Vec::new(),
            forgetting: None,
            ideal_bits_per_key: plan.ideal_bits_per_key(),
            folds: folds
                .iter()
                .map(|fold| JsonFold {
                    factor: plan.pages / fold.pages,
                    pages: fold.pages,
                    bytes: fold.bytes(),
                    capacity: fold.capacity,
                })
                .collect(),
        }
    }
}

fn text(plan: &Plan, folds: &[Plan]) -> String {
    let mut text = format!(
        "capacity      {} keys\n\
         fpr           {} when full\n\
         size          {}, {} pages, {} bytes\n\
         bits a key    {:.2}, ideal {:.2}\n\
         probes (k)    {}\n",
        thousands(plan.capacity),
        rate(plan.fpr),
        bytes(plan.bytes()),
        thousands(plan.pages),
        thousands(plan.bytes()),
        plan.bits_per_key(),
        plan.ideal_bits_per_key(),
        plan.probes,
    );
    for fold in folds {
        text += &format!(
            "folded by {:<4}{} keys at {}, {}\n",
            plan.pages / fold.pages,
            thousands(fold.capacity),
            rate(fold.target),
            bytes(fold.bytes()),
        );
    }
    text
}
