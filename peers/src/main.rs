//! Everseen beside what people use today: the same keys, in one run, round by round in turn.
//!
//! `cargo run --release --manifest-path peers/Cargo.toml -- --help`

mod args;
mod child;
mod csv;
mod list;
mod outcome;
mod page;
mod report;
mod run;
mod sequence;
mod served;
mod sys;
mod system;
mod variants;
mod windows;

use anyhow::Result;
use clap::Parser;

fn main() -> Result<()> {
    let args = args::Args::parse();
    match &args.mode {
        Some(args::Mode::Windows(args)) => return windows::run(args),
        Some(args::Mode::Served(args)) => return served::run(args),
        None => {}
    }
    match args.task()? {
        Some(task) => child::work(&task),
        None => run::measure(&args),
    }
}
