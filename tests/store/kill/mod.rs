//! A process is killed at any instruction, over and over, and nothing that it had acknowledged is lost (invariants I1,
//! I2, I3 and I12).
//!
//! The test starts itself again as a child that works on a store and tells on a pipe what has returned; it kills the
//! child with SIGKILL and looks at what is left:
//! - [`random`](mod@random): at random moments, many times in a row on the same store, so that recovery is interrupted too and what
//!   was recovered is recovered again;
//! - [`stepwise`]: before single calls to the file system, and in the middle of writes.
//!
//! A kill leaves the page cache alone. What a power cut would lose is another rig's business.
#![cfg(unix)]

mod ages;
mod child;
mod parent;
mod random;
mod stepwise;
mod stopping;
mod survivor;
mod task;
