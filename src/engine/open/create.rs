//! Creating a store: under a temporary name, then published in one step.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::options::Options;
use crate::config::options::{DEFAULT_FIRST_LAYER, DEFAULT_FPR, DEFAULT_GROWS_TO};
use crate::engine::open::session::Session;
use crate::error::{Error, Result};
use crate::file::draft_mark;
use crate::file::journal::layer_behind;
use crate::file::label::set_label;
use crate::file::layout::{HEADER_OFFSET, PAGES_OFFSET};
use crate::file::superblock::Commits;
use crate::file::{DirectoryRef, Header, Layer, Section, Superblock};
use crate::fingerprint::segment::plan::FingerprintPlan;
use crate::generation::sampling::rarity_for;
use crate::page::{Kind, PAGE_BYTES};
use crate::shm::place::Place;
use crate::shm::shm_files::clear_shared_memory;
use crate::shm::shm_files::refuse_used;
use crate::sizing::{Growth, Plan};
use crate::storefile::atomic_file::{AtomicFile, STORE};
use crate::sys::storage::{Owner, StorageFile, write_all_at};
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::log_path;

/// The sequence of the superblock that a store begins with.
const FIRST_SEQUENCE: u64 = 1;

pub(crate) fn create(options: &Options, path: &Path) -> Result<Session> {
    let (mut header, mut superblock) = design(options)?;
    set_label(&mut header, &mut superblock, options.new_label());
    // A sample knows nothing of removals.
    if options.is_measured() && header.kind != Kind::Counting {
        let sample = sample_for(&header, &superblock)?;
        superblock.sections.push(sample);
    }
    make(options, path, None, |draft| {
        begin(draft, &superblock)?;
        finish(&*draft.file, &draft.temporary, &header, &superblock)
    })
}

/// Creates a store with `write`, which writes and syncs all of it, and opens it. `owner` is the owner of the stores it
/// is built from.
pub(crate) fn make(
    options: &Options,
    path: &Path,
    owner: Option<Owner>,
    write: impl FnOnce(&AtomicFile) -> Result<()>,
) -> Result<Session> {
    let draft = AtomicFile::begin(options, path, STORE, owner)?;
    clear_leftovers(&draft.place)?;
    write(&draft)?;
    let (undo, place) = (draft.undoing(), draft.place.clone());
    let gate = draft.name()?;
    // Opening makes the name durable, as it does with a name that a killed creator left.
    let opened = crate::engine::open::handle::open_inside(options, &place, &gate);
    if opened.is_err() {
        // After an error there is no store. The open/close lock is still held, so no other handle has seen it.
        undo();
    }
    Ok(opened?)
}

/// Makes sure that nothing beside a new store can be taken for its own. Removes leftovers of an earlier store of that
/// name that no longer matter, and refuses those that may matter.
fn clear_leftovers(place: &Place) -> Result<()> {
    // Check this first: handles of a store that was moved away may still use all of it.
    refuse_used(place)?;
    let mut blank = Vec::new();
    for number in place.numbers("-log.")? {
        let path = log_path(place, number);
        let failed = |error| Error::io("look at", &path, error);
        if !place.is_ours(&path, number)? {
            continue;
        }
        if has_records(place, &path).map_err(failed)? {
            return Err(Error::LeftoverLog { path });
        }
        blank.push(path);
    }
    for path in blank {
        let removed = place.folder().remove(&path);
        removed.map_err(|error| Error::io("remove a log without a record", &path, error))?;
    }
    clear_shared_memory(place, None)
}

/// Returns whether anything was ever appended to a log, whatever store it belongs to.
fn has_records(place: &Place, path: &Path) -> std::io::Result<bool> {
    let file = place.folder().open_file(path, false)?;
    let mut first = Vec::new();
    let mut rest = &file;
    std::io::Seek::seek(&mut rest, std::io::SeekFrom::Start(RECORDS_OFFSET))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(rest, 64), &mut first)?;
    Ok(first.iter().any(|byte| *byte != 0))
}

/// Extends a store's file to the length that its layers need.
pub(crate) fn begin(draft: &AtomicFile, superblock: &Superblock) -> Result<()> {
    // Pages take space only when first written, so a store sized for years to come is small at first.
    let length = superblock.end_offset().max(PAGES_OFFSET);
    let set = draft.file.set_length(length);
    set.map_err(|error| Error::io(STORE.action, &draft.temporary, error))
}

/// Writes the mark of a draft, superblock and header. All else is durable before the header is written, which makes the file a store; the header
/// itself is durable once the draft has its name.
pub(crate) fn finish(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
    superblock: &Superblock,
) -> Result<()> {
    draft_mark::set(file, &header.store_id)
        .map_err(|error| Error::io(STORE.action, path, error))?;
    crate::storefile::store_file::write_superblock(file, path, header, superblock)?;
    write_all_at(file, &header.encode(), HEADER_OFFSET)
        .map_err(|error| Error::io("create the store", path, error))
}

/// Returns the header and superblock of a new store.
fn design(options: &Options) -> Result<(Header, Superblock)> {
    if let Some(like) = &options.like {
        return crate::engine::open::like::design(options, like);
    }
    let kind = options.kind_of_new();
    check_limit(options, kind)?;
    let mut header = Header {
        kind,
        hash: options.hash.unwrap_or_default(),
        transactional: options.transactional.unwrap_or(false),
        probes: 0,
        capacity: 0,
        fpr: 0.0,
        bits: 0,
        seed: match options.seed {
            Some(seed) => seed,
            None => random()?,
        },
        store_id: random()?,
        created: now(),
        growth: 0,
        tightening: 0.0,
        compatible: 0,
        read_only_compatible: 0,
        locks_itself: true,
        has_bound_pages: true,
    };
    let mut layers = Vec::new();
    match kind {
        Kind::Bloom | Kind::Counting => {
            check_transactional(options, kind)?;
            let plan = plan_fixed(options, kind)?;
            header.probes = plan.probes;
            header.capacity = plan.capacity;
            header.fpr = plan.target;
            header.bits = plan.bits();
            layers.push(first_layer(kind, &plan));
        }
        Kind::Scalable => {
            let growth = plan_growing(options)?;
            header.capacity = growth.first;
            header.fpr = growth.fpr;
            header.growth = growth.factor;
            header.tightening = growth.tightening;
        }
        Kind::Fingerprint => {
            let plan = plan_fingerprints(options)?;
            header.capacity = plan.limit;
            header.fpr = options.fpr.unwrap_or(DEFAULT_FPR);
            header.bits = plan.space.count();
        }
    }
    let mut superblock = first_superblock(layers);
    superblock.directory = header.space().map(|_| DirectoryRef::empty());
    Ok((header, superblock))
}

/// Returns the sample that a measured store begins with.
fn sample_for(header: &Header, superblock: &Superblock) -> Result<Section> {
    let (capacity, pages) = match (header.growth(), superblock.layers.first()) {
        (Some(growth), _) => {
            let plan = growth.layer(0, growth.first)?;
            (plan.capacity, plan.pages)
        }
        (None, Some(layer)) => (layer.capacity, layer.pages),
        (None, None) => (header.capacity, fingerprint_pages(header)),
    };
    let rarity = rarity_for(capacity, pages.saturating_mul(PAGE_BYTES as u64));
    Ok(Section::empty_sample(rarity))
}

/// Returns the superblock that a store begins with.
pub(crate) fn first_superblock(layers: Vec<Layer>) -> Superblock {
    Superblock {
        sequence: FIRST_SEQUENCE,
        generation: 1,
        log_expected: false,
        commit_sequence: 0,
        layers,
        directory: None,
        partly_merged: None,
        sections: Vec::new(),
        commits: Commits::new(),
        moment: 0,
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Returns the layer of a new store of fixed capacity.
pub(crate) fn first_layer(kind: Kind, plan: &Plan) -> Layer {
    match kind {
        Kind::Counting => layer_behind(plan),
        _ => Layer::after(None, plan),
    }
}

/// Refuses a transactional store of a kind that can't be transactional.
pub(crate) fn check_transactional(options: &Options, kind: Kind) -> Result<()> {
    if kind == Kind::Counting && options.transactional == Some(true) {
        return Err(Error::InvalidOption {
            option: "transactional",
            expected: "no for kind counting: one handle can't give up a key that two have counted"
                .to_owned(),
            got: "yes".to_owned(),
        });
    }
    Ok(())
}

/// Refuses a limit to grow to for the kinds that have none.
fn check_limit(options: &Options, kind: Kind) -> Result<()> {
    match options.grows_to.filter(|_| kind != Kind::Fingerprint) {
        Some(limit) => Err(Error::InvalidOption {
            option: "grows_to",
            expected: format!("none for kind {kind}: only kind fingerprint has a limit to grow to"),
            got: limit.to_string(),
        }),
        None => Ok(()),
    }
}

fn plan_fixed(options: &Options, kind: Kind) -> Result<Plan> {
    let missing = || {
        Error::InvalidOption {
        option: "capacity",
        expected: match kind {
            Kind::Counting => "a number of keys for kind counting, which can't grow: removing a key from the wrong \
                               layer would damage others"
                .to_owned(),
            _ => "a number of keys for kind bloom; kinds fingerprint and scalable grow without one".to_owned(),
        },
        got: "none".to_owned(),
    }
    };
    let capacity = options.capacity.ok_or_else(missing)?;
    let cell = kind.cell();
    let plan = match (options.fpr, options.bits_per_key) {
        (Some(rate), None) => cell.plan_for_rate(capacity, rate)?,
        (None, None) => cell.plan_for_rate(capacity, DEFAULT_FPR)?,
        (None, Some(bits)) => cell.plan_for_bits_per_key(capacity, bits)?,
        (Some(rate), Some(bits)) => {
            return Err(Error::InvalidOption {
                option: "bits_per_key",
                expected: format!("none beside a rate of {rate}: one follows from the other"),
                got: bits.to_string(),
            });
        }
    };
    Ok(plan.foldable(options.foldable)?)
}

fn plan_growing(options: &Options) -> Result<Growth> {
    if options.foldable > 0 {
        return Err(Error::InvalidOption {
            option: "foldable",
            expected: "none for kind scalable, whose layers are as large as their keys need"
                .to_owned(),
            got: options.foldable.to_string(),
        });
    }
    if let Some(bits) = options.bits_per_key {
        return Err(Error::InvalidOption {
            option: "bits_per_key",
            expected: "a rate for kind scalable, whose layers differ in bits a key".to_owned(),
            got: bits.to_string(),
        });
    }
    let growth = Growth::new(
        options.capacity.unwrap_or(DEFAULT_FIRST_LAYER),
        options.fpr.unwrap_or(DEFAULT_FPR),
        options.growth,
        options.tightening,
    )?;
    // A store that could not even create its first layer is refused now, not at its first key.
    growth.layer(0, growth.first)?;
    Ok(growth)
}

/// Returns the limit and the space of a new store of fingerprints.
fn plan_fingerprints(options: &Options) -> Result<FingerprintPlan> {
    let wrong = |option, expected: &str, got: String| Error::InvalidOption {
        option,
        expected: expected.to_owned(),
        got,
    };
    if options.foldable > 0 {
        let expected = "none for kind fingerprint, which follows its keys";
        return Err(wrong("foldable", expected, options.foldable.to_string()));
    }
    if let Some(bits) = options.bits_per_key {
        let expected = "a rate for kind fingerprint, from which bits a key follow";
        return Err(wrong("bits_per_key", expected, bits.to_string()));
    }
    let fpr = options.fpr.unwrap_or(DEFAULT_FPR);
    let limit = match (options.capacity, options.grows_to) {
        (Some(capacity), None) => capacity,
        (None, Some(limit)) => limit,
        (None, None) => DEFAULT_GROWS_TO.min(FingerprintPlan::most_keys(fpr)),
        (Some(capacity), Some(limit)) => {
            let expected = format!("none beside a limit of {limit}: they are the same");
            return Err(wrong("capacity", &expected, capacity.to_string()));
        }
    };
    Ok(FingerprintPlan::for_rate(limit, fpr)?)
}

/// Returns how many pages a full store of fingerprints has.
fn fingerprint_pages(header: &Header) -> u64 {
    let plan = header.space().map(|space| FingerprintPlan {
        limit: header.capacity,
        space,
    });
    plan.map_or(1, |plan| plan.pages(plan.limit))
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::io(
            "draw random bytes from",
            Path::new("the operating system"),
            error.into(),
        )
    })?;
    Ok(bytes)
}
