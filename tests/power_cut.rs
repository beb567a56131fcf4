//! Power cuts (invariants I1, I3, I4, I6 and I12).

#[path = "support/numbers.rs"]
mod numbers;
#[path = "support/unsynced.rs"]
mod unsynced;

#[path = "power_cut/disk.rs"]
mod disk;
#[path = "power_cut/fates.rs"]
mod fates;
#[path = "power_cut/hunt.rs"]
mod hunt;
#[path = "power_cut/model.rs"]
mod model;
#[path = "power_cut/session.rs"]
mod session;
#[path = "power_cut/site.rs"]
mod site;
#[path = "power_cut/tape.rs"]
mod tape;

use hunt::{Found, Plan, hunt};

/// The seed unless EVERSEEN_SEED is set.
const SEED: u64 = 1;
/// Images unless EVERSEEN_IMAGES is set.
const IMAGES: u64 = 24_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn tell(plan: &Plan, found: &Found) {
    println!(
        "{} images of {} recordings (by power cuts in a row: {:?}), seed {}, {} violations",
        found.images,
        found.recordings,
        found.levels,
        plan.seed,
        found.violations.len()
    );
    let mut kinds = std::collections::BTreeMap::new();
    for text in &found.violations {
        let what: String = text
            .rsplit("=> ")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|word| if word.starts_with('/') { "PATH" } else { word })
            .filter(|word| word.parse::<u64>().is_err())
            .collect::<Vec<_>>()
            .join(" ");
        kinds.entry(what).or_insert_with(Vec::new).push(text);
    }
    for (what, texts) in kinds {
        let least = texts.iter().min_by_key(|text| text.len()).unwrap();
        println!("##### {} times: {what}\n{least}", texts.len());
    }
}

#[test]
fn no_power_cut_takes_what_was_promised() {
    let seed = number("EVERSEEN_SEED").unwrap_or(SEED);
    let mut plan = Plan::new(seed, number("EVERSEEN_IMAGES").unwrap_or(IMAGES));
    plan.only = number("EVERSEEN_RECORDING");
    let start = std::time::Instant::now();
    let found = hunt(&plan);
    println!(
        "{:?} {:?} {:?}",
        start.elapsed(),
        found.sites,
        found.strategies
    );
    tell(&plan, &found);
    assert!(found.violations.is_empty(), "{}", found.violations[0]);
}
