//! Recovery by the first to open a store: `open.rs`, `recover`, and `recover.rs`.

use super::setting::{Broken, KEYS, Setting};
use super::state::{Buffer, COMMITTED, State, Violation};
use super::thread::{Pc, Thread};
use super::walk::{Stepped, went};

impl State {
    /// Nobody is alive: somebody opens the store.
    pub fn open_first(&mut self, setting: &Setting) {
        let session = (self.session + 1).min(2);
        self.handles[0] = Thread::open(setting.number(session, 0));
        self.handles[0].pc = Pc::RecoverFile;
    }

    pub fn recover(&mut self, setting: &Setting) -> Stepped {
        let generation = self.file.generation;
        let next = generation + 1;
        let (pc, did) = match self.handles[0].pc {
            Pc::RecoverFile => {
                if !setting.is(Broken::NoIdentitySync) {
                    self.sync_file();
                }
                (
                    Pc::RecoverFolder,
                    "open.rs recover: the store file is synced",
                )
            }
            Pc::RecoverFolder => {
                self.sync_folder();
                (Pc::RecoverBefore, "open.rs recover: the folder is synced")
            }
            Pc::RecoverBefore if self.has_log_file(generation - 1) => {
                self.log_mut(generation - 1).name = false;
                // Its folder is synced: the same step comes again and finds none.
                (
                    Pc::RecoverFolder,
                    "recover.rs run: the log before is removed",
                )
            }
            Pc::RecoverBefore => (Pc::RecoverFirst, "recover.rs run: no log before"),
            Pc::RecoverFirst => return self.recover_first(setting, generation),
            Pc::RecoverSecond => {
                if !self.log(next).name || !self.log(next).header {
                    return Err(Violation("I4: recovery misses the log behind a closed one"));
                }
                if self.log(next).records.is_closed() {
                    return Err(Violation("I4: recovery finds a second closed log"));
                }
                self.rewrite(setting, next);
                (
                    Pc::RecoverExpect,
                    "recover.rs run: the active log, made durable",
                )
            }
            Pc::RecoverNext => {
                self.log_mut(next).name = false;
                (
                    Pc::RecoverRemoved,
                    "recover.rs run: a log that never counted is removed",
                )
            }
            Pc::RecoverRemoved => {
                self.sync_folder();
                (
                    Pc::RecoverExpect,
                    "recover.rs remove_log: the folder is synced",
                )
            }
            Pc::RecoverExpect if self.log(generation).name && !self.file.log_expected => {
                self.file.log_expected = true;
                (
                    Pc::RecoverExpectSync,
                    "open.rs expect_logs: the superblock is written",
                )
            }
            Pc::RecoverExpect => (Pc::RecoverReady, "open.rs expect_logs: nothing to tell"),
            Pc::RecoverExpectSync => {
                self.sync_file();
                (
                    Pc::RecoverReady,
                    "open.rs expect_logs: the superblock is synced",
                )
            }
            _ => return self.finish_recovery(setting, generation),
        };
        self.handles[0].pc = pc;
        went(did)
    }

    /// The log of the superblock's own generation.
    fn recover_first(&mut self, setting: &Setting, generation: u8) -> Stepped {
        let log = *self.log(generation);
        let (pc, did) = if !(log.name && log.header) {
            if self.file.log_expected {
                return Err(Violation("I4: recovery misses a log that is expected"));
            }
            self.log_mut(generation).name = false;
            (
                Pc::RecoverRemoved,
                "recover.rs open_first: no log, or half a one",
            )
        } else {
            self.rewrite(setting, generation);
            let next = generation + 1;
            let successor = self.has_log_file(next) && self.log(next).header;
            if log.records.is_last() {
                (
                    Pc::RecoverExpect,
                    "recover.rs run: the last log, made durable",
                )
            } else if log.records.is_closed() {
                (
                    Pc::RecoverSecond,
                    "recover.rs run: the closed log, made durable",
                )
            } else if self.file.intent == generation {
                return Err(Violation("I4: a checkpoint began, and its log is open"));
            } else if successor && self.log(next).records.has_marks() {
                return Err(Violation("I4: a commit follows on a log that is open"));
            } else if self.has_log_file(next) && !setting.is(Broken::NoRemoval) {
                (
                    Pc::RecoverNext,
                    "recover.rs run: the log, made durable, and one too many",
                )
            } else {
                (Pc::RecoverExpect, "recover.rs run: the log, made durable")
            }
        };
        self.handles[0].pc = pc;
        went(did)
    }

    /// `recover.rs`, `make_durable`.
    fn rewrite(&mut self, setting: &Setting, generation: u8) {
        if !setting.is(Broken::NoRewrite) {
            self.log_mut(generation).sync();
        }
    }

    /// The buffers are filled and others may come: `recover.rs`, `load`; `open.rs`, `recover`.
    fn finish_recovery(&mut self, setting: &Setting, generation: u8) -> Stepped {
        let has_log = self.log(generation).name;
        let closed = has_log && self.log(generation).records.is_closed();
        if self.file.torn != 0 && !(closed && self.file.intent == generation) {
            return Err(Violation("I3: a torn page that no intent names"));
        }
        self.settled = generation;
        self.active = generation + u8::from(closed);
        for number in self.settled..=self.active {
            let mut buffer = Buffer {
                file: true,
                ..Buffer::default()
            };
            let log = *self.log(number);
            if log.name {
                let committed = log.records.committed(setting.transactional);
                for key in (0..KEYS).filter(|key| committed & 1 << key != 0) {
                    buffer.keys[key] = COMMITTED;
                }
                let end = log.records.len();
                buffer.has_log = true;
                buffer.tail = end;
                buffer.applied = end;
                buffer.durable = end;
                buffer.sealed = log.records.is_closed();
            }
            *self.buffer_mut(number) = buffer;
        }
        self.ready = true;
        let present = (0..KEYS as u8)
            .filter(|key| self.is_visible(setting, *key))
            .fold(0, |keys, key| keys | 1 << key);
        self.check_recovered(setting, present)?;
        self.session = (self.session + 1).min(2);
        self.slots[0].taken = true;
        self.begin_op(setting, 0);
        went("open.rs recover: ready")
    }
}
