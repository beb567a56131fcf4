//! Arguments that are refused before anything is done.

use std::fs;

use super::{Message, expect_refusals, lab};

/// Commands, and what follows `everseen: ` in the one line that they say. A store that was opened is told by where it
/// lies, whatever led there: `HERE` is the folder.
const TABLE: &[(&[&str], &str)] = &[
    // No store.
    (
        &["dedup", "urls.txt"],
        "HERE/urls.txt: not an Everseen store (did you forget the STORE argument?)",
    ),
    (
        &["add", "urls.txt", "short"],
        "HERE/urls.txt: not an Everseen store (did you forget the STORE argument?)",
    ),
    (
        &["check", "urls.txt", "short"],
        "HERE/urls.txt: not an Everseen store (did you forget the STORE argument?)",
    ),
    (
        &["repair", "urls.txt"],
        "HERE/urls.txt: not an Everseen store",
    ),
    (
        &["create", "new", "--like", "urls.txt"],
        "urls.txt: not an Everseen store",
    ),
    (
        &["info", "empty"],
        "HERE/empty: is an empty file, not a store yet; make it one with `everseen create HERE/empty`",
    ),
    (
        &["add", "empty", "urls.txt"],
        "HERE/empty: is an empty file, not a store yet; make it one with `everseen create HERE/empty`",
    ),
    (
        &["dedup", "emptied", "urls.txt"],
        "HERE/emptied: is empty, but was a store, as HERE/emptied-shm shows; restore it from a copy, or remove both if the store is gone for good",
    ),
    (
        &["add", "short"],
        "HERE/short: not an Everseen store: the file has 3 bytes (did you forget the STORE argument?)",
    ),
    (
        &["check", "one"],
        "HERE/one: not an Everseen store: the file has 1 byte (did you forget the STORE argument?)",
    ),
    (
        &["dedup", "cut"],
        "HERE/cut: the file is cut short: 131000 bytes, expected at least 131072; restore it from a copy",
    ),
    (
        &["repair", "empty"],
        "HERE/empty: not an Everseen store: the file is empty",
    ),
    (
        &["verify", "short"],
        "HERE/short: not an Everseen store: the file has 3 bytes",
    ),
    (
        &["info", "cut"],
        "HERE/cut: the file is cut short: 131000 bytes, expected at least 131072; restore it from a copy",
    ),
    (&["info", "none"], "none: no such store; check the name"),
    (&["verify", "none"], WRONG_NAME),
    (&["check", "none", "urls.txt"], WRONG_NAME),
    (&["snapshot", "none", "new"], WRONG_NAME),
    (&["report", "none"], WRONG_NAME),
    (&["repair", "none"], WRONG_NAME),
    (&["union", "new", "none"], WRONG_NAME),
    (
        &["add", "none", "urls.txt"],
        "none: no such store; create one with `everseen create none`",
    ),
    (
        &["dedup", "/dev/null", "urls.txt"],
        "/dev/null: is not a regular file; give the store another name",
    ),
    (
        &["info", "folder"],
        "folder: is a folder; a store is a file",
    ),
    (
        &["create", "small"],
        "small: already exists; choose another name, or remove it first",
    ),
    (
        &["union", "other", "small"],
        "other: already exists; choose another name, or remove it first",
    ),
    (
        &["snapshot", "small", "other"],
        "other: already exists; choose another name, or remove it first",
    ),
    (
        &["info", "small/new"],
        "small: is not a folder; name another one",
    ),
    // Options.
    (
        &["dedup", "new", "--no-key", "drop"],
        "--no-key: needs --json-key, --csv-key or --key-field, since the store does not say so of its records",
    ),
    (
        &["dedup", "new", "--json-key", "a.b", "--json-key", "/a/b"],
        "--json-key: /a/b: is given twice",
    ),
    (
        &[
            "create",
            "new",
            "--json-key",
            "a",
            "--json-key",
            "b",
            "--url",
        ],
        "--url: needs a key of one value, since several together are not a URL",
    ),
    (
        &["create", "new", "--kind", "counting"],
        "--kind counting needs --capacity N, since it can't grow: removing a key from the wrong layer would damage others",
    ),
    (
        &["dedup", "new", "--kind", "bloom", "urls.txt"],
        "--kind bloom needs --capacity N; --kind fingerprint and --kind scalable grow without one",
    ),
    (
        &["add", "small", "urls.txt", "--buffer", "1"],
        "--buffer: got 1, expected at least 131072 bytes",
    ),
    (
        &["create", "new", "--kind", "scalable", "--bits-per-key", "8"],
        "--bits-per-key: got 8, expected a rate for kind scalable, whose layers differ in bits a key",
    ),
    (
        &["fold", "small", "new", "--factor", "7"],
        "--factor: got 7, expected 2 or more, and a divisor of 1, the number of pages of the store",
    ),
    (
        &["plan", "--capacity", "1e14", "--fpr", "1e-9"],
        "a rate of 1e-9 is out of reach with 100000000000000 keys: a key is known by its 64-bit hash, and that alone is \
         wrong at a rate of 5.42e-6 when the filter is full; ask for at least twice that rate, or for fewer keys",
    ),
    // Inputs and outputs.
    (&["dedup", "small", "none"], "none: no such file"),
    (
        &["check", "small", "short/none"],
        "short/none: no such file, since part of its path is not a folder",
    ),
    (
        &["dedup", "grows", "urls.txt", "-o", "none/new"],
        "none: no such folder; create it first",
    ),
    (
        &["dedup", "grows", "urls.txt", "-o", "short/new"],
        "short: is not a folder; name another one",
    ),
    (
        &["report", "small", "-o", "none/new"],
        "none: no such folder; create it first",
    ),
    (
        &["man", "short"],
        "short: is not a folder; name another one",
    ),
    (
        &["man", "short/new"],
        "short/new: is not a folder; name another one",
    ),
    (
        &["create", "none/new"],
        "none: no such folder; create it first",
    ),
    // Kinds.
    (
        &["union", "new", "counts", "counts"],
        "counts: is of kind counting; only stores of kind bloom, scalable or fingerprint can be merged",
    ),
    (
        &["union", "new", "small", "other"],
        "other: can't be merged with small: its seed differs; create stores for merging with `create --like`",
    ),
    (
        &["fold", "grows", "small7.ever", "--factor", "7"],
        "grows: is of kind scalable; only a store of fixed capacity (kind bloom) can be folded",
    ),
    (
        &["fold", "counts", "new", "--factor", "2"],
        "counts: is of kind counting; only a store of fixed capacity (kind bloom) can be folded",
    ),
    (
        &["remove", "small", "urls.txt"],
        "HERE/small: is of kind bloom; only a store of kind counting or fingerprint can remove keys",
    ),
    // Deltas.
    (
        &["apply", "none", "copy"],
        "none: no such delta; `everseen snapshot --since` makes one",
    ),
    (
        &["apply", "delta", "none"],
        "none: no such copy; `everseen snapshot` makes one",
    ),
    (
        &["apply", "urls.txt", "copy"],
        "urls.txt: not a delta of an Everseen store (`everseen snapshot --since` makes one)",
    ),
    (
        &["apply", "empty", "copy"],
        "empty: not a delta of an Everseen store (`everseen snapshot --since` makes one)",
    ),
    (
        &["snapshot", "grows", "new", "--since", "none"],
        "none: no such copy; `everseen snapshot` makes one",
    ),
    (
        &["snapshot", "grows", "new", "--since", "small"],
        "small: this copy was not made by `everseen snapshot`, so what it lacks is unknown; take a full snapshot",
    ),
    // A link to nothing.
    (&["create", "link"], LINK),
    (&["dedup", "link", "urls.txt"], LINK),
    (&["add", "link", "urls.txt"], LINK),
    (&["check", "link", "urls.txt"], LINK),
    (&["repair", "link"], LINK),
    (&["union", "link", "small"], LINK),
    (&["snapshot", "small", "link"], LINK),
    // The store as its own input.
    (&["dedup", "small", "urls.txt", "small"], INPUT),
    (&["add", "small", "small"], INPUT),
    (
        &["check", "small", "./small"],
        "./small: is the store itself, or a file of its own; name another file to read",
    ),
    (
        &["remove", "counts", "urls.txt", "counts"],
        "counts: is the store itself, or a file of its own; name another file to read",
    ),
    (&["exempt", "small", "small"], INPUT),
    // Names of a store's own files.
    (
        &["dedup", "small", "small-new"],
        "small-new: is a name that the store small uses for files of its own; choose another name",
    ),
];

const WRONG_NAME: &str = "none: no such store; check the name";

const INPUT: &str = "small: is the store itself, or a file of its own; name another file to read";

const LINK: &str = "link: is a link that leads nowhere; remove it, or choose another name";

#[test]
fn each_refusal_says_what_is_wrong_and_what_to_do() {
    expect_refusals(&lab(), TABLE);
}

/// A log under a second name, and a store on standard input.
#[test]
fn a_file_of_the_store_is_no_input_whatever_its_name() {
    let lab = lab();
    let expected = |name| {
        format!("{name}: is the store itself, or a file of its own; name another file to read")
    };
    let mut store = lab.start(&["dedup", "grows", "--commit-every", "1"]);
    let mut lines = crate::support::feed(&mut store, b"a\n".to_vec())
        .join()
        .expect("written");
    let log = lab.path("grows-log.1");
    while fs::metadata(&log).is_err() {
        std::thread::yield_now();
    }
    fs::hard_link(log, lab.path("other-name")).expect("a second name");
    lab.run(&["dedup", "grows", "other-name"])
        .expect_message(&expected("other-name"));
    std::io::Write::write_all(&mut lines, b"b\n").expect("it reads");
    drop(lines);
    assert_eq!(store.wait_with_output().expect("it ran").stdout, b"a\nb\n");

    let ran = lab
        .command(&["check", "small"])
        .stdin(fs::File::open(lab.path("small")).expect("a store"))
        .output()
        .expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&ran.stderr),
        format!("everseen: {}\n", expected("standard input"))
    );
    assert_eq!(ran.status.code(), Some(2));
}
