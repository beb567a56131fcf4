//! Each error of the library has its code. `tests/c` provokes those that a program can provoke.

use std::io;
use std::sync::Arc;

use everseen::{DeltaError, FormatError, LogError, sizing::SizingError};

use super::*;

/// The codes of the errors that name nothing but a path.
fn of_paths() -> [(Error, Code); 16] {
    let path = Default::default;
    [
        (Error::NotFound { path: path() }, 20),
        (Error::AlreadyExists { path: path() }, 21),
        (Error::EmptyFile { path: path() }, 22),
        (
            Error::Emptied {
                path: path(),
                beside: path(),
            },
            23,
        ),
        (Error::DanglingLink { path: path() }, 24),
        (Error::MissingFolder { path: path() }, 25),
        (Error::IsFolder { path: path() }, 26),
        (Error::NotAFile { path: path() }, 27),
        (Error::InTheWay { path: path() }, 28),
        (Error::LeftoverLog { path: path() }, 29),
        (
            Error::OtherMoment {
                path: path(),
                store: path(),
                generation: 1,
                log_generation: 2,
            },
            30,
        ),
        (
            Error::ManyNames {
                path: path(),
                names: 2,
            },
            31,
        ),
        (Error::OtherName { path: path() }, 32),
        (Error::Moved { path: path() }, 33),
        (Error::Replaced { path: path() }, 34),
        (Error::NoLocks { path: path() }, 62),
    ]
}

/// Those of what the operating system does.
fn of_the_system() -> [(Error, Code); 7] {
    let (path, action) = (Default::default, "write");
    [
        (
            Error::PermissionDenied {
                action,
                path: path(),
            },
            35,
        ),
        (
            Error::ReadOnlyDisk {
                action,
                path: path(),
            },
            36,
        ),
        (
            Error::NameTooLong {
                action,
                path: path(),
            },
            37,
        ),
        (
            Error::NoSpace {
                action,
                path: path(),
            },
            38,
        ),
        (
            Error::NoRoomForBuffer {
                path: path(),
                bytes: 1,
            },
            39,
        ),
        (
            Error::OutOfMemory {
                action,
                path: path(),
                limit: None,
            },
            40,
        ),
        (
            Error::Io {
                action,
                path: path(),
                source: io::Error::other("a broken disk"),
            },
            41,
        ),
    ]
}

/// Those of bytes.
fn of_bytes() -> [(Error, Code); 5] {
    let (path, text) = (Default::default, Default::default);
    [
        (
            Error::OtherLayout {
                path: path(),
                expected: text(),
                got: text(),
            },
            43,
        ),
        (
            Error::Format {
                path: path(),
                source: FormatError::HalfApplied { from: 1, to: 2 },
            },
            44,
        ),
        (
            Error::Log {
                path: path(),
                source: LogError::Header,
            },
            45,
        ),
        (
            Error::SharedMemory {
                path: path(),
                word: "magic",
                expected: text(),
                got: 0,
            },
            46,
        ),
        (
            Error::Delta {
                path: path(),
                source: DeltaError::Missing,
            },
            47,
        ),
    ]
}

/// Those of options, and of what stores can't do.
fn of_stores() -> [(Error, Code); 7] {
    let (path, text) = (Default::default, Default::default);
    [
        (Error::Sizing(SizingError::CapacityZero), 48),
        (
            Error::InvalidOption {
                option: "buffer",
                expected: text(),
                got: text(),
            },
            49,
        ),
        (
            Error::Mismatch {
                path: path(),
                other: path(),
                field: "seed",
                expected: text(),
                got: text(),
            },
            50,
        ),
        (
            Error::WrongKind {
                path: path(),
                action: "remove keys",
                expected: "stores of kind counting",
                got: everseen::Kind::Bloom,
            },
            51,
        ),
        (
            Error::NeverForgets {
                path: path(),
                action: "advance their time",
            },
            52,
        ),
        (
            Error::Overfull {
                path: path(),
                keys: 1,
                expected: 0.1,
                got: 0.2,
            },
            53,
        ),
        (
            Error::KeysInLog {
                path: path(),
                keys: 1,
            },
            54,
        ),
    ]
}

/// Those of handles.
fn of_handles() -> [(Error, Code); 13] {
    let (expected, got, path) = (1, 2, Default::default);
    [
        (Error::ReadOnly, 55),
        (Error::Full { capacity: 1 }, 56),
        (Error::TransactionTooLarge { quota: 1 }, 57),
        (Error::TagTooLarge { expected, got }, 58),
        (Error::TooManyWriters { expected, got }, 59),
        (
            Error::Poisoned {
                cause: Arc::new(Error::Closed),
            },
            60,
        ),
        (Error::Locked { path: path() }, 42),
        (
            Error::Busy {
                path: path(),
                what: "the writer lock",
                process: None,
            },
            61,
        ),
        (Error::TooManyHandles { expected }, 63),
        (Error::Ended, 64),
        (Error::Cancelled, 65),
        (Error::Forked, 66),
        (Error::Closed, 67),
    ]
}

#[test]
fn each_error_has_its_code() {
    let mut seen = Vec::new();
    let all = of_paths().into_iter().chain(of_the_system());
    for (error, code) in all.chain(of_bytes()).chain(of_stores()).chain(of_handles()) {
        assert_eq!(code_of(&error), code, "{error:?}");
        seen.push(code);
    }
    seen.sort_unstable();
    // No number twice, and none left out.
    assert_eq!(seen, (20..=67).collect::<Vec<_>>());
}

/// An error that the library has gained is one of C's, too, and not `EVERSEEN_ERROR_OTHER`.
#[test]
fn the_library_has_no_more_errors() {
    let listing = include_str!("../../../docs/public-api.txt");
    let variants = listing
        .lines()
        .filter_map(|line| line.strip_prefix("Error::"));
    // Without their fields.
    let names = variants.map(|line| line.split('(').next().unwrap_or(line));
    let names = names.filter(|name| !name.contains("::"));
    assert_eq!(names.count(), 48);
}
