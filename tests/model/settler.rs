//! The checkpoint: `checkpoint.rs`, `settle_all`, `settle`, `apply`, and `sweep.rs` for one chunk.

use super::setting::{Broken, KEYS, Setting};
use super::state::{State, Violation};
use super::thread::{At, Settler};
use super::walk::{Stepped, blocked, went};

impl State {
    /// Any living handle may begin a checkpoint that is due: its own thread after a rotation, or
    /// who comes to wait for it and finds the lock free. So this thread is also what a call that
    /// waits does itself.
    pub fn begin_settling(&mut self, handle: usize) -> Stepped {
        let leftover = self.has_log_file(self.settled - 1);
        self.settler = Settler {
            owner: handle as u8 + 1,
            at: if leftover { At::Before } else { At::Taken },
            number: self.settled,
            ..Settler::default()
        };
        went("checkpoint.rs settle_all: the checkpoint lock is taken")
    }

    pub fn settle(&mut self, setting: &Setting) -> Stepped {
        let number = self.settler.number;
        let layer = setting.layer(number);
        let early = setting.is(Broken::DropBeforeSuperblock);
        let (next, did) = match self.settler.at {
            At::Begin => return blocked(),
            At::Before => {
                self.log_mut(number - 1).name = false;
                (
                    At::BeforeSync,
                    "checkpoint.rs remove_leftover: the log before, which the dead left",
                )
            }
            At::BeforeSync => {
                self.sync_folder();
                (At::Taken, "checkpoint.rs remove_leftover: the folder")
            }
            At::Taken if self.file.generation == number => {
                let next = if setting.is(Broken::NoClosedSync) {
                    At::Intent
                } else {
                    At::LogSync
                };
                (
                    next,
                    "checkpoint.rs settle: the superblock is of the closed generation",
                )
            }
            At::Taken => {
                // Another died between its superblock and the end.
                if !setting.is(Broken::TrustSuperblock) {
                    self.sync_file();
                }
                (
                    At::Settle,
                    "checkpoint.rs settle: who died here had come as far",
                )
            }
            At::LogSync => {
                self.log_mut(number).sync();
                self.buffer_mut(number).durable = self.buffer(number).tail;
                (At::Intent, "checkpoint.rs settle: the closed log is synced")
            }
            At::Intent => {
                let records = self.log(number).records;
                if !self.log(number).name || !records.is_closed() {
                    return Err(Violation("I3: a checkpoint finds no closed log"));
                }
                let none = records.committed(setting.transactional) == 0;
                self.settler.keys = if none {
                    0
                } else {
                    self.buffer(number).settled()
                };
                if none {
                    (At::Superblock, "checkpoint.rs apply: no key counts")
                } else if setting.is(Broken::NoIntent) {
                    (At::Pages, "sweep.rs run: the keys")
                } else {
                    self.file.intent = number;
                    (At::IntentSync, "sweep.rs write_intent")
                }
            }
            At::IntentSync => {
                self.sync_file();
                (At::Pages, "sweep.rs run: the intent is synced")
            }
            At::Pages => {
                let first = self.settler.keys.trailing_zeros();
                if usize::try_from(first).unwrap_or(KEYS) < KEYS {
                    self.file.pages[layer] |= 1 << first;
                    self.file.torn &= !(1 << layer);
                    self.settler.keys &= !(1 << first);
                }
                let next = match self.settler.keys {
                    0 if setting.is(Broken::NoPageSync) => At::Superblock,
                    0 => At::PageSync,
                    _ => At::Pages,
                };
                (next, "sweep.rs write_run: a page is written")
            }
            At::PageSync => {
                self.sync_file();
                let next = if early { At::Settle } else { At::Superblock };
                (next, "checkpoint.rs apply: the pages are synced")
            }
            At::Superblock => {
                self.file.generation = number + 1;
                self.file.log_expected = !self.log(number).records.is_last();
                let next = if setting.is(Broken::LogGoesFirst) {
                    At::Remove
                } else if setting.is(Broken::DropBeforeSync) {
                    At::Settle
                } else {
                    At::SuperblockSync
                };
                (next, "checkpoint.rs apply: the superblock is written")
            }
            At::SuperblockSync => {
                self.sync_file();
                let next = if early || setting.is(Broken::DropBeforeSync) {
                    At::Remove
                } else {
                    At::Settle
                };
                (next, "checkpoint.rs apply: the superblock is synced")
            }
            At::Settle => {
                self.settled = number + 1;
                let next = if early && self.file.generation == number {
                    At::Superblock
                } else if setting.is(Broken::DropBeforeSync) {
                    At::SuperblockSync
                } else if setting.is(Broken::LogGoesFirst) {
                    self.settler = Settler::default();
                    return went("checkpoint.rs settle: the lock is freed");
                } else {
                    At::Remove
                };
                (next, "checkpoint.rs settle: the sealed buffer is dropped")
            }
            At::Remove => {
                self.log_mut(number).name = false;
                (At::RemoveSync, "checkpoint.rs remove_generation: the log")
            }
            At::RemoveSync => {
                self.sync_folder();
                // The buffer's file goes in the same step: views that need it are gone.
                self.buffer_mut(number).file = self.settled == number;
                if self.settled != number {
                    self.settler = Settler::default();
                    return went("checkpoint.rs settle_all: all is removed, the lock is freed");
                }
                (
                    At::SuperblockSync,
                    "checkpoint.rs remove_generation: the folder",
                )
            }
        };
        self.settler.at = next;
        went(did)
    }
}
