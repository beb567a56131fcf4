//! What the shared library exports, and under which name programs look for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{CAPI, installed, read, run};

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = read(&Path::new(CAPI).join("include/everseen.h"));
    let code = header.lines().filter(|line| !line.starts_with("//"));
    let before = code.filter_map(|line| line.split_once('(').map(|(before, _)| before));
    let names = before.filter_map(|before| before.rsplit([' ', '*']).next());
    let names = names.filter(|name| name.starts_with("everseen_"));
    names.map(str::to_owned).collect()
}

fn library() -> std::path::PathBuf {
    installed().join("lib/libeverseen.so")
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let listed = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library()));
    let exported = listed.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (kind, name) = (words.next()?, words.next()?);
        // The version itself is a symbol, too.
        (kind != "A").then(|| name.to_owned())
    });
    let declared = declared();
    assert!(declared.len() >= 50, "{declared:?}");
    let versioned = declared.iter().map(|name| format!("{name}@@EVERSEEN_0.1"));
    assert_eq!(
        exported.collect::<BTreeSet<_>>(),
        versioned.collect::<BTreeSet<_>>()
    );
}

#[test]
fn programs_look_for_the_major_version() {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library()));
    assert!(dynamic.contains("soname: [libeverseen.so.0]"), "{dynamic}");
    // Nothing of Rust's is needed where a program runs.
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let known = ["[libc.so.6]", "[libgcc_s.so.1]", "[libm.so.6]", "[ld-linux"];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
