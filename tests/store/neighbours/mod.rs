//! Handles at work while a neighbour lays hands on their files: nothing acknowledged is lost unless somebody is told,
//! nobody else's files are touched, and nothing hangs.
//!
//! A round is a folder of its own, a store of a random kind, one to three workers (this test starts itself again) that
//! insert, remove, commit, checkpoint, close and open again, by the store's name, by links, by a relative path and with a
//! change of their folder after it, and a neighbour that does some of these at random moments, up to six, with an
//! inclination to some of them:
//! - links the store, symbolically or not; moves it away, perhaps back, or leaves a link in its place; removes it;
//!   replaces it by a copy, another store or a text;
//! - removes, moves, shortens or replaces any file beside it;
//! - plants texts, links, pipes and folders under every name that a store or its forerunners use;
//! - renames the folder; changes modes; shortens the store; reads and verifies; kills a worker.
//!
//! Workers tell on a pipe what they begin and what came of it, with the time. At the end the neighbour undoes what can
//! be undone, and `judge` computes what the store owes from the workers' words and the neighbour's deeds:
//! - a key that was acknowledged (in a transactional store: committed) is there. It is excused if its store was
//!   shortened; if it was not settled, and a log was removed, shortened or replaced, and somebody got a typed error;
//! - the next open is a typed error with a reason among the deeds, or the store is whole;
//! - no commit and no close succeeds from begin to end while another file, or none, has the store's name;
//! - a key whose removal was acknowledged (in a transactional store: committed) is not there, with the same excuses;
//! - no key is new twice in one file;
//! - what the neighbour planted, and what its links lead to, is as it was;
//! - a process ends well, or by the neighbour's kill; by a bus error only after a file was shortened.
//!
//! Ten rounds by default. The long run:
//! `EVERSEEN_ROUNDS=3000 cargo test --test store -- --nocapture neighbours::`. A failure prints its seed and all that was done;
//! `EVERSEEN_SEED=<that> EVERSEEN_ROUNDS=1` does it again: alike, not equal, since the machine chooses the moments.
//! As root, a third of the rounds have workers without privileges, whom modes keep out.
#![cfg(target_os = "linux")]

mod child;
mod deeds;
mod evidence;
mod judge;
mod neighbour;
mod parent;
mod plants;
mod round;
mod sides;
mod task;
mod theme;
