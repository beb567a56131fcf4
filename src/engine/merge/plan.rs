//! Plans the result of a merge: its header and layers, and which pages go into which.

use std::path::Path;

use super::fingerprints::check_comparable;
use super::input::Input;
use super::layer_packing::{Group, Part, pack};
use crate::config::options::Options;
use crate::error::{Error, Result};
use crate::file::label::set_label;
use crate::file::superblock::Superblock;
use crate::file::{Header, Layer};
use crate::filter::design::{first_superblock, now, random};
use crate::page::Kind;
use crate::sizing::{Cell, Growth, MAX_LAYERS, PAGE_BITS, Plan, SizingError, expected_rate};

/// How far a sum of rates may exceed its bound because of rounding.
const ROUNDING: f64 = 1e-9;

/// The store to create.
pub(crate) struct Design {
    pub(crate) header: Header,
    pub(crate) superblock: Superblock,
    /// The parts that go into each layer.
    pub(crate) parts: Vec<Vec<Part>>,
}

impl Design {
    pub(crate) fn union(inputs: &[Input], options: &Options, out: &Path) -> Result<Self> {
        check_fit(inputs)?;
        check_labels(inputs)?;
        match inputs[0].header().kind {
            Kind::Scalable => Self::growing(inputs, options, out),
            _ => {
                let least = smallest(inputs).header();
                Self::fixed(inputs, options, out, least, least.bits / PAGE_BITS)
            }
        }
    }

    pub(crate) fn fold(
        inputs: &[Input],
        options: &Options,
        out: &Path,
        factor: u64,
    ) -> Result<Self> {
        let input = &inputs[0];
        let header = input.header();
        if header.kind != Kind::Bloom {
            return Err(Error::WrongKind {
                path: input.path.clone(),
                action: "folded",
                // A store that grows is as large as its keys need.
                expected: "a store of fixed capacity (kind bloom)",
                got: header.kind,
            });
        }
        let pages = header.bits / PAGE_BITS;
        if factor < 2 || !pages.is_multiple_of(factor) {
            return Err(Error::InvalidOption {
                option: "factor",
                expected: format!(
                    "2 or more, and a divisor of {pages}, the number of pages of the store"
                ),
                got: factor.to_string(),
            });
        }
        Self::fixed(inputs, options, out, header, pages / factor)
    }

    /// Designs a store of fixed capacity with `pages` pages that is otherwise like `model`.
    fn fixed(
        inputs: &[Input],
        options: &Options,
        out: &Path,
        model: &Header,
        pages: u64,
    ) -> Result<Self> {
        let fpr = options.fpr.unwrap_or(model.fpr);
        let is_like_model = options.fpr.is_none() && pages * PAGE_BITS == model.bits;
        let capacity = match is_like_model {
            true => model.capacity,
            false => Plan::most_keys(pages, model.probes, fpr)?.capacity,
        };
        let mut header = new_header(inputs, options, model)?;
        header.capacity = capacity;
        header.fpr = fpr;
        header.bits = pages * PAGE_BITS;
        let parts = parts_of(inputs);
        let group = Group {
            pages,
            probes: model.probes,
            capacity,
            fpr,
            keys: parts
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.layer.keys)),
            parts,
        };
        // At least this many keys are in it, and there may be no more.
        let certain = group.parts.iter().map(|part| part.layer.keys).max();
        if expected_rate(certain.unwrap_or(0), pages, model.probes) > fpr {
            return Err(Error::Overfull {
                path: out.to_owned(),
                keys: group.keys,
                expected: fpr,
                got: expected_rate(group.keys, pages, model.probes),
            });
        }
        Ok(Self::of(inputs, header, vec![group]))
    }

    fn growing(inputs: &[Input], options: &Options, out: &Path) -> Result<Self> {
        let model = inputs[0].header();
        let bounds = inputs.iter().map(|input| input.header().fpr);
        let bound = options.fpr.unwrap_or(bounds.fold(0.0, f64::max));
        // The library decides which values a header may have.
        Growth::new(model.capacity, bound, model.growth, model.tightening)?;
        let groups = pack(parts_of(inputs));
        if groups.len() > MAX_LAYERS as usize {
            let index = groups.len() as u32 - 1;
            return Err(SizingError::TooManyLayers { index }.into());
        }
        let mut header = new_header(inputs, options, model)?;
        header.fpr = bound;
        let design = Self::of(inputs, header, groups);
        design.check_bound(out)?;
        Ok(design)
    }

    fn of(inputs: &[Input], mut header: Header, groups: Vec<Group>) -> Self {
        let mut layers: Vec<Layer> = Vec::with_capacity(groups.len());
        let mut parts = Vec::with_capacity(groups.len());
        for group in groups {
            let plan = Plan {
                cell: Cell::Bit,
                capacity: group.capacity,
                pages: group.pages,
                probes: group.probes,
                target: group.fpr,
                fpr: group.fpr,
            };
            layers.push(Layer {
                cell: Cell::Bit,
                keys: group.keys,
                ..Layer::after(layers.last(), &plan)
            });
            // The pages of a layer without keys have no meaning.
            let with_keys = group.parts.into_iter().filter(|part| part.layer.keys > 0);
            parts.push(with_keys.collect());
        }
        let superblock = result_superblock(inputs, &mut header, layers);
        Self {
            header,
            superblock,
            parts,
        }
    }

    /// Checks that the result keeps its bound with the number of keys that its layers record.
    pub(crate) fn check_bound(&self, out: &Path) -> Result<()> {
        let layers = &self.superblock.layers;
        let rate = |layer: &Layer| expected_rate(layer.keys, layer.pages, layer.probes);
        let got = match self.header.kind {
            // Future layers may be wrong at a rate of `bound r^layers` together, and existing layers at their own rate,
            // however full they are now.
            Kind::Scalable => {
                let own: f64 = layers.iter().map(|layer| layer.fpr.max(rate(layer))).sum();
                own / (1.0 - self.header.tightening.powf(layers.len() as f64))
            }
            _ => layers.iter().map(rate).sum(),
        };
        // With no layers at all, this is 0 divided by 0.
        if got.is_nan() || got <= self.header.fpr * (1.0 + ROUNDING) {
            return Ok(());
        }
        Err(Error::Overfull {
            path: out.to_owned(),
            keys: self.superblock.keys(),
            expected: self.header.fpr,
            got,
        })
    }
}

/// Returns the superblock of a result with these layers, and gives it the label that all inputs have.
pub(crate) fn result_superblock(
    inputs: &[Input],
    header: &mut Header,
    layers: Vec<Layer>,
) -> Superblock {
    let mut superblock = first_superblock(layers);
    if let [input] = inputs {
        superblock.commits = input.superblock.commits.clone();
        superblock.commit_sequence = input.superblock.commit_sequence;
    }
    set_label(header, &mut superblock, common_label(inputs));
    superblock
}

/// Returns all layers of the inputs.
fn parts_of(inputs: &[Input]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        for (index, layer) in (0..).zip(&input.superblock.layers) {
            parts.push(Part {
                input: number,
                index,
                layer: *layer,
            });
        }
    }
    parts
}

pub(crate) fn new_header(inputs: &[Input], options: &Options, model: &Header) -> Result<Header> {
    let all = inputs.iter().all(|input| input.header().transactional);
    Ok(Header {
        transactional: options.transactional.unwrap_or(all),
        store_id: random()?,
        created: now(),
        compatible: 0,
        read_only_compatible: 0,
        has_bound_pages: true,
        ..model.clone()
    })
}

/// Refuses inputs that have a key's bits in different places from the first one.
pub(crate) fn check_fit(inputs: &[Input]) -> Result<()> {
    let first = &inputs[0];
    let wrong =
        |input: &Input, other: &Input, field, expected: &dyn ToString, got: &dyn ToString| {
            Err(Error::Mismatch {
                path: input.path.clone(),
                other: other.path.clone(),
                field,
                expected: expected.to_string(),
                got: got.to_string(),
            })
        };
    let model = first.header();
    for input in inputs {
        let own = input.header();
        if own.kind == Kind::Counting {
            return Err(Error::WrongKind {
                path: input.path.clone(),
                action: "merged",
                expected: "stores of kind bloom, scalable or fingerprint",
                got: own.kind,
            });
        }
        if own.kind != model.kind {
            return wrong(input, first, "kind", &model.kind, &own.kind);
        }
        if own.hash != model.hash {
            return wrong(input, first, "hash", &model.hash, &own.hash);
        }
        if own.seed != model.seed {
            // Seeds are never disclosed.
            return wrong(input, first, "seed", &"the other's", &"another");
        }
        if own.probes != model.probes {
            return wrong(input, first, "probes", &model.probes, &own.probes);
        }
    }
    if model.kind == Kind::Fingerprint {
        return check_comparable(inputs);
    }
    let smallest = smallest(inputs);
    // Zero in a store that grows: each of its layers has its own page count.
    let fewest = smallest.header().bits / PAGE_BITS;
    for input in inputs {
        let pages = input.header().bits / PAGE_BITS;
        if fewest > 0 && !pages.is_multiple_of(fewest) {
            let expected = format!("a multiple of {fewest}");
            return wrong(input, smallest, "pages", &expected, &pages);
        }
    }
    Ok(())
}

/// Refuses inputs of different labels, whose keys may mean different things. An input without a label fits all.
pub(crate) fn check_labels(inputs: &[Input]) -> Result<()> {
    let mut labelled = inputs.iter().filter(|input| input.label().is_some());
    let Some(first) = labelled.next() else {
        return Ok(());
    };
    match labelled.find(|input| input.label() != first.label()) {
        Some(other) => Err(Error::Mismatch {
            path: other.path.clone(),
            other: first.path.clone(),
            field: "label",
            expected: shown(first.label()),
            got: shown(other.label()),
        }),
        None => Ok(()),
    }
}

/// Returns the start of a label in a form that a message can hold.
fn shown(label: Option<&[u8]>) -> String {
    const MAX_SHOWN: usize = 80;
    let label = label.unwrap_or_default();
    let more = if label.len() > MAX_SHOWN { "…" } else { "" };
    let start = label[..label.len().min(MAX_SHOWN)].escape_ascii();
    format!("\"{start}\"{more}")
}

/// Returns the label that all inputs have; empty if one of them has none.
fn common_label(inputs: &[Input]) -> &[u8] {
    let label = inputs[0].label().unwrap_or_default();
    match inputs.iter().all(|input| input.label() == Some(label)) {
        true => label,
        false => &[],
    }
}

/// Returns the input with the fewest pages; of several, the first.
fn smallest(inputs: &[Input]) -> &Input {
    let least = inputs.iter().min_by_key(|input| input.header().bits);
    least.unwrap_or(&inputs[0])
}
