//! Runs of the command while a neighbour restores, replaces and limits: no line is lost, printed twice or cut away unless
//! a run says so.
//!
//! A round is a folder, a store that the command made, and a handful of scenes in a random order. Each scene is something
//! that people and programs do around a store:
//! - runs of `dedup`, to a pipe or with `-o`, one or two at a time, some of them killed;
//! - copies of the store, at rest and while a run writes, that are put back later, beside a killed run's log too;
//! - another store moved over this one under a `check` that is at work, and writers that come and go beside it;
//! - a store in the lower layer of an overlay, copied up under a reader;
//! - outputs that are moved away under a run, URLs in several spellings;
//! - locked folders, full disks, read-only mounts, odd and long names, what a killed creator left;
//! - swapped arguments, and Everseen's own files named as lists and outputs;
//! - descriptors that don't wait, ignored signals, limits of file sizes, empty files as stores.
//!
//! [`Model`](model::Model) knows after each scene which lines the store must know, which it may know, and what the
//! output holds. Run the long form with
//! `EVERSEEN_ROUNDS=3000 cargo test --release -p everseen-cli --test command -- --nocapture neighbours::`. A failure
//! prints its seed and its scenes; `EVERSEEN_SEED=<that> EVERSEEN_ROUNDS=1` plays them again, at other moments.
#![cfg(target_os = "linux")]

mod hostile;
mod lists;
mod model;
mod places;
mod readers;
mod restore;
mod round;
mod runs;
