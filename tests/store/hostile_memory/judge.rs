//! The child that opens what is left.

use std::path::Path;

use everseen::{Error, Kind, Store};

use super::Trial;
use super::ledger::Ledger;
use crate::support::numbers::key;

pub fn judge(trial: &Trial, path: &Path) {
    let mut ledger = Ledger::load(path);
    let reader = trial.options().open_read_only(path).expect("a reader");
    check(trial, &ledger, &reader, "read");
    drop(reader);
    let store = open(trial, path);
    check(trial, &ledger, &store, "opened");
    let own: Vec<_> = (0..500).map(|number| (1 << 40) + number).collect();
    let hashes: Vec<_> = own.iter().map(|number| key(*number)).collect();
    store.insert_batch(&hashes).expect("an insert");
    store.commit().expect("a commit");
    own.iter().for_each(|number| ledger.add(*number, 1));
    store.checkpoint().expect("a checkpoint");
    check(trial, &ledger, &store, "checkpointed");
    store.close().expect("a close");
    let store = trial.options().open(path).expect("another writer");
    check(trial, &ledger, &store, "closed");
    let report = store.verify().expect("a look at all pages");
    assert!(report.is_ok(), "{:?}", report.damaged);
    store.close().expect("a last close");
}

/// Opens for writing. Memory whose magic was overwritten in both places can't be told from a stranger's file: the error
/// names it, and it is moved out of the way as that says.
fn open(trial: &Trial, path: &Path) -> Store {
    loop {
        let file = match trial.options().open(path) {
            Ok(store) => return store,
            Err(Error::InTheWay { path }) => path,
            Err(error) => panic!("a writer: {error:?}"),
        };
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("store-shm"), "{name} is in the way");
        let bytes = std::fs::read(&file).unwrap();
        for at in [0, 504] {
            assert!(
                !bytes[at..].starts_with(b"EVER"),
                "{name} is known by byte {at}"
            );
        }
        let aside = file.with_file_name(format!("moved-{name}"));
        std::fs::rename(file, aside).unwrap();
    }
}

fn check(trial: &Trial, ledger: &Ledger, store: &Store, when: &str) {
    for (number, bounds) in &ledger.0 {
        let hash = key(*number);
        if trial.kind == Kind::Counting {
            let got = store.count_estimate(hash).expect("a count") as i64;
            let (least, most) = (bounds.least.min(15), bounds.most.min(15));
            assert!(
                (least..=most).contains(&got),
                "{when}: key {number} is there {got} times, and {bounds:?} were told"
            );
        } else if bounds.least > 0 {
            let found = store.contains(hash).expect("a look-up");
            assert!(found, "{when}: key {number} is lost");
        } else if bounds.most <= 0 {
            let found = store.contains(hash).expect("a look-up");
            assert!(!found, "{when}: key {number} was removed");
        }
    }
}
