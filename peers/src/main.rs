//! Everseen beside what people use today: the same keys, in one run, round by round in turn.
//!
//! `cargo run --release --manifest-path peers/Cargo.toml -- --help`

mod args;
mod child;
mod csv;
mod list;
mod outcome;
mod report;
mod run;
mod sequence;
mod sys;
mod system;
mod variants;
mod windows;

use anyhow::Result;
use clap::Parser;

fn main() -> Result<()> {
    let args = args::Args::parse();
    if let Some(args::Mode::Windows(args)) = &args.mode {
        return windows::run(args);
    }
    match args.task()? {
        Some(task) => child::work(&task),
        None => run::measure(&args),
    }
}
