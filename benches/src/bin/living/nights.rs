//! A thousand lines each night.

use std::io;

use everseen_benches::numbers::median;

use crate::report;
use crate::session::Session;

const LINES: u64 = 1_000;

/// So many nights in a row on one store: what all of them write, and the longest beside the median.
pub fn measure(session: &Session, keys: u64, nights: u64) -> io::Result<()> {
    report::head(
        "A thousand lines each night",
        "the longest : the median; bits a key",
    );
    let store = session.store("nightly")?;
    session.dedup(&store, keys)?;
    let runs = (0..nights)
        .map(|_| session.dedup(&store, LINES))
        .collect::<io::Result<Vec<_>>>()?;
    let longest = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    let ratio = longest / median(runs.iter().map(|run| run.seconds));
    let bits = runs
        .last()
        .map_or(0.0, |run| report::bits(run, keys + nights * LINES));
    let into = format!("{:.0e} keys", keys as f64);
    let last = format!("{ratio:.1}; {bits:.1}");
    report::line(&format!("1000, {nights} times"), &into, &runs, &last)?;
    let dirtied: u64 = runs.iter().map(|run| run.dirtied).sum();
    let disk: Option<u64> = runs.iter().map(|run| run.disk).sum();
    println!(
        "\nAll of them: {:.0} MB dirtied, {} on the disk",
        dirtied as f64 / 1e6,
        disk.map_or("unknown".to_owned(), |disk| format!(
            "{:.0} MB",
            disk as f64 / 1e6
        ))
    );
    Ok(())
}
