//! A store that is larger than the memory of the process.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::numbers::median;
use rustix::fs::{Advice, fadvise};

use crate::bare;
use crate::report;
use crate::session::Session;

/// New lines and seen ones, beside reading the store once from a cold cache.
pub fn measure(session: &Session, keys: u64, lines: u64, limit: u64) -> io::Result<()> {
    report::head(
        &format!("In {limit} MiB of memory"),
        "times `cat` of the store, cold",
    );
    let store = session.store("large")?;
    session.dedup(&store, keys)?;
    let (mut new, mut seen, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..session.rounds {
        let group = match MemoryGroup::create(limit << 20) {
            Ok(group) => group,
            Err(why) => {
                println!("\nNot measured: no control group ({why})");
                return Ok(());
            }
        };
        read.push(cat(&store, &group)?);
        chill(&store)?;
        new.push(session.dedup_with(&store, lines, &[], Some(&group))?);
        chill(&store)?;
        seen.push(session.dedup_again(&store, lines, Some(&group))?);
    }
    let read = median(read);
    for (name, runs) in [("new", new), ("seen", seen)] {
        let ratio = median(runs.iter().map(|run| run.seconds)) / read;
        let (run, into) = (
            format!("{:.0e} {name}", lines as f64),
            format!("{:.0e} keys", keys as f64),
        );
        report::line(&run, &into, &runs, &format!("{ratio:.2}"))?;
    }
    Ok(())
}

/// Seconds of a `cat` of the store in a group, from a cold cache.
fn cat(store: &Path, group: &MemoryGroup) -> io::Result<f64> {
    chill(store)?;
    let begun = Instant::now();
    let mut cat = bare::cat(store).spawn()?;
    group.add(cat.id())?;
    let status = cat.wait()?;
    match status.success() {
        true => Ok(begun.elapsed().as_secs_f64()),
        false => Err(io::Error::other(format!("cat ended with {status}"))),
    }
}

/// Takes a file out of the page cache.
fn chill(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}
