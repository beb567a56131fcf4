//! Exemptions: what is exempt is not there until it is inserted, whatever the pages say, for every handle, across kills,
//! failing disks and power cuts, and in copies, deltas, unions and folds.

mod basics;
mod copies;
#[cfg(unix)]
mod cuts;
mod failing;
mod forged;
mod merged;
mod setting;
mod sharing;
mod twin;
