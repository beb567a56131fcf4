//! Copies taken while others insert.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use everseen::testing::Options;
use everseen::{Error, Kind, Progress};

use super::setting::{KINDS, assert_same, insert, options, store};
use crate::support::files::{beside, small};
use crate::support::patience::wait_until;
use crate::support::share::all_or;

const VARIABLE: &str = "EVERSEEN_TEST_SNAPSHOT_CHILD";
/// Numbers of a child's keys begin at this times its own number.
const SHARE: u64 = 1 << 32;
/// Keys that a child may insert in each round. On a busy machine, one that inserts at will fills the store before this
/// process is through.
const ROUND: u64 = 20_000;

#[test]
#[ignore = "not a test: what another test starts as a process of its own"]
fn child() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let (number, path) = task.split_once(' ').unwrap();
    let store = small().open(path).unwrap();
    let from = number.parse::<u64>().unwrap() * SHARE;
    // The parent is at standard input, since the harness writes to the others.
    let parent = std::os::fd::AsFd::as_fd(&std::io::stdin())
        .try_clone_to_owned()
        .unwrap();
    let mut parent = UnixStream::from(parent);
    for next in (from..).step_by(50) {
        insert(&store, next..next + 50);
        let told = writeln!(parent, "{}", next + 50);
        // Otherwise the parent has seen enough.
        if told.and_then(|()| parent.read_exact(&mut [0])).is_err() {
            break;
        }
    }
    store.close().unwrap();
}

/// Has a thread end when this goes, by a failure too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// How far a process that inserts has told, and how far it may go.
struct Pace {
    told: u64,
    allowed: u64,
    is_over: bool,
}

/// A process that inserts.
struct Inserter {
    child: Child,
    pace: Arc<(Mutex<Pace>, Condvar)>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Inserter {
    fn start(number: u64, store: &std::path::Path) -> Self {
        let (mut own, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "snapshot::live::child", "--ignored"])
            .env(VARIABLE, format!("{number} {}", store.display()))
            // Prints why it fails.
            .env("RUST_TEST_NOCAPTURE", "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pace = Pace {
            told: number * SHARE,
            allowed: number * SHARE + ROUND,
            is_over: false,
        };
        let pace = Arc::new((Mutex::new(pace), Condvar::new()));
        let reader = std::thread::spawn({
            let pace = Arc::clone(&pace);
            move || {
                let lines = BufReader::new(own.try_clone().unwrap()).lines();
                for line in lines {
                    let (lock, changed) = &*pace;
                    let mut pace = lock.lock().unwrap();
                    pace.told = line.unwrap().parse().unwrap();
                    let waits = |pace: &mut Pace| pace.told >= pace.allowed && !pace.is_over;
                    let pace = changed.wait_while(pace, waits).unwrap();
                    if pace.is_over || own.write_all(b"\n").is_err() {
                        break;
                    }
                }
            }
        });
        Self {
            child,
            pace,
            reader: Some(reader),
        }
    }

    fn told(&self) -> u64 {
        self.pace.0.lock().unwrap().told
    }

    fn change(&self, change: impl FnOnce(&mut Pace)) {
        change(&mut self.pace.0.lock().unwrap());
        self.pace.1.notify_all();
    }

    fn end(mut self) {
        self.change(|pace| pace.is_over = true);
        self.reader.take().unwrap().join().unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// Fails unless the file is a clean store with all that was told.
fn assert_has(path: &std::path::Path, told: &[u64]) {
    for (number, end) in (1..).zip(told) {
        super::setting::assert_whole(path, number * SHARE..*end);
    }
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn a_copy_has_all_that_two_processes_had_inserted_before() {
    for kind in KINDS {
        let (_folder, path, store) = store(&options(kind), 0..10);
        let inserters = [1, 2].map(|number| Inserter::start(number, &path));
        let told = || [0, 1].map(|index: usize| inserters[index].told());
        let kept = beside(&path, "-kept");
        wait_until("the second one inserts", || told()[1] != 2 * SHARE);
        let before = told();
        store.snapshot(&kept).unwrap();
        assert_has(&kept, &before);
        for round in 0..all_or(5, 2) {
            let seen = told();
            for inserter in &inserters {
                inserter.change(|pace| pace.allowed += ROUND);
            }
            wait_until("they insert more", || told() != seen);
            let whole = beside(&path, &format!("-whole{round}"));
            let delta = beside(&path, &format!("-delta{round}"));
            let before = told();
            store.snapshot(&whole).unwrap();
            assert_has(&whole, &before);
            let before = told();
            store.snapshot_since(&delta, &kept).unwrap();
            small().apply(&delta, &kept).unwrap();
            assert_has(&kept, &before);
        }
        for inserter in inserters {
            inserter.end();
        }
        let [whole, delta] = ["-whole", "-delta"].map(|name| beside(&path, name));
        store.snapshot(&whole).unwrap();
        store.snapshot_since(&delta, &kept).unwrap();
        small().apply(&delta, &kept).unwrap();
        assert_same(&kept, &whole);
        store.close().unwrap();
    }
}

#[test]
fn threads_go_on_while_it_is_copied() {
    let (_folder, path, store) = store(&options(Kind::Bloom), 0..1000);
    let copy = beside(&path, "-copy");
    let inserted = AtomicU64::new(SHARE);
    // Far fewer than a buffer takes: the checkpoint of one that is full would wait for the copy.
    let allowed = AtomicU64::new(SHARE + 10);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = SHARE;
            while !over.load(Ordering::Acquire) {
                if next < allowed.load(Ordering::Acquire) {
                    insert(&store, next..next + 1);
                    next += 1;
                    inserted.store(next, Ordering::Release);
                }
                std::thread::yield_now();
            }
        });
        let ended = Over(&over);
        let wait_for = |number| {
            wait_until("keys are inserted", || {
                inserted.load(Ordering::Acquire) >= number
            });
        };
        let before = SHARE + 10;
        wait_for(before);
        let mut during = false;
        store
            .snapshot_watched(&copy, |progress| {
                // The copy is begun and not ended: inserts return all the same.
                if progress.done < progress.total / 2 && !during {
                    allowed.store(before + 3, Ordering::Release);
                    wait_for(before + 3);
                    during = true;
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        drop(ended);
        assert!(during);
        super::setting::assert_whole(&copy, SHARE..before);
        super::setting::assert_whole(&copy, 0..1000);
    });
    let opened = Options::new().open_read_only(&copy).unwrap();
    assert!(opened.recovery().is_clean());
}

/// No page changes while a copy is made or a delta: another handle's checkpoint is not let in, its inserts are.
#[test]
fn checkpoints_wait_while_it_is_copied() {
    KINDS.into_iter().for_each(make_checkpoints_wait);
}

fn make_checkpoints_wait(kind: Kind) {
    let (_folder, path, store) = store(&options(kind), 0..1000);
    let patience = std::time::Duration::from_millis(1);
    let other = small().timeout(patience).open(&path).unwrap();
    let [copy, delta] = ["-copy", "-delta"].map(|name| beside(&path, name));
    // What is told first is told in the midst of it.
    let meanwhile = |numbers: std::ops::Range<u64>| {
        let (mut left, other) = (Some(numbers), &other);
        move |_: Progress| {
            if let Some(numbers) = left.take() {
                insert(other, numbers);
                let refused = other.checkpoint().unwrap_err();
                let is_busy = matches!(refused, Error::Busy { .. });
                assert!(is_busy, "{refused:?}");
            }
            ControlFlow::Continue(())
        }
    };
    store
        .snapshot_watched(&copy, meanwhile(1000..1010))
        .unwrap();
    super::setting::assert_whole(&copy, 0..1000);
    store
        .snapshot_since_watched(&delta, &copy, meanwhile(1010..1020))
        .unwrap();
    small().apply(&delta, &copy).unwrap();
    super::setting::assert_whole(&copy, 0..1010);
    other.close().unwrap();
    store.close().unwrap();
    super::setting::assert_whole(&path, 0..1020);
}

/// A callback runs on the thread that makes the copy. What waits until no copy is made would wait for ever.
#[test]
fn a_callback_that_would_wait_for_its_own_copy_is_refused() {
    for kind in KINDS {
        let (_folder, path, store) = store(&options(kind), 0..1000);
        let [copy, delta, other] = ["-copy", "-delta", "-other"].map(|name| beside(&path, name));
        // The first call is sure to come in the midst of it.
        let ended = store.snapshot_watched(&copy, |_| {
            insert(&store, 1000..1010);
            for (what, outcome) in [
                ("verify", store.verify().map(drop)),
                ("checkpoint", store.checkpoint()),
                ("snapshot", store.snapshot(&other).map(drop)),
                ("close", store.close().map(drop)),
            ] {
                let is_busy = matches!(outcome, Err(Error::Busy { .. }));
                assert!(is_busy, "{kind}, {what}: {outcome:?}");
            }
            ControlFlow::Break(())
        });
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        store.snapshot(&copy).unwrap();
        let mut refused = false;
        let ended = store.snapshot_since_watched(&delta, &copy, |_| {
            let outcome = store.close();
            refused = matches!(outcome, Err(Error::Busy { .. }));
            ControlFlow::Break(())
        });
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        assert!(refused, "{kind}");
        store.close().unwrap();
        super::setting::assert_whole(&path, 0..1010);
    }
}
