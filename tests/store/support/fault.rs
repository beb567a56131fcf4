//! A storage that counts its calls and fails those it is told to.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use everseen::testing::Map;
use everseen::testing::storage::{self, Storage, StorageFile};

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Create,
    Open,
    Publish,
    Remove,
    SyncFolder,
    Exists,
    Length,
    Read,
    Write,
    StartWriting,
    SetLength,
    Allocate,
    Sync,
    Map,
}

/// What the operating system answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// ENOSPC.
    NoSpace,
    /// EIO.
    Broken,
    /// EINTR.
    Interrupted,
    /// EACCES.
    Denied,
}

impl Failure {
    pub fn error(self) -> io::Error {
        match self {
            Failure::NoSpace => io::ErrorKind::StorageFull.into(),
            Failure::Broken => io::Error::from_raw_os_error(5),
            Failure::Interrupted => io::ErrorKind::Interrupted.into(),
            Failure::Denied => io::ErrorKind::PermissionDenied.into(),
        }
    }
}

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It fails and does nothing.
    Fails(Failure),
    /// It succeeds, and reads or writes half of what it could, at least a byte.
    Short,
    /// It fails; a write has written half, up to a sector's border.
    Torn(Failure),
    /// It fails, and has done all it was to do.
    Lies(Failure),
}

/// Which calls a rule counts.
type Filter = Box<dyn Fn(Call, &Path) -> bool + Send>;

/// Strikes some of the calls that it counts.
pub struct Rule {
    fault: Fault,
    counts: Filter,
    first: u64,
    last: u64,
    counted: u64,
}

impl Rule {
    /// Strikes the `nth` call, counted from 1, and no other.
    pub fn nth(nth: u64, fault: Fault) -> Self {
        Self {
            fault,
            counts: Box::new(|_, _| true),
            first: nth,
            last: nth,
            counted: 0,
        }
    }

    /// Strikes every call from the `first` on, counted from 1, until the storage is healed.
    pub fn from(first: u64, fault: Fault) -> Self {
        Self {
            last: u64::MAX,
            ..Self::nth(first, fault)
        }
    }

    /// Strikes none, and calls `each` ahead of every call.
    pub fn none(each: impl Fn(Call, &Path) + Send + 'static) -> Self {
        Self::nth(u64::MAX, Fault::Short).that(move |call, path| {
            each(call, path);
            false
        })
    }

    /// Counts these calls alone.
    pub fn on(self, call: Call) -> Self {
        self.that(move |other, _| other == call)
    }

    /// Counts calls on files alone whose name holds `part`.
    pub fn named(self, part: &str) -> Self {
        let part = part.to_owned();
        self.that(move |_, path| name(path).contains(&part))
    }

    /// Counts calls on the store file alone, by its name or the one that it has while it is made.
    pub fn on_store(self) -> Self {
        self.that(|_, path| !name(path).contains("-log"))
    }

    fn that(self, more: impl Fn(Call, &Path) -> bool + Send + 'static) -> Self {
        let counts = self.counts;
        Self {
            counts: Box::new(move |call, path| counts(call, path) && more(call, path)),
            ..self
        }
    }

    fn meets(&mut self, call: Call, path: &Path) -> Option<Fault> {
        if !(self.counts)(call, path) {
            return None;
        }
        self.counted += 1;
        (self.first..=self.last)
            .contains(&self.counted)
            .then_some(self.fault)
    }
}

/// A call and the name of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub call: Call,
    pub name: String,
    /// How it went wrong, if it did.
    pub fault: Option<Fault>,
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} {}", self.call, self.name)
    }
}

#[derive(Default)]
struct State {
    rule: Option<Rule>,
    events: Vec<Event>,
}

/// What a storage was about to do.
pub struct Paused {
    rule: Option<Rule>,
    events: usize,
}

/// Passes calls on to the disk, and strikes those that its rule names.
///
/// Nothing that uses it loses power, so it can leave out the waiting for the disk.
#[derive(Clone)]
pub struct FaultStorage {
    disk: Arc<dyn Storage>,
    state: Arc<Mutex<State>>,
    syncs: bool,
}

impl fmt::Debug for FaultStorage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("FaultStorage")
    }
}

impl FaultStorage {
    pub fn new() -> Self {
        Self {
            disk: storage::disk(),
            state: Arc::default(),
            syncs: true,
        }
    }

    /// Counts syncs and makes none, and makes files longer without reserving room: much faster.
    pub fn without_syncs() -> Self {
        Self {
            syncs: false,
            ..Self::new()
        }
    }

    /// The same on top of another disk.
    pub fn over(disk: Arc<dyn Storage>) -> Self {
        Self {
            disk,
            ..Self::without_syncs()
        }
    }

    /// For [`Options::storage`](everseen::testing::Options::storage).
    pub fn shared(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    /// Replaces the rule by this one, which begins to count.
    pub fn arm(&self, rule: Rule) {
        self.state().rule = Some(rule);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.state().rule = None;
    }

    /// Neither counts nor fails anything until [`resume`](Self::resume).
    pub fn pause(&self) -> Paused {
        let mut state = self.state();
        Paused {
            rule: state.rule.take(),
            events: state.events.len(),
        }
    }

    /// Goes on where it was paused.
    pub fn resume(&self, paused: Paused) {
        let mut state = self.state();
        state.rule = paused.rule;
        state.events.truncate(paused.events);
    }

    /// The calls so far, in their order.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// The calls that went wrong, in their order.
    pub fn struck(&self) -> Vec<Event> {
        let mut events = self.events();
        events.retain(|event| event.fault.is_some());
        events
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn count(&self, call: Call, path: &Path) -> Option<Fault> {
        let mut state = self.state();
        let fault = state.rule.as_mut().and_then(|rule| rule.meets(call, path));
        state.events.push(Event {
            call,
            name: name(path),
            fault,
        });
        fault
    }

    /// A call that does its work or not, nothing in between.
    fn whole<T>(
        &self,
        call: Call,
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match self.count(call, path) {
            None | Some(Fault::Short) => work(),
            Some(Fault::Fails(failure) | Fault::Torn(failure)) => Err(failure.error()),
            Some(Fault::Lies(failure)) => work().and(Err(failure.error())),
        }
    }

    fn file(&self, file: Arc<dyn StorageFile>, path: &Path) -> Arc<dyn StorageFile> {
        Arc::new(FaultFile {
            storage: self.clone(),
            file,
            path: path.to_owned(),
        })
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

impl Storage for FaultStorage {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.whole(Call::Create, path, || self.disk.create_new(path))?;
        Ok(self.file(file, path))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.whole(Call::Open, path, || self.disk.open(path, write))?;
        Ok(self.file(file, path))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole(Call::Publish, to, || self.disk.publish(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.whole(Call::Remove, path, || self.disk.remove(path))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.whole(Call::SyncFolder, folder, || match self.syncs {
            true => self.disk.sync_folder(folder),
            false => Ok(()),
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.whole(Call::Exists, path, || self.disk.exists(path))
    }
}

#[derive(Debug)]
struct FaultFile {
    storage: FaultStorage,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
}

impl StorageFile for FaultFile {
    fn length(&self) -> io::Result<u64> {
        let length = || self.file.length();
        self.storage.whole(Call::Length, &self.path, length)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let half = bytes.len().div_ceil(2);
        match self.storage.count(Call::Read, &self.path) {
            None => self.file.read_at(bytes, offset),
            Some(Fault::Short) => self.file.read_at(&mut bytes[..half], offset),
            Some(Fault::Fails(failure) | Fault::Torn(failure) | Fault::Lies(failure)) => {
                Err(failure.error())
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let half = bytes.len().div_ceil(2);
        match self.storage.count(Call::Write, &self.path) {
            None => self.file.write_at(bytes, offset),
            Some(Fault::Short) => self.file.write_at(&bytes[..half], offset),
            Some(Fault::Fails(failure)) => Err(failure.error()),
            Some(Fault::Torn(failure)) => {
                let border = (offset as usize + half) / 512 * 512;
                let torn = border.saturating_sub(offset as usize);
                self.write_whole(&bytes[..torn], offset)?;
                Err(failure.error())
            }
            Some(Fault::Lies(failure)) => {
                self.write_whole(bytes, offset)?;
                Err(failure.error())
            }
        }
    }

    fn start_writing(&self, range: Range<u64>) -> io::Result<()> {
        let start = || self.file.start_writing(range);
        self.storage.whole(Call::StartWriting, &self.path, start)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let set = || self.file.set_length(length);
        self.storage.whole(Call::SetLength, &self.path, set)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let allocate = || match self.storage.syncs {
            true => self.file.allocate(length),
            // To reserve never shortens.
            false if self.file.length()? >= length => Ok(()),
            false => self.file.set_length(length),
        };
        self.storage.whole(Call::Allocate, &self.path, allocate)
    }

    fn sync(&self) -> io::Result<()> {
        let sync = || match self.storage.syncs {
            true => self.file.sync(),
            false => Ok(()),
        };
        self.storage.whole(Call::Sync, &self.path, sync)
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        let map = || self.file.map(offset, length);
        self.storage.whole(Call::Map, &self.path, map)
    }
}

impl FaultFile {
    fn write_whole(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.file.write_at(bytes, offset)?;
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }
}
