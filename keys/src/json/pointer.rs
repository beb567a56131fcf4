//! Which value of a JSON record is meant: as a path with dots, or as a JSON Pointer (RFC 6901).

use std::fmt;

/// The longest pointer, in bytes: all of a store's pointers stand in its label.
const LONGEST_POINTER: usize = 1024;

/// The most names of a pointer: fewer levels than the parser descends.
const MOST_NAMES: usize = 100;

/// Why a path names no value.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// There is no name in it.
    #[error("the path is empty; name a member, such as url")]
    Empty,
    /// A name between two dots is missing.
    #[error(
        "{path}: has an empty name between dots; a JSON Pointer can name such a member, as in /a//b"
    )]
    EmptyName {
        /// The path.
        path: String,
    },
    /// In a JSON Pointer, `~` stands before 0 or 1 alone.
    #[error("{path}: in a JSON Pointer, write ~0 for ~ and ~1 for /")]
    Tilde {
        /// The path.
        path: String,
    },
    /// The path is longer than a store can keep, or than the parser descends.
    #[error("a path has at most {LONGEST_POINTER} bytes and {MOST_NAMES} names")]
    TooLong,
    /// All paths together are longer than a store can keep.
    #[error("all paths together are longer than a store can keep; name fewer")]
    TooMany,
    /// Two paths name one value.
    #[error("{path}: is given twice")]
    Twice {
        /// The pointer.
        path: String,
    },
    /// One path leads through the value that another one names.
    #[error("{path}: lies within {other}, which is a part of the key already")]
    Within {
        /// The pointer.
        path: String,
        /// The shorter one.
        other: String,
    },
}

/// The way to a value: names of members, or numbers of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    names: Vec<String>,
}

impl Pointer {
    /// Parses what a user writes: a JSON Pointer if it begins with `/`, otherwise names with dots between them. One dot before
    /// the first name changes nothing.
    ///
    /// # Errors
    /// The text names no value.
    pub fn parse(path: &str) -> Result<Self, PointerError> {
        if path.len() > LONGEST_POINTER {
            return Err(PointerError::TooLong);
        }
        let names = match path.strip_prefix('/') {
            Some(pointer) => {
                let names = pointer.split('/').map(|name| unescape(name, path));
                names.collect::<Result<Vec<_>, _>>()?
            }
            None => {
                let dotted = path.strip_prefix('.').unwrap_or(path);
                let names: Vec<_> = dotted.split('.').map(str::to_owned).collect();
                if dotted.is_empty() {
                    return Err(PointerError::Empty);
                }
                if names.iter().any(String::is_empty) {
                    let path = path.to_owned();
                    return Err(PointerError::EmptyName { path });
                }
                names
            }
        };
        if names.len() > MOST_NAMES {
            return Err(PointerError::TooLong);
        }
        let pointer = Pointer { names };
        // Escapes make it longer.
        match pointer.text().len() > LONGEST_POINTER {
            true => Err(PointerError::TooLong),
            false => Ok(pointer),
        }
    }

    /// Returns the names, the outermost first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the JSON Pointer.
    pub fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.names {
            let name = name.replace('~', "~0").replace('/', "~1");
            write!(out, "/{name}")?;
        }
        Ok(())
    }
}

fn unescape(name: &str, path: &str) -> Result<String, PointerError> {
    let mut parts = name.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            _ => {
                let path = path.to_owned();
                return Err(PointerError::Tilde { path });
            }
        };
        text.push(character);
        text.push_str(rest);
    }
    Ok(text)
}
