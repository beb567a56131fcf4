//! Making a store: under a temporary name, then published in one step.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::locks::{Gate, Presence};
use super::options::{DEFAULT_FIRST_LAYER, DEFAULT_FPR};
use super::sampling::rarity_for;
use super::{Options, Store};
use crate::error::{Error, Result};
use crate::file::journal::layer_behind;
use crate::file::layout::{HEADER_OFFSET, PAGES_OFFSET};
use crate::file::superblock::Commits;
use crate::file::{Header, Layer, Section, Superblock};
use crate::page::{Kind, PAGE_BYTES};
use crate::sizing::{Growth, Plan};
use crate::sys::storage::{StorageFile, write_all_at};

/// The name of one of the files beside the store at `path`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

pub(crate) fn create(options: &Options, path: &Path) -> Result<Store> {
    let (header, mut superblock) = design(options)?;
    // A sample knows of no removals.
    if options.measured && header.kind != Kind::Counting {
        let sample = sample_for(&header, &superblock)?;
        superblock.sections.push(sample);
    }
    make(options, path, |temporary| {
        let file = begin(options, temporary, &superblock)?;
        finish(&*file, temporary, &header, &superblock)
    })
}

/// Makes a store with `write`, which writes and syncs all of it under the name that it is given, and
/// opens it.
pub(crate) fn make(
    options: &Options,
    path: &Path,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<Store> {
    let storage = &*options.storage;
    check_place(options, path)?;
    let gate = Gate::enter(path, true, options.timeout)?;
    // Again, now that nobody else can be making it.
    refuse_existing(options, path)?;
    let Some(alone) = Presence::alone(path)? else {
        // Somebody has a store of this name open that was removed meanwhile.
        return Err(Error::Locked {
            path: beside(path, "-lock"),
        });
    };
    let temporary = beside(path, "-new");
    let failed = |error| Error::io("make the store", &temporary, error);
    if storage.exists(&temporary).map_err(failed)? {
        // Left by a crash: whoever was making it is gone, since the lock is ours.
        storage.remove(&temporary).map_err(failed)?;
    }
    let made = write(&temporary).and_then(|()| {
        let published = storage.publish(&temporary, path);
        published.map_err(|error| Error::io("give its name to the new store", path, error))
    });
    if let Err(error) = made {
        let _ = storage.remove(&temporary);
        return Err(error);
    }
    drop(alone);
    // Opening makes the name durable, as it does with one that a killed maker left.
    let opened = super::open::open_inside(options, path, &gate);
    if opened.is_err() {
        // After an error there is no store. The gate is still ours: nobody has seen it.
        let _ = storage.remove(path);
    }
    opened
}

/// The folder that a file is in, or is to be.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Refuses a path where nothing can be made.
pub(crate) fn check_place(options: &Options, path: &Path) -> Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::MissingFolder {
            path: folder.to_owned(),
        });
    }
    refuse_existing(options, path)?;
    if !crate::sys::may_make_in(folder) {
        return Err(Error::PermissionDenied {
            action: "make a file in",
            path: folder.to_owned(),
        });
    }
    Ok(())
}

fn refuse_existing(options: &Options, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    refuse_dangling(path)?;
    let exists = options.storage.exists(path);
    if exists.map_err(|error| Error::io("look for", path, error))? {
        return Err(Error::AlreadyExists {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Refuses a link that leads nowhere: it is no store, and nothing can be made under its name.
pub(crate) fn refuse_dangling(path: &Path) -> Result<()> {
    // `exists` follows links.
    match path.is_symlink() && matches!(path.try_exists(), Ok(false)) {
        true => Err(Error::DanglingLink {
            path: path.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Makes a store's file, as long as its layers need.
pub(crate) fn begin(
    options: &Options,
    path: &Path,
    superblock: &Superblock,
) -> Result<Arc<dyn StorageFile>> {
    let failed = |error| Error::io("make the store", path, error);
    let file = options.storage.create_new(path).map_err(failed)?;
    // Room is taken as pages are first written: a store made for years to come is small at first.
    let length = superblock.end_offset().max(PAGES_OFFSET);
    file.set_length(length).map_err(failed)?;
    Ok(file)
}

/// Writes header and superblock, and makes durable all that is in the file.
pub(crate) fn finish(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
    superblock: &Superblock,
) -> Result<()> {
    write_all_at(file, &header.encode(), HEADER_OFFSET)
        .map_err(|error| Error::io("make the store", path, error))?;
    super::engine::write_superblock(file, path, header, superblock)
}

/// What header and superblock of a new store say.
fn design(options: &Options) -> Result<(Header, Superblock)> {
    if let Some(like) = &options.like {
        return super::like::design(options, like);
    }
    let kind = options.kind.unwrap_or(match options.capacity {
        Some(_) => Kind::Bloom,
        None => Kind::Scalable,
    });
    let mut header = Header {
        kind,
        hash: options.hash,
        transactional: options.transactional,
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
    };
    let mut layers = Vec::new();
    match kind {
        Kind::Bloom | Kind::Counting => {
            check_fixed(options, kind)?;
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
    }
    Ok((header, first_superblock(layers)))
}

/// The sample with which a store begins that is to be measured.
fn sample_for(header: &Header, superblock: &Superblock) -> Result<Section> {
    let (capacity, pages) = match (header.growth(), superblock.layers.first()) {
        (Some(growth), _) => {
            let plan = growth.layer(0, growth.first)?;
            (plan.capacity, plan.pages)
        }
        (None, Some(layer)) => (layer.capacity, layer.pages),
        (None, None) => (header.capacity, 1),
    };
    let rarity = rarity_for(capacity, pages.saturating_mul(PAGE_BYTES as u64));
    Ok(Section::empty_sample(rarity))
}

/// The superblock with which a store begins.
pub(crate) fn first_superblock(layers: Vec<Layer>) -> Superblock {
    Superblock {
        sequence: 1,
        generation: 1,
        log_expected: false,
        commit_sequence: 0,
        layers,
        sections: Vec::new(),
        commits: Commits::new(),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The layer of a new store of fixed capacity.
pub(crate) fn first_layer(kind: Kind, plan: &Plan) -> Layer {
    match kind {
        Kind::Counting => layer_behind(plan),
        Kind::Bloom | Kind::Scalable => Layer::after(None, plan),
    }
}

/// Refuses what a store of fixed capacity can't be.
fn check_fixed(options: &Options, kind: Kind) -> Result<()> {
    if kind == Kind::Counting && options.transactional {
        return Err(Error::InvalidOption {
            option: "transactional",
            expected:
                "no for kind counting: a key that two handles count is not one handle's to give up"
                    .to_owned(),
            got: "yes".to_owned(),
        });
    }
    Ok(())
}

fn plan_fixed(options: &Options, kind: Kind) -> Result<Plan> {
    let missing = || {
        Error::InvalidOption {
        option: "capacity",
        expected: match kind {
            Kind::Counting => "a number of keys for kind counting, which can't grow: what is removed from the wrong \
                               layer is lost to other keys"
                .to_owned(),
            _ => "a number of keys for kind bloom; kind scalable grows without one".to_owned(),
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
    // A store that could not even make its first layer is refused now, not at its first key.
    growth.layer(0, growth.first)?;
    Ok(growth)
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
