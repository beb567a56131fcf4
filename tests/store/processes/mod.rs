//! Many processes on one store, killed, stopped and cut short at any instruction (invariants I1, I2, I3, I12).
//!
//! The test starts itself again as children that work on one store and tell on a pipe, before each call and after it,
//! what they do and what came of it:
//! - `random`: four children with overlapping keys; some are killed with SIGKILL at random moments and
//!   started again, some are stopped for a while; what is acknowledged, and nothing else, must be there;
//! - `deaths`: a child aborts at a call to the file system, or in the middle of a write, while this process has the
//!   store open and must go on;
//! - `four`: one of four dies at a checkpoint, and the others finish it;
//! - `joining`: a child that is alone halts at a call, and this process joins it there;
//! - `two`: what two processes see of each other; `steps`: the same at each call of a rotation and of a close;
//! - `threads`: one handle, many threads, and a close in their midst.
//!
//! `deaths` and `joining` draw a few of the calls at random, and take each with `EVERSEEN_ALL=1`.
//! Forty kills by default. The long run:
//! `EVERSEEN_KILLS=10000 cargo test --release --test store -- --nocapture processes::random`. A failure prints its seed;
//! `EVERSEEN_SEED` sets it. Which instruction a kill meets is the machine's own choice, so a seed makes a run alike, not equal.
//!
//! A kill leaves the page cache alone. What a power cut would lose is another rig's business.
#![cfg(unix)]

mod child;
mod deaths;
mod four;
pub mod hooked;
mod joining;
mod model;
mod parent;
mod passing;
mod random;
mod steps;
mod task;
mod threads;
mod two;
