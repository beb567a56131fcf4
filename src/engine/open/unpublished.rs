//! Opening a copy that has no name yet, to move keys into its pages.

use std::sync::Arc;

use crate::config::damage_policy::OnDamage;
use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::open::handle::{Arrival, Opening};
use crate::engine::recovery_report::RecoveryReport;
use crate::error::{Error, Result};
use crate::filter::checkpoint::writes_of;
use crate::generation::Generation;
use crate::memtable::Buffer;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Access;
use crate::shm::locks::{Intention, StoreLocks};
use crate::storefile::atomic_file::AtomicFile;
use crate::storefile::meta::read_meta_of;

/// Opens a draft that is a whole store. Its creator holds the open-close lock, so no other handle has it. The engine takes no
/// keys and must not be closed: it has neither buffer nor log, and ends when it is dropped.
pub(crate) fn open_draft(options: &OpenOptions, draft: &AtomicFile) -> Result<Arc<Engine>> {
    let place = &draft.place;
    let (locks, _) = StoreLocks::open_other(place, &draft.temporary, Intention::Write)?;
    let meta = read_meta_of(&*draft.file, place)?;
    let options = options.within(place);
    let options = options.exclusive(true).background(false);
    let options = options.on_damage(OnDamage::Error);
    let failed = |error| Error::io("reserve memory for", place, error);
    let shared = Coordination::private().map_err(failed)?;
    let generation = meta.superblock.generation;
    let numbers = (generation, generation);
    let id = meta.header.store_id;
    let sizes = options.buffer_sizes(writes_of(&meta.header));
    shared.begin(&id, locks.id(), sizes, numbers);
    let buffer = Buffer::private(0, generation).map_err(failed)?;
    let opening = Opening {
        options: &options,
        place,
        locks: &locks,
        file: Arc::clone(&draft.file),
        meta,
    };
    let engine = opening.assemble(Arrival {
        access: Access::Alone,
        handle: 0,
        shared,
        active: Generation::new(buffer),
        sealed: None,
        held: None,
        recovery: RecoveryReport::joined(),
    });
    Ok(engine?)
}
