//! An exhaustive model of what handles do with a store (invariants I1 to I4 and I12).
//!
//! Two or three handles, one or two keys, one to three rotations: each handle runs a few calls, each call is the
//! steps that the code takes, and every order of all handles' steps and those of the checkpoint is gone through. At
//! every step any handle may be killed and the power may fail; then somebody opens the store and recovers, again with
//! kills and power cuts at every step. A step's comment or label names the file and the function that it stands for.
//!
//! Held against every state or answer:
//!
//! | | |
//! |---|---|
//! | I1 | what `insert` has returned for is found, by `contains` step by step and by who looks at everything at once |
//! | I2 | no key is new twice, in a transactional store none is claimed twice at a time or after a commit; without a death each inserted key is new to one |
//! | I3 | no kill loses what was told; no state but a finished one lacks a next step, and no work goes in a circle: whoever lives comes to an end |
//! | I4 | whatever a power cut keeps or loses of what was not synced, recovery works and finds what was committed |
//! | I12 | a transactional store that recovers holds what was committed and no more, and of a commit in flight all or nothing |
//!
//! That the model can fail is shown by breaking the protocol: `unsound`.
//!
//! `cargo test --test model` goes through the smaller settings. The larger ones:
//! `cargo test --release --test model -- --ignored --nocapture long`; docs/evidence.md, "Model", has their results.

mod model {
    mod closing;
    mod crash;
    mod explorer;
    mod log;
    mod promises;
    mod reader;
    mod recovery;
    mod rotation;
    mod setting;
    mod settings;
    mod settler;
    mod sound;
    mod state;
    mod thread;
    mod unsound;
    mod walk;
    mod writer;
}
