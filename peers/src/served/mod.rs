//! Everseen's server beside Redis with its Bloom module: the same commands to both, each pinned to one core, the load from
//! another, in rounds by turns.

mod args;
mod load;
mod report;
mod server;
mod work;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use everseen_benches::machine::Machine;
use everseen_benches::scratch::Scratch;

pub use args::Args;
use args::Durability;
use load::Load;
use report::{Row, Unit};
use server::{Kind, Server};
use work::{KEY, Work};

use crate::sys;

/// Both servers, or Everseen's alone, and which keys they have.
struct Pair {
    everseen: Server,
    redis: Option<Server>,
    /// Numbers below this are in both: what was filled in, however long it took.
    filled: u64,
    /// Numbers from here on are in neither. Work that ended before its end left some below out.
    fresh: u64,
}

impl Pair {
    fn servers(&self) -> impl Iterator<Item = &Server> {
        [Some(&self.everseen), self.redis.as_ref()]
            .into_iter()
            .flatten()
    }

    /// Gives the same piece of work to each, and returns how each did.
    fn round(&mut self, work: &Work, load: &Load) -> Result<Vec<load::Done>> {
        let numbers = self.fresh..self.fresh + work.fresh(load);
        let mut done = Vec::new();
        for server in self.servers() {
            sys::sync();
            let run = load::run(server.port(), work, load, numbers.clone(), self.filled);
            done.push(run.with_context(|| format!("{}, {}", server.kind().title(), work.title))?);
        }
        self.fresh = numbers.end;
        Ok(done)
    }
}

/// Does what the arguments ask for.
pub fn run(args: &Args) -> Result<()> {
    let scratch = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(scratch.path()));
    let missing = Kind::Redis.missing(args);
    if let Some(why) = Kind::Everseen.missing(args) {
        bail!("{why}");
    }
    let [of_servers, of_load] = args.cores()?;
    sys::pin(of_load)?;
    println!(
        "Each server on core {of_servers}, the load from core {of_load}; {} rounds; filters at {:e}; items of {} bytes.\n",
        args.rounds(),
        args.fpr,
        work::ITEM_BYTES
    );
    report::head(missing.is_none());
    for keys in args.keys() {
        measure(args, keys, &scratch, missing.is_none())?;
    }
    if let Some(why) = missing {
        println!("\nSkipped: Redis: {why}.");
    }
    report::legend();
    Ok(())
}

/// One size: fills both, then all that is measured on them.
fn measure(args: &Args, keys: u64, scratch: &Scratch, has_redis: bool) -> Result<()> {
    let start = |kind: Kind| -> Result<Server> {
        let folder = scratch.path().join(format!("{}-{keys}", kind.name()));
        std::fs::create_dir(&folder)?;
        Server::start(kind, args, &folder, Durability::No)
    };
    let mut pair = Pair {
        everseen: start(Kind::Everseen)?,
        redis: has_redis.then(|| start(Kind::Redis)).transpose()?,
        filled: 0,
        fresh: 0,
    };
    fill(args, keys, &mut pair)?;
    let mut print = |row: Row| report::line(keys, &row);
    tell_sizes(&pair, "filled", &mut print)?;
    if let Some(bytes) = args.memory {
        pair.everseen.limit(args, bytes)?;
    }
    for &durability in args.durabilities() {
        pair.everseen.be(args, durability)?;
        if let Some(redis) = &mut pair.redis {
            redis.be(args, durability)?;
        }
        for (work, load) in work::all(args) {
            let rounds: Vec<_> = (0..args.rounds())
                .map(|_| pair.round(work, &load))
                .collect::<Result<_>>()?;
            print(Row::of_rounds(durability, work, &rounds));
        }
    }
    tell_sizes(&pair, "in the end", &mut print)?;
    print(restarts(args, &mut pair)?);
    Ok(())
}

/// Fills both with as many keys, by commands of a thousand items.
fn fill(args: &Args, keys: u64, pair: &mut Pair) -> Result<()> {
    let capacity = keys + work::growth(args);
    for server in pair.servers() {
        server.ask::<()>(
            "BF.RESERVE",
            &[KEY, &args.fpr.to_string(), &capacity.to_string()],
        )?;
    }
    let (work, load) = work::filling(keys);
    let done = pair.round(work, &load)?;
    pair.filled = pair.fresh;
    report::line(keys, &Row::of_rounds(Durability::No, work, &[done]));
    if let Some(redis) = &pair.redis {
        redis.rewrite_log()?;
    }
    Ok(())
}

fn tell_sizes(pair: &Pair, when: &str, print: &mut dyn FnMut(Row)) -> Result<()> {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut figures = [const { Vec::new() }; 3];
    for server in pair.servers() {
        let [own, mapped] = server.memory()?;
        for (figure, bytes) in figures.iter_mut().zip([own, mapped, server.disk()?]) {
            figure.push(mebibytes(bytes));
        }
    }
    let titles = ["memory of its own", "with mapped files", "files"];
    for (title, figure) in titles.into_iter().zip(figures) {
        print(Row::of_figures(
            &format!("{title}, {when}"),
            Unit::Mebibytes,
            figure,
        ));
    }
    Ok(())
}

/// Kills both, starts them again, and takes the time until the first right answer.
fn restarts(args: &Args, pair: &mut Pair) -> Result<Row> {
    let last = work::item(pair.filled - 1);
    let mut times = Vec::new();
    let durability = args
        .durabilities()
        .last()
        .copied()
        .unwrap_or(Durability::No);
    for server in [Some(&mut pair.everseen), pair.redis.as_mut()]
        .into_iter()
        .flatten()
    {
        server.kill()?;
        let begun = Instant::now();
        server.start_again(args, durability)?;
        let known: bool = server.ask("BF.EXISTS", &[KEY, &last])?;
        let took: Duration = begun.elapsed();
        if !known {
            bail!("{} has lost {last}", server.kind().title());
        }
        times.push(took.as_secs_f64() * 1e3);
    }
    Ok(Row::of_figures(
        "from kill -9 to the first answer",
        Unit::Milliseconds,
        times,
    ))
}
