//! Where a thread stands: the one of a handle that runs its program, and the one at a checkpoint.

use super::promises::Verdict;
use super::setting::{Op, Setting};
use super::state::State;

/// The next step of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Pc {
    /// No such handle, or dead.
    #[default]
    None,
    /// Nothing left to do; open still.
    Done,
    // read.rs
    View,
    ViewAgain,
    LookActive,
    LookFrozen,
    LookPages,
    LookAgain,
    // guard.rs, takeover.rs
    Lock,
    MendHandOver,
    MendRecords,
    MendTail,
    MendRetract,
    MendSeal,
    MendApplied,
    MendActive,
    MendBegun,
    MendRemove,
    MendFolder,
    // next_generation.rs, start_log
    LogWait,
    LogMake,
    LogHeader,
    LogFolder,
    LogTell,
    LogTellSync,
    LogBegun,
    // claim.rs
    Transaction,
    TransactionSlot,
    Claim,
    Append,
    Tail,
    Publish,
    Applied,
    Unlock,
    // rotation.rs, seal_active
    RotateWait,
    RotateBuffer,
    RotateLog,
    RotateHeader,
    RotateFolder,
    RotateRecords,
    RotateCut,
    RotateTail,
    RotateSeal,
    RotateActive,
    RotateHandOver,
    // commit.rs
    Way,
    FrozenSync,
    MarkTail,
    MarkTransaction,
    MarkSlot,
    MarkApplied,
    MarkUnlock,
    CommitSync,
    // checkpoint.rs, checkpoint_now
    Settled,
    // close.rs
    Gate,
    GiveUp,
    LeaveSlot,
    Leave,
    LastUnlock,
    LastSettled,
    // recover.rs
    RecoverFile,
    RecoverFolder,
    RecoverBefore,
    RecoverFirst,
    RecoverSecond,
    RecoverNext,
    RecoverRemoved,
    RecoverExpect,
    RecoverExpectSync,
    RecoverReady,
}

/// A handle, as it stands with its program. What a step no longer needs is zero, so that states
/// that don't differ in effect are one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Thread {
    /// Its number in the logs.
    pub number: u8,
    pub op: u8,
    pub pc: Pc,
    /// Active and settled generation of the view at hand. Which layers it knows follows from that:
    /// those below the settled one, at least.
    pub view: (u8, u8),
    pub verdict: Verdict,
    /// The call must find the key.
    pub must: bool,
    /// Under the writer lock: the generation that was active when the key was looked for before.
    pub looked: u8,
    pub rotated: bool,
    /// Closing, as the last one.
    pub last: bool,
    /// The log that is mended is closed.
    pub sealed: bool,
    /// A commit has been called, and covers these keys.
    pub called: bool,
    pub cover: u8,
    /// The generation that a commit syncs, and up to where.
    pub sync: (u8, u8),
}

impl Thread {
    pub fn open(number: u8) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    pub fn is_alive(&self) -> bool {
        self.pc != Pc::None
    }
}

/// The next step of the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum At {
    #[default]
    Begin,
    Taken,
    LogSync,
    Intent,
    IntentSync,
    Pages,
    PageSync,
    Superblock,
    SuperblockSync,
    Settle,
    Remove,
    RemoveSync,
    Before,
    BeforeSync,
}

/// Who holds the checkpoint lock and how far it has come. One at a time in all processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Settler {
    /// The handle whose thread it is, counted from 1; 0 while nobody holds the lock.
    pub owner: u8,
    pub at: At,
    pub number: u8,
    /// Keys that have yet to go into the pages.
    pub keys: u8,
}

impl State {
    pub fn op(&self, setting: &Setting, handle: usize) -> Option<Op> {
        let program = setting.program(self.session, handle);
        program.get(usize::from(self.handles[handle].op)).copied()
    }

    /// Stands before its next call. That it has been made already and waits looks the same.
    pub fn begin_op(&mut self, setting: &Setting, handle: usize) {
        let pc = match self.op(setting, handle) {
            None => Pc::Done,
            Some(Op::Insert(_) | Op::Contains(_)) => Pc::View,
            Some(Op::Commit | Op::Checkpoint) => Pc::Lock,
            Some(Op::Close) => Pc::Gate,
        };
        let thread = &mut self.handles[handle];
        *thread = Thread {
            number: thread.number,
            op: thread.op,
            pc,
            ..Thread::default()
        };
    }

    /// The call has returned.
    pub fn end_op(&mut self, setting: &Setting, handle: usize) {
        self.handles[handle].op += 1;
        self.begin_op(setting, handle);
    }

    /// `view.rs`, `renew`: the view is made anew unless it is current. One step, since words only
    /// grow: a view counts only if they are the same before and after it is made. `None` while
    /// the superblock is behind the words: then it is tried again.
    pub fn current_view(&self) -> Option<(u8, u8)> {
        (self.file.generation >= self.settled).then_some((self.active, self.settled))
    }

    /// Whether the buffers that a new view needs can be opened.
    pub fn can_attach(&self) -> bool {
        self.buffer(self.active).file
            && (self.settled == self.active || self.buffer(self.settled).file)
    }
}
