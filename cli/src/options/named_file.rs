//! Arguments that name a file.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Takes the name of a file, but not `-`, which stands for standard input where files are read.
pub fn named_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => {
            Err("`-` is standard input or output, and this must be a file; for a file of that name say ./-")
        }
        false => Ok(path),
    })
}
