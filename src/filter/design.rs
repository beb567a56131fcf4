//! The dimensions of a new store: its header, and the superblock that it begins with.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::create_options::CreateOptions;
use crate::config::forget_by::ForgetBy;
use crate::config::template::Template;
use crate::error::{Error, Result};
use crate::file::header::FEATURE_RENEWS;
use crate::file::journal::layer_behind;
use crate::file::superblock::Commits;
use crate::file::{DirectoryRef, Header, Layer, Section, Superblock};
use crate::fingerprint::segment::plan::FingerprintPlan;
use crate::generation::sampling::rarity_for;
use crate::page::ages::Window;
use crate::page::{Kind, PAGE_BYTES};
use crate::sizing::{Growth, PAGE_BITS, Plan};

/// The sequence of the superblock that a store begins with.
const FIRST_SEQUENCE: u64 = 1;

/// Returns the header and superblock of a new store.
pub(crate) fn design(
    options: &CreateOptions,
    like: Option<&Template>,
) -> Result<(Header, Superblock)> {
    if let Some(like) = like {
        return crate::filter::design_like::design(options, like);
    }
    let kind = options.kind_of_new();
    check_limit(options, kind)?;
    let window = window_for(options, kind)?;
    let mut header = Header {
        kind,
        hash: options.hash.unwrap_or_default(),
        transactional: options.transactional.unwrap_or(false),
        probes: 0,
        capacity: 0,
        fpr: 0.0,
        bits: 0,
        seed: options.seed.map_or_else(random, Ok)?,
        store_id: random()?,
        created: now(),
        growth: 0,
        tightening: 0.0,
        window,
        compatible: 0,
        read_only_compatible: features_for_writers(options),
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
            let plan = plan_fingerprints(options, window)?;
            header.capacity = plan.limit;
            header.fpr = options.fpr.unwrap_or(CreateOptions::DEFAULT_FPR);
            header.bits = plan.space.distinct();
        }
    }
    // A header that a reader refuses must not be written.
    assert!(header.capacity > 0 && header.fpr > 0.0 && header.fpr < 1.0);
    let mut superblock = first_superblock(layers);
    superblock.directory = header.space().map(|_| DirectoryRef::empty());
    Ok((header, superblock))
}

/// Returns the features that only writers must know.
fn features_for_writers(options: &CreateOptions) -> u64 {
    match options.forget_by {
        Some(ForgetBy::Last) => FEATURE_RENEWS,
        Some(ForgetBy::First) | None => 0,
    }
}

/// Returns the sample that a measured store begins with; `None` for a kind that counts: a sample knows nothing of removals.
pub(crate) fn first_sample(header: &Header, superblock: &Superblock) -> Result<Option<Section>> {
    if header.kind.counts() {
        return Ok(None);
    }
    let (capacity, pages) = match (header.growth(), superblock.layers.first()) {
        (Some(growth), _) => {
            let plan = growth.layer(0, growth.first)?;
            (plan.capacity, plan.pages)
        }
        (None, Some(layer)) => (layer.capacity, layer.pages),
        (None, None) => (header.capacity, fingerprint_pages(header)),
    };
    assert!(capacity > 0 && pages > 0, "a sample of nothing");
    let rarity = rarity_for(capacity, pages.saturating_mul(PAGE_BYTES as u64));
    Ok(Some(Section::empty_sample(rarity)))
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
        clock: 0,
        earliest: 0,
        runs: None,
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Returns the layer of a new store of fixed capacity.
pub(crate) fn first_layer(kind: Kind, plan: &Plan) -> Layer {
    let layer = match kind {
        Kind::Counting => layer_behind(plan),
        _ => Layer::after(None, plan),
    };
    // The header counts them too.
    assert_eq!(layer.pages * PAGE_BITS, plan.bits());
    layer
}

/// Refuses a transactional store of a kind that can't be transactional.
pub(crate) fn check_transactional(options: &CreateOptions, kind: Kind) -> Result<()> {
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
fn check_limit(options: &CreateOptions, kind: Kind) -> Result<()> {
    match options.grows_to.filter(|_| kind != Kind::Fingerprint) {
        Some(limit) => Err(Error::InvalidOption {
            option: "grows_to",
            expected: format!("none for kind {kind}: only kind fingerprint has a limit to grow to"),
            got: limit.to_string(),
        }),
        None => Ok(()),
    }
}

/// Returns how long a new store remembers its keys; `None` for ever. Only one of fingerprints forgets.
fn window_for(options: &CreateOptions, kind: Kind) -> Result<Option<Window>> {
    match (options.window()?, kind) {
        (Some(window), Kind::Bloom | Kind::Counting | Kind::Scalable) => {
            Err(Error::InvalidOption {
                option: "forget_after",
                expected: format!("none for kind {kind}: only kind fingerprint forgets"),
                got: format!("{:?}", Duration::from_millis(window.milliseconds())),
            })
        }
        (window, _) => Ok(window),
    }
}

fn plan_fixed(options: &CreateOptions, kind: Kind) -> Result<Plan> {
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
        (None, None) => cell.plan_for_rate(capacity, CreateOptions::DEFAULT_FPR)?,
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

fn plan_growing(options: &CreateOptions) -> Result<Growth> {
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
        options
            .capacity
            .unwrap_or(CreateOptions::DEFAULT_FIRST_LAYER),
        options.fpr.unwrap_or(CreateOptions::DEFAULT_FPR),
        options.growth,
        options.tightening,
    )?;
    // A store that could not even create its first layer is refused now, not at its first key.
    growth.layer(0, growth.first)?;
    Ok(growth)
}

/// Returns the limit and the space of a new store of fingerprints.
fn plan_fingerprints(options: &CreateOptions, window: Option<Window>) -> Result<FingerprintPlan> {
    let age_bits = window.map_or(0, Window::age_bits);
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
    let fpr = options.fpr.unwrap_or(CreateOptions::DEFAULT_FPR);
    let limit = match (options.capacity, options.grows_to) {
        (Some(capacity), None) => capacity,
        (None, Some(limit)) => limit,
        (None, None) => {
            let most = (FingerprintPlan::most_keys(fpr) >> age_bits).max(1);
            CreateOptions::DEFAULT_GROWS_TO.min(most)
        }
        (Some(capacity), Some(limit)) => {
            let expected = format!("none beside a limit of {limit}: they are the same");
            return Err(wrong("capacity", &expected, capacity.to_string()));
        }
    };
    let plan = FingerprintPlan::for_rate(limit, fpr)?;
    if plan.space.with_ages(age_bits).is_none() {
        let expected = "fewer steps, fewer keys or a higher rate: ages take bits of 63";
        return Err(wrong("forget_steps", expected, format!("{age_bits} bits")));
    }
    Ok(plan)
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
