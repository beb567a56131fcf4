//! A superblock of any bytes, in a store of any kind.
#![no_main]

use everseen::fuzzing;
use everseen_fuzz::forge::{
    Patch, SUPERBLOCK, SUPERBLOCKS, bind_superblock, patch, seal_header, seal_superblock,
};
use everseen_fuzz::stores::{STORE, STORES};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};

#[derive(Debug, Arbitrary)]
struct Input {
    good: u8,
    slot: bool,
    header_patches: Vec<Patch>,
    patches: Vec<Patch>,
    /// Whether the superblock names the header, and the checksums are mended.
    bind: bool,
    seal: bool,
    cut: u16,
}

fuzz_target!(|input: Input| {
    let store = &STORES[usize::from(input.good) % STORES.len()][STORE];
    let mut page = store[..4096].to_vec();
    if !input.header_patches.is_empty() {
        patch(&mut page[..256], 0, &input.header_patches);
        seal_header(&mut page);
    }
    let mut place = store[SUPERBLOCKS[usize::from(input.slot)]..][..SUPERBLOCK].to_vec();
    patch(&mut place, 0, &input.patches);
    place.truncate(SUPERBLOCK.saturating_sub(input.cut.into()));
    if input.bind {
        bind_superblock(&page, &mut place);
    }
    if input.seal {
        seal_superblock(&mut place);
    }
    if let Some(Ok(written)) = fuzzing::superblock(&page, &place) {
        // What an accepted one is written as is accepted, and written the same again.
        let again = fuzzing::superblock(&page, &written);
        assert_eq!(again, Some(Ok(written)));
    }
});
