//! `scripts/capi` puts everything where `pkg-config` says that it is.

use std::path::Path;

use crate::support::{install, installed, pkg_config, read};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn all_files_are_installed() {
    let lib = installed().join("lib");
    let link = |name: &str| std::fs::read_link(lib.join(name)).unwrap();
    assert_eq!(link("libeverseen.so"), Path::new("libeverseen.so.0"));
    assert_eq!(
        link("libeverseen.so.0"),
        Path::new(&format!("libeverseen.so.{VERSION}"))
    );
    for file in [
        "lib/libeverseen.a",
        "include/everseen.h",
        "include/everseen.hpp",
    ] {
        assert!(installed().join(file).is_file(), "{file}");
    }
    assert_eq!(pkg_config(&["--modversion"]), [VERSION]);
}

/// A package is made in one place and used in another.
#[test]
fn a_staged_installation_names_its_final_place() {
    let folder = tempfile::tempdir().unwrap();
    let [stage, prefix, libdir] = [
        folder.path(),
        Path::new("/opt/everseen"),
        Path::new("/opt/everseen/lib64"),
    ];
    let flag = Path::new;
    install(&[
        flag("--prefix"),
        prefix,
        flag("--libdir"),
        libdir,
        flag("--destdir"),
        stage,
    ]);
    let lib = stage.join("opt/everseen/lib64");
    assert!(lib.join("libeverseen.so").is_file());
    let said = read(&lib.join("pkgconfig/everseen.pc"));
    assert!(said.contains("libdir=/opt/everseen/lib64\n"), "{said}");
    assert!(!said.contains(&*stage.to_string_lossy()), "{said}");
}
