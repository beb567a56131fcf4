//! Signs of text from another system, which are noticed where they are compared.

use crate::support::Lab;

/// What is said of a byte-order mark, and of a carriage return.
const MARK: &str = "begins with a byte-order mark, which is compared as part of the first line; --trim from the first run on leaves it out, and so does: tail -c +4\n";
const RETURN: &str = "ends with a carriage return, as text of Windows does (CRLF), which is compared as part of the line; --crlf from the first run on leaves it out, and so does: tr -d '\\r'\n";

#[test]
fn marks_and_carriage_returns_are_noticed_once_a_file() {
    let lab = Lab::new();
    lab.write("marked", b"\xef\xbb\xbfa\nb\n");
    lab.write("dos", b"a\nb\r\nc\r\nb\r\n");
    lab.write("both", b"\xef\xbb\xbfa\r\nb\r\n");
    lab.write("none", b"\xef\xbba\n\xef\xbb\xbfb\nc\rd\n\r\r \n");
    let marked = format!("everseen: marked: {MARK}");
    let dos = format!("everseen: dos:2: {RETURN}");
    let both = format!("everseen: both: {MARK}everseen: both:1: {RETURN}");
    for command in ["dedup", "add", "check"] {
        let args = [command, "seen", "none", "marked", "dos", "both"];
        assert_eq!(lab.run(&args).err, [&*marked, &dos, &both].concat());
    }
    let ran = lab.run(&["count", "dos", "marked"]);
    assert_eq!(ran.err, [&*dos, &marked].concat());
    assert_eq!(lab.run(&["check", "-q", "seen", "both", "dos"]).err, "");
    // However the bytes come, and compressed.
    let packed = zstd::encode_all(&b"\xef\xbb\xbfa\r\n"[..], 1).expect("packs");
    let ran = lab.run_on(&["check", "seen"], &packed);
    let name = "everseen: standard input:";
    let expected = [name, "1: ", RETURN].concat();
    assert_eq!(ran.err, [name, " ", MARK, &expected].concat());
    // The second line is none at the start of a file.
    let args = ["check", "--skip-long", "--max-line", "5", "seen"];
    let ran = lab.run_on(&args, b"longer line\n\xef\xbb\xbfb\n");
    assert!(!ran.err.contains("byte-order"), "{}", ran.err);
    let ran = lab.run(&["check", "seen", "--key", "a\r"]);
    assert_eq!(ran.err, format!("everseen: --key:1: {RETURN}"));
}

#[test]
fn what_the_rule_of_the_store_leaves_out_is_not_noticed() {
    let lab = Lab::new();
    lab.write(
        "both",
        b"\xef\xbb\xbfhttp://a/ 1\r\nhttp://a/ 1\nhttp://a/ 2\r\n",
    );
    for (number, (options, has_mark, line)) in [
        (&["--trim"][..], false, None),
        (&["--crlf"], true, None),
        (&["--ignore-case"], true, Some(1)),
        (&["--url"], false, None),
        (&["--key-field", "1"], true, None),
        (&["--key-field", "2"], false, Some(1)),
        (&["--key-field", "2", "--key-field", "1"], true, None),
        (&["--key-field", "1", "--key-field", "2"], true, Some(1)),
        (&["--key-field", "1", "--url"], false, None),
        (&["-0"], true, None),
        (&["--no-header", "--csv-key", "1"], false, None),
        (&["--no-decompress"], true, Some(1)),
    ]
    .into_iter()
    .enumerate()
    {
        let store = format!("seen{number}");
        let args = [&["dedup"], options, &[&store, "both"]].concat();
        let mut expected = String::new();
        if has_mark {
            expected += &format!("everseen: both: {MARK}");
        }
        if let Some(line) = line {
            expected += &format!("everseen: both:{line}: {RETURN}");
        }
        let ran = lab.run(&args);
        assert_eq!((ran.code, &*ran.err), (Some(0), &*expected), "{options:?}");
    }
    // What is not noticed counts for nothing.
    let trimmed = b"http://a/ 1\nhttp://a/ 2\n";
    assert_eq!(lab.run_on(&["dedup", "seen0"], trimmed).expect(0), b"");
}

#[test]
fn of_many_files_the_first_ones_are_named() {
    let lab = Lab::new();
    lab.write("dos", b"a\r\n");
    lab.write("unix", b"b\n");
    let mut args = vec!["check", "-c", "seen", "unix"];
    args.extend(["dos"; 9]);
    lab.run(&["create", "seen"]).expect(0);
    let told = format!("everseen: dos:1: {RETURN}").repeat(5);
    let rest = "everseen: more files like that follow, which are not reported\n";
    assert_eq!(lab.run(&args).err, [&*told, rest].concat());
}
