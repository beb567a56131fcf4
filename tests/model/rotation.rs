//! The first log of a store, and rotations.

use super::log::Record;
use super::setting::{Broken, Op, Setting};
use super::state::{ABSENT, Buffer, COMMITTED, OPEN, State, Violation};
use super::thread::Pc;
use super::walk::{Stepped, blocked, went};

impl State {
    /// `next_generation.rs`, `start_log` and `first_log`.
    pub fn start_log(&mut self, setting: &Setting, handle: usize) -> Stepped {
        let thread = self.handles[handle];
        let active = self.active;
        let (next, did) = match thread.pc {
            Pc::LogWait => {
                if self.is_due() {
                    return blocked();
                }
                self.refresh(handle)?;
                let log = self.log(active);
                let next = match (log.name, log.header) {
                    (true, true) if setting.is(Broken::TrustFirstLog) => Pc::LogTell,
                    (true, true) => Pc::LogFolder,
                    _ => Pc::LogMake,
                };
                (next, "next_generation.rs start_log: no checkpoint is due")
            }
            Pc::LogMake => {
                self.log_mut(active).make();
                (Pc::LogHeader, "log/file.rs create: the file")
            }
            Pc::LogHeader => {
                self.log_mut(active).header = true;
                (Pc::LogFolder, "log/file.rs initialise: the header")
            }
            Pc::LogFolder => {
                // Two syncs; a kill between them leaves what a kill before both does.
                self.log_mut(active).sync();
                self.sync_folder();
                (
                    Pc::LogTell,
                    "log/file.rs create: file and folder are synced",
                )
            }
            Pc::LogTell => {
                self.file.log_expected = true;
                (
                    Pc::LogTellSync,
                    "next_generation.rs start_log: the superblock is written",
                )
            }
            Pc::LogTellSync => {
                self.sync_file();
                (
                    Pc::LogBegun,
                    "next_generation.rs start_log: the superblock is synced",
                )
            }
            _ => {
                // What a rotation that was given up left in it is written over.
                let log = self.log_mut(active);
                log.records.truncate(0);
                log.synced = 0;
                self.buffer_mut(active).has_log = true;
                self.begin_claims(setting, handle);
                return went("next_generation.rs start_log: the log's end is published");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }

    /// `rotation.rs`, `seal_active`; `next_generation.rs`, `carry`, `close_log`, `begin_next`.
    pub fn rotate(&mut self, setting: &Setting, handle: usize) -> Stepped {
        let old = self.handles[handle].view.0;
        let next_one = old + 1;
        let last = self.handles[handle].last;
        let cut_first = setting.is(Broken::CutFirst) && !last;
        let (next, did) = match self.handles[handle].pc {
            Pc::RotateWait => {
                if self.is_due() || self.current_view().is_none() {
                    return blocked();
                }
                self.refresh(handle)?;
                self.drop_the_dead(setting, old);
                (
                    Pc::RotateBuffer,
                    "rotation.rs seal_active: no checkpoint is due; the dead are dropped",
                )
            }
            Pc::RotateBuffer => {
                // Nobody else knows of it, so that keys are carried in the same step.
                let mut made = Buffer {
                    file: true,
                    ..Buffer::default()
                };
                if !setting.is(Broken::NoCarryBuffer) {
                    made.open = self.buffer(old).open;
                    for (to, from) in made.keys.iter_mut().zip(self.buffer(old).keys) {
                        *to = if from >= OPEN { from } else { ABSENT };
                    }
                }
                *self.buffer_mut(next_one) = made;
                let next = if cut_first || last {
                    Pc::RotateCut
                } else {
                    Pc::RotateLog
                };
                (
                    next,
                    "buffer_pool.rs make, next_generation.rs carry: the next buffer",
                )
            }
            Pc::RotateLog => {
                self.log_mut(next_one).make();
                (Pc::RotateHeader, "log/file.rs create: the file")
            }
            Pc::RotateHeader => {
                let log = self.log_mut(next_one);
                log.header = true;
                log.sync();
                let next = if setting.is(Broken::CutBeforeName) {
                    Pc::RotateRecords
                } else {
                    Pc::RotateFolder
                };
                (next, "log/file.rs initialise: the header, synced")
            }
            Pc::RotateFolder => {
                self.sync_folder();
                (
                    Pc::RotateRecords,
                    "log/file.rs create: the folder is synced",
                )
            }
            Pc::RotateRecords => {
                let carried = self.buffer(old).keys;
                for (key, state) in (0..).zip(carried) {
                    if state >= OPEN && !setting.is(Broken::NoCarryLog) {
                        let number = state - OPEN;
                        let record = Record::Insert { number, key };
                        self.log_mut(next_one).records.push(record);
                    }
                }
                let end = self.log(next_one).records.len();
                let made = self.buffer_mut(next_one);
                made.has_log = true;
                made.tail = end;
                made.applied = end;
                let next = if cut_first {
                    Pc::RotateTail
                } else {
                    Pc::RotateCut
                };
                (
                    next,
                    "next_generation.rs begin_log: what is carried over is written",
                )
            }
            Pc::RotateCut => {
                self.log_mut(old).records.push(Record::Cut { last });
                let next = if cut_first {
                    Pc::RotateLog
                } else {
                    Pc::RotateTail
                };
                (next, "next_generation.rs close_log: the cut is written")
            }
            Pc::RotateTail => {
                self.buffer_mut(old).tail = self.log(old).records.len();
                (
                    Pc::RotateSeal,
                    "generation.rs append: the log's end is published",
                )
            }
            Pc::RotateSeal => {
                self.buffer_mut(old).sealed = true;
                (Pc::RotateActive, "rotation.rs seal_active: sealed")
            }
            Pc::RotateActive => {
                self.active = next_one;
                (
                    Pc::RotateHandOver,
                    "next_generation.rs begin_next: the next generation is announced",
                )
            }
            _ => {
                self.refresh(handle)?;
                let active = self.active;
                self.hand_over(Some(active - 1), active);
                self.handles[handle].rotated = true;
                self.begin_claims(setting, handle);
                return went("next_generation.rs hand_transactions_over");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }

    /// `next_generation.rs`, `hand_transactions_over`. One step: who dies in it leaves the mark of the
    /// writer lock, so it is done again, and the words are read under the lock alone.
    fn hand_over(&mut self, old: Option<u8>, active: u8) {
        for slot in &mut self.slots {
            slot.transaction = false;
        }
        for number in 0..super::setting::NUMBERS as u8 {
            if self.buffer(active).open & 1 << number != 0 {
                match self.slot_of(number) {
                    Some(index) => self.slots[index].transaction = true,
                    None => self.buffer_mut(active).end_transaction(number, ABSENT),
                }
            }
            if let Some(old) = old {
                self.buffer_mut(old).end_transaction(number, ABSENT);
            }
        }
    }

    /// `takeover.rs`, `take_over`: after a holder of the writer lock that died.
    pub fn mend(&mut self, setting: &Setting, handle: usize) -> Stepped {
        let active = self.active;
        let (next, did) = match self.handles[handle].pc {
            Pc::MendHandOver => {
                self.handles[handle].looked = 0;
                let frozen = self.is_due().then_some(self.settled);
                self.hand_over(frozen, active);
                let next = if self.buffer(active).has_log {
                    Pc::MendRecords
                } else {
                    Pc::MendRemove
                };
                (next, "takeover.rs take_over: transactions are handed over")
            }
            Pc::MendRecords => {
                self.handles[handle].sealed = self.adopt(setting, active);
                (
                    Pc::MendTail,
                    "takeover.rs take_over: complete records are adopted",
                )
            }
            Pc::MendTail => {
                self.buffer_mut(active).tail = self.log(active).records.len();
                (
                    Pc::MendRetract,
                    "takeover.rs take_over: the log's end is published",
                )
            }
            Pc::MendRetract => {
                if !setting.is(Broken::NoRetract) {
                    for key in &mut self.buffer_mut(active).keys {
                        if *key == super::state::CLAIMED {
                            *key = ABSENT;
                        }
                    }
                }
                let next = match self.handles[handle].sealed {
                    true if setting.is(Broken::AppliedBeforeSealed) => Pc::MendApplied,
                    true => Pc::MendSeal,
                    false => Pc::MendApplied,
                };
                (next, "takeover.rs take_over: other claims are given up")
            }
            Pc::MendSeal => {
                self.buffer_mut(active).sealed = true;
                let next = if setting.is(Broken::AppliedBeforeSealed) {
                    Pc::MendActive
                } else {
                    Pc::MendApplied
                };
                (next, "takeover.rs take_over: sealed")
            }
            Pc::MendApplied => {
                self.buffer_mut(active).applied = self.buffer(active).tail;
                let next = match self.handles[handle].sealed {
                    true if setting.is(Broken::AppliedBeforeSealed) => Pc::MendSeal,
                    true => Pc::MendActive,
                    false => Pc::MendRemove,
                };
                (next, "takeover.rs take_over: applied up to the end")
            }
            Pc::MendActive => {
                if !self.buffer(active + 1).file {
                    return Err(Violation("I3: a rotation can't be completed"));
                }
                self.active = active + 1;
                (
                    Pc::MendBegun,
                    "next_generation.rs begin_next: the next generation is announced",
                )
            }
            Pc::MendBegun => {
                self.hand_over(Some(active - 1), active);
                return self.mended(setting, handle, "next_generation.rs hand_transactions_over");
            }
            Pc::MendRemove => {
                let next = active + 1;
                if next > setting.generations {
                    return self.mended(setting, handle, "takeover.rs remove_successor: none");
                }
                *self.buffer_mut(next) = Buffer::default();
                if !self.has_log_file(next) {
                    return self.mended(setting, handle, "takeover.rs remove_successor: no log");
                }
                self.log_mut(next).name = false;
                (
                    Pc::MendFolder,
                    "takeover.rs remove_successor: the log that never counted",
                )
            }
            _ => {
                self.sync_folder();
                return self.mended(setting, handle, "takeover.rs remove_successor: the folder");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }

    fn mended(&mut self, setting: &Setting, handle: usize, did: &'static str) -> Stepped {
        self.handles[handle].sealed = false;
        self.begin_change(setting, handle)?;
        went(did)
    }

    /// The records that are not in the buffer yet; answers whether the log is closed. One step,
    /// since whoever dies in it has it done again from the same place.
    fn adopt(&mut self, setting: &Setting, active: u8) -> bool {
        let mut sealed = self.buffer(active).sealed;
        let records = self.log(active).records.from(self.buffer(active).applied);
        for record in records {
            match record {
                Record::Insert { number, key } => {
                    let transaction = self.slot_of(number);
                    let open = transaction.is_some_and(|index| self.slots[index].transaction);
                    let state = match (setting.transactional, open) {
                        (false, _) => COMMITTED,
                        (true, true) => OPEN + number,
                        (true, false) => continue,
                    };
                    let found = &mut self.buffer_mut(active).keys[usize::from(key)];
                    if *found == super::state::CLAIMED {
                        *found = state;
                    }
                }
                Record::Commit { number } => {
                    if let Some(index) = self.slot_of(number)
                        && self.slots[index].transaction
                    {
                        self.buffer_mut(active).end_transaction(number, COMMITTED);
                        self.slots[index].transaction = false;
                    }
                }
                Record::Cut { .. } => sealed |= !setting.is(Broken::NoMendedRotation),
            }
        }
        sealed
    }

    /// `checkpoint.rs`, `checkpoint_now` behind its rotation.
    pub fn finish_checkpoint(&mut self, setting: &Setting, handle: usize) -> Stepped {
        if self.handles[handle].pc == Pc::Unlock {
            self.unlock();
            self.handles[handle].pc = Pc::Settled;
            return went("guard.rs drop: the lock is freed");
        }
        if self.is_due() {
            return blocked();
        }
        self.end_op(setting, handle);
        went("checkpoint.rs checkpoint_now returns")
    }

    pub fn is_checkpoint(&self, setting: &Setting, handle: usize) -> bool {
        self.op(setting, handle) == Some(Op::Checkpoint)
    }
}
