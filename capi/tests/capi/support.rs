//! The installed library, compilers, and programs that they make.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

pub const CAPI: &str = env!("CARGO_MANIFEST_DIR");

/// The library as `scripts/capi` installs it, in a folder of its own that the next run makes again.
static INSTALLED: LazyLock<PathBuf> = LazyLock::new(|| {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    let _ = std::fs::remove_dir_all(&prefix);
    install(&["--prefix".as_ref(), prefix.as_ref()]);
    prefix
});

pub fn installed() -> &'static Path {
    &INSTALLED
}

/// Runs `scripts/capi` on what cargo has built for these tests.
pub fn install(arguments: &[&Path]) {
    let tests = std::env::current_exe().unwrap();
    let script = Path::new(CAPI).join("../scripts/capi");
    run(Command::new(script)
        .args(arguments)
        .arg("--from")
        .arg(tests.parent().unwrap()));
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a command that must succeed and have nothing to complain of, and returns what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "{command:?}: {}\n{printed}{said}",
        output.status
    );
    printed
}

/// Returns whether a tool is there. A run of CI, which installs those that Debian has, may not do without them.
pub fn has(tool: &str, is_debians: bool) -> bool {
    let found = Command::new(tool).arg("--version").output();
    // Go has a command of that name alone.
    let found = found.is_ok_and(|output| output.status.success() || tool == "go");
    assert!(
        found || !is_debians || std::env::var_os("CI").is_none(),
        "{tool} is missing"
    );
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// What `pkg-config` says of the installed library.
pub fn pkg_config(questions: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(questions).arg("everseen");
    command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    run(&mut command)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// How a program is linked with the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Shared,
    /// Into the program, with the sanitizers of addresses and of undefined behaviour.
    StaticSanitized,
}

/// Compiles a program and returns its path in the folder.
pub fn compiled(compiler: &[&str], sources: &[&Path], linked: Linked, folder: &Path) -> PathBuf {
    let program = folder.join(sources[0].file_stem().unwrap());
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o"]);
    command
        .arg(&program)
        .args(sources)
        .args(pkg_config(&["--cflags"]));
    match linked {
        Linked::Shared => {
            command.args(pkg_config(&["--libs"]));
        }
        Linked::StaticSanitized => {
            command
                .arg("-fsanitize=address,undefined")
                .arg("-fno-sanitize-recover=all");
            command.arg(installed().join("lib/libeverseen.a"));
            let system = pkg_config(&["--static", "--libs"]);
            command.args(system.iter().filter(|flag| *flag != "-leverseen"));
        }
    }
    run(&mut command);
    program
}

/// Runs a program under Valgrind, which fails it for each error, and for memory that nothing points to at the end. A
/// child that is killed leaves such memory, so it says nothing of children; the sanitizers do.
pub fn under_valgrind(program: &Path) -> Command {
    let mut command = found("valgrind");
    command.args([
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--child-silent-after-fork=yes",
    ]);
    command.args([
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ]);
    command.env("UNDER_VALGRIND", "1").arg(program);
    command
}

/// A command that finds the shared library.
pub fn found(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed().join("lib"));
    command
}
