//! Who may take which step.

use super::setting::{Op, Setting};
use super::state::{State, Violation};
use super::thread::Pc;

/// What was done, `None` if whose turn it is has to wait.
pub type Stepped = Result<Option<&'static str>, Violation>;

pub fn went(did: &'static str) -> Stepped {
    Ok(Some(did))
}

pub fn blocked() -> Stepped {
    Ok(None)
}

/// Whose turn it is, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The next step of a handle; where it may go on in two ways, the first or the second.
    Go(usize, usize),
    /// A handle takes the checkpoint lock.
    Begin(usize),
    /// The next step of the checkpoint.
    Settle,
    Kill(usize),
    /// Somebody opens the store that nobody has open.
    Open,
    /// The power fails, and this is what is left.
    Cut(usize),
}

/// Turns that are tried in each state, but for power cuts.
pub const TURNS: [Turn; 14] = [
    Turn::Go(0, 0),
    Turn::Go(0, 1),
    Turn::Go(1, 0),
    Turn::Go(1, 1),
    Turn::Go(2, 0),
    Turn::Go(2, 1),
    Turn::Begin(0),
    Turn::Begin(1),
    Turn::Begin(2),
    Turn::Settle,
    Turn::Open,
    Turn::Kill(0),
    Turn::Kill(1),
    Turn::Kill(2),
];

impl Turn {
    /// Not a crash, and not the opening after one.
    pub fn is_work(self) -> bool {
        matches!(
            self,
            Self::Go(..) | Self::Begin(_) | Self::Settle | Self::Open
        )
    }
}

impl State {
    /// Whether there is such a turn; it may have to wait all the same.
    pub fn may_take(&self, turn: Turn) -> bool {
        match turn {
            Turn::Go(handle, way) => match self.handles[handle].pc {
                Pc::None | Pc::Done => false,
                Pc::Claim | Pc::Way => true,
                _ => way == 0,
            },
            Turn::Begin(handle) => {
                self.settler.owner == 0 && self.is_due() && self.handles[handle].is_alive()
            }
            Turn::Settle => self.settler.owner != 0,
            Turn::Kill(handle) => self.handles[handle].is_alive(),
            Turn::Open => self.alive().next().is_none(),
            Turn::Cut(_) => true,
        }
    }

    /// Takes a turn.
    pub fn take(&mut self, setting: &Setting, turn: Turn) -> Stepped {
        let did = match turn {
            Turn::Go(handle, way) => self.go(setting, handle, way),
            Turn::Begin(handle) => self.begin_settling(handle),
            Turn::Settle => self.settle(setting),
            Turn::Kill(handle) => {
                self.kill(setting, handle);
                went("killed")
            }
            Turn::Open => {
                self.open_first(setting);
                went("open.rs open_inside: the first")
            }
            Turn::Cut(which) => {
                *self = self.power_cuts().swap_remove(which);
                went("the power fails")
            }
        };
        if let Ok(Some(_)) = did {
            self.check(setting)?;
        }
        did
    }

    fn go(&mut self, setting: &Setting, handle: usize, way: usize) -> Stepped {
        match self.handles[handle].pc {
            Pc::None | Pc::Done => blocked(),
            Pc::View
            | Pc::ViewAgain
            | Pc::LookActive
            | Pc::LookFrozen
            | Pc::LookPages
            | Pc::LookAgain => match self.op(setting, handle) {
                Some(Op::Insert(key)) => self.look(setting, handle, key, true),
                Some(Op::Contains(key)) => self.look(setting, handle, key, false),
                _ => unreachable!("only they look"),
            },
            Pc::Lock => self.lock(setting, handle),
            Pc::MendHandOver
            | Pc::MendRecords
            | Pc::MendTail
            | Pc::MendRetract
            | Pc::MendSeal
            | Pc::MendApplied
            | Pc::MendActive
            | Pc::MendBegun
            | Pc::MendRemove
            | Pc::MendFolder => self.mend(setting, handle),
            Pc::LogWait
            | Pc::LogMake
            | Pc::LogHeader
            | Pc::LogFolder
            | Pc::LogTell
            | Pc::LogTellSync
            | Pc::LogBegun => self.start_log(setting, handle),
            Pc::RotateWait
            | Pc::RotateBuffer
            | Pc::RotateLog
            | Pc::RotateHeader
            | Pc::RotateFolder
            | Pc::RotateRecords
            | Pc::RotateCut
            | Pc::RotateTail
            | Pc::RotateSeal
            | Pc::RotateActive
            | Pc::RotateHandOver => self.rotate(setting, handle),
            Pc::Unlock | Pc::Settled if self.is_checkpoint(setting, handle) => {
                self.finish_checkpoint(setting, handle)
            }
            Pc::Transaction
            | Pc::TransactionSlot
            | Pc::Claim
            | Pc::Append
            | Pc::Tail
            | Pc::Publish
            | Pc::Applied
            | Pc::Unlock
            | Pc::Settled => match self.op(setting, handle) {
                Some(Op::Insert(key)) => self.insert(setting, handle, key, way),
                _ => unreachable!("only inserts claim"),
            },
            Pc::Way
            | Pc::FrozenSync
            | Pc::MarkTail
            | Pc::MarkTransaction
            | Pc::MarkSlot
            | Pc::MarkApplied
            | Pc::MarkUnlock
            | Pc::CommitSync => self.commit(setting, handle, way),
            Pc::Gate
            | Pc::GiveUp
            | Pc::LeaveSlot
            | Pc::Leave
            | Pc::LastUnlock
            | Pc::LastSettled => self.close(setting, handle),
            Pc::RecoverFile
            | Pc::RecoverFolder
            | Pc::RecoverBefore
            | Pc::RecoverFirst
            | Pc::RecoverSecond
            | Pc::RecoverNext
            | Pc::RecoverRemoved
            | Pc::RecoverExpect
            | Pc::RecoverExpectSync
            | Pc::RecoverReady => self.recover(setting),
        }
    }
}
