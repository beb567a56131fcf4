//! A header of any bytes, in a file of any length.
#![no_main]

use everseen::fuzzing;
use everseen_fuzz::forge::{Patch, patch, seal_header};
use everseen_fuzz::stores::{STORE, STORES};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};

#[derive(Debug, Arbitrary)]
struct Input {
    /// Which good header to begin with; none: zeros.
    good: Option<u8>,
    patches: Vec<Patch>,
    /// Whether the checksum is mended.
    seal: bool,
    /// How much of the page there is.
    length: u16,
    file_length: u64,
}

fuzz_target!(|input: Input| {
    let mut page = match input.good {
        Some(number) => {
            let store = &STORES[usize::from(number) % STORES.len()][STORE];
            store[..4096].to_vec()
        }
        None => vec![0; 4096],
    };
    patch(&mut page, 0, &input.patches);
    if input.seal {
        seal_header(&mut page);
    }
    page.truncate(4096_usize.saturating_sub(input.length.into()));
    if let Ok(written) = fuzzing::header(&page, input.file_length) {
        // Each accepted header has but one way to be written.
        assert_eq!(page[..256], written);
        assert!(input.file_length >= 131_072);
    }
});
