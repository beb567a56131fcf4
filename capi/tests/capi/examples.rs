//! The examples run as they are, and print what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    CAPI, Linked, compiled, found, has, installed, pkg_config, run, under_valgrind,
};

fn example(name: &str) -> PathBuf {
    Path::new(CAPI).join("examples").join(name)
}

/// Runs an example twice on one store: the second run goes on where the first one stopped.
fn check(mut command: impl FnMut() -> Command, store: &Path) {
    let words = "apple\nbanana\napple\n";
    let list = store.with_extension("txt");
    std::fs::write(&list, words).unwrap();
    assert_eq!(run(command().arg(store).arg(&list)), "apple\nbanana\n");
    std::fs::write(&list, format!("{words}cherry\nbanana\n")).unwrap();
    assert_eq!(run(command().arg(store).arg(&list)), "cherry\n");
}

#[test]
fn the_example_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let program = |linked| {
        let source = example("c/fresh.c");
        compiled(&["cc", "-std=c99"], &[&source], linked, folder.path())
    };
    let sanitized = program(Linked::StaticSanitized);
    check(|| Command::new(&sanitized), &folder.path().join("1.ever"));
    let shared = program(Linked::Shared);
    check(|| found(&shared), &folder.path().join("2.ever"));
    if has("valgrind", true) {
        check(|| under_valgrind(&shared), &folder.path().join("3.ever"));
    }
}

#[test]
fn the_example_in_cpp() {
    if !has("g++", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for linked in [Linked::Shared, Linked::StaticSanitized] {
        let compiler = ["g++", "-std=c++17", "-Wpedantic"];
        let program = compiled(
            &compiler,
            &[&example("cpp/fresh.cpp")],
            linked,
            folder.path(),
        );
        let store = folder
            .path()
            .join(format!("{}.ever", linked == Linked::Shared));
        check(|| found(&program), &store);
    }
}

#[test]
fn the_example_in_go() {
    if !has("go", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fresh");
    let mut build = Command::new("go");
    build
        .args(["build", "-o"])
        .arg(&program)
        .arg("fresh.go")
        .current_dir(example("go"));
    build.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    build
        .env("GOCACHE", folder.path().join("cache"))
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off");
    run(&mut build);
    check(|| found(&program), &folder.path().join("go.ever"));
}

/// Returns a Java that has the foreign-function API: the one of `JAVA_HOME`, or the first on the path.
fn java() -> Option<PathBuf> {
    let homes = std::env::var_os("JAVA_HOME").into_iter().map(PathBuf::from);
    let homes = homes.chain(
        std::fs::read_dir("/usr/lib/jvm")
            .into_iter()
            .flatten()
            .filter_map(|home| Some(home.ok()?.path())),
    );
    let mut programs = homes
        .map(|home| home.join("bin/java"))
        .chain([PathBuf::from("java")]);
    programs.find(|java| {
        let version = Command::new(java).arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let major = version
            .ok()
            .and_then(|text| text.split([' ', '.']).nth(1)?.parse::<u32>().ok());
        major.is_some_and(|major| major >= 22)
    })
}

#[test]
fn the_example_in_java() {
    let Some(java) = java() else {
        eprintln!("skipped: no Java of version 22 or later is installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let library = installed().join("lib/libeverseen.so.0");
    let command = || {
        let mut command = Command::new(&java);
        command.args([
            "--enable-native-access=ALL-UNNAMED",
            "-XX:TieredStopAtLevel=1",
        ]);
        command.arg("-Deverseen.library=".to_owned() + library.to_str().unwrap());
        command.arg(example("java/Fresh.java"));
        command
    };
    check(command, &folder.path().join("java.ever"));
}

/// What `pkg-config` says is all that a build needs to know.
#[test]
fn pkg_config_names_the_library() {
    let lib = format!("-L{}", installed().join("lib").display());
    assert_eq!(pkg_config(&["--libs"]), [lib, "-leverseen".to_owned()]);
}
