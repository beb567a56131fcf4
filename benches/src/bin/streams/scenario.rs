//! The stores that lines go into.

use std::io;
use std::path::Path;

use everseen_benches::piped;

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
        let capacity = format!("--capacity={capacity}");
        let sized = self.is_sized.then_some(&*capacity);
        let options: Vec<&str> = sized.into_iter().chain(options.iter().copied()).collect();
        piped::create(command, store, &options)
    }
}
