//! Opening a store.

use std::path::Path;
use std::sync::Arc;

use super::create::beside;
use super::engine::{Engine, Parts};
use super::recover::{self, Recovered};
use super::{Options, Store};
use crate::error::{Error, Result};
use crate::file::layout::{INTENT_OFFSETS, PAGES_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::file::{FormatError, Header, Intent, LayerPages, Superblock, intent};
use crate::page::PAGE_BYTES;
use crate::sys::FileLock;
use crate::sys::storage::{StorageFile, read_exact_at};

/// Header and superblock of a store, checked.
pub(crate) struct Identity {
    pub(crate) header: Header,
    pub(crate) superblock: Superblock,
    /// The newest intent there is.
    pub(crate) intent: Option<Intent>,
}

pub(crate) fn open(options: &Options, path: &Path) -> Result<Store> {
    check_exists(options, path)?;
    let lock_path = beside(path, "-lock");
    let lock = FileLock::try_exclusive(&lock_path)
        .map_err(|error| Error::io("lock", &lock_path, error))?
        .ok_or(Error::Locked { path: lock_path })?;
    open_locked(options, path, lock)
}

pub(crate) fn open_locked(options: &Options, path: &Path, lock: FileLock) -> Result<Store> {
    let (file, identity) = identify(options, path, true)?;
    if identity.header.read_only_compatible != 0 {
        let unknown = identity.header.read_only_compatible;
        return Err(Error::Format {
            path: path.to_owned(),
            source: FormatError::ReadOnlyFeatures { unknown },
        });
    }
    let recovered = recover::recover(options, path, &identity)?;
    assemble(options, path, file, identity, recovered, Some(lock), false)
}

pub(crate) fn open_read_only(options: &Options, path: &Path) -> Result<Store> {
    check_exists(options, path)?;
    let lock_path = beside(path, "-lock");
    let lock = match FileLock::try_shared(&lock_path) {
        Ok(Some(lock)) => Some(lock),
        Ok(None) => return Err(Error::Locked { path: lock_path }),
        // A store that was copied alone has no lock file, and a reader may be unable to make one.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io("lock", &lock_path, error)),
    };
    let (file, identity) = identify(options, path, false)?;
    let recovered = recover::read(options, path, &identity)?;
    assemble(options, path, file, identity, recovered, lock, true)
}

fn check_exists(options: &Options, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    let exists = options.storage.exists(path);
    if !exists.map_err(|error| Error::io("look for", path, error))? {
        return Err(Error::NotFound {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Reads and checks header and superblocks.
pub(crate) fn identify(
    options: &Options,
    path: &Path,
    write: bool,
) -> Result<(Arc<dyn StorageFile>, Identity)> {
    let failed = |error| Error::io("open", path, error);
    let file = options.storage.open(path, write).map_err(failed)?;
    let identity = read_identity(&*file, path)?;
    Ok((file, identity))
}

pub(crate) fn read_identity(file: &dyn StorageFile, path: &Path) -> Result<Identity> {
    let failed = |error| Error::io("read", path, error);
    let wrong = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let length = file.length().map_err(failed)?;
    let mut page = vec![0; length.min(PAGE_BYTES as u64) as usize];
    read_exact_at(file, &mut page, 0).map_err(failed)?;
    let header = Header::decode(&page, length).map_err(wrong)?;
    let read = |slot: usize| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        read_exact_at(file, &mut bytes, SUPERBLOCK_OFFSETS[slot]).map_err(failed)?;
        Ok::<_, Error>(Superblock::decode(&bytes, &header))
    };
    let superblock = match (read(0)?, read(1)?) {
        (Ok(a), Ok(b)) if a.sequence > b.sequence => a,
        (_, Ok(b)) => b,
        (Ok(a), _) => a,
        (Err(a), Err(b)) => return Err(wrong(FormatError::NoSuperblock { a, b })),
    };
    let expected = superblock.end_offset().max(PAGES_OFFSET);
    if length < expected {
        return Err(wrong(FormatError::Truncated {
            expected,
            got: length,
        }));
    }
    let mut newest: Option<Intent> = None;
    for offset in INTENT_OFFSETS {
        let mut bytes = [0; intent::LENGTH];
        read_exact_at(file, &mut bytes, offset).map_err(failed)?;
        if let Some(found) = Intent::decode(&bytes, &header)
            && newest.as_ref().is_none_or(|held| {
                (found.generation, found.sequence) > (held.generation, held.sequence)
            })
        {
            newest = Some(found);
        }
    }
    Ok(Identity {
        header,
        superblock,
        intent: newest,
    })
}

fn assemble(
    options: &Options,
    path: &Path,
    file: Arc<dyn StorageFile>,
    identity: Identity,
    recovered: Recovered,
    file_lock: Option<FileLock>,
    read_only: bool,
) -> Result<Store> {
    let mut layers = Vec::with_capacity(identity.superblock.layers.len());
    for (index, layer) in (0..).zip(&identity.superblock.layers) {
        let mapped = LayerPages::map(index, layer, &*file)
            .map_err(|error| Error::io("map a layer of", path, error))?;
        layers.push(Arc::new(mapped));
    }
    let view = recovered.view(layers);
    let overflow = recovered.overflow;
    let engine = Engine::new(Parts {
        path: path.to_owned(),
        options: options.clone(),
        view,
        writer: recovered.writer,
        frozen: recovered.frozen,
        superblock: identity.superblock,
        header: identity.header,
        file,
        read_only,
        file_lock,
    });
    if !read_only {
        engine.resume(overflow)?;
    }
    Ok(Store { engine })
}
