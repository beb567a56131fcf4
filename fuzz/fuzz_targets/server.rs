//! A client that says anything.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use everseen_fuzz::forge::{Patch, patch};
use everseen_fuzz::wire::{packed, whole};
use everseen_server::fuzzing::{Unheard, commands};
use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use tempfile::TempDir;

/// What arguments are made of, beside numbers and any bytes.
const WORDS: [&str; 44] = [
    "k",
    "l",
    "m",
    "",
    "0",
    "1",
    "2",
    "-1",
    "10",
    "100",
    "0.01",
    "1e-9",
    "nan",
    "inf",
    "1e400",
    "*",
    "k*",
    "ITEMS",
    "NOCREATE",
    "CAPACITY",
    "ERROR",
    "EXPANSION",
    "NONSCALING",
    "BUCKETSIZE",
    "MAXITERATIONS",
    "TAG",
    "FPR",
    "FORGET-AFTER",
    "FORGET-BY",
    "last",
    "first",
    "PLAIN",
    "WRITER",
    "MATCH",
    "COUNT",
    "TYPE",
    "NX",
    "GT",
    "USAGE",
    "SETNAME",
    "ON",
    "SKIP",
    "default",
    "3",
];

#[derive(Debug, Arbitrary)]
enum Word {
    Known(u8),
    Number(i64),
    Any(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Part {
    Command(u8, Vec<Word>),
    /// A piece of a good dump, perhaps changed, for a key of the first three words.
    Load(u8, u8, Vec<Patch>),
    /// Many items for one command.
    Many(u8, u8, u16),
    Any(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
struct Input {
    /// Whether each answer waits for the disk.
    waits: bool,
    parts: Vec<Part>,
}

struct Servers {
    quick: Unheard,
    waiting: Unheard,
    _folders: [TempDir; 2],
    commands: Vec<&'static str>,
    /// The pieces of a store's dump with their cursors.
    dump: Vec<(String, Vec<u8>)>,
}

static SERVERS: LazyLock<Servers> = LazyLock::new(|| {
    // Where there is memory for files, no disk slows the fuzzer down.
    let base = Path::new("/dev/shm");
    let base = if base.exists() {
        base.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = || tempfile::tempdir_in(&base).expect("a folder");
    let folders = [folder(), folder()];
    let quick = Unheard::new(folders[0].path(), &["--durable=no", "--max-pending=16"]);
    let waiting = Unheard::new(folders[1].path(), &["--durable=always", "--max-open=2"]);
    let dump = dumped(&quick);
    Servers {
        quick,
        waiting,
        _folders: folders,
        commands: commands(),
        dump,
    }
});

fuzz_target!(|input: Input| {
    let servers = &*SERVERS;
    let server = if input.waits {
        &servers.waiting
    } else {
        &servers.quick
    };
    let pieces: Vec<Vec<u8>> = input.parts.iter().map(|part| said(part, servers)).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let came = server.converse(&pieces);
    assert_eq!(whole(&came), came.len(), "{}", came.escape_ascii());
    let flush = packed(&[b"FLUSHALL"]);
    let add = packed(&[b"BF.ADD", b"alive", b"x"]);
    let other = server.converse(&[&flush, &add, &flush]);
    assert_eq!(
        other.escape_ascii().to_string(),
        "+OK\\r\\n:1\\r\\n+OK\\r\\n"
    );
});

fn said(part: &Part, servers: &Servers) -> Vec<u8> {
    match part {
        Part::Command(name, words) => {
            let name = servers.commands[usize::from(*name) % servers.commands.len()];
            let words = words.iter().map(|word| match word {
                Word::Known(number) => WORDS[usize::from(*number) % WORDS.len()]
                    .as_bytes()
                    .to_vec(),
                Word::Number(number) => number.to_string().into_bytes(),
                Word::Any(any) => any.clone(),
            });
            let all: Vec<Vec<u8>> = std::iter::once(name.as_bytes().to_vec())
                .chain(words)
                .collect();
            packed(&all.iter().map(Vec::as_slice).collect::<Vec<_>>())
        }
        Part::Load(key, number, patches) => {
            let (cursor, piece) = &servers.dump[usize::from(*number) % servers.dump.len()];
            let mut piece = piece.clone();
            patch(&mut piece, 0, patches);
            let key = WORDS[usize::from(*key) % 3].as_bytes();
            packed(&[b"BF.LOADCHUNK", key, cursor.as_bytes(), &piece])
        }
        Part::Many(command, key, many) => {
            let command =
                ["BF.MADD", "BF.MEXISTS", "EV.CLAIM", "EV.REMOVE"][usize::from(*command) % 4];
            let key = WORDS[usize::from(*key) % 3].as_bytes();
            let items: Vec<Vec<u8>> = (0..*many % 3000)
                .map(|item| item.to_string().into_bytes())
                .collect();
            let mut all = vec![command.as_bytes(), key];
            all.extend(items.iter().map(Vec::as_slice));
            packed(&all)
        }
        Part::Any(any) => any.clone(),
    }
}

/// Dumps a store: the answer to each call is an array of the next cursor and a piece.
fn dumped(server: &Unheard) -> Vec<(String, Vec<u8>)> {
    server.converse(&[&packed(&[b"BF.MADD", b"d", b"a", b"b", b"c"])]);
    let mut dump = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let call = packed(&[b"BF.SCANDUMP", b"d", cursor.as_bytes()]);
        let answer = server.converse(&[&call]);
        let rest = answer.strip_prefix(b"*2\r\n:").expect("a cursor");
        let line = rest
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .expect("its end");
        cursor = String::from_utf8(rest[..line].to_vec()).expect("digits");
        let piece = &rest[line + 3..];
        let line = piece
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .expect("its length");
        if cursor == "0" {
            break;
        }
        dump.push((cursor.clone(), piece[line + 2..piece.len() - 2].to_vec()));
    }
    server.converse(&[&packed(&[b"FLUSHALL"])]);
    dump
}
