//! Compressed inputs: recognised by their first bytes, whatever their names, and read as what they hold.
//!
//! The decoders of gzip, xz and bzip2 are Rust, and about as fast as those in C. For zstd the one in C is taken: the one in
//! Rust takes five times as long, and gives the last window of text only when its frame ends, so that a lone line in a
//! pipe would wait.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::input::gzip_members::GzipMembers;
use crate::input::window_limit::Limited;
use crate::input::xz_streams::XzStreams;

/// How much of an input is read at first, and how much compressed data at a time.
const PIECE: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    // Those that are recognised, and not read.
    Lz4,
    Lzma,
    Lzip,
    Zip,
    SevenZip,
    Compress,
    Tar,
    Parquet,
}

impl Format {
    /// Returns the command that makes lines of a format that is not read here; `NAME` stands for the file.
    pub fn other_program(self) -> Option<&'static str> {
        match self {
            Format::Gzip | Format::Zstd | Format::Xz | Format::Bzip2 => None,
            Format::Lz4 => Some("lz4 -dc NAME"),
            Format::Lzma => Some("xz -dc NAME"),
            Format::Lzip => Some("lzip -dc NAME"),
            Format::Zip => Some("unzip -p NAME"),
            Format::SevenZip => Some("7z e -so NAME"),
            Format::Compress => Some("gzip -dc NAME"),
            Format::Tar => Some("tar -xOf NAME"),
            // With a header (docs/pipelines.md).
            Format::Parquet => Some("duckdb -csv -c \"FROM 'NAME'\""),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Gzip => "gzip",
            Format::Zstd => "zstd",
            Format::Xz => "xz",
            Format::Bzip2 => "bzip2",
            Format::Lz4 => "lz4",
            Format::Lzma => "lzma",
            Format::Lzip => "lzip",
            Format::Zip => "zip",
            Format::SevenZip => "7z",
            Format::Compress => "compress",
            Format::Tar => "tar",
            Format::Parquet => "Parquet",
        })
    }
}

/// The first bytes of each format: the lowest and the highest values of each byte. A line of text has none of them: those
/// of bzip2 include the mark of its first block, since `BZh9` alone might be text.
const MAGICS: [(Format, &[u8], &[u8]); 14] = [
    (Format::Gzip, b"\x1f\x8b\x08", b"\x1f\x8b\x08"),
    (Format::Zstd, b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd"),
    // A frame to be skipped may come first.
    (Format::Zstd, b"\x50\x2a\x4d\x18", b"\x5f\x2a\x4d\x18"),
    (Format::Xz, b"\xfd7zXZ\0", b"\xfd7zXZ\0"),
    (
        Format::Bzip2,
        b"BZh1\x31\x41\x59\x26\x53\x59",
        b"BZh9\x31\x41\x59\x26\x53\x59",
    ),
    // Of nothing, which has no block.
    (
        Format::Bzip2,
        b"BZh1\x17\x72\x45\x38\x50\x90",
        b"BZh9\x17\x72\x45\x38\x50\x90",
    ),
    (Format::Lz4, b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18"),
    // With a size that is unknown, as programs write it.
    (
        Format::Lzma,
        b"\x5d\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x5d\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ),
    (Format::Lzip, b"LZIP\x01", b"LZIP\x01"),
    (Format::Zip, b"PK\x03\x04", b"PK\x03\x04"),
    // Of nothing.
    (Format::Zip, b"PK\x05\x06", b"PK\x05\x06"),
    (
        Format::SevenZip,
        b"7z\xbc\xaf\x27\x1c",
        b"7z\xbc\xaf\x27\x1c",
    ),
    (Format::Compress, b"\x1f\x9d", b"\x1f\x9d"),
    // With the header of its first page.
    (Format::Parquet, b"PAR1\x15", b"PAR1\x15"),
];

/// Where a tar archive has its magic, behind a name that ends with a zero.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// What the first bytes of an input say.
#[derive(Debug, PartialEq, Eq)]
enum Guess {
    Plain,
    Compressed(Format),
    /// More bytes are needed to tell.
    Perhaps(Format),
}

fn guess(head: &[u8]) -> Guess {
    let mut guess = Guess::Plain;
    for (format, low, high) in MAGICS {
        let mut bytes = head.iter().zip(low).zip(high);
        if bytes.all(|((byte, low), high)| (low..=high).contains(&byte)) {
            if head.len() >= low.len() {
                return Guess::Compressed(format);
            }
            guess = Guess::Perhaps(format);
        }
    }
    match is_tar(head) {
        true => Guess::Compressed(Format::Tar),
        false => guess,
    }
}

/// Returns whether these are an archive's first bytes. Fewer don't tell: a text must not be waited for.
fn is_tar(head: &[u8]) -> bool {
    let (place, magic) = TAR;
    head.get(place..)
        .is_some_and(|rest| rest.starts_with(magic) && head[..place].contains(&0))
}

/// As many bytes tell each format.
pub const LONGEST_MAGIC: usize = 512;

/// Returns the format of a file that begins so; `None` for a text.
pub fn format_of(head: &[u8]) -> Option<Format> {
    match guess(head) {
        Guess::Compressed(format) => Some(format),
        Guess::Plain | Guess::Perhaps(_) => None,
    }
}

/// Counts the bytes that were read as they lie in the inputs, once one of these turned out to be compressed.
#[derive(Default)]
pub struct Meter {
    bytes: AtomicU64,
    is_needed: AtomicBool,
}

impl Meter {
    /// Returns what a progress bar compares with the size of the inputs, if that isn't the size of the text.
    pub fn bytes(&self) -> Option<u64> {
        let is_needed = self.is_needed.load(Ordering::Relaxed);
        is_needed.then(|| self.bytes.load(Ordering::Relaxed))
    }
}

/// An input of which the first bytes were looked at.
struct Peeked<R> {
    head: Vec<u8>,
    taken: usize,
    rest: R,
    meter: Arc<Meter>,
}

impl<R: Read> Peeked<R> {
    fn new(rest: R, meter: &Arc<Meter>) -> Self {
        Peeked {
            head: Vec::new(),
            taken: 0,
            rest,
            meter: Arc::clone(meter),
        }
    }

    /// Reads until the format is certain. The first read decides for all inputs whose first line is as long as a magic.
    fn look(&mut self) -> io::Result<Option<Format>> {
        self.head.resize(PIECE, 0);
        let mut filled = 0;
        let found = loop {
            let guess = guess(&self.head[..filled]);
            let perhaps = match guess {
                Guess::Plain => break None,
                Guess::Compressed(format) => break Some(format),
                Guess::Perhaps(format) => format,
            };
            match self.rest.read(&mut self.head[filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No text begins like this, so it is compressed data that is cut short. (`BZh` is text.)
                Ok(0) if filled > 1 && !self.head[..filled].is_ascii() => break Some(perhaps),
                Ok(0) => break None,
                other => filled += other?,
            }
        };
        self.head.truncate(filled);
        self.count(filled);
        Ok(found)
    }

    fn count(&self, bytes: usize) {
        self.meter.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut left = &self.head[self.taken..];
        if left.is_empty() {
            let count = self.rest.read(into)?;
            self.count(count);
            return Ok(count);
        }
        let count = left.read(into)?;
        self.taken += count;
        if self.taken == self.head.len() {
            (self.head, self.taken) = (Vec::new(), 0);
        }
        Ok(count)
    }
}

/// The bytes of an input, decompressed if need be.
pub struct Stream {
    /// What the input turned out to be, unless it is read as it is.
    pub format: Option<Format>,
    pub bytes: Box<dyn Read>,
}

/// Opens an input, waiting for as many of its first bytes as it takes to recognise a format. A decoder may keep a window of
/// this size, a power of two. Without one, the input is not looked at.
pub fn open(
    input: impl Read + 'static,
    window_log: Option<u32>,
    meter: &Arc<Meter>,
) -> io::Result<Stream> {
    let mut input = Peeked::new(input, meter);
    let found = match window_log {
        Some(log) => input.look()?.map(|format| (format, log)),
        None => None,
    };
    let format = found.map(|(format, _)| format);
    let bytes: Box<dyn Read> = match found {
        None => Box::new(input),
        // The caller refuses it.
        Some((format, _)) if format.other_program().is_some() => Box::new(input),
        Some((format, log)) => {
            meter.is_needed.store(true, Ordering::Relaxed);
            decoder(format, log, BufReader::with_capacity(PIECE, input))?
        }
    };
    Ok(Stream { format, bytes })
}

/// What the bytes of a stream turned out to be once they were decompressed.
pub struct Inside {
    pub stream: Stream,
    /// What they are compressed as once more.
    pub format: Option<Format>,
    /// Whether they begin as text of two bytes a character does.
    pub is_utf16: bool,
}

/// Looks at the first bytes of a stream.
pub fn look_inside(stream: Stream) -> io::Result<Inside> {
    let mut bytes = Peeked::new(stream.bytes, &Arc::default());
    let found = bytes.look()?;
    let is_utf16 = bytes.head.starts_with(b"\xff\xfe") || bytes.head.starts_with(b"\xfe\xff");
    Ok(Inside {
        format: found.filter(|_| stream.format.is_some()),
        is_utf16,
        stream: Stream {
            format: stream.format,
            bytes: Box::new(bytes),
        },
    })
}

/// Each of these goes on with the members, frames or streams that follow the first, and fails at anything else that
/// follows.
fn decoder(format: Format, log: u32, input: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    Ok(match format {
        Format::Gzip => Box::new(GzipMembers::of(input)),
        Format::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        Format::Xz => {
            let decoder = XzStreams::of((input, log));
            Box::new(Limited { decoder, log })
        }
        Format::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(log)?;
            Box::new(Limited { decoder, log })
        }
        _ => return Err(ErrorKind::Unsupported.into()),
    })
}
