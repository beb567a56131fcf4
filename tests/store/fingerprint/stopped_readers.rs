//! Readers that are stopped in the middle of a look-up while checkpoints write the room again that they read.
//!
//! Children look for keys without a pause. The parent stops one at any instruction (SIGSTOP), waits until a writer has
//! ended several checkpoints, so that the room of the directory which the child reads is another's, and lets it go on.
//! Keys that are there throughout must be found by every look, and keys that were never inserted by none. Between them
//! are keys that come and go.
//!
//! 24 stops by default. The long run:
//! `EVERSEEN_STOPS=3000 cargo test --release --test store -- --nocapture stopped_readers`. A failure prints its seed, and
//! `EVERSEEN_SEED` sets it. Which instruction a stop meets is the machine's own choice.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use everseen::hash::HashedKey;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Store};

use crate::support::numbers::{Random, key};
use crate::support::unsynced::Unsynced;

const STOPS: u64 = 24;
/// Where a child finds what it is to do.
const VARIABLE: &str = "EVERSEEN_STOPPED_READER";
/// Keys that are there throughout: the numbers below this.
const STEADY: u64 = 20_000;
/// Numbers of keys that come and go.
const CHANGING: std::ops::Range<u64> = STEADY..STEADY + 4_000;
/// The first number of keys that are never inserted.
const NEVER: u64 = 1 << 40;
/// Checkpoints that end while a reader is stopped: after two the room that it reads is written again.
const CHECKPOINTS: usize = 3;
/// Looks of which a reader tells.
const LOOKS: u64 = 32;
/// If nothing happens for so long, somebody hangs.
const SILENCE: Duration = Duration::from_secs(100);

/// The rate is so low that no false positive is to be expected in all looks together.
fn options() -> Options {
    Options::new()
        .kind(Kind::Fingerprint)
        .capacity(100_000)
        .fpr(1e-13)
        .seed([7; 32])
        .buffer(LEAST_BUFFER)
        .storage(Unsynced::new())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "not a test: what the other test starts again and stops"]
fn read() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let fields: Vec<_> = task.splitn(3, ' ').collect();
    let (way, path) = (fields[0], Path::new(fields[2]));
    let mut random = Random::new(fields[1].parse().unwrap());
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let pipe = File::from(pipe);
    let open = || match way {
        "writer" => options().open(path),
        _ => options().buffer(1 << 20).open_read_only(path),
    };
    let mut store = open().unwrap();
    tell(&pipe, b'o');
    loop {
        for _ in 0..LOOKS {
            match look(&store, &mut random) {
                Ok(()) => {}
                // Only a handle that shares no memory may be overtaken for good.
                Err(Error::Ended) if way == "snapshot" => {
                    store = open().unwrap();
                    tell(&pipe, b'e');
                }
                Err(error) => panic!("{way}: {error}"),
            }
        }
        tell(&pipe, b'.');
    }
}

/// Without a parent there is nothing left to do.
fn tell(mut pipe: &File, byte: u8) {
    if pipe.write_all(&[byte]).is_err() {
        std::process::exit(1);
    }
}

/// Looks for one key, or for some together.
fn look(store: &Store, random: &mut Random) -> everseen::Result<()> {
    let most = 1 << random.below(10);
    let count = 1 + random.below(most);
    let numbers: Vec<u64> = (0..count)
        .map(|_| match random.below(4) {
            0 => NEVER + random.below(1 << 20),
            _ => random.below(STEADY),
        })
        .collect();
    let keys: Vec<u64> = numbers.iter().map(|number| key(*number)).collect();
    let found = match keys.as_slice() {
        [key] => vec![store.contains(*key)?],
        keys => store.contains_batch(keys)?,
    };
    for (number, found) in numbers.into_iter().zip(found) {
        assert_eq!(found, number < STEADY, "key {number}");
    }
    Ok(())
}

/// A child that reads. It is killed when this is dropped.
struct Reader {
    way: &'static str,
    child: Child,
    told: Receiver<u8>,
    looks: u64,
    ended: u64,
}

impl Reader {
    fn start(way: &'static str, seed: u64, path: &Path) -> Self {
        let (mut pipe, theirs) = std::io::pipe().unwrap();
        let name = "fingerprint::stopped_readers::read";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(VARIABLE, format!("{way} {seed} {}", path.to_str().unwrap()))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while pipe.read_exact(&mut byte).is_ok() && sender.send(byte[0]).is_ok() {}
        });
        let mut reader = Self {
            way,
            child,
            told,
            looks: 0,
            ended: 0,
        };
        reader.wait();
        reader
    }

    fn note(&mut self, byte: u8) {
        match byte {
            b'.' => self.looks += LOOKS,
            b'e' => self.ended += 1,
            _ => {}
        }
    }

    /// Waits until it tells something.
    fn wait(&mut self) {
        match self.told.recv_timeout(SILENCE) {
            Ok(byte) => self.note(byte),
            Err(error) => panic!("the {} tells nothing: {error}", self.way),
        }
    }

    /// Waits until it has looked again.
    fn wait_for_looks(&mut self) {
        while let Ok(byte) = self.told.try_recv() {
            self.note(byte);
        }
        // The first may have been on its way.
        let before = self.looks;
        while self.looks < before + 2 * LOOKS {
            self.wait();
        }
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string());
        assert!(kill.status().unwrap().success());
    }

    /// Ends it; it must not have ended by itself.
    fn end(mut self) -> (u64, u64) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "the {} failed", self.way);
        while let Ok(byte) = self.told.recv() {
            self.note(byte);
        }
        (self.looks, self.ended)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Changes keys and checkpoints, over and over.
fn write(store: &Store, mut random: Random, over: &AtomicBool, ended: &Sender<()>) {
    let hasher = store.hasher();
    while !over.load(Ordering::Relaxed) {
        let count = 1 + random.below(600);
        let some: Vec<u64> = (0..count)
            .map(|_| CHANGING.start + random.below(CHANGING.end - CHANGING.start))
            .map(key)
            .collect();
        if random.below(2) == 0 {
            store.insert_batch(&some).unwrap();
        } else {
            let some = some.iter().map(|key| hasher.mix(*key));
            let some: Vec<_> = some.map(HashedKey::from_bits).collect();
            store.remove_batch(&some).unwrap();
        }
        store.checkpoint().unwrap();
        if ended.send(()).is_err() {
            return;
        }
    }
}

fn make(path: &Path) {
    let store = options().create(path).unwrap();
    let steady: Vec<u64> = (0..STEADY).map(key).collect();
    store.insert_batch(&steady).unwrap();
    store.close().unwrap();
}

/// Stops readers while the writer's checkpoints end. Answers what the readers did.
fn stop(mut readers: Vec<Reader>, store: &Store, stops: u64, random: &mut Random) -> (u64, u64) {
    let over = AtomicBool::new(false);
    let (sender, checkpoints) = channel();
    let seed = random.next();
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || write(store, Random::new(seed), over, &sender));
        // Otherwise the writer would go on for ever if a check fails.
        let _ends = Ends(over);
        for _ in 0..stops {
            let place = random.below(readers.len() as u64) as usize;
            let most = 1 << random.below(16);
            for _ in 0..random.below(most) {
                std::hint::spin_loop();
            }
            let reader = &mut readers[place];
            reader.signal("STOP");
            while checkpoints.try_recv().is_ok() {}
            for _ in 0..CHECKPOINTS {
                let ended = checkpoints.recv_timeout(SILENCE);
                ended.expect("the writer waits for a reader that is stopped");
            }
            reader.signal("CONT");
            reader.wait_for_looks();
        }
    });
    let each = readers.into_iter().map(Reader::end);
    each.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn try_stops(ways: &[&'static str], has_snapshots: bool) {
    let stops = number("EVERSEEN_STOPS").unwrap_or(STOPS);
    let seed = number("EVERSEEN_SEED").unwrap_or(1);
    println!("EVERSEEN_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("store");
    make(&path);
    let start = |random: &mut Random| {
        let each = ways.iter();
        let each = each.map(|way| Reader::start(way, random.next(), &path));
        each.collect::<Vec<_>>()
    };
    // Before anybody writes there is no memory to share.
    let mut readers = match has_snapshots {
        true => start(&mut random),
        false => Vec::new(),
    };
    let store = options().background(false).open(&path).unwrap();
    if !has_snapshots {
        readers = start(&mut random);
    }
    let (looks, ended) = stop(readers, &store, stops, &mut random);
    let report = store.verify().unwrap();
    assert!(report.is_ok(), "{:?}", report.damaged);
    store.close().unwrap();
    println!("{stops} stops, {looks} looks, {ended} snapshots had ended");
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_reader_that_was_stopped_answers_as_any_other() {
    try_stops(&["writer", "reader"], false);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_snapshot_that_was_stopped_answers_or_has_ended() {
    try_stops(&["snapshot", "snapshot"], true);
}
