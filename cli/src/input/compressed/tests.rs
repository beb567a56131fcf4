use super::*;
use crate::input::window_limit::{DEFAULT_LOG, LARGEST_LOG, WindowTooLarge};

#[test]
fn only_a_whole_magic_is_compressed_and_only_its_beginning_is_open() {
    for (format, low, high) in MAGICS {
        for whole in [low, high] {
            assert_eq!(guess(whole), Guess::Compressed(format));
            for end in 1..whole.len() {
                assert!(matches!(guess(&whole[..end]), Guess::Perhaps(_)), "{end}");
                if (low[end - 1]..=high[end - 1]).contains(&b'\n') {
                    continue;
                }
                let mut other = whole[..end].to_vec();
                other[end - 1] = b'\n';
                assert_eq!(guess(&other), Guess::Plain, "{format} {end}");
            }
        }
    }
    assert!(matches!(guess(b""), Guess::Perhaps(_)));
    assert_eq!(guess(b"https://"), Guess::Plain);
}

/// Returns its bytes one by one, with interruptions, and panics if it is asked after all of them.
struct Slow(Vec<u8>, bool);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(ErrorKind::Interrupted.into());
        }
        assert!(!self.0.is_empty(), "asked for more than it takes to decide");
        into[0] = self.0.remove(0);
        Ok(1)
    }
}

/// A line must not wait for the next one.
#[test]
fn no_byte_is_waited_for_that_is_not_needed() {
    for (text, format) in [
        (&b"x"[..], None),
        (b"\n", None),
        (b"BZ\n", None),
        (b"BZh9\n", None),
        (b"\x1f\n", None),
        (b"\x1f\x8b\x08", Some(Format::Gzip)),
    ] {
        let meter = Arc::new(Meter::default());
        let mut input = Peeked::new(Slow(text.to_vec(), false), &meter);
        assert_eq!(input.look().expect("reads"), format);
        let mut again = vec![0; text.len()];
        input.read_exact(&mut again).expect("what was looked at");
        assert_eq!(again, text);
    }
}

#[test]
fn what_ends_within_a_magic_is_cut_short_unless_it_may_be_text() {
    for (bytes, format) in [
        (&b""[..], None),
        (b"B", None),
        (b"BZh9", None),
        (b"(", None),
        (b"\xfd", None),
        (b"\x1f\x8b", Some(Format::Gzip)),
        (b"(\xb5/", Some(Format::Zstd)),
        (b"\xfd7zXZ", Some(Format::Xz)),
    ] {
        let mut input = Peeked::new(bytes, &Arc::default());
        assert_eq!(input.look().expect("reads"), format, "{bytes:?}");
    }
}

#[test]
fn a_bar_counts_the_bytes_that_lie_in_the_inputs() {
    let meter = Arc::new(Meter::default());
    let mut read = Vec::new();
    let mut plain = open(&b"some text"[..], Some(DEFAULT_LOG), &meter).expect("opens");
    plain.bytes.read_to_end(&mut read).expect("reads");
    assert_eq!(meter.bytes(), None);
    let packed = zstd::encode_all(&[b'x'; 100_000][..], 1).expect("packs");
    let length = packed.len() as u64;
    let mut stream = open(io::Cursor::new(packed), Some(DEFAULT_LOG), &meter).expect("opens");
    stream.bytes.read_to_end(&mut read).expect("reads");
    assert_eq!(read.len(), 9 + 100_000);
    assert_eq!(meter.bytes(), Some(9 + length));
}

/// The same 40 lines, packed by the programs that the formats are from.
const PACKED: [(Format, &[u8]); 4] = [
    (Format::Gzip, include_bytes!("../../../tests/data/lines.gz")),
    (
        Format::Zstd,
        include_bytes!("../../../tests/data/lines.zst"),
    ),
    (Format::Xz, include_bytes!("../../../tests/data/lines.xz")),
    (
        Format::Bzip2,
        include_bytes!("../../../tests/data/lines.bz2"),
    ),
];

fn lines() -> Vec<u8> {
    (0..40)
        .flat_map(|line| format!("https://example.org/page/{line}\n").into_bytes())
        .collect()
}

/// Reads all of it, and tells how that ended.
fn unpack(bytes: impl Read + 'static) -> (Option<Format>, Vec<u8>, io::Result<usize>) {
    let mut stream = open(bytes, Some(DEFAULT_LOG), &Arc::default()).expect("opens");
    let mut text = Vec::new();
    let ended = stream.bytes.read_to_end(&mut text);
    (stream.format, text, ended)
}

/// Gives what it has in pieces of a few bytes.
struct Pieces(io::Cursor<Vec<u8>>, fastrand::Rng);

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = self.1.usize(1..9).min(into.len());
        self.0.read(&mut into[..most])
    }
}

#[test]
fn all_members_are_read_however_they_arrive() {
    let mut random = fastrand::Rng::with_seed(21);
    for (format, packed) in PACKED {
        for members in 1..4 {
            for _ in 0..20 {
                let bytes = io::Cursor::new(packed.repeat(members));
                let (found, text, ended) = unpack(Pieces(bytes, random.fork()));
                assert_eq!(found, Some(format));
                ended.expect("whole");
                assert!(text == lines().repeat(members), "{format}: {members}");
            }
        }
    }
}

#[test]
fn what_is_cut_short_is_known_as_that_wherever_the_cut_is() {
    let text = lines();
    for (format, packed) in PACKED {
        for start in [0, packed.len()] {
            for cut in 1..packed.len() {
                let bytes = [packed, packed].concat()[..start + cut].to_vec();
                let (found, got, ended) = unpack(io::Cursor::new(bytes));
                if found.is_none() {
                    // Too short to tell from text.
                    assert!(start == 0 && cut < 10, "{format}: {cut}");
                    continue;
                }
                assert!(text.repeat(2).starts_with(&got), "{format}: {cut}");
                let kind = ended.expect_err("cut short").kind();
                assert_eq!(kind, ErrorKind::UnexpectedEof, "{format}: {start}+{cut}");
            }
        }
    }
}

#[test]
fn what_follows_and_is_nothing_of_the_kind_is_an_error() {
    for (format, packed) in PACKED {
        for rest in [&b"x"[..], b"https://example.org/\n", b"\0", &[0; 9]] {
            let bytes = [packed, rest].concat();
            let (_, text, ended) = unpack(io::Cursor::new(bytes));
            assert!(text == lines(), "{format}: {rest:?}");
            // The program `gzip` skips zeros, too.
            let is_padding = format == Format::Gzip && rest.iter().all(|byte| *byte == 0);
            assert_eq!(ended.is_err(), !is_padding, "{format}: {rest:?}");
        }
    }
    // The format has it so.
    let (_, packed) = PACKED[2];
    let bytes = [packed, &[0; 8], packed].concat();
    unpack(io::Cursor::new(bytes)).2.expect("padding");
}

/// Counts how often it is asked for bytes.
struct Asked<R>(R, std::rc::Rc<std::cell::Cell<usize>>);

impl<R: BufRead> Read for Asked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.set(self.1.get() + 1);
        self.0.read(into)
    }
}

impl<R: BufRead> BufRead for Asked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.1.set(self.1.get() + 1);
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

#[test]
fn padding_is_skipped_in_large_pieces() {
    let (_, packed) = PACKED[2];
    let counted = |padding: usize| {
        let bytes = [packed, &vec![0; padding], packed].concat();
        let asked = std::rc::Rc::default();
        let input = Asked(io::Cursor::new(bytes), std::rc::Rc::clone(&asked));
        let mut text = Vec::new();
        let mut decoder = decoder(Format::Xz, DEFAULT_LOG, input).expect("opens");
        decoder.read_to_end(&mut text).expect("padding");
        assert!(text == lines().repeat(2));
        asked.get()
    };
    assert_eq!(counted(1 << 20), counted(4));
    let bytes = [packed, &[0; 6], packed].concat();
    let error = unpack(io::Cursor::new(bytes)).2.expect_err("six zeros");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

/// No byte may be other than it was, or the text is not the text; headers have some that don't matter.
#[test]
fn damage_is_an_error_or_does_no_harm() {
    for (format, packed) in PACKED {
        for at in 10..packed.len() {
            for bit in 0..8 {
                let mut bytes = packed.to_vec();
                bytes[at] ^= 1 << bit;
                let (_, text, ended) = unpack(io::Cursor::new(bytes));
                assert!(ended.is_err() || text == lines(), "{format}: {at}");
            }
        }
    }
}

#[test]
fn memory_that_a_header_claims_is_refused_unless_it_is_allowed() {
    // The header of a frame with a window of 2 GiB, and a last block of one byte.
    let zstd = b"\x28\xb5\x2f\xfd\x00\xa8\x09\x00\x00x";
    // A dictionary of 4 GiB.
    let xz = include_bytes!("../../../tests/data/wide.xz");
    let read = |bytes: &'static [u8], log| {
        let mut stream = open(bytes, Some(log), &Arc::default()).expect("opens");
        let mut text = Vec::new();
        stream.bytes.read_to_end(&mut text).map(|_| text)
    };
    let limit = |result: io::Result<Vec<u8>>| {
        let error = result.expect_err("too much").into_inner().expect("typed");
        let error = error.downcast::<WindowTooLarge>();
        error.expect("a limit").log
    };
    assert_eq!(limit(read(zstd, DEFAULT_LOG)), DEFAULT_LOG);
    assert_eq!(limit(read(zstd, LARGEST_LOG - 1)), LARGEST_LOG - 1);
    assert_eq!(read(zstd, LARGEST_LOG).expect("allowed"), b"x");
    assert_eq!(limit(read(xz, DEFAULT_LOG)), DEFAULT_LOG);
    assert_eq!(limit(read(xz, LARGEST_LOG)), LARGEST_LOG);
}
