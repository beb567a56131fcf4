//! A union in which each call of the system fails in turn: there is a whole result, or an error and none.

use std::path::Path;

use everseen::Kind;
use everseen::testing::Options;

use super::pages::Bench;
use crate::support::fault::{Call, Event, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{held, image, keys, small};
use crate::support::share::Share;

/// Killed stores of 600 keys each, whose logs the union has to empty into their pages.
fn inputs(kind: Kind) -> [(tempfile::TempDir, std::path::PathBuf); 2] {
    let bench = Bench::new();
    let options = small().kind(kind).capacity(4000).fpr(1e-3);
    let one = options.create(bench.path("one")).unwrap();
    let like = small().like(bench.path("one"));
    let two = like.create(bench.path("two")).unwrap();
    [(one, 0), (two, 600)].map(|(store, from)| {
        store.insert_batch(&keys(from..from + 300)).unwrap();
        store.checkpoint().unwrap();
        store.insert_batch(&keys(from + 300..from + 600)).unwrap();
        store.commit().unwrap();
        let name = if from == 0 { "one" } else { "two" };
        image(&bench.path(name))
    })
}

/// Runs a union on a disk with a fault, and answers how often the disk was called.
fn run(originals: [&Path; 2], rule: Option<Rule>) -> usize {
    let copies = originals.map(image);
    let [one, two] = copies.each_ref().map(|(_, path)| path);
    let bench = Bench::new();
    let out = bench.path("out");
    let storage = FaultStorage::without_syncs();
    let options: Options = small().storage(storage.shared());
    let faulty = rule.is_some();
    if let Some(rule) = rule {
        storage.arm(rule);
    }
    let outcome = options.merge().union(&out, &[one, two]);
    let calls = storage.events().len();
    storage.heal();
    match outcome {
        Ok(report) => assert!(report.keys <= 1200 && report.keys > 1180, "{report:?}"),
        Err(error) => {
            assert!(faulty, "{error}");
            // What is there under its name is whole, should the disk have named it and lied about it. What it could
            // not remove is plainly unfinished, and the next one removes it.
            for name in bench.names("out") {
                assert!(["out", "out-new"].contains(&&*name), "{name} after {error}");
            }
            if !out.exists() {
                let storage = FaultStorage::without_syncs().shared();
                let again = small().storage(storage).merge();
                let again = again.union(&out, &[one, two]);
                again.unwrap_or_else(|again| panic!("{again} after {error}"));
            }
        }
    }
    assert_eq!(bench.names("out"), ["out"]);
    // Nothing loses power here, so nobody waits for the disk.
    let unsynced = small().storage(FaultStorage::without_syncs().shared());
    let store = unsynced.open(&out).unwrap();
    assert_eq!(held(&store, &keys(0..1200)), 1200);
    assert!(store.verify().unwrap().is_ok());
    drop(store);
    // The inputs have what they had.
    for (path, from) in [(one, 0), (two, 600)] {
        let store = unsynced.open(path).unwrap();
        assert_eq!(held(&store, &keys(from..from + 600)), 600);
        assert!(store.verify().unwrap().is_ok());
    }
    calls
}

/// One call in so many fails, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 8;

fn sweep(kind: Kind) {
    let [(_one, one), (_two, two)] = inputs(kind);
    let originals = [&*one, &*two];
    let calls = run(originals, None) as u64;
    assert!(calls > 60, "{calls} calls are few");
    println!("{kind}: {calls} calls");
    let once = [
        Fault::Fails(Failure::NoSpace),
        Fault::Torn(Failure::Broken),
        Fault::Lies(Failure::Broken),
        Fault::Short,
        Fault::Fails(Failure::Interrupted),
    ];
    let mut share = Share::one_in(FEW);
    for nth in 1..=calls {
        if !share.takes() {
            continue;
        }
        // Neighbouring calls are alike: each kind of fault meets each kind of call.
        let rule = match nth % 2 {
            0 => Rule::nth(nth, once[nth as usize / 2 % once.len()]),
            // From here on nothing works any more: as if the process had died, its tidying up included.
            _ => Rule::from(nth, Fault::Fails(Failure::Broken)),
        };
        run(originals, Some(rule));
    }
}

/// What a power cut leaves follows from the order of calls: all that was written is durable before the file has its
/// name, and the name is before the union returns.
#[test]
fn a_union_is_durable_before_it_has_its_name() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        let [(_one, one), (_two, two)] = inputs(kind);
        let bench = Bench::new();
        let storage = FaultStorage::new();
        let options = small().storage(storage.shared());
        let merge = options.merge();
        merge.union(bench.path("out"), &[one, two]).unwrap();
        let events = storage.events();
        let last = |call: Call, name: &str| {
            let found = events
                .iter()
                .rposition(|event| event.call == call && event.name == name);
            found.unwrap_or_else(|| panic!("no {call:?} of {name}"))
        };
        let written = last(Call::Write, "out-new");
        let synced = last(Call::Sync, "out-new");
        let published = last(Call::Publish, "out");
        let named = events
            .iter()
            .rposition(|event| event.call == Call::SyncFolder);
        assert!(
            written < synced && synced < published && Some(published) < named,
            "{kind}"
        );
        // It was made under the other name. Under its own, only the mark of a draft is taken away.
        let own = |event: &&Event| event.name == "out" && event.call == Call::Write;
        assert_eq!(events.iter().filter(own).count(), 1);
    }
}

#[test]
fn each_call_of_a_union_fails() {
    sweep(Kind::Bloom);
}

#[test]
fn each_call_of_a_growing_union_fails() {
    sweep(Kind::Scalable);
}
