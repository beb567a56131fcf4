//! An open store, as one handle has it: the parts that the other modules borrow.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod merge;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod recovery_report;
pub(crate) mod view;
pub(crate) mod write;
pub(crate) mod writer_state;

use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;

use crate::config::buffer_growth::SizeRule;
use crate::config::open_options::OpenOptions;
use crate::engine::recovery_report::RecoveryReport;
use crate::engine::view::{View, ViewCell};
use crate::engine::writer_state::WriterState;
use crate::file::label::label_of;
use crate::file::{Header, SectionKind};
use crate::filter::PendingFilter;
use crate::filter::checkpoint::writes_of;
use crate::generation::buffer_pool::BufferPool;
use crate::generation::log_files::LogFiles;
use crate::generation::sampling::{FprSample, Sampling};
use crate::hash::KeyHasher;
use crate::page_io::checkpoint_state::CheckpointState;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::shm::handle::{Access, Handle, Held};
use crate::shm::locks::StoreLocks;
use crate::shm::place::Place;
use crate::shm::store_clock::StoreClock;
use crate::storefile::file_watch::FileWatch;
use crate::storefile::store_file::StoreFile;
use crate::sys::RangeLock;
use crate::sys::storage::StorageFile;

/// An open store. Locks are taken in the order open-close, writer, checkpoint, renewal.
#[derive(Debug)]
pub(crate) struct Engine {
    /// For the checkpoint thread, which must keep the engine alive.
    pub(crate) itself: Weak<Engine>,
    pub(crate) options: OpenOptions,
    pub(crate) hasher: KeyHasher,
    pub(crate) shared: Arc<Coordination>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) file: Arc<StoreFile>,
    pub(crate) logs: LogFiles,
    pub(crate) buffers: BufferPool,
    pub(crate) views: ViewCell,
    pub(crate) writer: WriterState,
    pub(crate) checkpoints: CheckpointState,
    pub(crate) sample: FprSample,
    pub(crate) hints: LookupHints,
    /// The application's bytes that the store was created with.
    pub(crate) label: Option<Vec<u8>>,
    pub(crate) recovery: RecoveryReport,
}

/// Everything that opening has found out.
pub(crate) struct Parts {
    pub(crate) place: Place,
    pub(crate) locks: StoreLocks,
    pub(crate) reading: Option<RangeLock>,
    pub(crate) options: OpenOptions,
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) watch: Option<FileWatch>,
    pub(crate) access: Access,
    pub(crate) handle: u64,
    pub(crate) shared: Coordination,
    pub(crate) view: View,
    pub(crate) held: Option<Held>,
    pub(crate) recovery: RecoveryReport,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { place, access, .. } = parts;
        let sample = parts.view.superblock.section(SectionKind::Sample);
        let sampling = sample.map(|section| Sampling::of(&parts.header, section));
        let label = label_of(&parts.header, &parts.view.superblock.commits);
        let label = label.map(<[u8]>::to_vec);
        let shared = Arc::new(parts.shared);
        let handle = Arc::new(Handle::new(
            parts.locks,
            place.clone(),
            (access, parts.handle),
            Arc::clone(&shared),
            (parts.held, parts.reading),
        ));
        let clock = clock_of(&parts.header, &parts.options, (&shared, access));
        let (opened, shared_words) = ((parts.file, parts.watch), Arc::clone(&shared));
        let file = StoreFile::new(place.clone(), parts.header, opened, shared_words);
        let file = Arc::new(file);
        Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            hasher: KeyHasher::new(file.header.hash, &file.header.seed),
            logs: LogFiles {
                place: place.clone(),
                storage: Arc::clone(&parts.options.storage),
                store_id: file.header.store_id,
                writes: handle.writes(),
            },
            buffers: BufferPool {
                place,
                access,
                shared: Arc::clone(&shared),
                rule: SizeRule::of(&parts.options, writes_of(&file.header)),
                model: file.model,
                makes_ahead: parts.options.background,
                spare: Mutex::default(),
            },
            views: ViewCell {
                cell: ArcSwap::from_pointee(parts.view.with_clock(clock)),
                renewal: Mutex::new(None),
                pending_filter: PendingFilter::none(&parts.options),
                file: Arc::clone(&file),
                handle: Arc::clone(&handle),
                shared: Arc::clone(&shared),
            },
            writer: WriterState::new(access == Access::Shared),
            checkpoints: CheckpointState::default(),
            sample: FprSample {
                sampling,
                noted: Mutex::default(),
            },
            hints: LookupHints::default(),
            label,
            options: parts.options,
            recovery: parts.recovery,
            shared,
            handle,
            file,
        })
    }
}

/// Returns the time of a store that forgets, as a handle has it.
fn clock_of(
    header: &Header,
    options: &OpenOptions,
    (shared, access): (&Arc<Coordination>, Access),
) -> Option<Arc<StoreClock>> {
    // Who watches can't write to what is shared.
    let shared = (Arc::clone(shared), access != Access::Watching);
    let window = header.window?;
    Some(Arc::new(StoreClock::begin(window, shared, options.clock)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Error;
    use crate::testing::Options;

    /// A commit checks for its log after syncing it, and other handles have made progress by then.
    #[test]
    fn a_log_that_another_handle_has_settled_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let options = Options::new().capacity(1000).background(false);
        let [one, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
        one.insert(b"key").unwrap();
        let log = || {
            Arc::clone(
                one.engine
                    .logs
                    .of(&one.engine.views.current().unwrap().active)
                    .unwrap(),
            )
        };
        let checkpointed = log();
        other.checkpoint().unwrap();
        assert!(!checkpointed.path.exists());
        one.engine.handle.check_names(Some(&checkpointed)).unwrap();
        one.insert(b"another key").unwrap();
        let needed = log();
        std::fs::remove_file(&needed.path).unwrap();
        let missed = one.engine.handle.check_names(Some(&needed)).unwrap_err();
        assert!(matches!(missed, Error::Poisoned { .. }), "{missed:?}");
    }
}
