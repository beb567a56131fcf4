//! The rounds: each variant in a child of its own, one after the other, then all of them again.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use everseen_benches::machine::Machine;
use everseen_benches::worker::Worker;

use crate::args::Args;
use crate::csv::Csv;
use crate::list::{self, Made};
use crate::outcome::Outcome;
use crate::page;
use crate::report;
use crate::system;
use crate::variants::{self, Setup, Variant};

/// What the variants of one table have in common.
pub struct Size {
    pub keys: u64,
    pub fpr: f64,
    /// Everseen's buffer, in MiB.
    pub buffer_mib: u64,
    pub lookups: u64,
    /// Bytes of memory that the machine has, if it tells.
    pub memory: Option<u64>,
    /// Where the lists of keys lie; else they are numbers.
    lists: Option<PathBuf>,
}

impl Size {
    fn of(args: &Args, keys: u64, lists: Option<PathBuf>) -> Self {
        Self {
            keys,
            fpr: args.fpr,
            buffer_mib: args.buffer_mib(keys),
            lookups: args.lookups_of(keys),
            memory: system::memory(),
            lists,
        }
    }

    /// One of a test.
    #[cfg(test)]
    pub fn plain(keys: u64, fpr: f64) -> Self {
        Self {
            keys,
            fpr,
            buffer_mib: 64,
            lookups: keys,
            memory: None,
            lists: None,
        }
    }

    /// Bytes of a classic filter for this many keys.
    pub fn filter_bytes(&self) -> u64 {
        variants::filter_bytes(self.keys, self.fpr)
    }
}

/// The rows of a table: of each variant its rounds, or why it was not run.
pub struct Row {
    pub variant: &'static Variant,
    pub rounds: Vec<Outcome>,
    pub left_out: Option<String>,
}

impl Row {
    fn stopped(&self) -> bool {
        self.rounds.iter().any(Outcome::stopped)
    }
}

/// Does everything that the arguments ask for.
pub fn measure(args: &Args) -> Result<()> {
    if args.list_variants {
        report::variants();
        return Ok(());
    }
    if !(args.fpr > 0.0 && args.fpr < 1.0) {
        bail!("--fpr takes a rate above 0 and below 1");
    }
    let folder = match &args.dir {
        Some(folder) => tempfile::tempdir_in(folder)
            .with_context(|| format!("no folder can be made in {}", folder.display()))?,
        None => tempfile::tempdir()?,
    };
    let mut csv = Csv::create(args.csv.as_deref())?;
    let machine = Machine::here(folder.path()).to_string();
    println!("{machine}");
    if args.sizes.is_empty() {
        let lists = folder.path().join("lists");
        std::fs::create_dir(&lists)?;
        let made = make_lists(args, &lists)?;
        report::keys(&made);
        let size = Size::of(args, made.keys, Some(lists));
        return table(args, &size, &[], folder.path(), &mut csv).map(drop);
    }
    println!("keys: numbers hashed to 8 bytes, made on the way");
    let (mut stopped, mut sizes) = (Vec::new(), Vec::new());
    for keys in args.sizes() {
        let size = Size::of(args, keys, None);
        let rows = table(args, &size, &stopped, folder.path(), &mut csv)?;
        let ended = rows.iter().filter(|row| row.stopped());
        stopped.extend(ended.map(|row| row.variant.name));
        sizes.push((size, rows));
        if let Some(path) = &args.page {
            // What is there outlives a run that is ended early.
            page::write(path, &machine, &sizes, args.rounds())?;
        }
    }
    Ok(())
}

fn make_lists(args: &Args, folder: &Path) -> Result<Made> {
    match (&args.keys, args.count()) {
        (Some(file), most) => list::from_file(file, most, folder),
        (None, count) => list::generated(count.unwrap_or(1), args.seed, folder),
    }
}

/// Measures all variants at one size and prints what came of it. `stopped` are those that were
/// stopped at a smaller size.
fn table(
    args: &Args,
    size: &Size,
    stopped: &[&str],
    folder: &Path,
    csv: &mut Csv,
) -> Result<Vec<Row>> {
    report::size(size, args.rounds());
    let mut rows = Vec::new();
    for variant in args.variants() {
        let left_out = if stopped.contains(&variant.name) {
            Some("was stopped at a smaller size".to_owned())
        } else {
            too_large(variant, &setup(size, folder.to_owned()))?
        };
        rows.push(Row {
            variant,
            rounds: Vec::new(),
            left_out,
        });
    }
    for round in 1..=args.rounds() {
        for row in rows.iter_mut().filter(|row| row.left_out.is_none()) {
            let name = row.variant.name;
            eprintln!("round {round} of {}: {name}", args.rounds());
            let own = folder.join(name);
            std::fs::create_dir(&own)?;
            // What the one before has left to the disk is not to be paid for by this one.
            File::open(folder)?.sync_all()?;
            let outcome = child(args, row.variant, size, &setup(size, own.clone()))
                .with_context(|| format!("in {name}"))?;
            std::fs::remove_dir_all(&own)?;
            csv.add(row.variant, size, round, &outcome)?;
            row.rounds.push(outcome);
        }
    }
    report::table(&rows, args.against.name, args.longest);
    Ok(rows)
}

/// What each variant is made from. Databases get a quarter of what memory is free for their caches.
fn setup(size: &Size, folder: PathBuf) -> Setup {
    Setup {
        keys: size.keys,
        fpr: size.fpr,
        buffer: size.buffer_mib << 20,
        cache: system::free_memory().unwrap_or(4 << 30) / 4,
        folder,
    }
}

/// Why a variant can't be run, if it takes more than is free.
fn too_large(variant: &Variant, setup: &Setup) -> Result<Option<String>> {
    let needs = (variant.needs)(setup);
    let free = system::free_memory().unwrap_or(u64::MAX);
    let disk = system::free_disk(&setup.folder)?;
    let told = |what, needed, free| {
        let (needed, free) = (report::bytes(needed), report::bytes(free));
        Some(format!("takes about {needed} of {what}, {free} are free"))
    };
    // A little is left to everybody else.
    Ok(if needs.memory > free / 10 * 9 {
        told("memory", needs.memory, free)
    } else if needs.disk > disk / 10 * 9 {
        told("disk", needs.disk, disk)
    } else {
        None
    })
}

fn child(args: &Args, variant: &Variant, size: &Size, setup: &Setup) -> Result<Outcome> {
    let mut arguments: Vec<String> = Vec::new();
    let mut give = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    give("--work", variant.name.to_owned());
    give("--folder", setup.folder.display().to_string());
    give("--made-for", setup.keys.to_string());
    give("--fpr", setup.fpr.to_string());
    give("--buffer", size.buffer_mib.to_string());
    give("--cache", setup.cache.to_string());
    give("--lookups", size.lookups.to_string());
    give("--longest", args.longest.to_string());
    if let Some(lists) = &size.lists {
        give("--lists", lists.display().to_string());
    }
    let mut worker = Worker::start(&arguments)?;
    worker.go()?;
    Outcome::of(&worker.numbers()?)
}
