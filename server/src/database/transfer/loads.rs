//! Loads under way.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everseen::OpenOptions;
use tempfile::NamedTempFile;

use super::dumps::end_of_piece;
use super::{Header, Kind, PREFIX};
use crate::database::{Design, Name};

/// Why a piece is refused.
#[derive(Debug)]
pub enum LoadError {
    /// There is no load of this key under way.
    NotBegun,
    /// It isn't the piece that comes next.
    Place,
    /// It goes beyond what the header says.
    TooLong,
    /// All has come, and isn't what was dumped, or isn't a store of this kind.
    Damaged,
    /// More loads are under way than may be.
    TooMany,
    Io(io::Error),
}

/// What has come of a store.
#[derive(Debug)]
struct Load {
    file: NamedTempFile,
    header: Header,
    received: u64,
    hasher: crc32fast::Hasher,
    used: Instant,
}

/// What a piece brought.
#[derive(Debug)]
pub enum Loaded {
    Part,
    /// All has come and is right: the file is a store.
    Whole(NamedTempFile),
}

type Shared = Arc<Mutex<Option<Load>>>;

/// The loads of all keys.
#[derive(Debug, Default)]
pub struct Loads(Mutex<HashMap<Name, Shared>>);

impl Loads {
    const MOST: usize = 16;
    /// How long one stays without another piece.
    const IDLE: Duration = Duration::from_secs(300);

    fn loads(&self) -> MutexGuard<'_, HashMap<Name, Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a load. One of the same key that is under way is given up.
    pub fn begin(&self, folder: &Path, name: &Name, header: Header) -> Result<(), LoadError> {
        let mut builder = tempfile::Builder::new();
        let name_of_file = format!("{PREFIX}load-");
        // As those of other stores: what the process' mask leaves.
        let permissions = Permissions::from_mode(0o666);
        builder.prefix(&name_of_file).permissions(permissions);
        let mut loads = self.loads();
        if loads.len() >= Self::MOST && !loads.contains_key(name) {
            return Err(LoadError::TooMany);
        }
        let file = builder.tempfile_in(folder).map_err(LoadError::Io)?;
        // Another server on this folder removes those without a lock.
        file.as_file().lock().map_err(LoadError::Io)?;
        let load = Load {
            file,
            header,
            received: 0,
            hasher: crc32fast::Hasher::new(),
            used: Instant::now(),
        };
        loads.insert(name.clone(), Arc::new(Mutex::new(Some(load))));
        Ok(())
    }

    /// Adds a piece, which came with the cursor behind it. The last one ends the load, whether all is right or not.
    pub fn add(
        &self,
        name: &Name,
        cursor: i64,
        piece: &[u8],
        kind: Kind,
    ) -> Result<Loaded, LoadError> {
        let shared = self.loads().get(name).cloned();
        let shared = shared.ok_or(LoadError::NotBegun)?;
        let mut slot = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let load = slot.as_mut().ok_or(LoadError::NotBegun)?;
        if load.header.kind != kind {
            return Err(LoadError::NotBegun);
        }
        let is_whole = load.add(cursor, piece);
        if matches!(
            is_whole,
            Ok(false) | Err(LoadError::Place | LoadError::TooLong)
        ) {
            return is_whole.map(|_| Loaded::Part);
        }
        let load = slot.take().ok_or(LoadError::NotBegun)?;
        let mut loads = self.loads();
        if loads
            .get(name)
            .is_some_and(|other| Arc::ptr_eq(other, &shared))
        {
            loads.remove(name);
        }
        drop(loads);
        is_whole?;
        load.finish().map(Loaded::Whole)
    }

    /// Gives up those that were left.
    pub fn end_idle(&self) {
        self.loads().retain(|_, shared| match shared.try_lock() {
            Ok(load) => load
                .as_ref()
                .is_some_and(|load| load.used.elapsed() < Self::IDLE),
            // Somebody goes on with it now.
            Err(_) => true,
        });
    }
}

impl Load {
    /// Returns whether all has come.
    fn add(&mut self, cursor: i64, piece: &[u8]) -> Result<bool, LoadError> {
        let length = piece.len() as u64;
        let end = end_of_piece(cursor).ok_or(LoadError::Place)?;
        if end.checked_sub(length) != Some(self.received) {
            return Err(LoadError::Place);
        }
        if end > self.header.length {
            return Err(LoadError::TooLong);
        }
        self.file.write_all(piece).map_err(LoadError::Io)?;
        self.hasher.update(piece);
        self.received = end;
        self.used = Instant::now();
        Ok(end == self.header.length)
    }

    /// Checks that all is right: the bytes that were dumped, and a whole store of its kind.
    fn finish(self) -> Result<NamedTempFile, LoadError> {
        if self.hasher.finalize() != self.header.crc {
            return Err(LoadError::Damaged);
        }
        self.file.as_file().sync_all().map_err(LoadError::Io)?;
        // A hostile client can compute a CRC, too.
        let store = OpenOptions::new().open_read_only(self.file.path());
        let store = store.map_err(|_| LoadError::Damaged)?;
        let stats = store.stats().map_err(|_| LoadError::Damaged)?;
        let design = Design::of_store(store.label(), stats.kind);
        let is_kind = match self.header.kind {
            Kind::Bloom => design.is_set(),
            Kind::Cuckoo => design.is_counted(),
        };
        let report = store.verify().map_err(|_| LoadError::Damaged)?;
        match is_kind && report.is_ok() {
            true => Ok(self.file),
            false => Err(LoadError::Damaged),
        }
    }
}
