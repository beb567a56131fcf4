//! Rewrites the damaged pages of layers, as a policy says, in place.

use crate::bloom::verify::{LayerScan, Listed};
use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::page::Damage;
use crate::page::PAGE_BYTES;
use crate::sys::storage::write_all_at;

/// Rewrites damaged pages, and makes them durable. The caller keeps checkpoints from running. `generation` is that of the
/// superblock.
pub(crate) fn rewrite_damaged(
    scan: LayerScan<'_>,
    generation: u64,
    on: OnDamage,
) -> Result<Listed> {
    let mut listed = Listed::default();
    let bad = |damage: Damage, _| {
        rewrite(scan, &damage, generation, on)?;
        Ok(listed.add(damage, 1))
    };
    let outcome = scan.for_each_page(|_| Ok(()), bad);
    let outcome = outcome.and_then(|()| match listed.pages.is_empty() {
        true => Ok(()),
        false => scan.file.sync("sync the repaired pages of"),
    });
    scan.shared.window().publish(0..0);
    outcome.map(|()| listed)
}

fn rewrite(scan: LayerScan<'_>, damage: &Damage, generation: u64, on: OnDamage) -> Result<()> {
    let layer = &scan.layers[damage.layer as usize];
    // Behind the layer lie pages that are whole.
    assert!(damage.page < layer.pages, "{damage:?}");
    let number = layer.first_page + damage.page;
    let mut bytes = [0; PAGE_BYTES];
    let header = &scan.file.header;
    let (binding, cell) = (header.binding(), header.kind.cell());
    on.replace(binding, cell, number, generation, &mut bytes);
    // A concurrent reader may see half of it: to that reader the page is as damaged as before.
    scan.shared.window().publish(number..number + 1);
    write_all_at(&*scan.file.raw, &bytes, page_offset(number))
        .map_err(|error| Error::io("repair a page of", &scan.file.place, error))
}
