//! What the machine does in the same minute without a store: the least that a durable run can cost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seconds of a bare program that appends 100 bytes to four files, and syncs each.
pub fn four_appends(folder: &Path) -> io::Result<f64> {
    let mut files = (0..4)
        .map(|number| {
            let path = folder.join(format!("bare-{number}"));
            OpenOptions::new().create(true).append(true).open(path)
        })
        .collect::<io::Result<Vec<File>>>()?;
    let begun = Instant::now();
    for file in &mut files {
        file.write_all(&[b'x'; 100])?;
        file.sync_data()?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// `cat FILE > /dev/null`, not started yet.
pub fn cat(path: &Path) -> Command {
    let mut cat = Command::new("cat");
    cat.arg(path).stdout(Stdio::null());
    cat
}
