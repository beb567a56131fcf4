//! `everseen completions`: what a shell completes after the command's name.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::error::CliError;
use crate::output::print;
use crate::process::exit_code::ExitCode;

/// Print the completions of a shell
///
/// Load them in the shell's start-up file, or put them where it looks for completions.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(everseen completions bash)                              in ~/.bashrc
  everseen completions bash > ~/.local/share/bash-completion/completions/everseen
  everseen completions zsh > ~/.zfunc/_everseen                    a folder of $fpath
  everseen completions fish > ~/.config/fish/completions/everseen.fish";

pub fn run(args: &Args, mut command: Command) -> Result<ExitCode, CliError> {
    let mut text = Vec::new();
    generate(args.shell, &mut command, "everseen", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
