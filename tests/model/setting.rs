//! What is explored: who does what, on which kind of store, and what of the protocol is broken.

/// Most keys, handles at a time and generations of any setting, and most handle numbers in a log.
pub const KEYS: usize = 2;
pub const HANDLES: usize = 3;
pub const GENERATIONS: usize = 4;
pub const NUMBERS: usize = 4;

/// A call of the library; keys are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Insert(u8),
    Contains(u8),
    Commit,
    Checkpoint,
    Close,
}

/// A step of the protocol that is left out or done in the wrong order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A look-up goes to the pages first and to the buffers of its view then.
    PagesFirst,
    /// A look-up has no view: it goes to the pages first, then to the buffers that it finds there
    /// at that moment, and does not look again.
    PagesFirstNoView,
    /// A look-up has no view and does not look again, but goes the way that keys go.
    NoView,
    /// `contains` answers "absent" without looking at the generations again.
    NoSecondLook,
    /// The sealed buffer is dropped when the pages are durable, the superblock written afterwards.
    DropBeforeSuperblock,
    /// The sealed buffer is dropped when the superblock is written and not yet durable.
    DropBeforeSync,
    /// The log goes before the superblock that makes it needless is durable.
    LogGoesFirst,
    /// The superblock is made durable with the pages, not after them.
    NoPageSync,
    /// The pages are written before an intent that names them is durable.
    NoIntent,
    /// The closed log is not synced before its keys go into the pages.
    NoClosedSync,
    /// A mark is written although the closed log is not durable.
    NoFrozenSync,
    /// Commit returns without having synced the active log.
    NoCommitSync,
    /// A key is shown to readers before its record is in the log.
    PublishFirst,
    /// What moved on before the writer lock was taken is not looked for again.
    NoLookUnderLock,
    /// The same for what moved on as far as the pages.
    NoPagesUnderLock,
    /// The log is closed before the next one is made.
    CutFirst,
    /// The log is closed before the next one's name is durable.
    CutBeforeName,
    /// Keys of open transactions are not carried over into the next log.
    NoCarryLog,
    /// Keys of open transactions are not carried over into the next buffer.
    NoCarryBuffer,
    /// Who finds a log closed by a dead holder of the writer lock does not begin the next one.
    NoMendedRotation,
    /// The claims that a dead holder of the writer lock left are not given up.
    NoRetract,
    /// The writer lock is taken from an owner that lives.
    StealFromLiving,
    /// It is not taken from an owner that died.
    NoSteal,
    /// Who takes it from one that died goes on as if that one had come to its end.
    NoTakeOver,
    /// What handles that died left uncommitted is not given up.
    NoDrop,
    /// After a recovery, handles are numbered from the beginning.
    SameNumber,
    /// Recovery takes the logs as they are in the page cache and does not make them durable.
    NoRewrite,
    /// Recovery takes the superblock as it is in the page cache and does not make it durable.
    NoIdentitySync,
    /// Recovery leaves a log that never counted where it is.
    NoRemoval,
    /// Who takes a checkpoint over takes a superblock for durable because it is there.
    TrustSuperblock,
    /// Who finds a first log takes its name and header for durable because they are there.
    TrustFirstLog,
    /// Who mends a rotation notes that the closing record was read before that the log is closed.
    AppliedBeforeSealed,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// How many states it has. A model that comes to fewer by mistake would find nothing.
    pub states: usize,
    pub transactional: bool,
    /// Each checkpoint makes a layer, which older views don't know. Else there is one for good.
    pub growing: bool,
    /// What each handle of the first session does.
    pub programs: &'static [&'static [Op]],
    /// What the first handle after a crash does. After a second crash there is only recovery.
    pub after: &'static [Op],
    /// The highest generation; 1 means that there is no rotation.
    pub generations: u8,
    /// An insert may find the buffer full, and a commit the log long, at any time. Else only
    /// [`Op::Checkpoint`] rotates.
    pub full: bool,
    /// The store is begun: its first log is there, made long ago.
    pub begun: bool,
    pub power_cuts: bool,
    /// It is looked for work that may go on for ever, which takes memory for each step.
    pub circles: bool,
    pub broken: Option<Broken>,
}

impl Setting {
    pub fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    pub fn is_any(&self, broken: &[Broken]) -> bool {
        self.broken.is_some_and(|found| broken.contains(&found))
    }

    pub fn breaking(self, broken: Broken) -> Self {
        Self {
            broken: Some(broken),
            ..self
        }
    }

    /// What a handle does in a session.
    pub fn program(&self, session: u8, handle: usize) -> &'static [Op] {
        match session {
            0 => self.programs.get(handle).copied().unwrap_or(&[]),
            1 if handle == 0 => self.after,
            _ => &[],
        }
    }

    /// The number that the handle of a session has in the logs.
    pub fn number(&self, session: u8, handle: usize) -> u8 {
        if session == 0 || self.is(Broken::SameNumber) {
            handle as u8
        } else {
            self.programs.len() as u8
        }
    }

    /// The layer that takes the keys of a generation.
    pub fn layer(&self, generation: u8) -> usize {
        if self.growing {
            usize::from(generation.saturating_sub(1))
        } else {
            0
        }
    }
}
