//! Every call to the disk fails, one after the other, or all from one on, as they do when a process is killed.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind};

use super::setting::{KINDS, assert_same, assert_whole, insert, options, store};
use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, names, place};
use crate::support::share::Share;

/// What each call is met with: once, or from there on.
const FAULTS: [(bool, Fault); 6] = [
    (false, Fault::Fails(Failure::NoSpace)),
    (false, Fault::Fails(Failure::Broken)),
    (false, Fault::Short),
    (false, Fault::Lies(Failure::Broken)),
    (true, Fault::Fails(Failure::Broken)),
    (true, Fault::Torn(Failure::NoSpace)),
];

/// Ways in which one call fails. Neighbours fail in others.
const WAYS: u64 = 2;

fn rule(nth: u64, lasts: bool, fault: Fault) -> Rule {
    match lasts {
        true => Rule::from(nth, fault),
        false => Rule::nth(nth, fault),
    }
}

fn is_typed(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace { .. } | Error::Io { .. } | Error::Poisoned { .. }
    )
}

/// One call in so many fails, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

/// The copy is made on one disk, and the store is on another: what fails are the calls for both.
fn fail_each_call(work: impl Fn(&everseen::Store, &Path) -> everseen::Result<()>, kind: Kind) {
    let mut share = Share::between(FEW, 2);
    for turn in 0..WAYS {
        for nth in 1.. {
            if !share.takes() {
                continue;
            }
            let (lasts, fault) = FAULTS[(nth + turn * 3) as usize % FAULTS.len()];
            let storage = FaultStorage::without_syncs();
            let options = options(kind).capacity(4000).storage(storage.shared());
            let (_folder, path, store) = store(&options, 0..500);
            let kept = beside(&path, "-kept");
            store.snapshot(&kept).unwrap();
            insert(&store, 500..600);
            let made = beside(&path, "-made");
            let begun = storage.events().len();
            storage.arm(rule(nth, lasts, fault));
            let outcome = work(&store, &path);
            let over = storage.events().len() - begun < nth as usize;
            storage.heal();
            let what = format!("call {nth}, {fault:?}, on: {lasts}");
            match outcome {
                Ok(()) => assert_whole(&made, 0..600),
                Err(error) => {
                    assert!(is_typed(&error), "{what}: {error:?}");
                    if !lasts {
                        let part = beside(&made, "-part");
                        let removal = storage.struck()[0].call == Call::Remove;
                        assert!(!part.exists() || removal, "{what}");
                    }
                    if made.exists() {
                        // Its name was given, and that it was could not be told. It is no half file.
                        assert_whole(&made, 0..600);
                        fs::remove_file(&made).unwrap();
                    }
                    // Nothing acknowledged is lost, and it can be done again, by this handle or the next.
                    let again = work(&store, &path);
                    if let Err(error) = again {
                        assert!(matches!(error, Error::Poisoned { .. }), "{what}: {error:?}");
                        drop(store);
                        let store = options.open(&path).unwrap();
                        work(&store, &path).unwrap();
                    }
                    assert_whole(&made, 0..600);
                }
            }
            if over {
                assert!(nth > 30, "{nth} calls are few");
                break;
            }
        }
    }
}

#[test]
fn a_whole_copy() {
    let work =
        |store: &everseen::Store, path: &Path| store.snapshot(beside(path, "-made")).map(|_| ());
    fail_each_call(work, Kind::Bloom);
    fail_each_call(work, Kind::Fingerprint);
}

#[test]
fn a_delta() {
    // What is made is tried by applying it to a copy, with a disk that works.
    let work = |store: &everseen::Store, path: &Path| {
        let delta = beside(path, "-delta");
        // From an earlier try that could not remove it.
        let _ = fs::remove_file(&delta);
        store.snapshot_since(&delta, beside(path, "-kept"))?;
        let made = beside(path, "-made");
        fs::copy(beside(path, "-kept"), &made).unwrap();
        Options::new().apply(&delta, &made).map(|_| ())
    };
    fail_each_call(work, Kind::Scalable);
    fail_each_call(work, Kind::Fingerprint);
}

#[test]
fn applying() {
    for kind in KINDS {
        let (_folder, path, store) = store(&options(kind).capacity(12_000), 0..1000);
        let [old, new, delta] = ["-old", "-new", "-delta"].map(|name| beside(&path, name));
        store.snapshot(&old).unwrap();
        insert(&store, 1000..9000);
        store.snapshot_since(&delta, &old).unwrap();
        store.snapshot(&new).unwrap();
        let (mut half, mut earlier, mut later) = (0, 0, 0);
        let mut share = Share::between(FEW, 2);
        for turn in 0..WAYS {
            for nth in 1.. {
                if !share.takes() {
                    continue;
                }
                let (lasts, fault) = FAULTS[(nth + turn * 3) as usize % FAULTS.len()];
                let what = format!("call {nth}, {fault:?}, on: {lasts}");
                let (_work, copy) = place();
                fs::copy(&old, &copy).unwrap();
                let storage = FaultStorage::without_syncs();
                // A torn write of fewer bytes than a sector is none: the mark is whole or it is not.
                storage.arm(rule(nth, lasts, fault));
                let outcome = options(kind).storage(storage.shared()).apply(&delta, &copy);
                let calls = storage.events().len() as u64;
                match &outcome {
                    Ok(_) => assert_same(&copy, &new),
                    Err(error) => assert!(is_typed(error), "{what}: {error:?}"),
                }
                // It is what it was, or what it is to be, or known to be neither.
                match Options::new().open_read_only(&copy) {
                    Ok(opened) => {
                        assert!(opened.verify().unwrap().is_ok(), "{what}");
                        let generation = opened.stats().unwrap().generation;
                        let made = Options::new().open_read_only(&new).unwrap();
                        let is_new = generation == made.stats().unwrap().generation;
                        let (count, end) = match is_new {
                            true => (&mut later, 9000),
                            false => (&mut earlier, 1000),
                        };
                        *count += 1;
                        assert_whole(&copy, 0..end);
                    }
                    Err(Error::Format {
                        source: FormatError::HalfApplied { from, to },
                        ..
                    }) => {
                        assert!(from < to);
                        half += 1;
                        // Nor can it be written to, repaired, or be the base of a delta.
                        assert!(options(kind).open(&copy).is_err(), "{what}");
                        let repaired = options(kind).repair(&copy, everseen::OnDamage::Seen);
                        assert!(repaired.is_err(), "{what}");
                        let since = store.snapshot_since(beside(&path, "-since"), &copy);
                        assert!(since.is_err(), "{what}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
                options(kind).apply(&delta, &copy).unwrap();
                assert_same(&copy, &new);
                assert!(names(&copy).len() == 1, "{what}");
                if calls < nth {
                    break;
                }
            }
        }
        let enough = half > 5 && earlier > 20 && later > 2;
        assert!(enough || !share.is_all(), "{half} {earlier} {later}");
    }
}
