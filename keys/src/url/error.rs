//! Why a line is no URL.

use ::url::ParseError;

use super::LONGEST;

/// Why a line is no URL. The messages go on from "no URL: ".
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing but spaces and control characters, or nothing at all.
    #[error("the line is blank")]
    Blank,
    /// The standard is about text. Only version 1 of the [rules](super::RULES) refuses other lines.
    #[error("it is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Where the first wrong byte is, counted from 0.
        offset: usize,
    },
    /// There is no scheme, such as `https:`, so that it could only be a reference relative to another URL.
    #[error("it has no scheme, such as https:, so it would be relative to another URL")]
    Relative,
    /// The scheme wants a host, and there is none.
    #[error("its host is missing")]
    EmptyHost,
    /// The host is no domain: it has characters that none may have, or is no valid international name.
    #[error("its host is not a valid domain")]
    InvalidDomain,
    /// The host ends in a number, so it would be an IPv4 address, and isn't.
    #[error("its host is not a valid IPv4 address")]
    InvalidIpv4,
    /// The host begins with a bracket, so it would be an IPv6 address, and isn't.
    #[error("its host is not a valid IPv6 address")]
    InvalidIpv6,
    /// The port is no number up to 65535.
    #[error("its port is not a number up to 65535")]
    InvalidPort,
    /// Longer than [`LONGEST`].
    #[error("it has {got} bytes, and at most {LONGEST} are accepted")]
    TooLong {
        /// Bytes of the line.
        got: usize,
    },
    /// The parser refuses it for a reason that this version of the library doesn't know; by version 1 of the
    /// [rules](super::RULES), also in a few file URLs with a Windows drive letter, in which it departs from the standard.
    #[error("the parser is not reliable for it")]
    Refused,
}

impl From<ParseError> for UrlError {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::RelativeUrlWithoutBase => UrlError::Relative,
            ParseError::EmptyHost => UrlError::EmptyHost,
            ParseError::IdnaError | ParseError::InvalidDomainCharacter => UrlError::InvalidDomain,
            ParseError::InvalidIpv4Address => UrlError::InvalidIpv4,
            ParseError::InvalidIpv6Address => UrlError::InvalidIpv6,
            ParseError::InvalidPort => UrlError::InvalidPort,
            _ => UrlError::Refused,
        }
    }
}
