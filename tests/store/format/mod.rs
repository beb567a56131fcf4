//! FORMAT.md and its further pages in docs/format held against the code: tables against real bytes, vectors against real
//! stores, dumps against golden files, and a reader in another language that follows them.
//!
//! Nothing here uses the library's own constants. Where a byte lies is taken from the tables of
//! FORMAT.md, so neither of the two can change alone. `EVERSEEN_BLESS=1` rewrites the blocks in
//! these pages that are generated, and makes golden files that are missing.

mod bound;
mod bytes;
mod counting;
mod delta;
mod doc;
mod fingerprint_reader;
mod fingerprints;
mod forged_segments;
mod golden;
mod golden_dump;
mod golden_fingerprints;
pub(crate) mod log;
mod moments;
pub(crate) mod reader;
mod reader_process;
mod refused;
mod runs;
mod scratch;
mod sections;
mod segment_deltas;
mod segments;
mod snapshot;
mod store_file;
mod tables;
mod vectors;

/// Whether generated parts are to be rewritten instead of compared.
fn bless() -> bool {
    std::env::var_os("EVERSEEN_BLESS").is_some_and(|value| value == "1")
}

/// The hash key of all stores here: `00 01 02 … 1f`, as in FORMAT.md's vectors.
fn seed() -> [u8; 32] {
    std::array::from_fn(|index| index as u8)
}
