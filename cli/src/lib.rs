//! The command `everseen`: one file for each subcommand in `commands`, each with `Args` and `run`.
//!
//! A library for the binary of that name, and for the Python package, which has the command in it. It promises nothing to
//! others.
//!
//! `dedup`, `add`, `check` and `remove` share one [`pipeline`] with different jobs; the other commands call the library
//! once.

#![deny(unsafe_code)]

mod commands;
mod error;
mod hints;
mod input;
mod options;
mod output;
mod pipeline;
mod process;
mod report;
mod topics;

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use everseen::Escaped;

use commands::sets::{difference, intersect, union};
use commands::{
    add, apply, check, checkpoint, completions, count, create, dedup, exempt, fold, info, man,
    plan, remove, repair, serve, snapshot, verify,
};
use error::CliError;
use process::exit_code::ExitCode;
#[cfg(unix)]
pub use process::memory::Allocator;
use process::{memory, signals};

/// Have I ever seen this line?
///
/// Remembers every line that it was ever given, in one file that survives crashes and may be far larger than memory. It
/// always recognises a line that it has seen. It takes an unseen line for a seen one about once in a million (choose
/// another rate with `everseen create`).
#[derive(Parser)]
#[command(name = "everseen", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  crawler | everseen dedup visited.ever >> fresh.txt   only the lines no earlier run has printed
  everseen check visited.ever < candidates.txt         those of them that are known
  everseen info visited.ever                           what is in there, how full, how exact
  everseen plan --capacity 1e9 --fpr 1e-6              what a store of that size would take

Topics: everseen help buffer, keys, urls, wait, windows

Exit status: 0 done, 1 \"no\" (check, dedup --key: nothing printed; verify: damage), 2 error, 3 done but
for lines that another process has claimed and not committed (dedup, add: see --wait), 128 plus a
signal's number if that ended the command. 101 or 134 is a fault of the command itself: please
report it. The store is as after a kill, and loses nothing.";

/// What is said without a subcommand.
const FIRST_STEPS: &str = "\
Everseen remembers every line that it was ever given, in one file.

  everseen dedup STORE [FILE...]   print the lines never seen before, and remember them
  everseen check STORE [FILE...]   print the lines seen before (-v: the others)
  everseen info STORE              show what a store holds
  everseen plan                    compute the size of a store

Try: everseen dedup seen.ever list.txt
More: everseen --help, everseen dedup --help";

#[derive(Subcommand)]
enum Command {
    Create(create::Args),
    Dedup(dedup::Args),
    Add(add::Args),
    Check(check::Args),
    Count(count::Args),
    Remove(remove::Args),
    Exempt(exempt::Args),
    Info(info::Args),
    Verify(verify::Args),
    Repair(repair::Args),
    Report(commands::report::Args),
    Plan(plan::Args),
    Union(union::Args),
    Intersect(intersect::Args),
    Difference(difference::Args),
    Fold(fold::Args),
    Checkpoint(checkpoint::Args),
    Snapshot(snapshot::Args),
    Apply(apply::Args),
    Serve(serve::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs the command with these arguments, the name of the program first. Returns the exit status. The process should do
/// nothing else: its signals, and its standard streams, are the command's.
pub fn run(arguments: Vec<OsString>) -> u8 {
    memory::prepare();
    if arguments.len() <= 1 {
        output::tell_lines(FIRST_STEPS);
        return 2;
    }
    let result = signals::survive_size_limits().and_then(|()| answer(arguments));
    let code = result.unwrap_or_else(|error| {
        output::tell(format_args!("everseen: {error}"));
        ExitCode::from(2)
    });
    code.into()
}

/// Does what the command line says.
fn answer(arguments: Vec<OsString>) -> Result<ExitCode, CliError> {
    if let Some(text) = topics::asked(arguments.iter().skip(1)) {
        output::print(&format!("{text}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    match parse(arguments.clone()) {
        Ok(cli) => start(cli.command),
        Err(wrong) if wrong.use_stderr() => Ok(refuse(&shown(wrong, arguments))),
        Err(asked) => show(&asked),
    }
}

/// Parses a command line. Short help has one line an option, without the values that it may have.
fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    if arguments.iter().any(|argument| argument == "-h") {
        command = command.mut_subcommands(|one| {
            one.mut_args(|argument| {
                let has_values = argument.get_action().takes_values();
                argument.hide_possible_values(has_values)
            })
        });
    }
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Returns the error of the same command line with escaped characters: clap repeats names and values as they are.
fn shown(wrong: clap::Error, arguments: Vec<OsString>) -> clap::Error {
    let escaped = arguments.into_iter().map(|argument| {
        let escaped = Escaped(argument.display()).to_string();
        match *escaped == *argument.to_string_lossy() {
            true => argument,
            false => escaped.into(),
        }
    });
    match parse(escaped.collect()) {
        Err(again) if again.kind() == wrong.kind() => again,
        // Without the name, the escaped line has another meaning. The kind of the error says what is wrong.
        _ => Cli::command().error(wrong.kind(), "the command line makes no sense; try --help"),
    }
}

/// Reports a command line that makes no sense, in clap's words and under this program's name: so do all other errors.
fn refuse(wrong: &clap::Error) -> ExitCode {
    const NAMED: (&str, &str) = ("error:", "everseen:");
    let text = wrong.render();
    let mut shown = text.to_string();
    if shown.starts_with(NAMED.0) {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        if io::stderr().is_terminal() && !is_plain {
            shown = text.ansi().to_string();
        }
        shown = shown.replacen(NAMED.0, NAMED.1, 1);
    }
    let mut shown = shown.trim_end_matches('\n').to_owned();
    if let Some(meant) = hints::hint(wrong) {
        // Behind the line that says what is wrong.
        let end = shown.find('\n').unwrap_or(shown.len());
        shown.insert_str(end, &format!("\n\n  did you mean: {meant}"));
    }
    output::tell_lines(&shown);
    ExitCode::from(2)
}

/// Prints help or the version, for which the command line asked. clap itself ignores when that fails.
fn show(asked: &clap::Error) -> Result<ExitCode, CliError> {
    match io::stdout().is_terminal() {
        // With colours, if the terminal has some.
        true => asked.print().map_err(CliError::Output)?,
        false => output::print(&asked.render().to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn start(command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Create(args) => create::run(args),
        Command::Dedup(args) => dedup::run(args),
        Command::Add(args) => add::run(args),
        Command::Check(args) => check::run(args),
        Command::Count(args) => count::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Exempt(args) => exempt::run(args),
        Command::Info(args) => info::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Union(args) => union::run(args),
        Command::Intersect(args) => intersect::run(args),
        Command::Difference(args) => difference::run(args),
        Command::Fold(args) => fold::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Serve(args) => serve::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
    }
}
