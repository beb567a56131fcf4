//! `everseen report`: a page to look at.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use everseen::OpenOptions;

use crate::error::CliError;
use crate::options::forgetting::At;
use crate::options::named_file::named_file;
use crate::options::timeout::Timeout;
use crate::output::print;
use crate::process::exit_code::ExitCode;
use crate::process::{openers, side_files};
use crate::report::pages::Census;
use crate::report::{BEGINNING, Facts};

/// Draw a store: an HTML page with its keys, rate, pages, damage, commits and users
///
/// Reads all pages, like verify. The page needs no network and no other file. It shows how full the store is and how
/// often it is wrong, today and over its growth; how full each page is, beside what is expected; and what is damaged.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// Write to this file; replaces an HTML page, and nothing else
    ///
    /// Without it, standard output gets the page.
    #[arg(short, long, value_name = "FILE", value_parser = named_file())]
    output: Option<PathBuf>,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen report visited.ever -o report.html
  everseen report visited.ever | ssh desk 'cat > report.html'

Exit status: 0 no damage, 1 damage, 2 error.";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    if let Some(output) = &args.output {
        side_files::refuse(&[&args.store], &[output])?;
        check_replaceable(output)?;
    }
    let options = args.timeout.apply(OpenOptions::new().follow(true));
    let store = args.at.apply(options).open_read_only(&args.store)?;
    args.at.tell(&store)?;
    let stats = store.stats()?;
    let mut census = Census::new(&stats);
    let verified = store.verify_pages(|layer, pages, state| census.add(layer, pages, state))?;
    let facts = Facts {
        name: args.store.display().to_string(),
        measured: stats.measured,
        by_age: store.keys_by_age()?,
        in_use: store.recovery().joined,
        now: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        openers: openers::of(&args.store),
        on_disk: on_disk(&args.store),
        stats,
        verified,
        census,
    };
    store.close()?;
    let page = facts.page();
    match &args.output {
        None => print(&page)?,
        Some(path) => {
            fs::write(path, page).map_err(|source| CliError::of_output(path, source))?;
        }
    }
    Ok(ExitCode::from(u8::from(!facts.verified.is_ok())))
}

/// Refuses to overwrite what may be of value.
fn check_replaceable(path: &Path) -> Result<(), CliError> {
    // Reading a pipe would wait for what this command is to write.
    if fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Ok(());
    }
    let mut start = Vec::new();
    let read = File::open(path)
        .map(|file| file.take(BEGINNING.len() as u64))
        .and_then(|mut file| file.read_to_end(&mut start));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) if start.is_empty() || start == BEGINNING.as_bytes() => Ok(()),
        Ok(_) => Err(CliError::NotAReport {
            path: path.to_owned(),
        }),
        Err(source) => Err(CliError::of_output(path, source)),
    }
}

/// Returns the bytes that the file takes on the disk, where the system can tell.
#[cfg(unix)]
fn on_disk(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata(path).ok()?.blocks() * 512)
}

/// Returns the bytes that the file takes on the disk, where the system can tell.
#[cfg(not(unix))]
fn on_disk(_: &Path) -> Option<u64> {
    None
}
