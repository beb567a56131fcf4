//! Looking up without a lock: `contains`, and the first half of an insert.

use super::promises::Verdict;
use super::setting::{Broken, Op, Setting};
use super::state::{Presence, State, Violation};
use super::thread::Pc;
use super::walk::{Stepped, blocked, went};

const NO_SECOND_LOOK: [Broken; 3] = [
    Broken::NoSecondLook,
    Broken::NoView,
    Broken::PagesFirstNoView,
];

impl State {
    /// `read.rs`, `contains`; `insert.rs`, `claim_batch` up to the writer lock.
    pub fn look(&mut self, setting: &Setting, handle: usize, key: u8, insert: bool) -> Stepped {
        let pages_first = setting.is_any(&[Broken::PagesFirst, Broken::PagesFirstNoView]);
        let thread = self.handles[handle];
        let view = if setting.is_any(&[Broken::NoView, Broken::PagesFirstNoView]) {
            (self.active, self.settled)
        } else {
            thread.view
        };
        let (found, next, did) = match thread.pc {
            Pc::View | Pc::ViewAgain => {
                let Some(view) = self.current_view() else {
                    return blocked();
                };
                if !self.can_attach() {
                    return Err(Violation("I3: a buffer that a view needs is not there"));
                }
                let must = thread.must || thread.pc == Pc::View && self.must_find(key);
                let thread = &mut self.handles[handle];
                thread.view = view;
                thread.must = must;
                thread.pc = if pages_first {
                    Pc::LookPages
                } else {
                    Pc::LookActive
                };
                return went("read.rs contains, insert.rs claim_batch: the view is taken");
            }
            Pc::LookActive => {
                let found = match self.buffer(view.0).lookup(key) {
                    Presence::Absent => false,
                    Presence::Settled => true,
                    // `probe_seen`: for an insert, another's open claim is not there yet.
                    Presence::Open(number) => !insert || number == thread.number,
                };
                (found, Pc::LookFrozen, "read.rs probe: the active buffer")
            }
            Pc::LookFrozen => {
                let found = view.1 < view.0 && self.buffer(view.1).lookup(key) == Presence::Settled;
                let next = if pages_first {
                    Pc::LookAgain
                } else {
                    Pc::LookPages
                };
                (found, next, "read.rs probe_settled: the sealed buffer")
            }
            Pc::LookPages => {
                let found = self.in_pages(setting, view.1, key);
                let next = if pages_first {
                    Pc::LookActive
                } else {
                    Pc::LookAgain
                };
                (found, next, "read.rs probe_settled: the pages")
            }
            _ => return self.look_again(setting, handle),
        };
        if found {
            self.finish_look(setting, handle, key, insert)?;
        } else {
            let none_left = next == Pc::LookAgain;
            let next = if none_left && insert { Pc::Lock } else { next };
            self.handles[handle].pc = next;
            if none_left && !insert && setting.is_any(&NO_SECOND_LOOK) {
                self.look_again(setting, handle)?;
            }
        }
        went(did)
    }

    fn finish_look(
        &mut self,
        setting: &Setting,
        handle: usize,
        key: u8,
        insert: bool,
    ) -> Result<(), Violation> {
        if insert {
            let number = self.handles[handle].number;
            self.answer_insert(setting, number, key, Verdict::Seen)?;
        }
        self.end_op(setting, handle);
        Ok(())
    }

    /// `read.rs`, `look_up`: "absent" counts only if there was no rotation meanwhile.
    fn look_again(&mut self, setting: &Setting, handle: usize) -> Stepped {
        let thread = self.handles[handle];
        let current = thread.view.0 == self.active;
        if !current && !setting.is_any(&NO_SECOND_LOOK) {
            self.handles[handle].pc = Pc::ViewAgain;
            self.handles[handle].view = (0, 0);
            return went("read.rs look_up: there was a rotation");
        }
        if thread.must {
            return Err(Violation("I1: a key that is there was not found"));
        }
        self.end_op(setting, handle);
        went("read.rs look_up: absent")
    }

    /// The one who held these claims is gone: no reader must find them any more.
    pub fn forget_claims(&mut self, setting: &Setting, keys: u8) {
        for handle in 0..self.handles.len() {
            if let Some(Op::Contains(key)) = self.op(setting, handle)
                && keys & !self.promises.returned & 1 << key != 0
            {
                self.handles[handle].must = false;
            }
        }
    }
}
