//! Closing: `close.rs`.

use super::setting::Setting;
use super::state::{ABSENT, State};
use super::thread::Pc;
use super::walk::{Stepped, blocked, went};

impl State {
    pub fn close(&mut self, setting: &Setting, handle: usize) -> Stepped {
        let thread = self.handles[handle];
        let own = handle as u8 + 1;
        let active = self.active;
        let (next, did) = match thread.pc {
            Pc::Gate => {
                // `join_threads` comes before the gate.
                if self.gate != 0 || self.settler.owner == own {
                    return blocked();
                }
                self.gate = own;
                let others = self.alive().any(|other| other != handle);
                self.handles[handle].last = !others;
                (
                    Pc::Lock,
                    "close.rs close: the gate; whether others are there",
                )
            }
            Pc::GiveUp => {
                if self.slots[handle].transaction {
                    self.buffer_mut(active)
                        .end_transaction(thread.number, ABSENT);
                    self.slots[handle].transaction = false;
                }
                let keys = self.promises.claimed_by(thread.number);
                self.promises.release(thread.number);
                self.forget_claims(setting, keys);
                let next = match (thread.last, self.buffer(active).has_log) {
                    (false, _) => Pc::LeaveSlot,
                    (true, true) => Pc::RotateWait,
                    (true, false) => Pc::LastUnlock,
                };
                (next, "takeover.rs abort_own")
            }
            Pc::LeaveSlot => {
                self.slots[handle] = Default::default();
                (Pc::Leave, "close.rs leave: the place is free")
            }
            Pc::Leave => {
                if self.settler.owner == own {
                    return blocked();
                }
                self.unlock();
                self.gate = 0;
                self.handles[handle] = super::thread::Thread::default();
                if self.alive().next().is_none() {
                    // The others have died since, and what is left is never believed.
                    self.clear_memory();
                }
                return went("close.rs leave: closed");
            }
            Pc::LastUnlock => {
                self.unlock();
                (Pc::LastSettled, "guard.rs drop: the lock is freed")
            }
            _ => {
                if self.is_due() || self.settler.owner != 0 {
                    return blocked();
                }
                if self.has_log_file(active - 1) {
                    // Whoever settled it died before it came to that.
                    self.log_mut(active - 1).name = false;
                    self.sync_folder();
                }
                self.promises.promised |= self.promises.returned;
                self.clear_memory();
                return went("close.rs close_last: one file is left");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }
}
