//! `--csv-key`, `--key-field` and what of a key's characters doesn't count.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;

use everseen::testing::Options;

use crate::support::{Lab, Ran, items, json};

const CSV: &[u8] = b"id,url,\"the \"\"title\"\"\"\r\n\
    1,http://a/,x\r\n\
    2,\"http://a/\",\"y,\r\nz\"\r\n\
    3,\"http://b/\n?\"\"q\"\"\",\n\
    4,HTTP://A,x";

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("csv", CSV);
    lab
}

#[track_caller]
fn assert_same(got: &[u8], expected: &[u8]) {
    assert_eq!(
        got.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

const HEADER: &[u8] = b"id,url,\"the \"\"title\"\"\"\r\n";
const ROWS: [&[u8]; 4] = [
    b"1,http://a/,x\r\n",
    b"2,\"http://a/\",\"y,\r\nz\"\r\n",
    b"3,\"http://b/\n?\"\"q\"\"\",\n",
    b"4,HTTP://A,x\n",
];

fn rows(header: &[u8], numbers: &[usize]) -> Vec<u8> {
    let rows = numbers.iter().map(|number| ROWS[number - 1]);
    [&[header][..], &rows.collect::<Vec<_>>()].concat().concat()
}

#[test]
fn a_column_is_compared_and_the_record_printed_behind_its_header() {
    for (options, header, printed) in [
        ("--csv-key url", HEADER, &[1, 3, 4][..]),
        ("--csv-key 2", HEADER, &[1, 3, 4]),
        ("--csv-key url --url", HEADER, &[1, 3]),
        ("--csv-key 3 --csv-key 2", HEADER, &[1, 2, 3, 4]),
        ("--csv-key 3", HEADER, &[1, 2, 3]),
        ("--csv-key 4 --no-key drop", HEADER, &[]),
        ("--csv-key 1 --no-header --delimiter ;", b"", &[]),
    ] {
        let lab = lab();
        let ran = run(&lab, &format!("dedup -q {options} seen csv"));
        let got = ran.expect(0);
        if options.contains(';') {
            // A file without this delimiter: whole lines, and what is quoted is not, in the middle of a field.
            assert_eq!(items(b'\n', &got).len(), 7);
            continue;
        }
        assert_same(&got, &rows(header, printed));
        assert_same(&run(&lab, "dedup -q seen csv").expect(0), header);
    }
    let lab = lab();
    let ran = lab.run(&["dedup", "-q", "--csv-key", "the \"title\"", "seen", "csv"]);
    assert_same(&ran.expect(0), &rows(HEADER, &[1, 2, 3]));
}

#[test]
fn one_header_stands_for_all_files_that_have_it() {
    let lab = lab();
    lab.write(
        "same",
        b"\xef\xbb\xbfid,url,\"the \"\"title\"\"\"\n5,http://c/,\n",
    );
    lab.write("blank", b"\n\r\n");
    lab.write("none", b"6,http://d/,x\n1,http://a/,x\n");
    lab.write("empty", b"");
    lab.write("other", b"url,id\nhttp://e/,7\n");
    let ran = run(
        &lab,
        "dedup --json --csv-key url seen empty blank csv same none",
    );
    assert_eq!(json(ran.err.as_bytes())["lines"], 7);
    let expected = [
        &rows(HEADER, &[1, 3, 4])[..],
        b"5,http://c/,\n6,http://d/,x\n",
    ]
    .concat();
    assert_same(&ran.expect(0), &expected);
    // By number, what isn't the header is a record.
    let ran = run(&lab, "dedup -q --csv-key 2 numbers csv other");
    let expected = [&rows(HEADER, &[1, 3, 4])[..], b"url,id\nhttp://e/,7\n"].concat();
    assert_same(&ran.expect(0), &expected);
    // By name, its columns would be the wrong ones.
    let ran = run(&lab, "dedup -q seen csv other");
    assert_eq!(
        ran.err,
        "everseen: other: its header is not that of the files before it, so one header can't stand for all; give this \
         file a run of its own: \"url,id\"\n"
    );
    assert_eq!(ran.code, Some(2));
    assert_same(
        &run(&lab, "dedup -q seen other").expect(0),
        b"url,id\nhttp://e/,7\n",
    );
    let ran = run(&lab, "dedup -q seen none");
    assert_eq!(
        ran.err,
        "everseen: none: its header has no column url; name one that is there, or, if the first record is no header, \
         put the header before it (for a new store, its number with --no-header will do): \"6,http://d/,x\"\n"
    );
    assert_eq!((ran.code, ran.out), (Some(2), Vec::new()));
}

#[test]
fn an_output_gets_one_header() {
    let lab = lab();
    lab.write("more", &[HEADER, b"9,http://z/\n"].concat());
    let appended = |args: &str| {
        let open = OpenOptions::new()
            .append(true)
            .create(true)
            .open(lab.path("appended"));
        let mut command = lab.command(&args.split(' ').collect::<Vec<_>>());
        let status = command.stdout(Stdio::from(open.expect("ours"))).status();
        assert!(status.expect("it runs").success());
    };
    appended("dedup -q --csv-key url seen csv");
    appended("dedup -q seen more");
    run(&lab, "dedup -q --csv-key url -o exact other csv").expect(0);
    run(&lab, "dedup -q -o exact other more").expect(0);
    let expected = [&rows(HEADER, &[1, 3, 4])[..], b"9,http://z/\n"].concat();
    for name in ["appended", "exact"] {
        assert_same(&std::fs::read(lab.path(name)).expect("ours"), &expected);
    }
    let numbered = run(&lab, "check -n seen csv more").expect(0);
    assert!(
        numbered.starts_with(b"csv:2:1,http"),
        "{}",
        numbered.escape_ascii()
    );
    assert_eq!(run(&lab, "check -c seen csv more").expect(0), b"5\n");
    assert_same(&run(&lab, "check -v seen csv").expect(1), HEADER);
}

#[test]
fn all_commands_follow_the_column_of_the_store() {
    let lab = lab();
    run(
        &lab,
        "create counts --kind counting --capacity 10 --csv-key url --no-key drop",
    )
    .expect(0);
    let added = run(&lab, "add --json counts csv");
    assert_eq!(json(added.err.as_bytes())["new"], 3);
    assert_same(
        &run(&lab, "check counts csv").expect(0),
        &rows(HEADER, &[1, 2, 3, 4]),
    );
    let removed = run(&lab, "remove --json counts csv");
    assert_eq!(json(removed.err.as_bytes())["removed"], 4);
    run(&lab, "create holes --key-field 2 --field-separator ,").expect(0);
    let exempted = run(&lab, "exempt --json holes csv");
    let last = exempted.err.lines().last().expect("a summary");
    assert_eq!(json(last.as_bytes())["exempted"], 7);
    for (store, text) in [
        ("counts", "by a column of CSV (--csv-key url --no-key drop)"),
        ("holes", "by a field (--key-field 2 --field-separator ',')"),
    ] {
        let info = String::from_utf8(run(&lab, &format!("info {store}")).expect(0));
        let info = info.expect("text");
        assert!(
            info.contains(&format!("lines       compared {text}\n")),
            "{info}"
        );
        for (asked, told) in [
            ("--csv-key id", "--csv-key id"),
            ("--csv-key 2 --tsv", "--csv-key 2 --tsv"),
            ("--json-key url", "--json-key /url"),
            ("--key-field 3", "--key-field 3"),
            ("--tsv", "--tsv"),
            ("--delimiter ;", "--delimiter"),
            ("--field-separator ;", "--field-separator"),
            ("--trim", "--trim"),
            ("--crlf", "--crlf"),
            ("--ignore-case", "--ignore-case"),
            ("--url", "--url"),
        ] {
            run(&lab, &format!("check {store} csv {asked}")).expect_error(&format!(
                "{store}: was created to compare lines {text}, which {told} contradicts; leave {told} out"
            ));
        }
    }
    run(&lab, "check counts csv --no-header").expect_error("which --no-header contradicts");
    run(&lab, "check counts csv --csv-key url --delimiter ,").expect(1);
    run(&lab, "check holes csv --key-field 2 --field-separator ,").expect(1);
}

#[test]
fn fields_are_those_of_awk() {
    let lab = Lab::new();
    let log = b"  GET /a 200\nGET  /a\t404\nPOST /b\n\nGET\n";
    let ran = lab.run_on(
        &[
            "dedup",
            "--key-field",
            "2",
            "--no-key",
            "drop",
            "--stats",
            "seen",
        ],
        log,
    );
    assert!(
        ran.err
            .contains("standard input:4: no key, dropped: it has no column 2: \"\""),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .contains("5 lines, 2 new, 1 seen, 2 without a key and dropped, "),
        "{}",
        ran.err
    );
    assert_eq!(ran.expect(0), b"  GET /a 200\nPOST /b\n");
    let bytes = b"a\x1f\x1fx\nb\x1f\x1fy\nc\x1fz\x1fy\n";
    let args = [
        "dedup",
        "-q",
        "--key-field",
        "2",
        "--field-separator",
        r"\x1f",
        "other",
    ];
    assert_eq!(
        lab.run_on(&args, bytes).expect(0),
        b"a\x1f\x1fx\nc\x1fz\x1fy\n"
    );
    let args = [
        "dedup",
        "-q",
        "--key-field",
        "3",
        "--key-field",
        "1",
        "--field-separator",
        r"\x1f",
        "both",
    ];
    assert_eq!(lab.run_on(&args, bytes).expect(0), bytes);
}

#[test]
fn what_does_not_count_is_kept_by_the_store() {
    let lab = Lab::new();
    let input = "Ä b\r\nä b\n ä B\t\nstraße\nSTRASSE\n".as_bytes();
    for (options, printed) in [
        ("", &[0, 1, 2, 3, 4][..]),
        ("--ignore-case", &[0, 1, 2, 3, 4]),
        ("--crlf", &[0, 1, 2, 3, 4]),
        ("--crlf --ignore-case", &[0, 2, 3, 4]),
        ("--trim", &[0, 1, 2, 3, 4]),
        ("--trim --ignore-case", &[0, 3, 4]),
    ] {
        let store = format!("seen{}", options.replace(' ', ""));
        let mut args = vec!["dedup", "-q"];
        args.extend(options.split(' ').filter(|word| !word.is_empty()));
        args.push(&store);
        let all = items(b'\n', input);
        let expected: Vec<u8> = printed
            .iter()
            .flat_map(|at| [all[*at], b"\n"].concat())
            .collect();
        assert_same(&lab.run_on(&args, input).expect(0), &expected);
        assert_same(&lab.run_on(&["dedup", "-q", &store], input).expect(0), b"");
    }
    // The values of records, and URLs.
    let input = b"{\"k\":\" A\"}\n{\"k\":\"a \"}\n{\"k\":\"b\"}\n";
    let args = [
        "dedup",
        "-q",
        "--json-key",
        "k",
        "--trim",
        "--ignore-case",
        "json",
    ];
    assert_same(
        &lab.run_on(&args, input).expect(0),
        b"{\"k\":\" A\"}\n{\"k\":\"b\"}\n",
    );
    let input = b"http://a/B\nhttp://A/b\n";
    let args = ["dedup", "-q", "--url", "--ignore-case", "urls"];
    assert_same(&lab.run_on(&args, input).expect(0), b"http://a/B\n");
}

#[test]
fn a_quote_that_is_never_closed_is_an_error() {
    let lab = Lab::new();
    let mut input = b"k,v\n1,a\n2,b\n3,\"c\n".to_vec();
    input.extend((0..200_000).flat_map(|number| format!("{number},x\n").into_bytes()));
    let ran = lab.run_on(&["dedup", "--csv-key", "k", "seen"], &input);
    assert_eq!(
        ran.err,
        "everseen: standard input:4: a quote in this CSV record is never closed, so that it takes in the rest of the \
         file; the records before it are done; mend it, or use --key-field, which knows no quotes\n"
    );
    assert_eq!(ran.code, Some(2));
    assert_same(&ran.out, b"k,v\n1,a\n2,b\n");
    assert_same(
        &lab.run_on(&["check", "seen"], b"k,v\n2,b\n4,c").expect(0),
        b"k,v\n2,b\n",
    );
}

/// All records behind such a quote are one that is too long.
#[test]
fn nor_is_it_skipped_as_too_long() {
    let lab = Lab::new();
    let args = ["dedup", "--csv-key", "t", "--skip-long", "--max-line", "10"];
    let ran = lab.run_on(
        &[&args[..], &["seen"]].concat(),
        b"id,t\n1,a\n2,\"open\n3,c\n4,d\n",
    );
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("is never closed"), "{}", ran.err);
    assert_same(&ran.out, b"id,t\n1,a\n");
}

#[test]
fn a_key_is_no_record() {
    let lab = Lab::new();
    lab.run_on(
        &["dedup", "--csv-key", "t", "seen"],
        b"id,t\n2,\"\"\"hello\"\n",
    )
    .expect(0);
    lab.run(&["check", "seen", "--key", "\"hello"]).expect(0);
    let ran = lab.run(&["dedup", "seen", "--key", "\"q", "--key", "r\""]);
    assert_same(&ran.expect(0), b"\"q\nr\"\n");
    lab.run(&["check", "seen", "--key", "r\""]).expect(0);
}

#[test]
fn separators_compression_and_stores_without_a_label_are_no_matter() {
    let lab = lab();
    let args = ["dedup", "-q", "-0", "--csv-key", "k", "nul"];
    let input = b"v,k\0\"x\ny\",1\0x,2\0z,1";
    assert_same(
        &lab.run_on(&args, input).expect(0),
        b"v,k\0\"x\ny\",1\0x,2\0",
    );
    lab.bare_store("bare", &Options::new());
    lab.write("keys", b"http://a/\n");
    run(&lab, "add bare keys").expect(0);
    assert_same(
        &run(&lab, "check --csv-key url bare csv").expect(0),
        &rows(HEADER, &[1, 2]),
    );
    let mut gzip = lab.command(&["dedup", "-q", "--tsv", "--csv-key", "b", "tsv"]);
    let mut child = gzip
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(b"a\tb\n1\tx\n2\tx\n3\t\"y\n\"\n")
        .expect("memory");
    let packed = encoder.finish().expect("memory");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&packed)
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_same(&output.stdout, b"a\tb\n1\tx\n3\t\"y\n\"\n");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let lab = lab();
    for (options, message) in [
        ("--tsv", "--tsv: needs --csv-key, since"),
        (
            "--key-field 1 --delimiter ;",
            "--delimiter: needs --csv-key, since",
        ),
        ("--no-header", "--no-header: needs --csv-key, since"),
        (
            "--csv-key a --field-separator ;",
            "--field-separator: needs --key-field, since",
        ),
        ("--csv-key a --csv-key a", "--csv-key: a: is given twice"),
        (
            "--key-field 1 --key-field 1",
            "--key-field: 1: is given twice",
        ),
        (
            "--csv-key a --no-header",
            "--no-header: needs numbers of columns, since names stand in a header",
        ),
        (
            "--csv-key a --csv-key b --url",
            "--url: needs a key of one value",
        ),
    ] {
        for command in ["create new", "dedup new csv"] {
            run(&lab, &format!("{command} {options}")).expect_error(message);
            assert!(!lab.path("new").exists());
        }
    }
    for options in [
        &["--csv-key", ""][..],
        &["--csv-key", "0"],
        &["--key-field", "0"],
        &["--key-field", "x"],
        &["--csv-key", "a", "--delimiter", ",,"],
        &["--csv-key", "a", "--delimiter", ",", "--tsv"],
        &["--csv-key", "a", "--json-key", "a"],
        &["--key-field", "1", "--csv-key", "a"],
        &["--key-field", "1", "--field-separator", ""],
    ] {
        let ran = lab.run(&[&["dedup", "new", "csv"], options].concat());
        assert_eq!(ran.code, Some(2), "{options:?}");
        assert!(!lab.path("new").exists());
    }
}

/// Records with all that is special in CSV, of few keys.
fn record(random: &mut fastrand::Rng, text: &mut Vec<u8>) -> String {
    let key: String = (0..random.usize(..4))
        .map(|_| ['a', 'b', ',', '"', '\n', '\r', 'é', ' '][random.usize(..8)])
        .collect();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let needs_quotes = key.contains([',', '"', '\n', '\r']);
    let written = match needs_quotes || random.bool() {
        true => quoted(&key),
        false => key.clone(),
    };
    let other = ["x", "5\" disk", "\"a,\nb\"", "\"\"", ""][random.usize(..5)];
    let end = if random.bool() { "\r\n" } else { "\n" };
    text.extend_from_slice(format!("{other},{written},{}{end}", random.u32(..)).as_bytes());
    key
}

#[test]
fn prints_what_a_set_of_columns_lets_through() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for sieve in ["auto", "always"] {
        let (mut input, mut expected) = (b"o,k,n\n".to_vec(), b"o,k,n\n".to_vec());
        let mut seen = HashSet::new();
        for _ in 0..100_000 {
            let start = input.len();
            if seen.insert(record(&mut random, &mut input)) {
                expected.extend_from_slice(&input[start..]);
            }
        }
        assert!(seen.len() > 100);
        let lab = Lab::new();
        let ran = lab.run_on(
            &["dedup", "--sieve", sieve, "--csv-key", "k", "seen"],
            &input,
        );
        assert_eq!(ran.err, "");
        assert_same(&ran.expect(0), &expected);
        let again = lab.run_on(&["dedup", "--sieve", sieve, "seen"], &input);
        assert_same(&again.expect(0), b"o,k,n\n");
    }
}
