//! Calls to the disk fail while keys are exempted, one after the other, or all from one on, as they do when a process is
//! killed: one call in eight, with `EVERSEEN_ALL=1` every call.

use everseen::{BatchError, Error, Kind};

use super::setting::{assert_seen, false_positives, filled, hashes, options};
use crate::support::fault::{Failure, Fault, FaultStorage, Rule};
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

/// One call in so many fails.
const FEW: u64 = 8;

fn fail_each_call(kind: Kind, transactional: bool) {
    let mut share = Share::one_in(FEW);
    for turn in 0..WAYS {
        let (mut failed, mut done) = (0, 0);
        for nth in 1.. {
            if !share.takes() {
                continue;
            }
            let (lasts, fault) = FAULTS[(nth + turn * 3) as usize % FAULTS.len()];
            let storage = FaultStorage::without_syncs();
            let options = options(kind)
                .capacity(if kind == Kind::Bloom { 4000 } else { 300 })
                .transactional(transactional)
                .storage(storage.shared());
            let (_folder, path, store) = filled(&options, 3000);
            let wrong = false_positives(&store, 1500);
            store.exempt(&wrong[..600]).unwrap();
            // Some are inserted, so that the section loses keys as well.
            store.insert_batch(&wrong[..100]).unwrap();
            store.commit().unwrap();
            let begun = storage.events().len();
            storage.arm(match lasts {
                true => Rule::from(nth, fault),
                false => Rule::nth(nth, fault),
            });
            let outcome = store.exempt(&wrong[600..]);
            let over = storage.events().len() - begun < nth as usize;
            let what = format!("call {nth}, {fault:?}, on: {lasts}");
            // A handle that can go on is asked now, with the disk as it is.
            if outcome.is_ok() && !lasts {
                assert_seen(&store, &wrong[100..], false);
            }
            storage.heal();
            match &outcome {
                Ok(report) => {
                    done += 1;
                    assert_eq!(report.exempted, 900, "{what}");
                }
                Err(error) => {
                    failed += 1;
                    let typed = matches!(
                        error,
                        Error::NoSpace { .. } | Error::Io { .. } | Error::Poisoned { .. }
                    );
                    assert!(typed, "{what}: {error:?}");
                }
            }
            // This handle goes on, or the next one does; what was acknowledged holds for both.
            let store = match store.insert_batch(&wrong[100..110]) {
                Ok(new) => {
                    assert!(new.iter().all(|new| *new), "{what}");
                    store
                }
                Err(BatchError { error, .. }) => {
                    assert!(
                        matches!(*error, Error::Poisoned { .. }),
                        "{what}: {error:?}"
                    );
                    drop(store);
                    let store = options.open(&path).unwrap();
                    store.insert_batch(&wrong[100..110]).unwrap();
                    store
                }
            };
            store.commit().unwrap();
            assert_seen(&store, &wrong[..110], true);
            assert_seen(&store, &wrong[110..600], false);
            assert_seen(&store, &hashes(0..3000), true);
            if outcome.is_ok() {
                assert_seen(&store, &wrong[600..], false);
            }
            // Done again, all are exempt, and so they are for the next to open the store.
            store.exempt(&wrong[600..]).unwrap();
            store.close().unwrap();
            let store = options.open(&path).unwrap();
            assert!(store.verify().unwrap().is_ok(), "{what}");
            assert_seen(&store, &wrong[..110], true);
            assert_seen(&store, &wrong[110..], false);
            assert_eq!(store.stats().unwrap().exempt, 1390, "{what}");
            if over {
                assert!(nth > 40, "{nth} calls are few");
                break;
            }
        }
        if share.is_all() {
            assert!(failed > 20 && done > 5, "{failed} {done}");
        }
    }
}

#[test]
fn exempting_in_a_bloom_store() {
    fail_each_call(Kind::Bloom, false);
}

#[test]
fn exempting_in_a_growing_transactional_store() {
    fail_each_call(Kind::Scalable, true);
}
