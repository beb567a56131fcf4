//! Which processes have a file open, as far as the system tells this user.

use std::fs;
use std::path::Path;

use crate::process::handle::is_same_file;

pub struct Opener {
    pub id: u32,
    pub name: String,
}

/// Returns the other processes that have a file open. `None` where the system can't tell.
pub fn of(path: &Path) -> Option<Vec<Opener>> {
    let file = fs::metadata(path).ok()?;
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|id| id.parse().ok()) else {
            continue;
        };
        // Those of other users can't be read.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let is_it = |entry: fs::DirEntry| {
            fs::metadata(entry.path()).is_ok_and(|other| is_same_file(&other, &file))
        };
        if id != std::process::id() && files.flatten().any(is_it) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name = name.trim_end().to_owned();
            found.push(Opener { id, name });
        }
    }
    found.sort_unstable_by_key(|opener| opener.id);
    Some(found)
}
