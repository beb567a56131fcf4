//! Damage of every kind, to every part of a store: the answer is right or a typed error, never a panic, a signal, a
//! hang, or memory beyond what was granted.
//!
//! A few small stores are made in the states that a close, a kill and an interrupted checkpoint leave. Their files are
//! damaged, and each damaged image is opened for reading and for writing, asked, added to, checkpointed, closed and
//! opened again. What "right" is, [`judge`](damage::judge) tells: a reader of its own that follows FORMAT.md and shares
//! no code with the library. The library must refuse what it refuses, with the same error, and give each answer that
//! it gives. Where the judge itself can't see that a key is missing, [`excuse`](damage::excuse) must name the reason
//! why the format can't tell.
//!
//! - `flips`: each byte that means something, one at a time.
//! - `random`: one to four mutations at once. `EVERSEEN_MUTATIONS` sets how many images, `EVERSEEN_SEED` which;
//!   `EVERSEEN_MUTATION` repeats a single one.
//! - `segments`: stores of fingerprints, with a judge that knows less.
//!
//! Images are opened by children, this test binary started again, so that a signal or a hang is seen and told with the
//! mutation that led to it. Their allocator refuses what is beyond the bound of [`memory`](damage::memory): a program has
//! one, so this is a binary of its own.
#![cfg(unix)]

#[expect(dead_code, reason = "the rigs of the other binary use more of it")]
#[path = "store/support/mod.rs"]
mod support;

mod damage {
    pub mod child;
    pub mod excuse;
    pub mod flips;
    pub mod image;
    pub mod judge;
    pub mod log;
    pub mod memory;
    pub mod mutation;
    pub mod parent;
    pub mod random;
    pub mod scenarios;
    pub mod segment_stores;
    pub mod segments;
    pub mod trial;
}
