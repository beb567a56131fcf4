//! Snapshots and deltas carry exemptions, and a copy kept up by deltas is a whole copy, byte for byte.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{DeltaError, Error, FormatError, Kind};
use proptest::prelude::*;

use super::setting::{ABSENT, assert_seen, false_positives, filled, hashes, options};
use crate::support::fault::{Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, place};

#[track_caller]
fn assert_same(a: &Path, b: &Path) {
    let (left, right) = (fs::read(a).unwrap(), fs::read(b).unwrap());
    let differs = left.iter().zip(&right).position(|(a, b)| a != b);
    assert_eq!((left.len(), differs), (right.len(), None));
}

#[test]
fn a_copy_has_what_is_exempt() {
    let (_folder, path, store) = filled(&options(Kind::Scalable), 5000);
    let wrong = false_positives(&store, 700);
    store.exempt(&wrong).unwrap();
    store.insert_batch(&wrong[..50]).unwrap();
    let copy = beside(&path, "-copy");
    store.snapshot(&copy).unwrap();
    let copy = options(Kind::Scalable).open(&copy).unwrap();
    assert_seen(&copy, &wrong[..50], true);
    assert_seen(&copy, &wrong[50..], false);
    assert_eq!(copy.stats().unwrap().exempt, 650);
    assert!(copy.verify().unwrap().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn copies_kept_up_by_deltas_are_whole_copies(
        grows in any::<bool>(),
        steps in prop::collection::vec((0_u64..900, 0_u64..900, 0_usize..700), 1..7),
    ) {
        let kind = if grows { Kind::Scalable } else { Kind::Bloom };
        let options = options(kind).storage(FaultStorage::without_syncs().shared());
        let (_folder, path, store) = filled(&options, 700);
        let kept = beside(&path, "-kept");
        store.snapshot(&kept).unwrap();
        let (mut next, mut unseen, mut exempted) = (700, ABSENT, Vec::new());
        for (step, (insert, exempt, again)) in steps.into_iter().enumerate() {
            store.insert_batch(&hashes(next..next + insert)).unwrap();
            next += insert;
            let fresh = hashes(unseen..unseen + exempt);
            unseen += exempt;
            store.exempt(&fresh).unwrap();
            exempted.extend(fresh);
            let again = again.min(exempted.len());
            store.insert_batch(&exempted[..again]).unwrap();
            exempted.drain(..again);
            let delta = beside(&path, &format!("-delta{step}"));
            let whole = beside(&path, &format!("-whole{step}"));
            let made = store.snapshot_since(&delta, &kept).unwrap();
            prop_assert_eq!(made.bytes, delta.metadata().unwrap().len());
            store.snapshot(&whole).unwrap();
            options.apply(&delta, &kept).unwrap();
            assert_same(&kept, &whole);
            let copy = Options::new().open_read_only(&kept).unwrap();
            assert_seen(&copy, &exempted, false);
            assert_seen(&copy, &hashes(0..next), true);
            prop_assert_eq!(copy.stats().unwrap().exempt, exempted.len() as u64);
            prop_assert!(copy.verify().unwrap().is_ok());
        }
    }
}

/// Every call that applies a delta fails: the copy is one moment, the other, or refused, and the same delta brings it to its end.
#[test]
fn applying_a_delta_with_sections() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = filled(&options, 3000);
    let [old, new, delta] = ["-old", "-new", "-delta"].map(|name| beside(&path, name));
    // It moves with each checkpoint that changes it: that of the old moment lies at the end, and that of
    // the new one where the first of all was.
    for part in hashes(ABSENT..ABSENT + 3000).chunks(1000) {
        store.exempt(part).unwrap();
    }
    store.snapshot(&old).unwrap();
    store.insert_batch(&hashes(ABSENT..ABSENT + 2000)).unwrap();
    store.exempt(&hashes(ABSENT * 2..ABSENT * 2 + 40)).unwrap();
    store.snapshot_since(&delta, &old).unwrap();
    store.snapshot(&new).unwrap();
    let length = |path: &Path| path.metadata().unwrap().len();
    assert!(length(&new) < length(&old));
    let faults = [
        (false, Fault::Fails(Failure::NoSpace)),
        (true, Fault::Fails(Failure::Broken)),
        (true, Fault::Torn(Failure::NoSpace)),
    ];
    let mut half = 0;
    for nth in 1.. {
        let (lasts, fault) = faults[nth as usize % faults.len()];
        let (_work, copy) = place();
        fs::copy(&old, &copy).unwrap();
        let storage = FaultStorage::without_syncs();
        storage.arm(match lasts {
            true => Rule::from(nth, fault),
            false => Rule::nth(nth, fault),
        });
        let outcome = options
            .clone()
            .storage(storage.shared())
            .apply(&delta, &copy);
        let calls = storage.events().len() as u64;
        match Options::new().open_read_only(&copy) {
            Ok(opened) => {
                assert!(opened.verify().unwrap().is_ok(), "call {nth}");
                let exempt = opened.stats().unwrap().exempt;
                assert!(exempt == 3000 || exempt == 1040, "call {nth}: {exempt}");
                assert!(outcome.is_err() || exempt == 1040);
            }
            Err(Error::Format {
                source: FormatError::HalfApplied { .. },
                ..
            }) => half += 1,
            Err(error) => panic!("call {nth}: {error}"),
        }
        options.apply(&delta, &copy).unwrap();
        assert_same(&copy, &new);
        if calls < nth {
            break;
        }
    }
    assert!(half > 3, "{half}");
}

#[test]
fn a_delta_whose_sections_are_not_its_superblocks_is_refused() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = filled(&options, 1000);
    let [old, delta, forged] = ["-old", "-delta", "-forged"].map(|name| beside(&path, name));
    store.snapshot(&old).unwrap();
    store.exempt(&hashes(ABSENT..ABSENT + 600)).unwrap();
    store.snapshot_since(&delta, &old).unwrap();
    let good = fs::read(&delta).unwrap();
    let before = fs::read(&old).unwrap();
    let seal = |bytes: &mut Vec<u8>| {
        let crc = crc32fast::hash(&bytes[..92]);
        bytes[92..96].copy_from_slice(&crc.to_le_bytes());
        let end = bytes.len() - 16;
        bytes[end + 8..end + 12].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[96..end + 12]);
        bytes[end + 12..].copy_from_slice(&crc.to_le_bytes());
    };
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        seal(&mut bytes);
        fs::write(&forged, &bytes).unwrap();
        let error = options.apply(&forged, &old).unwrap_err();
        assert!(fs::read(&old).unwrap() == before, "the copy has changed");
        error
    };
    let field = |error: Error| match error {
        Error::Delta {
            source: DeltaError::Field { field, got, .. },
            ..
        } => (field, got),
        other => panic!("{other:?}"),
    };
    assert_eq!(good[72], 2);
    assert_eq!(good[80], 1);
    assert_eq!(field(refused(&|bytes| bytes[80] = 3)), ("sections", 3));
    assert_eq!(field(refused(&|bytes| bytes[80] = 0)), ("section_pages", 2));
    let huge = (1_u64 << 50) + 1;
    let set = |bytes: &mut Vec<u8>| bytes[72..80].copy_from_slice(&huge.to_le_bytes());
    assert_eq!(field(refused(&set)), ("section_pages", huge));
    assert_eq!(field(refused(&|bytes| bytes[84] = 1)), ("reserved", 1));
    let short = refused(&|bytes| bytes[72] = 1);
    assert!(
        matches!(
            short,
            Error::Delta {
                source: DeltaError::Length { .. },
                ..
            }
        ),
        "{short:?}"
    );
    // A hash that is another, under a right checksum of the delta.
    let swapped = refused(&|bytes| {
        let at = bytes.len() - 16 - 8192 + 16;
        bytes[at] ^= 1;
    });
    assert!(
        matches!(
            swapped,
            Error::Format {
                source: FormatError::SectionDamaged {
                    section: "exempt",
                    hashes: 600,
                    ..
                },
                ..
            }
        ),
        "{swapped:?}"
    );
}
