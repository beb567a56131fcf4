//! `everseen.h` is what cbindgen makes of the source.

use std::path::Path;

use crate::support::{CAPI, read};

/// The files with C's functions and constants, in the order of the header.
const SOURCES: [&str; 10] = [
    "version", "code", "border", "options", "open", "handle", "key", "batch", "commit", "whole",
];

/// Writes the pointers of C for the types of `border.rs`, for which cbindgen makes a typedef each.
fn with_plain_pointers(text: &str) -> String {
    let is_ours = |name: &str| {
        ["In_", "Out_", "Object_"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    let mut kept = Vec::new();
    let mut pointers = Vec::new();
    for line in text.lines() {
        let typedef = line
            .strip_prefix("typedef ")
            .and_then(|rest| rest.strip_suffix(';'));
        match typedef.and_then(|rest| rest.rsplit_once('*')) {
            Some((to, name)) if is_ours(name) => pointers.push((name, to)),
            _ => kept.push(line),
        }
    }
    // A name may be the beginning of another one.
    pointers.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut text = kept.join("\n");
    for (name, to) in pointers {
        text = text.replace(&format!("{name} "), &format!("{to}*"));
    }
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text + "\n"
}

/// The macros of the version, which the package says.
fn version() -> String {
    let parts = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    let [major, minor, patch] = parts.map(|part| part.parse::<u32>().unwrap());
    format!(
        "\n// The version of this header. `everseen_version` returns that of the library.\n\
         #define EVERSEEN_VERSION \"{}\"\n\
         #define EVERSEEN_VERSION_MAJOR {major}\n\
         #define EVERSEEN_VERSION_MINOR {minor}\n\
         #define EVERSEEN_VERSION_PATCH {patch}\n\
         #define EVERSEEN_VERSION_NUMBER {}",
        env!("CARGO_PKG_VERSION"),
        1_000_000 * major + 1000 * minor + patch
    )
}

fn generated() -> String {
    let folder = Path::new(CAPI);
    let mut config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    config.after_includes = Some(version());
    let builder = SOURCES.iter().fold(
        cbindgen::Builder::new().with_config(config),
        |builder, name| builder.with_src(folder.join(format!("src/{name}.rs"))),
    );
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    with_plain_pointers(&String::from_utf8(text).unwrap())
}

#[test]
fn the_header_is_that_of_the_source() {
    let path = Path::new(CAPI).join("include/everseen.h");
    let generated = generated();
    if std::env::var_os("EVERSEEN_WRITE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    assert!(
        read(&path) == generated,
        "write the header again: see its head"
    );
}
