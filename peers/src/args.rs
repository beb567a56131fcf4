//! What the program is told.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use everseen_benches::numbers;

use crate::child::{Source, Task};
use crate::served;
use crate::variants::{self, Variant};
use crate::windows;

/// Look-ups of each kind when sizes are gone through, unless told.
const LOOKUPS: u64 = 10_000_000;
/// Keys of `--quick`.
const QUICK: u64 = 30_000;

/// Everseen beside what people use today: the same keys, in one run
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub mode: Option<Mode>,

    /// Keys, one a line; else generated names
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,

    /// Keys to generate (a million unless told), or to take from the file (all unless told)
    #[arg(long, value_parser = count)]
    pub count: Option<u64>,

    /// What the generated names are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Go through filter sizes instead, with generated keys of 8 bytes: 1e6,1e7,…
    #[arg(long, value_name = "KEYS,…", value_delimiter = ',', value_parser = count, conflicts_with = "keys")]
    pub sizes: Vec<u64>,

    /// Look-ups of present keys, and as many of absent ones; unless told as many as there are keys,
    /// and with --sizes no more than ten million
    #[arg(long, value_parser = count)]
    pub lookups: Option<u64>,

    /// The false-positive rate that filters are made for
    #[arg(long, default_value_t = 1e-6)]
    pub fpr: f64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "3", value_parser = count)]
    pub rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Only these variants (`--list-variants` names them all)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = variant)]
    pub only: Vec<&'static Variant>,

    /// The variant that the others are held against
    #[arg(long, value_name = "NAME", default_value = variants::AGAINST, value_parser = variant)]
    pub against: &'static Variant,

    /// Everseen's buffer, in MiB; unless told as large as the filter, 64 at least and 256 at most, and a quarter of the filter beyond
    #[arg(long, value_name = "MIB", value_parser = count)]
    pub buffer: Option<u64>,

    /// Seconds after which a variant is stopped in what it is doing, and told of as stopped
    #[arg(long, value_name = "SECONDS", default_value = "900", value_parser = count)]
    pub longest: u64,

    /// Write each figure of each round to a file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// With --sizes: write the tables into this page, between its lines `<!-- peers -->` and `<!-- end -->`
    #[arg(long, value_name = "FILE", requires = "sizes")]
    pub page: Option<PathBuf>,

    /// Few keys, one round: only to see that it works
    #[arg(long)]
    pub quick: bool,

    /// Name the variants, and what each is
    #[arg(long)]
    pub list_variants: bool,

    /// What a child is to do: the variant's name
    #[arg(long, hide = true, value_parser = variant, requires_all = ["folder", "buffer", "cache", "made_for"])]
    work: Option<&'static Variant>,

    /// A child's folder
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,

    /// Bytes that a child's database may take for its cache
    #[arg(long, hide = true)]
    cache: Option<u64>,

    /// The number of keys that a child's filter is made for
    #[arg(long, hide = true)]
    made_for: Option<u64>,

    /// Where the lists of a child's keys lie; else its keys are numbers
    #[arg(long, hide = true)]
    lists: Option<PathBuf>,
}

/// Another comparison.
#[derive(Subcommand)]
pub enum Mode {
    Windows(windows::Args),
    Served(Box<served::Args>),
}

impl Args {
    /// What this process is to do as a child.
    pub fn task(&self) -> Result<Option<Task>> {
        let Some(variant) = self.work else {
            return Ok(None);
        };
        let (Some(folder), Some(buffer), Some(cache), Some(keys)) =
            (&self.folder, self.buffer, self.cache, self.made_for)
        else {
            bail!("a child was told too little");
        };
        Ok(Some(Task {
            variant,
            source: match &self.lists {
                Some(folder) => Source::Lists(folder.clone()),
                None => Source::Numbers,
            },
            lookups: self.lookups_of(keys),
            longest: self.longest,
            setup: variants::Setup {
                keys,
                fpr: self.fpr,
                buffer: buffer << 20,
                cache,
                folder: folder.clone(),
            },
        }))
    }

    /// Everseen's buffer for this many keys, in MiB.
    pub fn buffer_mib(&self, keys: u64) -> u64 {
        let filter = variants::filter_bytes(keys, self.fpr) >> 20;
        // What a store takes unless told, and more for a filter of gigabytes: there is memory for it here.
        self.buffer.unwrap_or(filter.clamp(64, 256).max(filter / 4))
    }

    pub fn rounds(&self) -> u64 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Keys to generate, or to take from a file; `None` for all of them.
    pub fn count(&self) -> Option<u64> {
        match (&self.keys, self.quick) {
            (_, true) => Some(self.count.unwrap_or(QUICK).min(QUICK)),
            (None, false) => Some(self.count.unwrap_or(1_000_000)),
            (Some(_), false) => self.count,
        }
    }

    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes = self.sizes.clone();
        if self.quick {
            for size in &mut sizes {
                *size = (*size).min(QUICK);
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub fn lookups_of(&self, keys: u64) -> u64 {
        let most = if self.sizes.is_empty() { keys } else { LOOKUPS };
        self.lookups.unwrap_or(most).min(keys)
    }

    /// The variants to run, in their order.
    pub fn variants(&self) -> Vec<&'static Variant> {
        let chosen = |variant: &&Variant| {
            self.only.is_empty() || self.only.iter().any(|only| only.name == variant.name)
        };
        variants::ALL.iter().filter(chosen).collect()
    }
}

/// A count: plain, with a suffix, or as `1e6`.
pub fn count(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && (1.0..=1e15).contains(&number) => Ok(number as u64),
        _ => numbers::count(text),
    }
}

fn variant(name: &str) -> Result<&'static Variant, String> {
    let found = variants::ALL.iter().find(|variant| variant.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = variants::ALL.iter().map(|variant| variant.name).collect();
        format!("one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_in_three_ways() {
        for text in ["2000000", "2M", "2000k", "2e6"] {
            assert_eq!(count(text), Ok(2_000_000), "{text}");
        }
        for wrong in ["", "0", "1.5", "-3", "1e30", "x"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
