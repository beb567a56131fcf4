//! `everseen plan --forget-after`: what a store that forgets takes once as much is forgotten as comes.

use std::time::Duration;

use everseen::CreateOptions;
use serde::Serialize;

use crate::commands::fingerprint_plan::{JsonFill, Outlook};
use crate::commands::plan::Json;
use crate::error::CliError;
use crate::options::units::{self, typed};
use crate::output::format::{bytes, rate, table, thousands};

const DAY: Duration = Duration::from_secs(86_400);

/// How the store is to forget, and how many keys come.
#[derive(clap::Args)]
pub struct Forgetting {
    /// Plan a store that forgets keys after this time, such as 30d
    ///
    /// For as many keys as --keys-per-day or --keys-per-hour says. It is of kind fingerprint.
    #[arg(long, value_name = "T", value_parser = units::long_duration)]
    forget_after: Option<Duration>,

    /// Count the ages of keys in this many steps, 1 to 255
    #[arg(long, value_name = "N", requires = "forget_after", default_value_t = CreateOptions::DEFAULT_FORGET_STEPS, value_parser = clap::value_parser!(u32).range(1..=255))]
    forget_steps: u32,

    /// With --forget-after: how many keys are added in a day
    ///
    /// Those that are new. Keys that are seen take no room.
    #[arg(long, value_name = "N", value_parser = units::positive_count, requires = "forget_after", conflicts_with = "keys_per_hour")]
    keys_per_day: Option<u64>,

    /// With --forget-after: how many keys are added in an hour
    #[arg(long, value_name = "N", value_parser = units::positive_count, requires = "forget_after")]
    keys_per_hour: Option<u64>,
}

impl Forgetting {
    pub fn is_given(&self) -> bool {
        self.forget_after.is_some()
    }

    /// Plans for what was asked; `limit` and `fpr` are those of a store of fingerprints.
    pub fn plan(&self, limit: Option<u64>, fpr: f64) -> Result<ForgettingPlan, CliError> {
        let per_day = match (self.keys_per_day, self.keys_per_hour) {
            (Some(keys), _) => keys,
            (None, Some(keys)) => keys.saturating_mul(24),
            (None, None) => {
                return Err(CliError::Usage(
                    "--forget-after needs --keys-per-day or --keys-per-hour: as many are forgotten as come",
                ));
            }
        };
        let after = self.forget_after.unwrap_or_default();
        ForgettingPlan::of((after, self.forget_steps), per_day, limit, fpr)
    }
}

/// A store to which so many keys come each day.
pub struct ForgettingPlan {
    outlook: Outlook,
    after: Duration,
    steps: u32,
    per_day: u64,
}

#[derive(Serialize)]
pub struct JsonForgetting {
    /// Seconds for which each key is seen at least.
    after: f64,
    steps: u32,
    /// Bits that the age of each key takes.
    age_bits: u32,
    keys_per_day: u64,
    /// Keys that come in a window.
    keys_in_window: u64,
    /// After the first window and two steps, and from then on.
    steady: JsonFill,
    /// After each quarter of the first window.
    first_window: Vec<JsonFill>,
}

impl ForgettingPlan {
    fn of(
        (after, steps): (Duration, u32),
        per_day: u64,
        limit: Option<u64>,
        fpr: f64,
    ) -> Result<Self, CliError> {
        let planned = ForgettingPlan {
            outlook: Outlook::of(limit, fpr, age_bits(steps))?,
            after,
            steps,
            per_day,
        };
        if !planned.outlook.has_room_for_ages() {
            return Err(CliError::Usage(
                "the ages leave too few bits for so many keys at so low a rate: give a lower limit (--grows-to), a higher --fpr or fewer --forget-steps",
            ));
        }
        match planned.steady().keys > planned.outlook.limit() {
            true => Err(CliError::Usage(
                "more keys come in that time than the store may have: give a higher limit (--grows-to) or a shorter --forget-after",
            )),
            false => Ok(planned),
        }
    }

    /// Returns how many keys come in a time.
    fn keys_in(&self, time: Duration) -> u64 {
        let days = time.as_secs_f64() / DAY.as_secs_f64();
        (self.per_day as f64 * days).ceil() as u64
    }

    /// Returns about the most that the store takes. Those of a window and of the step that has begun are seen, and count for the
    /// rate. Forgotten ones leave as a run of an eighth of that drains into the others.
    fn steady(&self) -> JsonFill {
        let step = self.after / self.steps;
        let seen = self.keys_in(self.after + step);
        let stored = seen.saturating_add(seen / 8);
        JsonFill {
            fpr: self.outlook.with(seen).fpr,
            ..self.outlook.with(stored)
        }
    }

    /// Returns what the store takes after each quarter of the first window, in which nothing is forgotten.
    fn first_window(&self) -> impl Iterator<Item = JsonFill> {
        let keys = (1..=4).map(|quarter| self.keys_in(self.after * quarter / 4));
        keys.map(|keys| self.outlook.with(keys))
    }

    pub fn json(&self) -> Json {
        let forgetting = JsonForgetting {
            after: self.after.as_secs_f64(),
            steps: self.steps,
            age_bits: age_bits(self.steps),
            keys_per_day: self.per_day,
            keys_in_window: self.keys_in(self.after),
            steady: self.steady(),
            first_window: self.first_window().collect(),
        };
        Json {
            forgetting: Some(forgetting),
            ..self.outlook.json()
        }
    }

    pub fn text(&self) -> String {
        let (steady, window) = (self.steady(), self.keys_in(self.after));
        let above = 100.0 * (steady.keys as f64 / window as f64 - 1.0);
        let mut text = format!(
            "forgets       keys {} after they were added, or up to {} later\n\
             keys          {} come in that time; about {} in the file, {above:.0} % more\n\
             capacity      {} keys at most\n\
             fpr           {} at most\n\
             bits a key    {:.2}, {} of them for its age\n\
             size          {} once the first keys are forgotten, and no more from then on\n\n",
            typed(self.after),
            typed(self.after / self.steps),
            thousands(window),
            thousands(steady.keys),
            thousands(self.outlook.limit()),
            rate(steady.fpr),
            steady.bits_per_key,
            age_bits(self.steps),
            bytes(steady.bytes),
        );
        let header = ["after", "keys", "fpr", "bits a key", "size"].map(str::to_owned);
        let rows = (1..).zip(self.first_window()).map(|(quarter, fill)| {
            let [keys, rate, bits, size] = fill.row();
            [
                format!("{quarter}/4 of {}", typed(self.after)),
                keys,
                rate,
                bits,
                size,
            ]
        });
        text += &table(std::iter::once(header).chain(rows));
        text
    }
}

/// Returns how many bits the age of a key takes (FORMAT.md, "Ages").
fn age_bits(steps: u32) -> u32 {
    steps.ilog2() + 1
}
