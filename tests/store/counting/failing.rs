//! Each call to the disk fails once, or all from one on.

use everseen::testing::{Appending, Options};
use everseen::{Error, Kind, Store};

use super::model::{Batch, Counts, Crash, Mark, Model};
use crate::support::fault::{Failure, Fault, FaultStorage, Rule};
use crate::support::files::{names, place, small};
use crate::support::numbers::key;
use crate::support::recorded::Promises;
use crate::support::share::Share;

/// What a call is met with: once, or from there on. Neighbours meet others.
const FAULTS: [(bool, Fault); 6] = [
    (false, Fault::Fails(Failure::NoSpace)),
    (false, Fault::Fails(Failure::Broken)),
    (false, Fault::Short),
    (false, Fault::Torn(Failure::Broken)),
    (true, Fault::Fails(Failure::Broken)),
    (true, Fault::Torn(Failure::NoSpace)),
];

/// In how many ways each call fails.
const WAYS: usize = 2;

const KEYS: u32 = 700;

fn options() -> Options {
    small().kind(Kind::Counting).capacity(4000).fpr(1e-12)
}

fn bytes(keys: &[u32]) -> Vec<[u8; 8]> {
    let bytes = |number: &u32| key(u64::from(*number)).to_le_bytes();
    keys.iter().map(bytes).collect()
}

fn observe(store: &Store) -> Counts {
    let mut counts = Counts::new();
    for number in 0..KEYS {
        let [key] = bytes(&[number])[..] else {
            unreachable!("one key");
        };
        let count = store.count_estimate(key).unwrap();
        if count > 0 {
            counts.insert(number, count as i64);
        }
    }
    counts
}

fn count(
    store: &Store,
    model: &mut Model,
    up: bool,
    keys: std::ops::Range<u32>,
) -> Result<(), Error> {
    let keys: Vec<_> = keys.collect();
    let bytes = bytes(&keys);
    model.take(&Mark::Begun(Batch { up, keys }.into()));
    let mut answers = Vec::new();
    match up {
        true => answers = store.insert_batch(&bytes)?,
        false => store.remove_into(&bytes, &mut answers)?,
    }
    assert_eq!(answers.len(), bytes.len());
    model.take(&Mark::Done);
    Ok(())
}

/// A little of everything, up to what fails.
fn script(store: &Store, model: &mut Model) -> Result<(), Error> {
    count(store, model, true, 100..KEYS)?;
    count(store, model, false, 50..150)?;
    store.commit()?;
    model.take(&Mark::CommitBegun);
    model.take(&Mark::Committed);
    store.checkpoint()?;
    model.take(&Mark::Settled);
    count(store, model, false, 150..400)?;
    count(store, model, true, 0..20)?;
    store.checkpoint()?;
    model.take(&Mark::Settled);
    count(store, model, true, 10..30)?;
    store.close()?;
    model.take(&Mark::Settled);
    Ok(())
}

/// The files of a store as a killed process leaves them.
fn killed(path: &std::path::Path) -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, copy) = place();
    for name in names(path) {
        let from = path.with_file_name(&name);
        std::fs::copy(from, copy.with_file_name(&name)).unwrap();
    }
    (folder, copy)
}

/// A record whose write fails may be in the log all the same. Whatever others make of it is what the next
/// opener makes of it.
#[test]
fn what_others_see_of_a_record_that_failed_is_what_recovery_finds() {
    let (mut there, mut not) = (0, 0);
    for fault in [
        Fault::Fails(Failure::Broken),
        Fault::Torn(Failure::Broken),
        Fault::Lies(Failure::Broken),
    ] {
        for up in [false, true] {
            let (_folder, path) = place();
            let storage = FaultStorage::without_syncs();
            let failing = options().storage(storage.shared()).create(&path).unwrap();
            let mut model = Model::default();
            count(&failing, &mut model, true, 0..100).unwrap();
            let other = options().open(&path).unwrap();
            // As many as are written and not stored through a map.
            storage.arm(Rule::nth(1, fault));
            let failed = count(&failing, &mut model, up, 20..90);
            assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
            storage.heal();
            // Whoever has the lock next mends what was left.
            other.insert(bytes(&[KEYS])[0]).unwrap();
            let seen = observe(&other);
            let (_copies, copy) = killed(&path);
            let found = observe(&options().open(&copy).unwrap());
            assert_eq!(seen, found, "{fault:?}, {up}");
            match seen.get(&50) == Some(&1) {
                true => not += 1,
                false => there += 1,
            }
        }
    }
    assert!(there > 0 && not > 0, "{there} {not}");
}

/// One call in so many fails, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

/// Invariant I10, failing disks.
#[test]
fn no_call_that_fails_counts_twice_or_loses_a_count() {
    let mut share = Share::one_in(FEW);
    for way in 0..WAYS {
        for nth in 1.. {
            if !share.takes() {
                continue;
            }
            let (lasts, fault) = FAULTS[(nth as usize + 3 * way) % FAULTS.len()];
            let what = format!("call {nth}, {fault:?}, on: {lasts}");
            let (_folder, path) = place();
            let storage = FaultStorage::without_syncs();
            let options = options().storage(storage.shared());
            let mut model = Model::default();
            let store = options.create(&path).unwrap();
            count(&store, &mut model, true, 0..100).unwrap();
            store.checkpoint().unwrap();
            model.take(&Mark::Settled);
            let begun = storage.events().len();
            storage.arm(match lasts {
                true => Rule::from(nth, fault),
                false => Rule::nth(nth, fault),
            });
            let outcome = script(&store, &mut model);
            let over = storage.events().len() - begun < nth as usize;
            storage.heal();
            if let Err(error) = outcome {
                let typed = matches!(
                    error,
                    Error::NoSpace { .. } | Error::Io { .. } | Error::Poisoned { .. }
                );
                assert!(typed, "{what}: {error:?}");
                // What it can do still, it does.
                let _ = store.close();
            }
            drop(store);
            let store = options.open(&path).unwrap();
            let found = observe(&store);
            let checked = model.check(&found, Crash::Kill);
            checked.unwrap_or_else(|text| panic!("{what}: {text}"));
            assert!(store.verify().unwrap().is_ok(), "{what}");
            store.checkpoint().unwrap();
            assert_eq!(observe(&store), found, "{what}");
            if over {
                assert!(nth > 50, "{nth} calls are few");
                break;
            }
        }
    }
}
