//! Who may come in, and what each may do: a small file of names, rights and hashes of passwords.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::commands::Rights;

const HASH_BYTES: usize = 32;

/// The users of a server. Without a file, everybody who reaches it may do everything.
#[derive(Debug, Default)]
pub struct Users(Option<HashMap<Vec<u8>, User>>);

#[derive(Debug)]
struct User {
    rights: Rights,
    /// Of the password, by SHA-256.
    hash: [u8; HASH_BYTES],
}

/// Why a file of users is none.
#[derive(Debug, Error)]
pub enum UsersError {
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{path}, line {number}: {what}; a line is NAME RIGHTS HASH, where RIGHTS is read, write or admin, and HASH the SHA-256 of the password in hexadecimal digits",
        path = path.display()
    )]
    Line {
        path: PathBuf,
        number: usize,
        what: &'static str,
    },
}

impl Users {
    /// Reads a file of users. Empty lines say nothing, nor do those that begin with `#`.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let text = fs::read_to_string(path).map_err(|source| UsersError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut users = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |what| UsersError::Line {
                path: path.to_owned(),
                number,
                what,
            };
            let (name, user) = user_of(line).map_err(fault)?;
            if users.insert(name, user).is_some() {
                return Err(fault("this name has a line already"));
            }
        }
        Ok(Users(Some(users)))
    }

    /// Returns whether everybody must say who they are.
    pub fn are_asked(&self) -> bool {
        self.0.is_some()
    }

    /// Returns what somebody may do who says nothing.
    pub fn of_strangers(&self) -> Option<Rights> {
        match self.are_asked() {
            true => None,
            false => Some(Rights::Admin),
        }
    }

    /// Returns what a user may do whose password this is.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Rights> {
        let user = self.0.as_ref()?.get(name);
        // An unknown name takes as long.
        let hash = user.map_or(&[0; HASH_BYTES], |user| &user.hash);
        let given: [u8; HASH_BYTES] = Sha256::digest(password).into();
        let difference = hash.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        user.filter(|_| difference == 0).map(|user| user.rights)
    }
}

fn user_of(line: &str) -> Result<(Vec<u8>, User), &'static str> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[name, rights, hash] = words.as_slice() else {
        return Err("not three words");
    };
    let rights = match rights {
        "read" => Rights::Read,
        "write" => Rights::Write,
        "admin" => Rights::Admin,
        _ => return Err("unknown rights"),
    };
    let hash = hash_of(hash).ok_or("not a hash of 64 hexadecimal digits")?;
    Ok((name.as_bytes().to_vec(), User { rights, hash }))
}

fn hash_of(digits: &str) -> Option<[u8; HASH_BYTES]> {
    if digits.len() != 2 * HASH_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; HASH_BYTES];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Users, UsersError};
    use crate::commands::Rights;

    /// Of "secret", as `sha256sum` prints it.
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    fn read(text: &str) -> Result<Users, UsersError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, text).unwrap();
        Users::read(&path)
    }

    #[test]
    fn a_password_opens_what_its_line_says() {
        let text = format!("# comment\n\nreader read {SECRET}\ndefault admin {SECRET}\n");
        let users = read(&text).unwrap();
        assert!(users.are_asked());
        assert_eq!(users.of_strangers(), None);
        assert_eq!(users.authenticate(b"reader", b"secret"), Some(Rights::Read));
        assert_eq!(
            users.authenticate(b"default", b"secret"),
            Some(Rights::Admin)
        );
        for (name, password) in [
            (&b"reader"[..], &b"Secret"[..]),
            (b"reader", b""),
            (b"nobody", b"secret"),
            (b"", b"secret"),
        ] {
            assert_eq!(users.authenticate(name, password), None);
        }
    }

    #[test]
    fn nobody_is_asked_without_a_file_and_nobody_comes_in_with_an_empty_one() {
        let open = Users::default();
        assert_eq!(open.of_strangers(), Some(Rights::Admin));
        assert_eq!(open.authenticate(b"default", b"x"), None);
        let closed = read("").unwrap();
        assert_eq!(closed.of_strangers(), None);
        assert_eq!(closed.authenticate(b"default", b"x"), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, expected) in [
            ("reader read".to_owned(), "not three words"),
            (format!("reader write all {SECRET}"), "not three words"),
            (format!("reader all {SECRET}"), "unknown rights"),
            (
                "reader read secret".to_owned(),
                "not a hash of 64 hexadecimal digits",
            ),
            (
                format!("reader read +{}", &SECRET[1..]),
                "not a hash of 64 hexadecimal digits",
            ),
            (
                format!("a read {SECRET}\na write {SECRET}"),
                "this name has a line already",
            ),
        ] {
            let Err(UsersError::Line { number, what, .. }) = read(&format!("\n{line}")) else {
                panic!("{line} is accepted");
            };
            assert_eq!(what, expected, "{line}");
            assert_eq!(number, 1 + line.lines().count(), "{line}");
        }
    }
}
