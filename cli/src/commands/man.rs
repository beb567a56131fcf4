//! `everseen man`: manual pages.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::error::CliError;
use crate::process::exit_code::ExitCode;
use crate::topics::TOPICS;

/// Write the manual pages into a folder
///
/// One page for the command, and one for each subcommand.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder; created if it does not exist
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  everseen man ~/.local/share/man/man1    then: man everseen-dedup
  sudo everseen man /usr/local/share/man/man1";

/// The exit status of commands that answer no question.
const DONE_OR_NOT: &str = "0 done, 2 error.";

pub fn run(args: &Args, command: Command) -> Result<ExitCode, CliError> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let made = fs::create_dir_all(&args.folder);
    let written = made.and_then(|()| {
        for one in command.get_subcommands() {
            write_page(one, "", &args.folder)?;
        }
        write_page(&command, &topics(), &args.folder)
    });
    written.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => CliError::NotAFolder {
            path: args.folder.clone(),
        },
        _ => CliError::OutputFile {
            path: args.folder.clone(),
            source,
        },
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of one command, with `more` sections.
fn write_page(command: &Command, more: &str, folder: &Path) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string);
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    text.extend_from_slice(more.as_bytes());
    text.extend_from_slice(sections(after.as_deref().unwrap_or_default()).as_bytes());
    fs::write(folder.join(page.get_filename()), text)
}

/// Returns the examples and the exit status as sections, of what help says at its end.
fn sections(after_help: &str) -> String {
    let mut text = String::new();
    let mut status = DONE_OR_NOT;
    for paragraph in after_help.split("\n\n") {
        if let Some(said) = paragraph.strip_prefix("Exit status: ") {
            status = said;
        } else if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            push_section(&mut text, "EXAMPLES", examples);
        }
    }
    push_section(&mut text, "EXIT STATUS", status);
    text
}

/// Returns a section for each topic of `everseen help`.
fn topics() -> String {
    let mut text = String::new();
    for (name, said) in TOPICS {
        push_section(&mut text, &name.to_uppercase(), said);
    }
    text
}

/// Appends a section. Paragraphs are filled, and lines that are indented stay as they are.
fn push_section(page: &mut String, heading: &str, text: &str) {
    // A string takes what is written to it.
    let _ = writeln!(page, ".SH \"{heading}\"");
    for (number, paragraph) in text.split("\n\n").enumerate() {
        if number > 0 {
            page.push_str(".PP\n");
        }
        let is_kept = paragraph.starts_with("  ");
        if is_kept {
            page.push_str(".nf\n");
        }
        for line in paragraph.lines() {
            page.push_str(&roff(line));
            page.push('\n');
        }
        if is_kept {
            page.push_str(".fi\n");
        }
    }
}

/// Returns a line of text as roff has it: backslashes, hyphens, and what would be a request at its start.
fn roff(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-");
    let escaped = escaped.replace('\'', "\\(aq").replace('`', "\\(ga");
    match escaped.starts_with('.') {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}
