//! What merging asks of the pages, by kind.

use crate::bloom::layer_merge;
use crate::error::{Error, Result};
use crate::fingerprint::set_algebra::check_comparable;
use crate::page::Kind;
use crate::storefile::still_file::StillFile;

pub(crate) use crate::bloom::layer_merge::{LayerPlan, check_bound};
pub(crate) use crate::bloom::layer_packing::Part;
pub(crate) use crate::bloom::united_layer::UnitedLayer;
pub(crate) use crate::fingerprint::set_algebra::{
    SetMerge, SetOperation, check_limit, common_time, rate_of, set_rate,
};

/// Refuses a store of a kind that can't be merged.
pub(crate) fn expect_mergeable(store: StillFile<'_>) -> Result<()> {
    match store.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Fingerprint => Ok(()),
        kind @ Kind::Counting => Err(Error::WrongKind {
            path: store.path.to_owned(),
            action: "be merged",
            expected: "stores of kind bloom, scalable or fingerprint",
            got: kind,
        }),
    }
}

/// Refuses stores of one kind whose pages don't fit together.
pub(crate) fn check_fit(stores: &[StillFile<'_>]) -> Result<()> {
    // The first one's kind speaks for all.
    assert!(
        stores
            .iter()
            .all(|store| store.header.kind == stores[0].header.kind)
    );
    match stores[0].header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => layer_merge::check_fit(stores),
        Kind::Fingerprint => check_comparable(stores),
    }
}
