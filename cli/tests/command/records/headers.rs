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
