//! Few lines, and many keys there already.

use std::io;
use std::path::Path;

use everseen_benches::numbers::median;
use everseen_benches::piped::Usage;

use crate::bare;
use crate::report;
use crate::session::Session;

/// Lines of a run.
const FEW: [u64; 4] = [1, 100, 1_000, 100_000];
/// Lines that are forgotten at once.
const REMOVED: u64 = 1_000;
const LAST: &str = "times four appends";

/// Into an empty store, and into stores of these sizes.
pub fn measure(session: &Session, keys: &[u64]) -> io::Result<()> {
    report::head("Few lines into a store that `dedup` made", LAST);
    let mut runs = Runs::default();
    for _ in 0..session.rounds {
        let store = session.store("empty")?;
        runs.push(session, |session| session.dedup(&store, 1))?;
    }
    runs.report("1", "an empty store")?;
    for keys in keys {
        let store = session.store("large")?;
        session.dedup(&store, *keys)?;
        come_and_go(session, &store, *keys)?;
    }
    Ok(())
}

/// Into a store of so many keys that is there already, however it was made.
pub fn measure_there(session: &Session, store: &Path, keys: u64) -> io::Result<()> {
    report::head("Few lines into that store", LAST);
    come_and_go(session, store, keys)
}

fn come_and_go(session: &Session, store: &Path, keys: u64) -> io::Result<()> {
    let into = format!("{:.0e} keys", keys as f64);
    few_into(session, store, &into)?;
    let mut runs = Runs::default();
    for _ in 0..session.rounds {
        session.dedup(store, REMOVED)?;
        runs.push(session, |session| session.remove(store, REMOVED))?;
    }
    runs.report("`remove` of 1000", &into)
}

/// Into a Bloom store that is half full.
pub fn measure_bloom(session: &Session, capacity: u64) -> io::Result<()> {
    report::head("Few lines into a Bloom store", LAST);
    let store = session.store("bloom")?;
    session.create(&store, &["--capacity", &capacity.to_string()])?;
    session.dedup(&store, capacity / 2)?;
    few_into(
        session,
        &store,
        &format!("one for {:.0e} keys, half full", capacity as f64),
    )
}

fn few_into(session: &Session, store: &Path, into: &str) -> io::Result<()> {
    for count in FEW {
        let mut runs = Runs::default();
        for _ in 0..session.rounds {
            runs.push(session, |session| session.dedup(store, count))?;
        }
        runs.report(&count.to_string(), into)?;
    }
    Ok(())
}

/// Runs, each with what the machine did beside it.
#[derive(Default)]
struct Runs {
    usages: Vec<Usage>,
    bare: Vec<f64>,
}

impl Runs {
    fn push(
        &mut self,
        session: &Session,
        run: impl FnOnce(&Session) -> io::Result<Usage>,
    ) -> io::Result<()> {
        self.usages.push(run(session)?);
        self.bare.push(bare::four_appends(session.folder())?);
        Ok(())
    }

    fn report(&self, run: &str, into: &str) -> io::Result<()> {
        let ratio = median(self.usages.iter().map(|run| run.seconds)) / median(self.bare.clone());
        report::line(run, into, &self.usages, &format!("{ratio:.1}"))
    }
}
