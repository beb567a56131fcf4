//! The stores that lines go into.

use std::io;
use std::path::Path;
use std::process::Command;

/// How a store comes to be.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What `everseen create` gets beside the capacity; `None` if `dedup` makes the store by itself.
    create: Option<&'static [&'static str]>,
}

pub const SCENARIOS: [Scenario; 2] = [
    Scenario {
        name: "made by dedup",
        create: None,
    },
    Scenario {
        name: "made for its keys",
        create: Some(&["--transactional"]),
    },
];

impl Scenario {
    /// Makes the store, if it is to be made before.
    pub fn prepare(&self, command: &Path, store: &Path, capacity: u64) -> io::Result<()> {
        let Some(options) = self.create else {
            return Ok(());
        };
        let mut create = Command::new(command);
        create.arg("create").arg(store);
        create.args(["--capacity", &capacity.to_string()]);
        let status = create.args(options).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("{create:?} ended with {status}"))),
        }
    }
}
