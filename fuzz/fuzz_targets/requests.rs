//! Bytes that a client sends, as they come and all at once.
#![no_main]

use everseen_fuzz::wire::packed;
use everseen_server::fuzzing;
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};

#[derive(Debug, Arbitrary)]
enum Part {
    Any(Vec<u8>),
    /// A request whose lengths are right.
    Request(Vec<Vec<u8>>),
    /// The begin of one, or of an argument.
    Count(i32),
    Length(i32),
    Line(String),
}

#[derive(Debug, Arbitrary)]
struct Input {
    parts: Vec<Part>,
    /// Lengths of the pieces; the last goes on to the end.
    pieces: Vec<u8>,
}

fuzz_target!(|input: Input| {
    let mut bytes = Vec::new();
    for part in &input.parts {
        match part {
            Part::Any(any) => bytes.extend_from_slice(any),
            Part::Request(words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                bytes.extend(packed(&words));
            }
            Part::Count(count) => bytes.extend_from_slice(format!("*{count}\r\n").as_bytes()),
            Part::Length(length) => bytes.extend_from_slice(format!("${length}\r\n").as_bytes()),
            Part::Line(line) => bytes.extend_from_slice(format!("{line}\r\n").as_bytes()),
        }
    }
    let mut pieces = Vec::new();
    let mut rest = &bytes[..];
    for length in &input.pieces {
        let (piece, others) = rest.split_at(rest.len().min(usize::from(*length)));
        pieces.push(piece);
        rest = others;
    }
    pieces.push(rest);
    assert_eq!(fuzzing::requests(&pieces), fuzzing::requests(&[&bytes]));
});
