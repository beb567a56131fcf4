//! `--on-damage`, for every command that reads pages, and the policy of `repair`.

use clap::ValueEnum;
use everseen::{OnDamage, OpenOptions};

/// The part of the command line that tells what to do about damaged pages.
#[derive(clap::Args)]
pub struct Policy {
    /// A damaged page: error, never-seen or seen
    ///
    /// Stop with an error, or take the keys of the page for never seen, or for seen. A run that writes makes that
    /// permanent, as `everseen repair` does.
    #[arg(long, value_name = "WHAT", default_value = "error")]
    on_damage: Choice,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Error,
    NeverSeen,
    Seen,
}

impl Policy {
    pub fn apply(&self, options: OpenOptions) -> OpenOptions {
        options.on_damage(match self.on_damage {
            Choice::Error => OnDamage::Error,
            Choice::NeverSeen => OnDamage::NeverSeen,
            Choice::Seen => OnDamage::Seen,
        })
    }
}

/// What becomes of a damaged page that is repaired.
#[derive(Clone, Copy, ValueEnum)]
pub enum Repair {
    /// Its keys count as never seen: a crawler fetches them again
    NeverSeen,
    /// Its keys count as seen, and so do as many that never were (not in a store of kind fingerprint)
    Seen,
}

impl From<Repair> for OnDamage {
    fn from(repair: Repair) -> Self {
        match repair {
            Repair::NeverSeen => OnDamage::NeverSeen,
            Repair::Seen => OnDamage::Seen,
        }
    }
}
