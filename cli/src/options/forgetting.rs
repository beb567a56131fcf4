//! `--forget-after` and `--at`: stores that forget, and what time it is for them.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::{CreateOptions, ForgetBy, Forgetting, OpenOptions, Stats, Store};

use crate::error::CliError;
use crate::options::units;
use crate::output::format::{many, utc};
use crate::output::tell;

/// How far a store's time must be ahead of this machine's clock to be told: clocks of several machines differ.
const LEAST_AHEAD: Duration = Duration::from_secs(60);

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

    /// Count from the first time of a key, or from its last [default: first]
    ///
    /// By "last", a line that is seen again stays for as long again: it is new only if it did not come for that time. Look-ups
    /// (check) don't count.
    #[arg(
        long,
        value_name = "WHEN",
        value_parser = ["first", "last"],
        requires = "forget_after",
        help_heading = "A new store"
    )]
    forget_by: Option<String>,
}

impl ForgetAfter {
    pub fn apply(&self, mut options: CreateOptions) -> CreateOptions {
        if let Some(window) = self.forget_after {
            options = options.forget_after(window);
        }
        if let Some(steps) = self.forget_steps {
            options = options.forget_steps(steps);
        }
        match self.forget_by.as_deref() {
            None => options,
            Some("last") => options.forget_by(ForgetBy::Last),
            Some(_) => options.forget_by(ForgetBy::First),
        }
    }

    /// Returns the value of an option, as a user may type it.
    pub fn value_of(&self, option: &str) -> Option<String> {
        match option {
            "forget_after" => self.forget_after.map(units::typed),
            "forget_steps" => self.forget_steps.map(|steps| steps.to_string()),
            "forget_by" => self.forget_by.clone(),
            _ => None,
        }
    }
}

/// The part of the command line that says what time it is for a store that forgets.
#[derive(clap::Args)]
pub struct At {
    /// The time at which the lines came, such as 2026-11-27T13:30:00Z
    ///
    /// For stores that forget (--forget-after), instead of the system's clock; for remove, exempt and checkpoint, instead of
    /// the latest that the store has recorded. RFC 3339, a date alone, or seconds since 1970. The time of a store never runs
    /// backwards, so bring lines in the order of their times.
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

    /// Does the same; without a time, that of the store counts: for commands that accept no line, and so need no new one.
    pub fn apply_or_recorded(&self, options: OpenOptions) -> OpenOptions {
        // Time never runs backwards, so the earliest is that which the store has recorded.
        options.clock(self.at.unwrap_or(SystemTime::UNIX_EPOCH))
    }

    /// Refuses a time for a store that is to be created and keeps its keys for ever.
    pub fn ensure_forgetting(&self, forget: &ForgetAfter) -> Result<(), CliError> {
        match self.at.is_some() && forget.forget_after.is_none() {
            true => Err(CliError::TimeWithoutForgetting),
            false => Ok(()),
        }
    }

    /// Warns if the lines can't come at the time that was asked for, and if all earlier ones are forgotten by now: one of the
    /// two times may be wrong, and the next checkpoint drops what is forgotten.
    pub fn warn(&self, stats: &Stats, path: &Path) {
        let Some(Forgetting {
            window,
            steps,
            now,
            latest,
            ..
        }) = stats.forgetting
        else {
            return;
        };
        let (path, step) = (path.display(), window / steps);
        if self.at.is_some_and(|at| at + step <= now) {
            tell(format_args!(
                "everseen: warning: it is {} in {path} already, so an earlier --at has no effect; `everseen repair --set-clock` sets a wrong time back",
                moment(now)
            ));
        }
        if self.at.is_none() && SystemTime::now() + step.max(LEAST_AHEAD) < now {
            tell(format_args!(
                "everseen: warning: it is {} in {path}, which is later than now, and nothing is forgotten until then; `everseen repair --set-clock` sets a wrong time back",
                moment(now)
            ));
        }
        let is_all_gone = |last: SystemTime| stats.log_bytes == 0 && last + window + step < now;
        if stats.keys > 0
            && let Some(last) = latest.filter(|last| is_all_gone(*last))
        {
            tell(format_args!(
                "everseen: warning: {path} forgets all of {}: its latest is of {}, and now it is {}",
                many(stats.keys, "key"),
                moment(last),
                moment(now)
            ));
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

/// Returns a time as a user reads it.
pub fn moment(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH);
    utc(since.unwrap_or_default().as_secs())
}
