//! Plans the layers of a merge, and which pages go into which.

use std::path::Path;

use crate::bloom::layer_packing::{Group, Part, pack};
use crate::error::{Error, Result};
use crate::file::{Header, Layer};
use crate::page::Kind;
use crate::sizing::{Cell, Growth, MAX_LAYERS, PAGE_BITS, Plan, SizingError, expected_rate};
use crate::storefile::still_file::StillFile;

/// How far a sum of rates may exceed its bound because of rounding.
const ROUNDING: f64 = 1e-9;

/// The layers to create.
pub(crate) struct LayerPlan {
    /// That of a store that is merged, with the capacity, the rate and the size of the result.
    pub(crate) header: Header,
    pub(crate) layers: Vec<Layer>,
    /// The parts that go into each layer.
    pub(crate) parts: Vec<Vec<Part>>,
}

impl LayerPlan {
    /// Plans the union of stores that [fit](check_fit). `fpr` is the rate that was asked for.
    pub(crate) fn union(stores: &[StillFile<'_>], fpr: Option<f64>, out: &Path) -> Result<Self> {
        if stores[0].header.kind == Kind::Scalable {
            return Self::growing(stores, fpr, out);
        }
        let least = smallest(stores).header;
        Self::fixed(stores, fpr, out, least, least.bits / PAGE_BITS)
    }

    pub(crate) fn fold(
        store: StillFile<'_>,
        fpr: Option<f64>,
        out: &Path,
        factor: u64,
    ) -> Result<Self> {
        let header = store.header;
        if header.kind != Kind::Bloom {
            return Err(Error::WrongKind {
                path: store.path.to_owned(),
                action: "be folded",
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
        Self::fixed(&[store], fpr, out, header, pages / factor)
    }

    /// Designs a store of fixed capacity with `pages` pages that is otherwise like `model`.
    fn fixed(
        stores: &[StillFile<'_>],
        fpr: Option<f64>,
        out: &Path,
        model: &Header,
        pages: u64,
    ) -> Result<Self> {
        let is_like_model = fpr.is_none() && pages * PAGE_BITS == model.bits;
        let fpr = fpr.unwrap_or(model.fpr);
        let capacity = match is_like_model {
            true => model.capacity,
            false => Plan::most_keys(pages, model.probes, fpr)?.capacity,
        };
        assert!(
            pages > 0 && capacity > 0,
            "{pages} pages for {capacity} keys"
        );
        let header = Header {
            capacity,
            fpr,
            bits: pages * PAGE_BITS,
            ..model.clone()
        };
        let parts = parts_of(stores);
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
        Ok(Self::of(header, vec![group]))
    }

    fn growing(stores: &[StillFile<'_>], fpr: Option<f64>, out: &Path) -> Result<Self> {
        let model = stores[0].header;
        let bounds = stores.iter().map(|store| store.header.fpr);
        let bound = fpr.unwrap_or(bounds.fold(0.0, f64::max));
        // The library decides which values a header may have.
        Growth::new(model.capacity, bound, model.growth, model.tightening)?;
        let groups = pack(parts_of(stores));
        if groups.len() > MAX_LAYERS as usize {
            let index = groups.len() as u32 - 1;
            return Err(SizingError::TooManyLayers { index }.into());
        }
        let header = Header {
            fpr: bound,
            ..model.clone()
        };
        let plan = Self::of(header, groups);
        check_bound(&plan.header, &plan.layers, out)?;
        Ok(plan)
    }

    fn of(header: Header, groups: Vec<Group>) -> Self {
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
        Self {
            header,
            layers,
            parts,
        }
    }
}

/// Checks that the result keeps its bound with the number of keys that its layers record.
pub(crate) fn check_bound(header: &Header, layers: &[Layer], out: &Path) -> Result<()> {
    let rate = |layer: &Layer| expected_rate(layer.keys, layer.pages, layer.probes);
    let got = match header.kind {
        // Future layers may be wrong at a rate of `bound r^layers` together, and existing layers at their own rate,
        // however full they are now.
        Kind::Scalable => {
            let own: f64 = layers.iter().map(|layer| layer.fpr.max(rate(layer))).sum();
            own / (1.0 - header.tightening.powf(layers.len() as f64))
        }
        _ => layers.iter().map(rate).sum(),
    };
    // With no layers at all, this is 0 divided by 0.
    if got.is_nan() || got <= header.fpr * (1.0 + ROUNDING) {
        return Ok(());
    }
    Err(Error::Overfull {
        path: out.to_owned(),
        keys: layers
            .iter()
            .fold(0, |sum, layer| sum.saturating_add(layer.keys)),
        expected: header.fpr,
        got,
    })
}

/// Returns all layers of the inputs.
fn parts_of(stores: &[StillFile<'_>]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        for (index, layer) in (0..).zip(&store.superblock.layers) {
            parts.push(Part {
                input: number,
                index,
                layer: *layer,
            });
        }
    }
    parts
}

/// Refuses stores whose pages can't be folded into those of the smallest one.
pub(crate) fn check_fit(stores: &[StillFile<'_>]) -> Result<()> {
    let smallest = smallest(stores);
    // Zero in a store that grows: each of its layers has its own page count.
    let fewest = smallest.header.bits / PAGE_BITS;
    for store in stores {
        let pages = store.header.bits / PAGE_BITS;
        if fewest > 0 && !pages.is_multiple_of(fewest) {
            return Err(Error::Mismatch {
                path: store.path.to_owned(),
                other: smallest.path.to_owned(),
                field: "pages",
                expected: format!("a multiple of {fewest}"),
                got: pages.to_string(),
            });
        }
    }
    Ok(())
}

/// Returns the store with the fewest pages; of several, the first.
fn smallest<'s, 'a>(stores: &'s [StillFile<'a>]) -> &'s StillFile<'a> {
    let least = stores.iter().min_by_key(|store| store.header.bits);
    least.unwrap_or(&stores[0])
}
