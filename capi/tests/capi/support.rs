//! Where the package lies, and its files.

use std::path::Path;

pub const CAPI: &str = env!("CARGO_MANIFEST_DIR");

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
