//! The programs in `tests/c` check the library from C, each in three ways: as it is, with sanitizers, and under Valgrind.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{CAPI, Linked, compiled, found, has, run, under_valgrind};

const PROGRAMS: [&str; 6] = [
    "errors_border",
    "errors_open",
    "errors_use",
    "handles",
    "keys",
    "whole",
];
const C: [&str; 2] = ["cc", "-std=c11"];

fn source(name: &str) -> PathBuf {
    Path::new(CAPI).join(format!("tests/c/{name}.c"))
}

/// Compiles each program and runs it on a folder of its own, as `how` says.
fn check(linked: Linked, how: impl Fn(&Path) -> Command) {
    for name in PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let stores = folder.path().join("stores");
        std::fs::create_dir(&stores).unwrap();
        let program = compiled(&C, &[&source(name)], linked, folder.path());
        run(how(&program).arg(&stores));
    }
}

#[test]
fn programs_in_c_pass() {
    check(Linked::Shared, |program| found(program));
}

#[test]
fn programs_in_c_pass_with_sanitizers() {
    check(Linked::StaticSanitized, |program| Command::new(program));
}

#[test]
fn programs_in_c_pass_under_valgrind() {
    if !has("valgrind", true) {
        return;
    }
    check(Linked::Shared, under_valgrind);
}

#[test]
fn the_program_in_cpp_passes() {
    if !has("g++", true) {
        return;
    }
    let compiler = ["g++", "-std=c++17", "-Wpedantic"];
    let source = Path::new(CAPI).join("tests/c/handles.cpp");
    for linked in [Linked::Shared, Linked::StaticSanitized] {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled(&compiler, &[&source], linked, folder.path());
        run(found(&program).arg(folder.path()));
    }
}

#[test]
fn sizes_places_and_numbers_are_those_of_the_first_version() {
    let folder = tempfile::tempdir().unwrap();
    compiled(&C, &[&source("abi")], Linked::Shared, folder.path());
}
