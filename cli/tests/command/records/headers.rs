//! Headers that are too long, and byte-order marks.

use crate::support::Lab;

/// Without it, the record behind it would be taken for the header.
#[test]
fn a_header_is_not_skipped_as_too_long() {
    let lab = Lab::new();
    lab.write("long", b"a_very_long_header,b\n1,x\n2,y\n");
    lab.write("short", b"a,b\n3,z\n");
    for files in [&["long"][..], &["short", "long"]] {
        let args = [
            "dedup",
            "--csv-key",
            "1",
            "--skip-long",
            "--max-line",
            "10",
            "seen",
        ];
        let ran = lab.run(&[&args[..], files].concat());
        ran.expect_error(
            "long: its header is longer than 10 bytes, and without it no column is known",
        );
    }
    lab.run_on(&["check", "seen"], b"a,b\n1,x\n2,y\n").expect(1);
}

/// Of files that were joined, the second one's mark is in the middle. Lines that wait are cut once more, as before.
#[test]
fn a_mark_inside_of_a_text_cuts_nothing() {
    let lab = Lab::new();
    let text = b"id,t\n1,\"a\"\n\xEF\xBB\xBF\"x\ny\",z\n2,b\n";
    let args = ["dedup", "--csv-key", "1"];
    let plain = lab.run_on(&[&args[..], &["one"]].concat(), text).expect(0);
    let waiting = [&args[..], &["--sieve", "always", "two"]].concat();
    assert_eq!(lab.run_on(&waiting, text).expect(0), plain);
    assert_eq!(plain, text);
}

/// Rows would stand under other names; or the first record of a file without a header would be left out, and be in no store.
#[test]
fn an_output_that_begins_with_another_header_is_refused() {
    let lab = Lab::new();
    lab.write("one", b"url,title\n1,a\n");
    lab.write("same", b"\xEF\xBB\xBFurl,title\r\n2,b\r\n");
    lab.write("other", b"title,url\nc,3\n");
    let run = |name: &str, out: &[&str]| {
        let append = std::fs::File::options();
        let file = append
            .clone()
            .append(true)
            .create(true)
            .open(lab.path("out"));
        let mut command =
            lab.command(&[&["dedup", "--csv-key", "url"], out, &["seen", name]].concat());
        if out.is_empty() {
            command.stdout(file.expect("a file"));
        }
        let ran = command.output().expect("the command");
        (
            ran.status.code(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    for out in [&[][..], &["-o", "out"]] {
        assert_eq!(run("one", out), (Some(0), String::new()), "{out:?}");
        assert_eq!(run("same", out), (Some(0), String::new()), "{out:?}");
        let (code, said) = run("other", out);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains(
                ": begins with \"url,title\", and the input with the header \"title,url\""
            ),
            "{said}"
        );
        let written = std::fs::read(lab.path("out")).expect("the output");
        assert_eq!(written, b"url,title\n1,a\n2,b\r\n");
    }
    lab.run_on(&["check", "seen"], b"url,title\n3,c\n")
        .expect(1);
}

/// By their numbers, columns of files without a header are taken as well. Their first records are no header.
#[test]
fn the_first_record_of_a_file_without_a_header_is_not_lost() {
    let lab = Lab::new();
    for (name, rows) in [("one", "1,a\n2,b\n"), ("two", "3,c\n4,d\n")] {
        lab.write(name, rows.as_bytes());
    }
    lab.run(&["dedup", "--csv-key", "1", "-o", "out", "seen", "one"])
        .expect(0);
    let refused = lab.run(&["dedup", "-o", "out", "seen", "two"]);
    refused.expect_error("if the inputs have no header, give --no-header");
    lab.run(&[
        "dedup",
        "--csv-key",
        "1",
        "--no-header",
        "-o",
        "out",
        "seen",
        "two",
    ])
    .expect(0);
    let written = std::fs::read(lab.path("out")).expect("the output");
    assert_eq!(written, b"1,a\n2,b\n3,c\n4,d\n");
}
