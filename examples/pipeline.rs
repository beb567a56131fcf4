//! A step of a pipeline that drops what it has seen before, in batches, and knows after a crash where to go on.
//!
//! ```sh
//! cargo run --release --example pipeline -- examples/repositories.txt
//! ```
//!
//! It reads a file, prints the lines that are new, and commits after each batch with the offset of the next one as the
//! commit's tag. Run again, it goes on behind the last commit. A transactional store takes back what a killed run had not
//! committed, so no line counts as seen that was not handed on.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};

use everseen::CreateOptions;

/// Lines of a batch: a few thousand are several times as fast as lines one by one.
const BATCH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a file of lines")?;
    let folder = tempfile::tempdir()?;
    let options = CreateOptions::new().transactional(true).fpr(1e-6);
    let store = options.open_or_create(folder.path().join("seen.ever"))?;

    let mut input = BufReader::new(File::open(path)?);
    let mut offset = match store.last_commit("default")? {
        Some(commit) => u64::from_le_bytes(commit.tag[..].try_into()?),
        None => 0,
    };
    input.seek(SeekFrom::Start(offset))?;
    let mut out = std::io::stdout().lock();
    loop {
        let mut lines = Vec::with_capacity(BATCH);
        while lines.len() < BATCH {
            let mut line = Vec::new();
            let length = input.read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            offset += length as u64;
            lines.push(line);
        }
        if lines.is_empty() {
            break;
        }
        let is_new = store.insert_batch(&lines)?;
        for (line, is_new) in lines.iter().zip(is_new) {
            if is_new {
                out.write_all(line)?;
            }
        }
        // First what was handed on, then the commit: a crash in between repeats lines, and loses none.
        out.flush()?;
        store.commit_with(&offset.to_le_bytes())?;
    }
    store.close()?;
    Ok(())
}
