//! Why a JSON record has no key.

use std::sync::Arc;

use super::LONGEST_CONTAINER;

/// Why a record has no key. The messages go on from "no key: ".
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The record ends in the middle.
    #[error("it is not JSON: it ends too early")]
    CutShort,
    /// The record isn't JSON.
    #[error("it is not JSON: {what}, at byte {column}")]
    NotJson {
        /// What the parser says.
        what: String,
        /// Where, counted from 1; in a record of several lines, in the line where the parser stopped.
        column: usize,
    },
    /// The record has no such value.
    #[error("it has no {name}")]
    Missing {
        /// The pointer to the value.
        name: Arc<str>,
    },
    /// The value is null.
    #[error("its {name} is null")]
    Null {
        /// The pointer to the value.
        name: Arc<str>,
    },
    /// A string has half a surrogate pair, which is no character.
    #[error("its {name} has half a character: a surrogate without the other")]
    LoneSurrogate {
        /// The pointer to the value.
        name: Arc<str>,
    },
    /// The exponent of a number has more digits than this library computes with.
    #[error("its {name} is a number whose exponent is too large")]
    ExponentTooLarge {
        /// The pointer to the value.
        name: Arc<str>,
    },
    /// An object or array is longer than [`LONGEST_CONTAINER`].
    #[error(
        "its {name} is an object or array of {got} bytes, and at most {LONGEST_CONTAINER} are accepted"
    )]
    TooLong {
        /// The pointer to the value.
        name: Arc<str>,
        /// Its bytes.
        got: usize,
    },
    /// An object or array has more levels than this library looks at.
    #[error("its {name} is nested too deeply")]
    TooDeep {
        /// The pointer to the value.
        name: Arc<str>,
    },
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_eof() {
            return JsonError::CutShort;
        }
        let text = error.to_string();
        let what = text
            .rsplit_once(" at line ")
            .map_or(&*text, |(what, _)| what);
        JsonError::NotJson {
            what: what.to_owned(),
            column: error.column(),
        }
    }
}
