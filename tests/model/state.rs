//! A state: shared memory, page cache, disk, handles, and what has been promised.

use super::log::Log;
use super::promises::Promises;
use super::setting::{GENERATIONS, HANDLES, KEYS, Setting};
use super::thread::{Pc, Settler, Thread};

/// The writer lock's owner is dead; which one makes no difference.
pub const DEAD_OWNER: u8 = u8::MAX;

/// What must never come about, found in the step that leads there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation(pub &'static str);

/// A key's state in a buffer: see `buffer/transactions.rs`. A state that names a transaction is
/// [`OPEN`] and the number of its handle. When the transaction is over, the model writes what
/// became of it into the keys at once, as one store of the transaction's word does in effect; a
/// key that was given up is like one that never was.
pub const ABSENT: u8 = 0;
pub const COMMITTED: u8 = 1;
pub const CLAIMED: u8 = 2;
pub const OPEN: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    Absent,
    Settled,
    Open(u8),
}

/// A write buffer, and its words on its log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Buffer {
    /// Its file can be opened.
    pub file: bool,
    pub keys: [u8; KEYS],
    /// Handle numbers with an open transaction, a bit each.
    pub open: u8,
    pub has_log: bool,
    pub tail: u8,
    pub applied: u8,
    pub durable: u8,
    pub sealed: bool,
}

impl Buffer {
    /// `buffer/table.rs`, `lookup`.
    pub fn lookup(&self, key: u8) -> Presence {
        match self.keys[usize::from(key)] {
            COMMITTED => Presence::Settled,
            state if state >= OPEN => Presence::Open(state - OPEN),
            _ => Presence::Absent,
        }
    }

    /// Ends a transaction: `commit_transaction` and `abort_transaction` of
    /// `buffer/transactions.rs`.
    pub fn end_transaction(&mut self, number: u8, state: u8) {
        for key in &mut self.keys {
            if *key == OPEN + number {
                *key = state;
            }
        }
        self.open &= !(1 << number);
    }

    pub fn settled(&self) -> u8 {
        (0..KEYS as u8)
            .filter(|key| self.lookup(*key) == Presence::Settled)
            .fold(0, |keys, key| keys | 1 << key)
    }
}

/// The store file: superblock, intent, pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct StoreFile {
    pub generation: u8,
    pub log_expected: bool,
    /// The generation of the newest intent, which names all pages of a layer.
    pub intent: u8,
    /// Keys in each layer.
    pub pages: [u8; GENERATIONS],
    /// Layers with a page whose CRC is wrong, a bit each.
    pub torn: u8,
}

/// A handle's place among all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Slot {
    pub taken: bool,
    /// It has a transaction in the active buffer.
    pub transaction: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct State {
    /// Recoveries that came to their end, at most two.
    pub session: u8,
    /// There is shared memory that handles may believe.
    pub ready: bool,
    pub active: u8,
    pub settled: u8,
    /// The handle that is changing something under the writer lock, counted from 1.
    pub changing: u8,
    /// The owner of the writer lock, counted from 1, or [`DEAD_OWNER`].
    pub writer: u8,
    /// Who holds the gate.
    pub gate: u8,
    pub slots: [Slot; HANDLES],
    pub buffers: [Buffer; GENERATIONS],
    pub logs: [Log; GENERATIONS],
    /// The store file as processes see it, and as it is on disk.
    pub file: StoreFile,
    pub durable: StoreFile,
    pub handles: [Thread; HANDLES],
    pub settler: Settler,
    pub promises: Promises,
}

impl State {
    /// A store that was just made, or one with its first log; all handles are open.
    pub fn first(setting: &Setting) -> Self {
        let mut state = Self {
            ready: true,
            active: 1,
            settled: 1,
            ..Self::default()
        };
        state.file.generation = 1;
        state.buffer_mut(1).file = true;
        if setting.begun {
            state.file.log_expected = true;
            state.buffer_mut(1).has_log = true;
            let log = state.log_mut(1);
            log.make();
            log.header = true;
            log.sync();
            log.sync_name();
        }
        state.durable = state.file;
        for handle in 0..setting.programs.len() {
            state.handles[handle] = Thread::open(setting.number(0, handle));
            state.slots[handle].taken = true;
            state.begin_op(setting, handle);
        }
        state
    }

    pub fn buffer(&self, generation: u8) -> &Buffer {
        &self.buffers[usize::from(generation) - 1]
    }

    pub fn buffer_mut(&mut self, generation: u8) -> &mut Buffer {
        &mut self.buffers[usize::from(generation) - 1]
    }

    pub fn log(&self, generation: u8) -> &Log {
        &self.logs[usize::from(generation) - 1]
    }

    pub fn log_mut(&mut self, generation: u8) -> &mut Log {
        &mut self.logs[usize::from(generation) - 1]
    }

    /// All that a power cut leaves something of.
    pub fn disk(&self) -> (u8, &[Log; GENERATIONS], &StoreFile, &StoreFile) {
        (self.session, &self.logs, &self.file, &self.durable)
    }

    pub fn has_log_file(&self, generation: u8) -> bool {
        (1..=GENERATIONS as u8).contains(&generation) && self.log(generation).name
    }

    /// `log/file.rs`, `sync_parent`.
    pub fn sync_folder(&mut self) {
        self.logs.iter_mut().for_each(Log::sync_name);
    }

    pub fn sync_file(&mut self) {
        self.durable = self.file;
    }

    pub fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        (0..HANDLES).filter(|handle| self.handles[*handle].is_alive())
    }

    /// The place of a handle, if it has one still: `coordination.rs`, `slot_of`.
    pub fn slot_of(&self, number: u8) -> Option<usize> {
        (0..HANDLES).find(|index| self.slots[*index].taken && self.handles[*index].number == number)
    }

    /// `locks.rs`, `is_alive`.
    pub fn is_alive(&self, number: u8) -> bool {
        self.slot_of(number)
            .is_some_and(|index| self.handles[index].is_alive())
    }

    /// Whether the layers that a view of `settled` knows hold the key.
    pub fn in_pages(&self, setting: &Setting, settled: u8, key: u8) -> bool {
        let known = if setting.growing {
            usize::from(settled.min(self.file.generation)) - 1
        } else {
            1
        };
        self.file.pages[..known]
            .iter()
            .any(|keys| keys & 1 << key != 0)
    }

    /// `read.rs`, `probe_settled`, where nothing can come between its two looks that matters: the
    /// sealed buffer only gives up what it never settled, and pages only gain keys.
    pub fn in_settled(&self, setting: &Setting, view: (u8, u8), key: u8) -> bool {
        let (active, settled) = view;
        (settled < active && self.buffer(settled).lookup(key) == Presence::Settled)
            || self.in_pages(setting, settled, key)
    }

    /// Whether who looks at everything at once finds the key.
    pub fn is_visible(&self, setting: &Setting, key: u8) -> bool {
        self.buffer(self.active).lookup(key) != Presence::Absent
            || self.in_settled(setting, (self.active, self.settled), key)
    }

    /// Nothing of shared memory and processes is left.
    pub fn clear_memory(&mut self) {
        self.ready = false;
        self.active = 0;
        self.settled = 0;
        self.changing = 0;
        self.writer = 0;
        self.gate = 0;
        self.slots = Default::default();
        self.buffers = Default::default();
        self.handles = Default::default();
        self.settler = Settler::default();
    }

    /// Whether a closed generation waits for its checkpoint.
    pub fn is_due(&self) -> bool {
        self.ready && self.settled < self.active
    }

    pub fn is_finished(&self) -> bool {
        self.ready
            && !self.is_due()
            && self.settler.owner == 0
            && self
                .handles
                .iter()
                .all(|handle| matches!(handle.pc, Pc::None | Pc::Done))
    }
}
