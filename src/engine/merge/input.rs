//! The stores to merge: opened, checkpointed, and read page by page.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::damage_policy::OnDamage;
use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::checkpoint::run::{Checkpointer, HeldOff};
use crate::engine::open::close::Session;
use crate::engine::open::{handle, read_only};
use crate::engine::read::Reader;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::file::section_hashes::SectionParts;
use crate::file::superblock::Superblock;
use crate::file::{FormatError, Header, Layer};
use crate::page::write_window::check_patiently;
use crate::page::{Binding, Content, PAGE_BYTES, PageFault};
use crate::storefile::still_file::StillFile;
use crate::sys::FileId;
use crate::sys::storage::{Owner, read_exact_at};

/// A store whose pages hold everything that it had acknowledged when the merge began.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    store: Session,
    /// The superblock at the time of opening: the pages hold everything that its commits cover.
    pub(crate) superblock: Superblock,
}

impl Input {
    /// Opens stores, each after a checkpoint.
    ///
    /// All stores are first checkpointed one after another, so that only one at a time takes the memory of a
    /// checkpoint.
    pub(crate) fn open_all(options: &OpenOptions, paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut options = options
            .clone()
            .background(false)
            .exclusive(false)
            .on_damage(OnDamage::Error);
        // No key is accepted, so no store needs a later time than it has recorded.
        options.clock.get_or_insert(SystemTime::UNIX_EPOCH);
        options.check()?;
        for path in paths {
            if let Some(store) = open_writable(&options, path)? {
                Writer::of(&store).checkpoint_logs()?;
                store.close()?;
            }
        }
        paths
            .iter()
            .map(|path| Self::open(&options, path))
            .collect()
    }

    fn open(options: &OpenOptions, path: &Path) -> Result<Self> {
        let (store, superblock) = match open_writable(options, path)? {
            Some(store) => {
                let superblock = store.views.current()?.superblock.clone();
                (store, superblock)
            }
            None => open_unwritable(options, path)?,
        };
        Ok(Self {
            path: path.to_owned(),
            store,
            superblock,
        })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.store.file.header
    }

    /// Returns the store file, as it was at the time of opening.
    pub(crate) fn as_opened(&self) -> StillFile<'_> {
        self.still(&self.superblock)
    }

    fn still<'i>(&'i self, superblock: &'i Superblock) -> StillFile<'i> {
        StillFile {
            file: &*self.store.file.raw,
            path: &self.path,
            header: self.header(),
            superblock,
        }
    }

    /// Returns the newest superblock, unless a process died during a checkpoint that has merged a part of a log.
    fn newest_settled(&self) -> Result<Superblock> {
        let superblock = self.store.file.read_meta()?.superblock;
        match superblock.partly_merged {
            None => Ok(superblock),
            Some(_) => Err(Error::Busy {
                path: self.path.clone(),
                what: "a checkpoint that was interrupted",
                process: None,
            }),
        }
    }

    fn file_id(&self) -> FileId {
        self.store.handle.locks.id()
    }

    pub(crate) fn label(&self) -> Option<&[u8]> {
        self.store.label.as_deref()
    }

    /// Returns the most keys whose bits may be in a layer by now. A checkpoint of the last layer may be running, and
    /// only the buffers know its keys.
    pub(crate) fn most_keys(&self, index: u32) -> Result<u64> {
        let view = self.store.views.current()?;
        let layers = &view.superblock.layers;
        let keys = layers.get(index as usize).map_or(0, |layer| layer.keys);
        drop(view);
        match index as usize + 1 == self.superblock.layers.len() {
            true => Ok(keys.saturating_add(waiting(&self.store)?)),
            false => Ok(keys),
        }
    }

    /// Reads pages of a layer into `bytes` and checks each. A page that is being written has all the bits that it had
    /// before.
    pub(crate) fn read(
        &self,
        index: u32,
        layer: &Layer,
        pages: Range<u64>,
        bytes: &mut [u8],
    ) -> Result<()> {
        // Behind the layer lie pages of another, whose keys have other places.
        assert!(pages.end <= layer.pages, "{pages:?} of {layer:?}");
        assert_eq!(
            bytes.len() as u64,
            (pages.end - pages.start) * PAGE_BYTES as u64
        );
        let engine = &self.store;
        let binding = engine.file.header.binding();
        let read = |number, bytes: &mut [u8]| {
            let read = read_exact_at(&*engine.file.raw, bytes, page_offset(number));
            read.map_err(|error| Error::io("read pages of", &self.path, error))
        };
        read(layer.first_page + pages.start, bytes)?;
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            let number = layer.first_page + page;
            if check(binding, layer, number, bytes).is_ok() {
                continue;
            }
            let mut failed = None;
            let again = || match read(number, bytes) {
                Ok(()) => check(binding, layer, number, bytes),
                // The page is unchanged, so the content returned here does not matter.
                Err(error) => {
                    failed = Some(error);
                    Ok(Content::Blank)
                }
            };
            let checked = check_patiently(engine.shared.window(), number, again);
            if let Some(error) = failed {
                return Err(error);
            }
            if let Err(fault) = checked {
                return Err(engine.file.format_error(FormatError::PageDamaged {
                    layer: index,
                    page,
                    expected: fault.expected,
                    got: fault.got,
                }));
            }
        }
        Ok(())
    }
}

impl Input {
    /// Returns the owner and mode for a store built from these. If the owners differ, the store belongs to the user who
    /// creates it. That user gets the permissions that all of the inputs allow their owner, and other users get none.
    pub(crate) fn common_owner(inputs: &[Self]) -> Result<Option<Owner>> {
        let mut common: Option<Owner> = None;
        let mut alike = true;
        for input in inputs {
            let Some(owner) = input.store.file.owner()? else {
                continue;
            };
            match &mut common {
                None => common = Some(owner),
                Some(common) => {
                    alike &= (common.user, common.group) == (owner.user, owner.group);
                    common.mode &= owner.mode;
                }
            }
        }
        if let Some(common) = &mut common
            && !alike
        {
            common.mode &= 0o700;
        }
        Ok(common)
    }

    /// Returns how many keys are exempt in the store.
    pub(crate) fn exempt(&self) -> Result<u64> {
        let view = self.store.views.current()?;
        Ok(view
            .sections
            .exempt
            .as_ref()
            .map_or(0, |exempt| exempt.count()))
    }

    /// Appends the exemptions in a range of hashes, sorted.
    pub(crate) fn load_exempt(&self, range: RangeInclusive<u64>, out: &mut Vec<u64>) -> Result<()> {
        let view = std::sync::Arc::clone(&*self.store.views.current()?);
        let Some(exempt) = &view.sections.exempt else {
            return Ok(());
        };
        let mut own = Vec::new();
        let load = |hashes: &SectionParts| hashes.load(range.clone(), usize::MAX, &mut own);
        exempt.query(load, ())?;
        out.append(&mut own);
        Ok(())
    }

    /// Returns whether the store answers "seen" for a hash.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool> {
        Reader::of(&self.store).contains(hash)
    }
}

/// Stores in which no checkpoint runs while this is held.
pub(crate) struct StillInputs<'a>(Vec<StillInput<'a>>);

struct StillInput<'a> {
    input: &'a Input,
    /// The newest one.
    superblock: Superblock,
    /// `None` if an input before is the same store, which holds them off already.
    _held_off: Option<HeldOff<'a>>,
}

impl<'a> StillInputs<'a> {
    /// A checkpoint would free the room of segments that are still to be read.
    pub(crate) fn of(inputs: &'a [Input]) -> Result<Self> {
        // In one order for all: two that had one store each would wait for each other.
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        order.sort_by_key(|at| inputs[*at].file_id());
        let mut held: Vec<(usize, StillInput<'a>)> = Vec::with_capacity(inputs.len());
        for at in order {
            let input = &inputs[at];
            let last = held.last().map(|(_, one)| one.input.file_id());
            let held_off = match last == Some(input.file_id()) {
                true => None,
                false => Some(Checkpointer::of(&input.store).hold_off()?),
            };
            let still = StillInput {
                _held_off: held_off,
                superblock: input.newest_settled()?,
                input,
            };
            held.push((at, still));
        }
        held.sort_by_key(|(at, _)| *at);
        Ok(Self(held.into_iter().map(|(_, one)| one).collect()))
    }

    pub(crate) fn files(&self) -> Vec<StillFile<'_>> {
        let held = self.0.iter();
        held.map(|one| one.input.still(&one.superblock)).collect()
    }
}

/// Opens a store for writing. Returns `None` if that is not allowed.
fn open_writable(options: &OpenOptions, path: &Path) -> Result<Option<Session>> {
    match handle::open(options, path) {
        Ok(store) => Ok(Some(store)),
        Err(
            Error::PermissionDenied { .. }
            | Error::ReadOnlyDisk { .. }
            | Error::Format {
                source: FormatError::ReadOnlyFeatures { .. } | FormatError::WornOut { .. },
                ..
            },
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a store that can only be read, and returns its superblock with the commits that its logs have besides.
///
/// # Errors
/// [`Error::KeysInLog`] if its pages don't hold all its keys.
fn open_unwritable(options: &OpenOptions, path: &Path) -> Result<(Session, Superblock)> {
    let store = read_only::open_read_only(options, path)?;
    // Before the keys are counted: a commit that comes later covers keys that may not be in the pages.
    let logged = Writer::of(&store).commits()?;
    match waiting(&store)? {
        0 => {}
        keys => {
            return Err(Error::KeysInLog {
                path: path.to_owned(),
                keys,
            });
        }
    }
    let mut superblock = store.views.current()?.superblock.clone();
    for (writer, commit) in logged {
        let known = superblock.commits.get(&writer);
        if known.is_none_or(|known| known.sequence < commit.sequence) {
            superblock.commit_sequence = superblock.commit_sequence.max(commit.sequence);
            superblock.commits.insert(writer, commit);
        }
    }
    Ok((store, superblock))
}

/// Returns the number of keys that are in logs and buffers but not in the pages.
fn waiting(store: &Engine) -> Result<u64> {
    let view = store.views.current()?;
    let sealed = view.sealed.as_ref();
    let sealed = sealed.filter(|sealed| view.superblock.generation <= sealed.number());
    let keys = sealed.map_or(0, |sealed| sealed.buffer.keys());
    Ok(keys.saturating_add(view.active.buffer.keys()))
}

fn check(binding: Binding, layer: &Layer, number: u64, bytes: &[u8]) -> Result<Content, PageFault> {
    binding.check_in_layer(number, bytes, || layer.all_written)
}
