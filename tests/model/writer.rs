//! Under the writer lock: inserting and committing. A step is what nobody can see half of, and what
//! a kill leaves done or not done.

use super::log::Record;
use super::promises::Verdict;
use super::setting::{Broken, Op, Setting};
use super::state::{ABSENT, CLAIMED, COMMITTED, DEAD_OWNER, OPEN, Presence, State, Violation};
use super::thread::Pc;
use super::walk::{Stepped, blocked, went};

impl State {
    /// `guard.rs`, `lock_with`. Between taking the lock and naming itself a holder changes
    /// nothing, so that is one step with what follows.
    pub fn lock(&mut self, setting: &Setting, handle: usize) -> Stepped {
        if !self.can_lock(setting) || self.current_view().is_none() {
            return blocked();
        }
        self.writer = handle as u8 + 1;
        if self.op(setting, handle) == Some(Op::Commit) && !self.handles[handle].called {
            // Not later than the call: until now it may have been before it.
            self.handles[handle].called = true;
            self.handles[handle].cover = if setting.transactional {
                self.promises.claimed_by(self.handles[handle].number)
            } else {
                self.promises.returned
            };
        }
        if self.changing == 0 || setting.is(Broken::NoTakeOver) {
            self.begin_change(setting, handle)?;
            return went("guard.rs lock_with: the lock, and its mark");
        }
        self.handles[handle].pc = Pc::MendHandOver;
        went("guard.rs lock_with: the lock, after one who died with it")
    }

    /// `writer_lock.rs`, `take`: a free lock, or that of an owner whose liveness lock is free.
    fn can_lock(&self, setting: &Setting) -> bool {
        match self.writer {
            0 => true,
            DEAD_OWNER => !setting.is(Broken::NoSteal),
            _ => setting.is(Broken::StealFromLiving),
        }
    }

    /// The end of `take_writer`: this handle is the one that changes something, its view is made
    /// current, and it goes on with its call.
    pub fn begin_change(&mut self, setting: &Setting, handle: usize) -> Result<(), Violation> {
        self.changing = handle as u8 + 1;
        let inserts = matches!(self.op(setting, handle), Some(Op::Insert(_)));
        let before = self.handles[handle].view.0;
        self.refresh(handle)?;
        self.handles[handle].looked = if inserts { before } else { 0 };
        self.begin_claims(setting, handle);
        Ok(())
    }

    /// `guard.rs`, `refresh`.
    pub fn refresh(&mut self, handle: usize) -> Result<(), Violation> {
        if !self.can_attach() {
            return Err(Violation("I3: a buffer that a view needs is not there"));
        }
        self.handles[handle].view = (self.active, self.settled);
        Ok(())
    }

    /// `write_batch.rs`, `begin_claims`; `rotation.rs`, `ensure_log_space`; `rotation.rs`, `seal_active` up to the log.
    pub fn begin_claims(&mut self, setting: &Setting, handle: usize) {
        let thread = self.handles[handle];
        let has_log = self.buffer(thread.view.0).has_log;
        let inserts = matches!(self.op(setting, handle), Some(Op::Insert(_)));
        let transaction = setting.transactional && !self.slots[handle].transaction;
        self.handles[handle].pc = match self.op(setting, handle) {
            Some(Op::Checkpoint)
                if !has_log || thread.rotated || thread.view.0 == setting.generations =>
            {
                Pc::Unlock
            }
            Some(Op::Checkpoint) => Pc::RotateWait,
            Some(Op::Close) if !thread.rotated => Pc::GiveUp,
            Some(Op::Close) => Pc::LastUnlock,
            _ if !has_log => Pc::LogWait,
            _ if !inserts => Pc::Way,
            _ if transaction => Pc::Transaction,
            _ => Pc::Claim,
        };
    }

    /// `claim.rs`, `claim` and `append_claims`, for one key.
    pub fn insert(&mut self, setting: &Setting, handle: usize, key: u8, turn: usize) -> Stepped {
        let thread = self.handles[handle];
        let number = thread.number;
        let active = thread.view.0;
        let at = usize::from(key);
        let publish_first = setting.is(Broken::PublishFirst);
        let (next, did) = match thread.pc {
            Pc::Transaction => {
                self.buffer_mut(active).open |= 1 << number;
                (
                    Pc::TransactionSlot,
                    "write_batch.rs begin_claims: a transaction",
                )
            }
            Pc::TransactionSlot => {
                self.slots[handle].transaction = true;
                (
                    Pc::Claim,
                    "write_batch.rs begin_claims: the transaction's number kept",
                )
            }
            Pc::Claim => return self.claim(setting, handle, key, turn),
            Pc::Append => {
                self.log_mut(active)
                    .records
                    .push(Record::Insert { number, key });
                if !setting.transactional {
                    self.promises.recorded |= 1 << key;
                }
                (Pc::Tail, "claim.rs append: the record is written")
            }
            Pc::Tail => {
                self.buffer_mut(active).tail = self.log(active).records.len();
                let next = if publish_first {
                    Pc::Applied
                } else {
                    Pc::Publish
                };
                (next, "generation.rs append: the log's end is published")
            }
            Pc::Publish => {
                self.buffer_mut(active).keys[at] = if setting.transactional {
                    OPEN + number
                } else {
                    COMMITTED
                };
                let next = if publish_first {
                    Pc::Append
                } else {
                    Pc::Applied
                };
                (next, "claim.rs publish: the key is published")
            }
            Pc::Applied => {
                self.buffer_mut(active).applied = self.buffer(active).tail;
                (Pc::Unlock, "claim.rs publish: applied up to the end")
            }
            _ => {
                self.unlock();
                self.answer_insert(setting, number, key, thread.verdict)?;
                self.end_op(setting, handle);
                return went("guard.rs drop: the lock is freed; insert returns");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }

    /// `claim.rs`, `claim_one`. In another turn the buffer has no room.
    fn claim(&mut self, setting: &Setting, handle: usize, key: u8, turn: usize) -> Stepped {
        let thread = self.handles[handle];
        let number = thread.number;
        let (active, at) = (thread.view.0, usize::from(key));
        let settled = self.came_since(setting, thread.looked, thread.view, key);
        let state = self.buffer(active).keys[at];
        if turn == 1 {
            let possible = setting.full && !thread.rotated && active < setting.generations;
            if settled || state != ABSENT || !possible {
                return blocked();
            }
            let thread = &mut self.handles[handle];
            thread.rotated = true;
            thread.pc = Pc::RotateWait;
            return went("claim.rs claim_one: no room");
        }
        let verdict = match self.buffer(active).lookup(key) {
            _ if settled => Verdict::Seen,
            Presence::Settled => Verdict::Seen,
            Presence::Open(other) if other == number => Verdict::Seen,
            Presence::Open(other) if self.is_alive(other) => Verdict::Pending,
            Presence::Open(_) if setting.is(Broken::NoDrop) => {
                return Err(Violation("I3: a claim is pending for a handle that died"));
            }
            Presence::Open(_) => {
                self.drop_the_dead(setting, active);
                return went("takeover.rs reap_dead_handles: the claim of one who died");
            }
            // Claimed and not published: `claim_again` takes it for one of this batch.
            Presence::Absent if state == CLAIMED => Verdict::Seen,
            Presence::Absent => {
                self.check_claim(setting, key)?;
                self.buffer_mut(active).keys[at] = CLAIMED;
                self.handles[handle].looked = 0;
                self.handles[handle].pc = if setting.is(Broken::PublishFirst) {
                    Pc::Publish
                } else {
                    Pc::Append
                };
                return went("claim.rs claim_one: the slot is claimed");
            }
        };
        self.handles[handle].verdict = verdict;
        self.handles[handle].looked = 0;
        self.handles[handle].pc = Pc::Unlock;
        went("claim.rs claim_one: the key is there")
    }

    /// `Freshness::of` in `lookup.rs`, and its use in `claim.rs`: whether a key that was absent while `looked` was the active
    /// generation is now in the sealed buffer or the pages.
    fn came_since(&self, setting: &Setting, looked: u8, view: (u8, u8), key: u8) -> bool {
        let (active, settled) = view;
        if active == looked || setting.is(Broken::NoLookUnderLock) {
            return false;
        }
        let frozen = settled < active && self.buffer(settled).lookup(key) == Presence::Settled;
        let only_frozen = settled < active && settled == looked;
        if only_frozen || setting.is(Broken::NoPagesUnderLock) {
            return frozen;
        }
        self.in_settled(setting, view, key)
    }

    /// `guard.rs`, `drop`: what is left in the mark would tell of a death.
    pub fn unlock(&mut self) {
        self.changing = 0;
        self.writer = 0;
    }

    /// `takeover.rs`, `reap_dead_handles`.
    pub fn drop_the_dead(&mut self, setting: &Setting, active: u8) {
        if setting.is(Broken::NoDrop) {
            return;
        }
        for index in 0..self.slots.len() {
            if self.slots[index].taken && !self.handles[index].is_alive() {
                self.slots[index] = Default::default();
            }
        }
        for number in 0..super::setting::NUMBERS as u8 {
            if self.buffer(active).open & 1 << number != 0 && self.slot_of(number).is_none() {
                self.buffer_mut(active).end_transaction(number, ABSENT);
            }
        }
    }

    /// `commit.rs`, `commit`, `mark`.
    pub fn commit(&mut self, setting: &Setting, handle: usize, turn: usize) -> Stepped {
        let thread = self.handles[handle];
        let number = thread.number;
        let active = thread.view.0;
        let (next, did) = match thread.pc {
            Pc::Way => return self.mark(setting, handle, turn),
            Pc::FrozenSync => {
                let frozen = thread.sync.0;
                if self.log(frozen).name {
                    self.log_mut(frozen).sync();
                    self.buffer_mut(frozen).durable = self.buffer(frozen).tail;
                } else if self.settled <= frozen {
                    return Err(Violation("I4: a closed log is gone before it is settled"));
                }
                self.handles[handle].sync = (0, 0);
                (Pc::Lock, "commit.rs sync_frozen: the closed log is synced")
            }
            Pc::MarkTail => {
                self.buffer_mut(active).tail = self.log(active).records.len();
                let next = if setting.transactional && self.slots[handle].transaction {
                    Pc::MarkTransaction
                } else {
                    Pc::MarkApplied
                };
                (next, "generation.rs append: the log's end is published")
            }
            Pc::MarkTransaction => {
                self.buffer_mut(active).end_transaction(number, COMMITTED);
                (
                    Pc::MarkSlot,
                    "commit.rs finish_commit: the transaction is committed",
                )
            }
            Pc::MarkSlot => {
                self.slots[handle].transaction = false;
                (
                    Pc::MarkApplied,
                    "commit.rs finish_commit: its number is forgotten",
                )
            }
            Pc::MarkApplied => {
                self.buffer_mut(active).applied = self.buffer(active).tail;
                (Pc::MarkUnlock, "commit.rs mark: applied up to the end")
            }
            Pc::MarkUnlock => {
                self.handles[handle].sync = (active, self.buffer(active).tail);
                self.unlock();
                (Pc::CommitSync, "guard.rs drop: the lock is freed")
            }
            _ => {
                let (generation, end) = thread.sync;
                if self.buffer(generation).durable < end && !setting.is(Broken::NoCommitSync) {
                    self.log_mut(generation).sync();
                    self.buffer_mut(generation).durable = self.buffer(generation).tail;
                }
                if setting.transactional {
                    self.promises.release(number);
                    self.promises.in_flight[usize::from(number)] = 0;
                    self.promises.returned |= thread.cover;
                }
                self.promises.promised |= thread.cover;
                self.end_op(setting, handle);
                return went("generation.rs sync_to: the log is synced; commit returns");
            }
        };
        self.handles[handle].pc = next;
        went(did)
    }

    /// `commit.rs`, `commit` in its loop: the closed log first, then the mark. In another turn the
    /// log is long.
    fn mark(&mut self, setting: &Setting, handle: usize, turn: usize) -> Stepped {
        let thread = self.handles[handle];
        let number = thread.number;
        let (active, settled) = thread.view;
        if turn == 1 {
            if !setting.full || thread.rotated || active == setting.generations {
                return blocked();
            }
            self.handles[handle].rotated = true;
            self.handles[handle].pc = Pc::RotateWait;
            return went("rotation.rs ensure_log_space: the log is long");
        }
        let frozen = *self.buffer(settled);
        if settled < active && frozen.durable < frozen.tail && !setting.is(Broken::NoFrozenSync) {
            self.unlock();
            self.handles[handle].view = (0, 0);
            self.handles[handle].sync = (settled, 0);
            self.handles[handle].pc = Pc::FrozenSync;
            return went("commit.rs commit: the lock is freed for the closed log's sync");
        }
        // The mark tells up to where the log is durable, and recovery believes it.
        if self.buffer(active).durable > self.log(active).synced {
            return Err(Violation("I4: a mark calls durable what is not"));
        }
        self.log_mut(active).records.push(Record::Commit { number });
        if setting.transactional {
            self.promises.recorded |= thread.cover;
            self.promises.in_flight[usize::from(number)] = thread.cover;
        }
        self.handles[handle].pc = Pc::MarkTail;
        went("commit.rs mark: the mark is written")
    }
}
