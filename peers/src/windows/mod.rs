//! What forgets keys after a window, side by side: one stream of keys with their times, into each variant in a process of
//! its own, which is killed in the end.

mod args;
mod child;
mod clock;
mod outcome;
mod peers;
mod report;
mod stream;
mod survivors;

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use everseen_benches::machine::Machine;
use everseen_benches::worker::Worker;

pub use args::Args;
use outcome::Outcome;
use peers::Variant;
use peers::redis::Server;
use stream::Stream;
use survivors::Killed;

use crate::system;

/// Steps after the measured ones that are done before the kill.
const MORE_STEPS: u64 = 1;

/// What came of a variant.
pub struct Row {
    pub variant: &'static Variant,
    pub outcome: Outcome,
    /// After the kill: acknowledged keys under the window, and how many of them are known.
    pub asked: u64,
    pub known: u64,
    /// Bytes on disk once it was opened and closed again.
    pub closed: u64,
}

/// Does what the arguments ask for, as the program or as a child of it.
pub fn run(args: &Args) -> Result<()> {
    if !(args.fpr > 0.0 && args.fpr < 1.0) {
        bail!("--fpr takes a rate above 0 and below 1");
    }
    match args.task()? {
        Some((task, None)) => child::work(&task),
        Some((task, Some(killed))) => survivors::work(&task, killed),
        None => measure(args),
    }
}

fn measure(args: &Args) -> Result<()> {
    if args.list_variants {
        report::variants();
        return Ok(());
    }
    let stream = Stream::new(args.live())?;
    let folder = match &args.dir {
        Some(folder) => tempfile::tempdir_in(folder)
            .with_context(|| format!("no folder can be made in {}", folder.display()))?,
        None => tempfile::tempdir()?,
    };
    println!("{}", Machine::here(folder.path()));
    report::stream(&stream, args.steps(), args.fpr);
    report::head();
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for variant in args.variants() {
        if let Some(why) = variant.is_server.then(Server::missing).flatten() {
            left_out.push(format!("Skipped: {}: {why}.", variant.title));
            continue;
        }
        eprintln!("{}", variant.name);
        let row = row(args, &stream, variant, folder.path());
        let row = row.with_context(|| format!("in {}", variant.name))?;
        report::line(&row);
        rows.push(row);
    }
    report::legend(&rows, args.window(&stream)?);
    for line in left_out {
        println!("\n{line}");
    }
    let broken: Vec<String> = rows.iter().flat_map(report::broken).collect();
    if !broken.is_empty() {
        bail!("{}", broken.join("; "));
    }
    Ok(())
}

/// Runs a variant to its kill, and then opens what is left.
fn row(args: &Args, stream: &Stream, variant: &'static Variant, folder: &Path) -> Result<Row> {
    let own = folder.join(variant.name);
    std::fs::create_dir(&own)?;
    // What the one before has left to the disk is not to be paid for by this one.
    File::open(folder)?.sync_all()?;
    let start_server = || variant.is_server.then(|| Server::start(&own)).transpose();
    let server = start_server()?;
    let mut worker = start(args, stream, variant, &own, server.as_ref(), None)?;
    let outcome = Outcome::of(&worker.numbers()?)?;
    let half = (stream.asked() as usize / child::portion(stream) / 2) as u64;
    let killed = loop {
        let told = worker.numbers()?;
        let &[step, portions] = &told[..] else {
            bail!("a child told {told:?}");
        };
        if step >= args.steps() + MORE_STEPS && portions >= half {
            break Killed {
                begun: outcome.begun,
                step,
                portions,
            };
        }
    };
    // Of a variant with a server, it is the server that holds the keys.
    drop(server);
    worker.kill()?;
    let server = start_server()?;
    let mut worker = start(args, stream, variant, &own, server.as_ref(), Some(killed))?;
    let told = worker.numbers()?;
    let &[asked, known] = &told[..] else {
        bail!("a child told {told:?}");
    };
    drop(server);
    let closed = system::used_disk(&own)?;
    std::fs::remove_dir_all(&own)?;
    Ok(Row {
        variant,
        outcome,
        asked,
        known,
        closed,
    })
}

fn start(
    args: &Args,
    stream: &Stream,
    variant: &Variant,
    folder: &Path,
    server: Option<&Server>,
    killed: Option<Killed>,
) -> Result<Worker> {
    let mut arguments = vec!["windows".to_owned()];
    let mut give = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    give("--work", variant.name.to_owned());
    give("--folder", folder.display().to_string());
    give("--live", args.live().to_string());
    give("--windows", (args.steps() / stream::STEPS).to_string());
    give("--fpr", args.fpr.to_string());
    let window = args.window(stream)?;
    give("--real-window", window.as_secs_f64().to_string());
    if let Some(server) = server {
        give("--socket", server.socket().display().to_string());
        give("--server", server.process().to_string());
    }
    if let Some(killed) = killed {
        let numbers = [killed.begun, killed.step, killed.portions];
        give(
            "--killed",
            numbers.map(|number| number.to_string()).join(","),
        );
    }
    let mut worker = Worker::start(&arguments)?;
    worker.go()?;
    Ok(worker)
}
