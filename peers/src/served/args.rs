//! What the mode is told.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args as Arguments, ValueEnum};

use crate::args::count;

/// What `--quick` takes.
const QUICK_KEYS: u64 = 20_000;

/// Everseen's server beside Redis with its Bloom module
#[derive(Arguments)]
pub struct Args {
    /// Keys that the filters have before anything is measured: one table for each
    #[arg(long, value_name = "KEYS,…", value_delimiter = ',', default_value = "1M", value_parser = count)]
    keys: Vec<u64>,

    /// The false-positive rate that filters are reserved with
    #[arg(long, default_value_t = 0.01)]
    pub fpr: f64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "5", value_parser = count)]
    rounds: u64,

    /// Seconds after which a piece of work ends, done or not
    #[arg(long, default_value_t = 5.0)]
    pub longest: f64,

    /// What is measured in which order
    #[arg(
        long,
        value_name = "WHEN,…",
        value_delimiter = ',',
        value_enum,
        default_value = "off,no,second,always"
    )]
    durable: Vec<Durability>,

    /// The core that the servers run on, and the one that the load comes from
    #[arg(
        long,
        value_name = "CORE,CORE",
        value_delimiter = ',',
        num_args = 2,
        default_value = "0,1"
    )]
    cores: Vec<usize>,

    /// Everseen's server; else the one beside this program
    #[arg(long, value_name = "PATH", env = "EVERSEEN_SERVER")]
    pub server: Option<PathBuf>,

    /// Redis' server
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    pub redis: PathBuf,

    /// RedisBloom, as a module; without it Redis is skipped
    #[arg(long, value_name = "PATH", env = "EVERSEEN_REDISBLOOM")]
    pub module: Option<PathBuf>,

    /// More arguments of Everseen's server
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub with: Vec<String>,

    /// Everseen alone, in so much memory, page cache included, once the filter is filled: in MiB
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    pub memory: Option<u64>,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Few keys, one round: only to see that it works
    #[arg(long)]
    pub quick: bool,
}

/// What an answer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Nothing: Redis without its log
    Off,
    /// What the system has written when the power fails
    No,
    /// All but the last second
    Second,
    /// All that was answered
    Always,
}

impl Durability {
    /// As Everseen's server calls it, and as Redis calls it.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Durability::Off => ("no", "off"),
            Durability::No => ("no", "no"),
            Durability::Second => ("second", "everysec"),
            Durability::Always => ("always", "always"),
        }
    }
}

impl Args {
    pub fn keys(&self) -> Vec<u64> {
        if self.quick {
            vec![QUICK_KEYS]
        } else {
            self.keys.clone()
        }
    }

    pub fn rounds(&self) -> u64 {
        if self.quick { 1 } else { self.rounds }
    }

    pub fn durabilities(&self) -> &[Durability] {
        &self.durable
    }

    /// Of the servers, and of the load.
    pub fn cores(&self) -> Result<[usize; 2]> {
        let there = std::thread::available_parallelism()?.get();
        match *self.cores {
            [servers, load] if servers.max(load) < there => Ok([servers, load]),
            // A lone core is shared, for `--quick`.
            _ if there == 1 => Ok([0, 0]),
            _ => bail!("--cores names two of {there} cores"),
        }
    }
}

fn mebibytes(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|error| format!("{text}: {error}"))?;
    number
        .checked_mul(1 << 20)
        .ok_or_else(|| format!("{text}: out of range"))
}
