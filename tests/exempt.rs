//! Exemptions: what is exempt is not there until it is inserted, whatever the pages say, for every handle, across kills,
//! failing disks and power cuts, and in copies, deltas, unions and folds.

#[path = "support/numbers.rs"]
mod numbers;
mod support;
#[path = "support/unsynced.rs"]
mod unsynced;

#[path = "power_cut/disk.rs"]
#[expect(dead_code, reason = "cuts fall anywhere here")]
mod disk;
#[path = "power_cut/fates.rs"]
mod fates;
#[path = "power_cut/model.rs"]
#[expect(dead_code, reason = "the promises here are others")]
mod model;
#[path = "power_cut/site.rs"]
mod site;
#[path = "power_cut/tape.rs"]
#[expect(dead_code, reason = "nothing is killed or fails here")]
mod tape;

mod exempt {
    mod basics;
    mod copies;
    mod cuts;
    mod failing;
    mod forged;
    mod merged;
    mod setting;
    mod sharing;
    mod twin;
}
