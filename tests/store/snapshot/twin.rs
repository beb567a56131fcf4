//! A delta on a copy against its slow twin, a whole copy of the same moment: the same file, byte for byte.

use proptest::prelude::*;

use everseen::Kind;
use everseen::testing::Options;

use super::setting::{assert_same, assert_whole, insert, options, store};
use crate::support::fault::FaultStorage;
use crate::support::files::beside;

/// Numbers the pages that differ between two files, by their bytes.
fn changed(a: &std::path::Path, b: &std::path::Path) -> u64 {
    let (a, b) = (std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    let zeros = [0; 4096];
    let page = |bytes: &[u8], at: usize| bytes.get(at..at + 4096).unwrap_or(&zeros).to_vec();
    let pages = (131_072..a.len().max(b.len())).step_by(4096);
    pages.filter(|at| page(&a, *at) != page(&b, *at)).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn copies_kept_up_by_deltas_are_whole_copies(
        grows in any::<bool>(),
        transactional in any::<bool>(),
        steps in prop::collection::vec((0_u64..1500, any::<bool>(), any::<bool>()), 1..6),
    ) {
        let kind = if grows { Kind::Scalable } else { Kind::Bloom };
        let options = options(kind)
            .transactional(transactional)
            .storage(FaultStorage::without_syncs().shared());
        let (_folder, path, store) = store(&options, 0..700);
        store.commit_with(b"0").unwrap();
        let kept = beside(&path, "-kept");
        store.snapshot(&kept).unwrap();
        let mut next = 700;
        for (step, (count, checkpoint, commit)) in steps.into_iter().enumerate() {
            insert(&store, next..next + count);
            next += count;
            if checkpoint {
                store.checkpoint().unwrap();
            }
            if commit || transactional {
                store.commit_with(format!("step {step}").as_bytes()).unwrap();
            }
            let delta = beside(&path, &format!("-delta{step}"));
            let whole = beside(&path, &format!("-whole{step}"));
            let made = store.snapshot_since(&delta, &kept).unwrap();
            store.snapshot(&whole).unwrap();
            prop_assert_eq!(made.bytes, delta.metadata().unwrap().len());
            prop_assert_eq!(made.pages, changed(&kept, &whole));
            let length = 1 + made.bytes - made.pages * 4096;
            prop_assert!(length <= 4096, "{} bytes beside the pages", length);
            let applied = options.apply(&delta, &kept).unwrap();
            prop_assert_eq!(
                (applied.from, applied.to, applied.keys, applied.resumed),
                (made.from, made.to, store.stats().unwrap().keys, false)
            );
            assert_same(&kept, &whole);
            assert_whole(&kept, 0..next);
            // Once more: it is there already.
            let again = options.apply(&delta, &kept).unwrap();
            prop_assert_eq!((again.to, again.pages), (made.to, 0));
            assert_same(&kept, &whole);
        }
        // A copy brought up to date is a store.
        let copy = Options::new().buffer(everseen::testing::LEAST_BUFFER).open(&kept).unwrap();
        insert(&copy, next..next + 10);
        copy.commit().unwrap();
        copy.close().unwrap();
        assert_whole(&kept, 0..next + 10);
    }
}
