//! A storage that passes everything on to real files and keeps a journal of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile};

use super::Remark;
use super::disk::{Event, Image, Inode};
use super::site::{Site, Watch, is_log};
use crate::support::unsynced::Unsynced;

/// Kills fall between pages of this size.
const PAGE: usize = 4096;

/// A journal of all that happens in one folder, over the lives of several processes.
pub struct Tape<R> {
    state: Mutex<State<R>>,
    /// A sync that is said to be done and is not.
    lie: Option<Site>,
}

struct State<R> {
    events: Vec<Event<R>>,
    names: BTreeMap<String, Inode>,
    inodes: usize,
    watch: Watch,
    /// How often each sync was made.
    sites: BTreeMap<Site, u64>,
    /// So many events on, the process is killed.
    fuse: Option<u64>,
    /// So many syncs of files on, one fails.
    fault: Option<u64>,
    /// Handles of which one has failed.
    failed: BTreeSet<u64>,
    /// Handles so far.
    handles: u64,
    /// What happens while the log is next synced for a commit.
    meanwhile: Option<Meanwhile>,
}

/// Something that another handle does.
type Meanwhile = Box<dyn FnOnce() + Send>;

impl<R: Remark> Tape<R> {
    /// A tape for a folder that holds the files of an image.
    pub fn new(image: &Image, lie: Option<Site>) -> Arc<Self> {
        let state = State {
            names: image.keys().cloned().zip(0..).collect(),
            inodes: image.len(),
            events: Vec::new(),
            watch: Watch::default(),
            sites: BTreeMap::new(),
            fuse: None,
            fault: None,
            failed: BTreeSet::new(),
            handles: 0,
            meanwhile: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            lie,
        })
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn mark(&self, mark: &R) {
        let mut state = self.state();
        if let Some(committing) = mark.committing() {
            state.watch.committing = committing;
        }
        state.events.push(Event::Mark(mark.clone()));
    }

    /// Kills the process so many events on.
    pub fn burn(&self, events: u64) {
        self.state().fuse = Some(events);
    }

    /// Fails a sync, so many on.
    pub fn fail(&self, syncs: u64) {
        self.state().fault = Some(syncs);
    }

    /// Has something done while the log is next synced for a commit: after what that sync covers, and before it returns.
    pub fn while_syncing(&self, work: impl FnOnce() + Send + 'static) {
        self.state().meanwhile = Some(Box::new(work));
    }

    /// Returns whether no such sync came.
    pub fn forget_meanwhile(&self) -> bool {
        self.state().meanwhile.take().is_some()
    }

    /// Whether a sync of this handle has failed.
    pub fn has_failed(&self, recorder: &Recorder<R>) -> bool {
        self.state().failed.contains(&recorder.handle)
    }

    /// What follows has nothing to do with a sync that failed.
    pub fn forgive(&self) {
        let mut state = self.state();
        state.failed.clear();
        state.fault = None;
    }

    /// Ends the recording.
    pub fn take(&self) -> (Vec<Event<R>>, BTreeMap<Site, u64>) {
        let mut state = self.state();
        (
            std::mem::take(&mut state.events),
            std::mem::take(&mut state.sites),
        )
    }
}

/// The storage of one handle in a process.
#[derive(Clone)]
pub struct Recorder<R> {
    tape: Arc<Tape<R>>,
    disk: Arc<Unsynced>,
    dead: Arc<AtomicBool>,
    handle: u64,
}

impl<R> fmt::Debug for Recorder<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Recorder")
    }
}

impl<R: Remark> Recorder<R> {
    /// A process that begins to use the folder of the tape. Those before it are dead.
    pub fn new(tape: &Arc<Tape<R>>) -> Self {
        let mut state = tape.state();
        state.watch = Watch::default();
        state.fuse = None;
        state.fault = None;
        state.failed.clear();
        state.handles += 1;
        let handle = state.handles;
        drop(state);
        Self {
            tape: Arc::clone(tape),
            disk: Unsynced::new(),
            dead: Arc::default(),
            handle,
        }
    }

    /// Another handle of the same process.
    pub fn beside(&self) -> Self {
        let mut state = self.tape.state();
        state.handles += 1;
        Self {
            handle: state.handles,
            ..self.clone()
        }
    }

    /// Kills the process: from here on nothing that it does has an effect.
    pub fn kill(&self) {
        let _state = self.tape.state();
        self.dead.store(true, Ordering::Release);
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// The journal, if the process lives.
    fn alive(&self) -> io::Result<MutexGuard<'_, State<R>>> {
        let state = self.tape.state();
        match self.is_dead() {
            true => Err(io::Error::other("the process was killed")),
            false => Ok(state),
        }
    }

    /// The same for what changes the disk, which a fuse counts.
    fn acting(&self) -> io::Result<MutexGuard<'_, State<R>>> {
        let mut state = self.alive()?;
        match &mut state.fuse {
            Some(0) => {
                self.dead.store(true, Ordering::Release);
                drop(state);
                self.alive()
            }
            Some(left) => {
                *left -= 1;
                Ok(state)
            }
            None => Ok(state),
        }
    }

    /// Whether this sync is the one to fail.
    fn must_fail(&self, inode: Inode) -> io::Result<bool> {
        let mut state = self.alive()?;
        match state.fault.as_mut() {
            Some(0) => {
                state.fault = None;
                state.failed.insert(self.handle);
                state.events.push(Event::SyncFailed { inode });
                Ok(true)
            }
            Some(left) => {
                *left -= 1;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    fn file(
        &self,
        file: Arc<dyn StorageFile>,
        name: String,
        inode: Inode,
        found: bool,
    ) -> Arc<dyn StorageFile> {
        Arc::new(RecorderFile {
            recorder: self.clone(),
            file,
            name,
            inode,
            unsynced_find: AtomicBool::new(found),
        })
    }

    /// Makes a sync that `site` tells, or only says so.
    fn sync(
        &self,
        site: impl FnOnce(&mut Watch) -> Site,
        event: impl FnOnce(usize) -> Event<R>,
    ) -> io::Result<()> {
        let mut state = self.acting()?;
        let site = site(&mut state.watch);
        *state.sites.entry(site).or_default() += 1;
        let covers = state.events.len();
        let meanwhile = state.meanwhile.take_if(|_| site == Site::Commit);
        drop(state);
        // What another thread does meanwhile may or may not be covered, so it is not.
        std::thread::yield_now();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let mut state = self.alive()?;
        if self.tape.lie != Some(site) {
            state.events.push(event(covers));
        }
        Ok(())
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

impl<R: Remark> Storage for Recorder<R> {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.acting()?;
        let file = self.disk.create_new(path)?;
        let name = name(path);
        let inode = state.inodes;
        state.inodes += 1;
        state.names.insert(name.clone(), inode);
        state.watch.create(&name, inode);
        state.events.push(Event::Create {
            name: name.clone(),
            inode,
        });
        Ok(self.file(file, name, inode, false))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.alive()?;
        let file = self.disk.open(path, write)?;
        let name = name(path);
        let inode = state.names.get(&name).copied();
        let inode = inode.ok_or_else(|| io::Error::other(format!("{name} is not on the tape")))?;
        state.watch.open(&name);
        Ok(self.file(file, name, inode, true))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.acting()?;
        self.disk.publish(from, to)?;
        let (from, to) = (name(from), name(to));
        let inode = state.names.remove(&from).unwrap_or_default();
        state.names.insert(to.clone(), inode);
        state.watch.publish();
        state.events.push(Event::Publish { from, to, inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.acting()?;
        self.disk.remove(path)?;
        let name = name(path);
        let inode = state.names.remove(&name).unwrap_or_default();
        state.watch.remove(&name);
        state.events.push(Event::Remove { name, inode });
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.sync(Watch::sync_folder, |covers| Event::SyncFolder { covers })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.alive()?;
        state.watch.exists(&name(path));
        self.disk.exists(path)
    }
}

#[derive(Debug)]
struct RecorderFile<R> {
    recorder: Recorder<R>,
    file: Arc<dyn StorageFile>,
    name: String,
    inode: Inode,
    /// It was found, and not synced since.
    unsynced_find: AtomicBool,
}

impl<R: Remark> StorageFile for RecorderFile<R> {
    fn length(&self) -> io::Result<u64> {
        let _state = self.recorder.alive()?;
        self.file.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let _state = self.recorder.alive()?;
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.recorder.acting()?;
        // A kill in the middle of a longer write leaves the pages before it.
        let most = match state.fuse.is_some() && !is_log(&self.name) {
            true => bytes.len().min(PAGE),
            false => bytes.len(),
        };
        let written = self.file.write_at(&bytes[..most], offset)?;
        let bytes = &bytes[..written];
        let watch = &mut state.watch;
        watch.write(&self.name, self.inode, offset, bytes);
        state.events.push(Event::Write {
            inode: self.inode,
            offset,
            bytes: bytes.into(),
        });
        Ok(written)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.recorder.acting()?;
        self.file.set_length(length)?;
        let inode = self.inode;
        state.events.push(Event::SetLength { inode, length });
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = self.recorder.acting()?;
        self.file.allocate(length)?;
        let inode = self.inode;
        state.events.push(Event::Allocate { inode, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let inode = self.inode;
        if self.recorder.must_fail(inode)? {
            return Err(io::Error::other("the sync failed, as planned"));
        }
        let site = |watch: &mut Watch| {
            if is_log(&self.name) {
                watch.sync_log(inode, self.unsynced_find.swap(false, Ordering::AcqRel))
            } else {
                watch.sync_store(&self.name)
            }
        };
        let event = |covers| Event::Sync { inode, covers };
        self.recorder.sync(site, event)
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        let _state = self.recorder.alive()?;
        self.file.map(offset, length)
    }
}
