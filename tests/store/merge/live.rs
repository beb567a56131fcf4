//! Inputs that others have open: what they had acknowledged is in the union.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use everseen::{Kind, Store};

use super::pages::{Bench, assert_holds, merge};
use crate::support::files::{held, image, keys, small};
use crate::support::patience::wait_until;
use crate::support::share::all_or;

#[test]
fn what_is_in_buffers_is_in_the_union() {
    let bench = Bench::new();
    for (kind, transactional) in [
        (Kind::Bloom, false),
        (Kind::Bloom, true),
        (Kind::Scalable, false),
        (Kind::Scalable, true),
    ] {
        let name = |part: &str| format!("{kind}{transactional}{part}");
        let options = small()
            .kind(kind)
            .capacity(30_000)
            .fpr(1e-9)
            .transactional(transactional);
        let path = bench.path(&name("one"));
        let one = options.create(&path).unwrap();
        for part in 0..3 {
            one.insert_batch(&keys(part * 1000..(part + 1) * 1000))
                .unwrap();
            one.commit().unwrap();
        }
        one.insert_batch(&keys(3000..3100)).unwrap();
        let other = bench.like(&name("two"), &path, 1, &keys(5000..6000));
        let out = bench.path(&name("out"));
        merge().union(&out, &[&path, &other]).unwrap();
        let union = Store::open(&out).unwrap();
        assert_eq!(held(&union, &keys(0..3000)), 3000);
        // What is not committed in a transactional store has not happened yet.
        let expected = if transactional { 0 } else { 100 };
        assert_eq!(held(&union, &keys(3000..3100)), expected);
        drop(union);
        // In the store it happens still.
        one.commit().unwrap();
        one.close().unwrap();
        assert_holds(&path, &keys(0..3100));
        // And what a killed process left is brought into the pages.
        let open = small().open(&path).unwrap();
        open.insert_batch(&keys(7000..7100)).unwrap();
        open.commit().unwrap();
        let (_folder, killed) = image(&path);
        let out = bench.path(&name("killed"));
        merge().union(&out, &[killed]).unwrap();
        assert_holds(&out, &keys(7000..7100));
        open.close().unwrap();
    }
}

/// Pages that a checkpoint is writing just now are read again until they are whole.
#[test]
fn unions_in_the_midst_of_checkpoints() {
    let bench = Bench::new();
    for kind in [Kind::Bloom, Kind::Scalable] {
        let path = bench.path(&format!("{kind}"));
        let options = small().kind(kind).capacity(400_000).fpr(1e-6);
        let store = options.create(&path).unwrap();
        let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = 0;
                while !ended.load(Ordering::Acquire) && at < 300_000 {
                    store.insert_batch(&keys(at..at + 500)).unwrap();
                    at += 500;
                    done.store(at, Ordering::Release);
                }
            });
            for round in 0..all_or(8, 3) {
                wait_until("keys are inserted", || {
                    done.load(Ordering::Acquire) >= (round + 1) * 3000
                });
                let before = done.load(Ordering::Acquire);
                let out = bench.path(&format!("{kind}{round}"));
                let report = merge().union(&out, &[&path]).unwrap();
                assert_holds(&out, &keys(0..before));
                assert!(
                    report.keys * 100 >= before * 99,
                    "{report:?} after {before}"
                );
                std::fs::remove_file(out).unwrap();
            }
            ended.store(true, Ordering::Release);
        });
        let all = done.load(Ordering::Acquire);
        store.close().unwrap();
        assert_holds(&path, &keys(0..all));
    }
}
