//! `everseen snapshot`: copy a live store, or write what has changed since.

use std::path::{Path, PathBuf};

use everseen::{DeltaReport, Error, OpenOptions, SnapshotReport, Store};
use serde::Serialize;

use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::summary::Summing;
use crate::output::format::{bytes, many};
use crate::output::progress::Progress;
use crate::output::tell;
use crate::process::exit_code::ExitCode;
use crate::process::side_files;
use crate::process::signals::Signals;

/// Copy a store that others may be writing to, or write what has changed since the last copy
///
/// The copy is one file, like a store after a clean close. It holds everything that was inserted (in a transactional
/// store: committed) before the command began. Each of its pages is read and checked. It gets its name when it is
/// durable, so an interrupted snapshot leaves no copy. Where the file system shares blocks between files, a snapshot
/// takes hardly any time or room. A store that can only be read (a mount, a folder of another user) is copied as well,
/// with the keys that a killed run left in its log, as long as no other process has it open for writing.
///
/// With --since, writes only the pages that have changed, into a delta for `everseen apply`. Of a store of kind
/// fingerprint it writes the segments that have changed, of some 4 MiB each. PREVIOUS is an earlier snapshot, or one that
/// deltas have brought up to date; it is only read.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// The copy, or with --since the delta; must not exist, or be empty
    #[arg(value_parser = named_file())]
    dest: PathBuf,

    /// Write only what has changed since this copy
    #[arg(long, value_name = "PREVIOUS", value_parser = named_file())]
    since: Option<PathBuf>,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    summing: Summing,
}

const EXAMPLES: &str = "\
Examples:
  everseen snapshot visited.ever backup/monday.ever
  everseen snapshot visited.ever tuesday.delta --since backup/monday.ever
  everseen snapshot --json visited.ever copy.ever 2> copy.json
  everseen apply tuesday.delta backup/monday.ever        the backup is Tuesday's now
  scp tuesday.delta mirror: && ssh mirror everseen apply tuesday.delta visited.ever";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let mut all = vec![&*args.store, &*args.dest];
    all.extend(args.since.as_deref());
    side_files::refuse(&all, &all)?;
    let signals = Signals::catch()?;
    let store = open(&args.memory.options(), &args.store)?;
    let mut bar = match args.summing.quiet {
        true => Progress::quiet(),
        false => Progress::of_bytes(),
    };
    let watch = |progress: everseen::Progress| {
        bar.update_bytes(progress.done, progress.total);
        signals.go_on()
    };
    let done = match &args.since {
        None => store
            .snapshot_watched(&args.dest, watch)
            .map(|made| Made::of_copy(&args.dest, &made)),
        Some(previous) => store
            .snapshot_since_watched(&args.dest, previous, watch)
            .map(|made| Made::of_delta(&args.dest, &made)),
    };
    drop(bar);
    store.close()?;
    let summed = done.map(|made| args.summing.tell(|| made.json, || made.text));
    match summed {
        Ok(summed) => summed.map(|()| ExitCode::SUCCESS),
        Err(error) => finish(Err(error), &signals),
    }
}

/// Opens the store; only for reading if it can't be written to. The copy then takes in what the store's log holds.
fn open(options: &OpenOptions, store: &Path) -> everseen::Result<Store> {
    match options.open(store) {
        Err(Error::PermissionDenied { .. } | Error::ReadOnlyDisk { .. }) => {
            options.open_read_only(store)
        }
        outcome => outcome,
    }
}

/// What was made, for people and for programs.
struct Made {
    text: String,
    json: Json,
}

#[derive(Serialize)]
struct Json {
    command: &'static str,
    path: String,
    /// The generation of the copy that a delta starts from.
    from: Option<u64>,
    generation: u64,
    /// Absent in a delta.
    keys: Option<u64>,
    pages: u64,
    bytes: u64,
    /// Whether the file system shares the copy's blocks with the store.
    shared: bool,
}

impl Made {
    fn of_copy(path: &Path, made: &SnapshotReport) -> Self {
        let how = if made.shared { ", blocks shared" } else { "" };
        Made {
            text: format!(
                "{} of generation {}: {}, {}, all whole, {}{how}",
                path.display(),
                made.generation,
                many(made.keys, "key"),
                many(made.pages, "page"),
                bytes(made.bytes),
            ),
            json: Json {
                command: "snapshot",
                path: path.display().to_string(),
                from: None,
                generation: made.generation,
                keys: Some(made.keys),
                pages: made.pages,
                bytes: made.bytes,
                shared: made.shared,
            },
        }
    }

    fn of_delta(path: &Path, made: &DeltaReport) -> Self {
        Made {
            text: format!(
                "{} from generation {} to {}: {}, {}",
                path.display(),
                made.from,
                made.to,
                many(made.pages, "page"),
                bytes(made.bytes),
            ),
            json: Json {
                command: "snapshot",
                path: path.display().to_string(),
                from: Some(made.from),
                generation: made.to,
                keys: None,
                pages: made.pages,
                bytes: made.bytes,
                shared: false,
            },
        }
    }
}

/// Ends a command, with the status of the signal if one stopped it.
pub fn finish(done: everseen::Result<()>, signals: &Signals) -> Result<ExitCode, CliError> {
    match (done, signals.ending()) {
        (Err(everseen::Error::Cancelled), Some(status)) => {
            tell(format_args!("everseen: cancelled; nothing was left behind"));
            Ok(ExitCode::from(status))
        }
        (done, _) => {
            done?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
