//! Streams of a billion lines.

use std::ffi::OsString;
use std::io;

use crate::few;
use crate::report;
use crate::session::Session;

/// Three streams, one after the other, into one store.
pub fn measure_three(session: &Session, lines: u64) -> io::Result<()> {
    report::head("Three streams into one store", "bits a key");
    let store = session.store("stream")?;
    for turn in 0..3 {
        let run = session.dedup(&store, lines)?;
        let bits = format!("{:.2}", report::bits(&run, (turn + 1) * lines));
        let into = format!("{:.0e} keys", (turn * lines) as f64);
        report::line(&format!("{:.0e}", lines as f64), &into, &[run], &bits)?;
    }
    Ok(())
}

/// One stream, however long, whether its store is whole, and what few lines cost it then.
pub fn measure_long(session: &Session, lines: u64) -> io::Result<()> {
    report::head("One stream", "bits a key; seconds of `verify`");
    let store = session.store("long")?;
    let run = session.dedup(&store, lines)?;
    // The line of the stream stands, whatever `verify` says.
    let bits = format!("{:.2}; not yet", report::bits(&run, lines));
    let title = format!("{:.0e}", lines as f64);
    report::line(&title, "an empty store", std::slice::from_ref(&run), &bits)?;
    let seconds = session.verify(&store)?;
    let bits = format!("{:.2}; {seconds:.1}", report::bits(&run, lines));
    report::line(&title, "an empty store", &[run], &bits)?;
    few::measure_there(session, &store, lines)
}

/// One stream whose handle has a small buffer.
pub fn measure_buffer(session: &Session, lines: u64) -> io::Result<()> {
    report::head("A stream with a small buffer", "dirtied bytes a key");
    let options = [OsString::from("--buffer=64M")];
    let store = session.store("small-buffer")?;
    let run = session.dedup_with(&store, lines, &options, None)?;
    let bytes = format!("{:.1}", run.dirtied as f64 / lines as f64);
    let title = format!("{:.0e}, --buffer=64M", lines as f64);
    report::line(&title, "an empty store", &[run], &bytes)
}
