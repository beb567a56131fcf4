//! When the keys of a store that forgets are forgotten.

use std::time::SystemTime;

use everseen::{Forgetting, KeysByAge};

use super::{charts, figure};
use crate::options::units::typed;
use crate::output::format::many;

/// Says and draws how many keys are forgotten when.
pub fn section(forgetting: &Forgetting, by_age: &KeysByAge) -> String {
    let since = |time: SystemTime| match time.duration_since(forgetting.now) {
        Ok(later) => later.as_secs_f64(),
        Err(earlier) => -earlier.duration().as_secs_f64(),
    };
    let steps = by_age.steps.iter();
    let due: Vec<(f64, u64)> = steps.map(|one| (since(one.forgotten), one.keys)).collect();
    let gone = due.iter().filter(|(at, _)| *at <= 0.0);
    let gone: u64 = gone.map(|(_, keys)| keys).sum();
    let about = match by_age.are_all_read {
        true => "",
        false => " The numbers are estimated from 1,024 pages.",
    };
    let said = format!(
        "How many keys are forgotten when, from now on. Each key is remembered for {}. {} forgotten already, and \
         dropped by and by.{about}",
        typed(forgetting.window),
        match gone {
            1 => "1 key is".to_owned(),
            gone => format!("{} are", many(gone, "key")),
        },
    );
    let step = (forgetting.window / forgetting.steps).as_secs_f64();
    figure("Forgetting", &said, &charts::due(&due, step))
}
