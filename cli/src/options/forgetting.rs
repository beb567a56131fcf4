//! `--forget-after` and `--at`: stores that forget, and what time it is for them.

use std::time::{Duration, SystemTime};

use everseen::{CreateOptions, OpenOptions, Store};

use crate::options::units;

/// The part of the command line that says how a new store forgets.
#[derive(clap::Args)]
pub struct ForgetAfter {
    /// Forget each key this long after it was added, such as 30d
    ///
    /// From then on the key is new again. It is forgotten at the latest a step later (--forget-steps): the fifteenth part
    /// of the time. The store is of kind fingerprint. A store that exists stays as it is: if it has another time, or
    /// forgets nothing, that is an error.
    #[arg(long, value_name = "T", value_parser = units::long_duration, help_heading = "A new store")]
    forget_after: Option<Duration>,

    /// Count the ages of keys in this many steps, 1 to 255 [default: 15]
    ///
    /// More steps forget more exactly; each doubling takes one bit more for each key.
    #[arg(
        long,
        value_name = "N",
        requires = "forget_after",
        help_heading = "A new store"
    )]
    forget_steps: Option<u32>,
}

impl ForgetAfter {
    pub fn apply(&self, mut options: CreateOptions) -> CreateOptions {
        if let Some(window) = self.forget_after {
            options = options.forget_after(window);
        }
        match self.forget_steps {
            Some(steps) => options.forget_steps(steps),
            None => options,
        }
    }

    /// Returns the value of an option, as a user may type it.
    pub fn value_of(&self, option: &str) -> Option<String> {
        match option {
            "forget_after" => self.forget_after.map(units::typed),
            "forget_steps" => self.forget_steps.map(|steps| steps.to_string()),
            _ => None,
        }
    }
}

/// The part of the command line that says what time it is for a store that forgets.
#[derive(clap::Args)]
pub struct At {
    /// The time at which the lines came, such as 2026-11-27T13:30:00Z
    ///
    /// For stores that forget (--forget-after), instead of the system's clock: RFC 3339, a date alone, or seconds since
    /// 1970. The time of a store never runs backwards, so bring lines in the order of their times.
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    at: Option<SystemTime>,
}

impl At {
    pub fn apply(&self, options: OpenOptions) -> OpenOptions {
        match self.at {
            Some(at) => options.clock(at),
            None => options,
        }
    }

    /// Makes the time known to a store, which must be one that forgets.
    pub fn tell(&self, store: &Store) -> everseen::Result<()> {
        match self.at {
            Some(at) => store.advance_to(at),
            None => Ok(()),
        }
    }
}
