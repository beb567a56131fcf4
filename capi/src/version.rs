//! Which version of the library a program runs with.

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero in it"),
    };

/// Returns the version of the library that the program runs with, such as "0.1.0". `EVERSEEN_VERSION` is that of the
/// header it was built with.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the same as a number, to be compared with `EVERSEEN_VERSION_NUMBER`: 1,000,000 times the major version, plus
/// 1,000 times the minor version, plus the patch.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_version_number() -> u32 {
    let part = |text: &str| text.parse().unwrap_or(0);
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ]
    .map(part);
    1_000_000 * major + 1000 * minor + patch
}
