//! The names of the files that a store has beside itself: its own name and a suffix (FORMAT.md, "Files").

use std::ffi::OsStr;

/// Coordination of the handles of an open store.
pub(crate) const SHM: &str = "-shm";
/// The write buffer of a generation, whose number follows.
pub(crate) const BUFFER: &str = "-shm.";
/// A write buffer that is made ahead.
pub(crate) const SPARE_BUFFER: &str = "-shm.spare";
/// A write buffer that is not finished.
pub(crate) const UNFINISHED_BUFFER: &str = "-shm.making";
/// The log of a generation, whose number follows.
pub(crate) const LOG: &str = "-log.";
/// A store that is not finished.
pub(crate) const NEW_STORE: &str = "-new";
/// A copy or a delta that is not finished.
pub(crate) const UNFINISHED_COPY: &str = "-part";
/// What earlier builds lock, in the order in which they lock it (FORMAT.md, "Locks and concurrent readers").
pub(crate) const LEGACY_LOCKS: [&str; 2] = ["-gate", "-lock"];
/// A file of earlier builds for each of their handles, whose number follows.
const LEGACY_HANDLE: &str = "-handle.";

/// Suffixes that are whole.
const PLAIN: [&str; 7] = [
    SHM,
    SPARE_BUFFER,
    UNFINISHED_BUFFER,
    NEW_STORE,
    UNFINISHED_COPY,
    LEGACY_LOCKS[0],
    LEGACY_LOCKS[1],
];

/// Suffixes that a number follows.
const NUMBERED: [&str; 3] = [BUFFER, LOG, LEGACY_HANDLE];

/// Returns whether a store with the file name `store` may create, replace or remove a file with the name `name` beside
/// itself: its logs, its shared memory, and files that it has not finished. Both are names without a folder.
///
/// A program that writes files where stores lie uses this to keep off their names, and one that removes a store to find
/// what goes with it. Looks at names alone, and at nothing on the disk: any file may have such a name. Copies, and logs
/// that a [repair](crate::repair) has set aside, have other names.
///
/// ```
/// use everseen::is_side_file;
///
/// assert!(is_side_file("seen.ever", "seen.ever-log.7"));
/// assert!(!is_side_file("seen.ever", "seen.ever"));
/// assert!(!is_side_file("seen.ever", "seen.ever-2026"));
/// ```
#[must_use]
pub fn is_side_file(store: impl AsRef<OsStr>, name: impl AsRef<OsStr>) -> bool {
    let [store, name] = [store.as_ref(), name.as_ref()].map(OsStr::as_encoded_bytes);
    name.strip_prefix(store).is_some_and(is_suffix)
}

/// Returns whether a suffix is one of those that make a name of a store's file.
pub(crate) fn is_suffix(suffix: &[u8]) -> bool {
    let is_numbered = |begin: &&str| {
        let number = suffix.strip_prefix(begin.as_bytes());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    PLAIN.iter().any(|plain| suffix == plain.as_bytes()) || NUMBERED.iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn which_names_are_a_store_s() {
        let side = [
            "-log.0",
            "-log.17",
            "-shm",
            "-shm.3",
            "-shm.spare",
            "-shm.making",
            "-new",
            "-part",
            "-gate",
            "-lock",
            "-handle.9",
        ];
        for suffix in side {
            let name = format!("seen{suffix}");
            assert!(is_side_file("seen", &name), "{name}");
            assert!(!is_side_file("see", &name), "{name}");
            assert!(!is_side_file("seen-", &name), "{name}");
        }
        for suffix in [
            "",
            "-log",
            "-log.",
            "-log.x",
            "-log.1x",
            "-shm.",
            "-shm.spares",
            "-news",
            "-newer",
            ".new",
            "-log.4-aside",
        ] {
            let name = format!("seen{suffix}");
            assert!(!is_side_file("seen", &name), "{name}");
        }
        let name = OsStr::from_bytes;
        assert!(!is_side_file(name(b"caf\xe9"), name(b"caf\xe8-new")));
        assert!(is_side_file(name(b"caf\xe9"), name(b"caf\xe9-new")));
    }
}
