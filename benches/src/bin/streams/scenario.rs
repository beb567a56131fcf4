//! The stores that lines go into.

use std::io;
use std::path::Path;
use std::process::Command;

/// How a store comes to be.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What `everseen create` gets; `None` if `dedup` makes the store by itself.
    create: Option<&'static [&'static str]>,
    /// Whether the store is made for as many keys as come.
    is_sized: bool,
}

/// `dedup` makes a store of fingerprints that grows.
pub const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "made by dedup",
        create: None,
        is_sized: false,
    },
    Scenario {
        name: "layers that grow",
        create: Some(&["--transactional", "--kind=scalable"]),
        is_sized: false,
    },
    Scenario {
        name: "fingerprints for its keys",
        create: Some(&["--transactional", "--kind=fingerprint"]),
        is_sized: true,
    },
    Scenario {
        name: "made for its keys",
        create: Some(&["--transactional"]),
        is_sized: true,
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
        if self.is_sized {
            create.args(["--capacity", &capacity.to_string()]);
        }
        let status = create.args(options).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("{create:?} ended with {status}"))),
        }
    }
}
