//! Compressed input is read as what it holds.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::support::{Lab, distinct_lines, feed, json, wait};

/// Forty lines, packed by the programs that the formats are from.
const PACKED: [(&str, &[u8]); 4] = [
    ("gzip", include_bytes!("../../data/lines.gz")),
    ("zstd", include_bytes!("../../data/lines.zst")),
    ("xz", include_bytes!("../../data/lines.xz")),
    ("bzip2", include_bytes!("../../data/lines.bz2")),
];

/// A text of some megabytes, in formats that can be written here.
fn packed(text: &[u8]) -> [Vec<u8>; 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).expect("packs");
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(text).expect("packs");
    [
        gzip.finish().expect("packs"),
        zstd::encode_all(text, 1).expect("packs"),
        bzip2.finish().expect("packs"),
    ]
}

#[test]
fn a_compressed_file_is_its_lines_whatever_its_name() {
    let lines = distinct_lines(40);
    for (format, packed) in PACKED {
        let lab = Lab::new();
        lab.write("list", packed);
        assert_eq!(
            lab.run(&["dedup", "one", "list"]).expect(0),
            lines,
            "{format}"
        );
        // Standard input, as a file and as a pipe.
        assert_eq!(lab.run_on(&["dedup", "two"], packed).expect(0), lines);
        let mut child = lab.start(&["dedup", "three"]);
        let mut stdin = child.stdin.take().expect("a pipe");
        for byte in packed {
            stdin.write_all(&[*byte]).expect("it reads");
        }
        drop(stdin);
        let mut printed = Vec::new();
        let mut out = child.stdout.take().expect("a pipe");
        out.read_to_end(&mut printed).expect("a pipe");
        assert_eq!(wait(child), (Default::default(), String::new()));
        assert_eq!(printed, lines, "{format}");
        // The other commands that read lines.
        assert_eq!(lab.run(&["check", "one", "list"]).expect(0), lines);
        let ran = lab.run(&["add", "--stats", "one", "list"]);
        assert_eq!(ran.err, "40 lines, 0 new\n");
    }
}

#[test]
fn formats_members_and_plain_files_follow_each_other() {
    let lab = Lab::new();
    let text = distinct_lines(60_000);
    let (first, second) = text.split_at(text.len() / 2);
    for (number, (first, second)) in packed(first).iter().zip(packed(second)).enumerate() {
        // A line may begin in one member and end in the next.
        lab.write(&format!("members{number}"), &[&first[..], &second].concat());
        let store = format!("store{number}");
        let printed = lab.run(&["dedup", &store, &format!("members{number}")]);
        assert!(printed.expect(0) == text, "{number}");
    }
    lab.write("plain.gz", b"plain\n");
    lab.write("empty.gz", b"");
    lab.write("nothing", &packed(b"")[0]);
    let args = [
        "dedup", "all", "members0", "plain.gz", "empty.gz", "nothing", "members1",
    ];
    let all = lab.run(&args).expect(0);
    assert!(all == [&text[..], b"plain\n"].concat());
}

#[test]
fn a_file_that_is_cut_short_is_named_and_its_whole_lines_are_done() {
    let lines = distinct_lines(40);
    let text = distinct_lines(60_000);
    let lab = Lab::new();
    let large = packed(&text);
    let large = ["gzip", "zstd", "bzip2"]
        .into_iter()
        .zip(large.iter().map(|packed| &packed[..]));
    for (number, (format, packed)) in PACKED.into_iter().chain(large).enumerate() {
        let expected = if number < PACKED.len() { &lines } else { &text };
        for cut in [packed.len() / 2, packed.len() - 1] {
            lab.write("list", &packed[..cut]);
            let store = format!("store{number}-{cut}");
            let ran = lab.run(&["dedup", &store, "list"]);
            ran.expect_error(&format!(
                "list: its {format} data is cut short; the lines before the cut are done"
            ));
            assert!(expected.starts_with(&ran.out), "{format}");
            assert!(ran.out.is_empty() || ran.out.ends_with(b"\n"), "{format}");
            let keys = json(&lab.run(&["info", "--json", &store]).expect(0))["keys"].clone();
            let count = ran.out.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(keys, count, "{format}");
            // What comes before the last block is there.
            assert!(
                number < PACKED.len() || cut < packed.len() - 1 || count > 0,
                "{format}"
            );
        }
        lab.write("list", &[packed, b"https://example.org/\n"].concat());
        let ran = lab.run(&["dedup", &format!("store{number}"), "list"]);
        ran.expect_error(&format!("list: its {format} data can't be read: "));
        assert!(&ran.out == expected, "{format}");
    }
}

#[test]
fn lines_that_begin_like_a_format_are_lines() {
    let lab = Lab::new();
    for text in [
        &b"BZh9\n"[..],
        b"BZ",
        b"P*M\n",
        b"(\n",
        b"\x1f\n",
        b"\xfd7zXZ\n",
        b"B\n",
    ] {
        assert_eq!(lab.run_on(&["dedup", "store"], text).expect(0), {
            let mut line = text.to_vec();
            line.extend((text.last() != Some(&b'\n')).then_some(b'\n'));
            line
        });
    }
}

#[test]
fn what_is_not_to_be_decompressed_is_taken_as_it_is() {
    for (format, packed) in PACKED {
        let lab = Lab::new();
        lab.write("list", packed);
        let args = ["dedup", "--no-decompress", "store", "list"];
        let mut expected = packed.to_vec();
        expected.extend((packed.last() != Some(&b'\n')).then_some(b'\n'));
        assert_eq!(lab.run(&args).expect(0), expected, "{format}");
    }
}

/// The other end waits for the answer before it sends more.
#[test]
fn a_lone_line_is_answered_at_once() {
    let flushed = |line: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(line)
            .and_then(|()| gzip.flush())
            .expect("packs");
        gzip.get_ref().clone()
    };
    let zstd = |line: &[u8]| {
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("packs");
        zstd.write_all(line)
            .and_then(|()| zstd.flush())
            .expect("packs");
        zstd.get_ref().clone()
    };
    let lab = Lab::new();
    for (number, (sent, line)) in [
        (b"B\n".to_vec(), "B\n"),
        (b"BZh9\n".to_vec(), "BZh9\n"),
        (flushed(b"packed\n"), "packed\n"),
        (zstd(b"packed too\n"), "packed too\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut child = lab
            .command(&["dedup", &format!("store{number}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let feeder = feed(&mut child, sent);
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut answer = String::new();
        out.read_line(&mut answer).expect("text");
        assert_eq!(answer, line);
        drop(feeder.join());
        child.wait().expect("it was started");
    }
}

#[test]
fn formats_that_are_not_read_are_named() {
    let lab = Lab::new();
    lab.write("plain", b"a\n");
    let mut tar = [0; 512];
    tar[..5].copy_from_slice(b"a.txt");
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, format, program) in [
        (&b"\x04\x22\x4d\x18rest\n"[..], "lz4", "lz4 -dc packed"),
        (
            b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xffrest",
            "lzma",
            "xz -dc packed",
        ),
        (b"LZIP\x01\x0c", "lzip", "lzip -dc packed"),
        (b"PK\x03\x04\x14\0", "zip", "unzip -p packed"),
        (b"7z\xbc\xaf\x27\x1c\0", "7z", "7z e -so packed"),
        (b"\x1f\x9d\x90a", "compress", "gzip -dc packed"),
        (&tar, "tar", "tar -xOf packed"),
        (
            b"PAR1\x15\0\n",
            "Parquet",
            "duckdb -csv -c \"FROM 'packed'\"",
        ),
    ] {
        lab.write("packed", bytes);
        let ran = lab.run(&["dedup", "store", "plain", "packed"]);
        ran.expect_error(&format!(
            "packed: is {format} data, which this program does not read; make lines of it first, as in `{program} | \
             everseen ...` (--no-decompress reads it as it is)"
        ));
        assert_eq!(ran.out, if format == "lz4" { &b"a\n"[..] } else { b"" });
        let as_it_is = lab.run(&["check", "-c", "-v", "--no-decompress", "store", "packed"]);
        assert_eq!(as_it_is.expect(0), b"1\n");
    }
    // Lines that only begin so.
    let lines = b"PK\nLZIP\n7z\n]\nPAR1S\nustar\n";
    assert_eq!(lab.run_on(&["dedup", "lines"], lines).expect(0), lines);
    for [first, second] in [[0, 1], [1, 0], [2, 2]] {
        let once = packed(b"a\n")[first].clone();
        let names = ["gzip", "zstd", "bzip2"];
        lab.write("twice", &packed(&once)[second]);
        let ran = lab.run(&["dedup", "store", "twice"]);
        let found =
            [names[first], names[second]].map(|name| ran.err.contains(&format!("{name} data")));
        assert_eq!(found, [true, true], "{}", ran.err);
        ran.expect_error(
            "; decompress it once, and name what comes out (--no-decompress reads it as it is)",
        );
    }
}

#[test]
fn zeros_behind_gzip_are_nothing_and_text_is_told() {
    let lab = Lab::new();
    let gzip = packed(b"a\n")[0].clone();
    for zeros in [1, 511, 1 << 20] {
        lab.write("padded", &[&gzip[..], &gzip, &vec![0; zeros]].concat());
        let ran = lab.run(&["dedup", &format!("seen{zeros}"), "padded"]);
        assert_eq!((ran.err.as_str(), &*ran.out), ("", &b"a\n"[..]));
    }
    for rest in [&b"text\n"[..], b"\0\0\x1f\x8b", b"\0text"] {
        lab.write("more", &[&gzip[..], rest].concat());
        let ran = lab.run(&["dedup", "seen", "more"]);
        ran.expect_error("more: its gzip data can't be read: other bytes follow its last member; the lines before that are done");
    }
}

#[test]
fn text_of_two_bytes_a_character_is_noticed() {
    let lab = Lab::new();
    let told = |name: &str| {
        format!(
            "everseen: {name}: begins as UTF-16 text, and lines are cut and compared as bytes; convert it first: iconv -f UTF-16 -t UTF-8\n"
        )
    };
    for text in [&b"\xff\xfea\0\n\0"[..], b"\xfe\xff\0a\0\n"] {
        lab.write("wide", text);
        lab.write("packed", &packed(text)[0]);
        for name in ["wide", "packed"] {
            assert_eq!(lab.run(&["dedup", "seen", name]).err, told(name));
            assert_eq!(lab.run(&["dedup", "-q", "seen", name]).err, "");
        }
    }
    assert_eq!(lab.run_on(&["dedup", "other"], b"\xffa\n").err, "");
}

#[test]
fn a_window_beyond_the_limit_names_the_option_that_allows_it() {
    let lab = Lab::new();
    // The header of a frame with a window of 2 GiB, and a last block of two bytes.
    lab.write("far.zst", b"\x28\xb5\x2f\xfd\x00\xa8\x11\x00\x00a\n");
    let limited = |limit: &str| {
        format!(
            "its zstd data refers to text further back than {limit}, which a decoder may keep; allow it 2.0 GiB of memory with --long=31"
        )
    };
    let ran = lab.run(&["dedup", "seen", "far.zst"]);
    ran.expect_error(&limited("128.0 MiB"));
    let ran = lab.run(&["dedup", "--long=30", "seen", "far.zst"]);
    ran.expect_error(&limited("1.0 GiB"));
    for (number, long) in ["--long", "--long=31"].into_iter().enumerate() {
        let store = format!("allowed{number}");
        assert_eq!(
            lab.run(&["dedup", long, &store, "far.zst"]).expect(0),
            b"a\n"
        );
    }
    lab.write("far.xz", include_bytes!("../../data/wide.xz"));
    let ran = lab.run(&["dedup", "seen", "far.xz"]);
    ran.expect_error("far.xz: its xz data refers to text further back than 128.0 MiB");
    let ran = lab.run(&["dedup", "--long=31", "seen", "far.xz"]);
    ran.expect_error("than 2.0 GiB, which a decoder may keep; decompress it first, as in `xz -dc far.xz | everseen ...`");
    for wrong in ["--long=32", "--long=9", "--long=2G"] {
        let ran = lab.run(&["dedup", wrong, "seen", "far.zst"]);
        assert_eq!(ran.code, Some(2), "{wrong}");
    }
}

/// Lines behind compressed data could be read by nothing.
#[test]
fn an_output_that_is_compressed_is_refused() {
    for (format, packed) in PACKED {
        let lab = Lab::new();
        lab.write("out", packed);
        lab.write("input", b"a\n");
        let expected = format!("is {format} data, to which no lines can be appended");
        lab.run(&["dedup", "-o", "out", "store", "input"])
            .expect_error(&expected);
        let file = std::fs::File::options().append(true).open(lab.path("out"));
        let mut command = lab.command(&["dedup", "other", "input"]);
        let ran = command
            .stdout(file.expect("a file"))
            .output()
            .expect("it runs");
        assert_eq!(ran.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&ran.stderr).contains(&expected));
        assert_eq!(std::fs::read(lab.path("out")).expect("the output"), packed);
    }
}
