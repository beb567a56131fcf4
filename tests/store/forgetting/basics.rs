//! What users of stores that forget meet first.

use std::ops::ControlFlow;
use std::time::Duration;

use everseen::{
    CreateOptions, Error, ForgetBy, Kind, Merge, OnDamage, OpenOptions, Store, apply_delta,
};

use super::{BEGIN, STEP, STEPS, WINDOW, at, forgetting};
use crate::support::files::{image, place, small};
use crate::support::numbers::key;

#[test]
fn a_key_is_seen_for_the_window_and_a_step_at_most() {
    for transactional in [false, true] {
        // Whether it lies in a log or in the pages.
        for checkpointed in [false, true] {
            for accepted in [BEGIN, BEGIN + 1, BEGIN + STEP - 1] {
                let (_folder, path) = place();
                let options = forgetting(accepted).transactional(transactional);
                let store = options.create(&path).unwrap();
                assert!(store.insert("key").unwrap());
                store.commit().unwrap();
                if checkpointed {
                    store.checkpoint().unwrap();
                }
                let seen_at = |clock| {
                    store.advance_to(at(clock)).unwrap();
                    let found = store.contains("key").unwrap();
                    assert_eq!(
                        store.contains_batch(&["key", "other"]).unwrap(),
                        [found, false]
                    );
                    found
                };
                assert!(seen_at(accepted + STEPS * STEP - 1));
                assert!(!store.insert("key").unwrap());
                assert!(!seen_at(accepted + (STEPS + 1) * STEP));
                assert!(store.insert("key").unwrap());
                assert!(!store.insert("key").unwrap());
                store.commit().unwrap();
                // From then on for a window again.
                assert!(seen_at(accepted + (2 * STEPS + 1) * STEP - 1));
                assert!(!seen_at(accepted + (2 * STEPS + 2) * STEP));
            }
        }
    }
}

/// A checkpoint drops what is forgotten, and carries what a transaction has removed of it into the next log.
#[test]
fn a_key_that_is_forgotten_before_its_removal_is_committed_is_taken_off_once() {
    let (_folder, path) = place();
    let options = forgetting(BEGIN).transactional(true);
    let store = options.create(&path).unwrap();
    let (old, new): (Vec<_>, Vec<_>) = ((0..100).map(key).collect(), (100..110).map(key).collect());
    store.insert_batch(&old).unwrap();
    store.commit().unwrap();
    store.checkpoint().unwrap();
    for key in &old[..30] {
        assert!(store.remove(*key).unwrap());
    }
    let forgotten = BEGIN + (STEPS + 1) * STEP;
    store.advance_to(at(forgotten)).unwrap();
    store.insert_batch(&new).unwrap();
    let expect = |store: &Store, when: &str| {
        let keys = store.stats().unwrap().keys;
        assert!((10..=140).contains(&keys), "{when}: {keys} keys of 10");
        assert_eq!(store.contains_batch(&new).unwrap(), [true; 10], "{when}");
        assert_eq!(store.contains_batch(&old).unwrap(), [false; 100], "{when}");
    };
    expect(&store, "before the checkpoint");
    store.checkpoint().unwrap();
    expect(&store, "uncommitted");
    store.commit().unwrap();
    expect(&store, "committed");
    let (_cut_folder, cut) = image(&path);
    let cut = options.clock(at(forgotten)).open(&cut).unwrap();
    expect(&cut, "after a power cut");
    cut.checkpoint().unwrap();
    assert_eq!(cut.stats().unwrap().keys, 10);
    cut.close().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.stats().unwrap().keys, 10);
    store.close().unwrap();
}

/// A transaction's keys are as old as its commit.
#[test]
fn a_key_gets_its_age_at_its_commit() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).transactional(true).create(&path).unwrap();
    assert!(store.insert("key").unwrap());
    let committed = BEGIN + 3 * STEPS * STEP;
    store.advance_to(at(committed)).unwrap();
    assert!(!store.insert("key").unwrap());
    store.commit().unwrap();
    let (_copy, killed) = image(&path);
    store.close().unwrap();
    for path in [path, killed] {
        let open = |clock| forgetting(clock).open(&path).unwrap();
        assert!(open(committed + STEPS * STEP - 1).contains("key").unwrap());
        let last = open(committed + (STEPS + 1) * STEP);
        assert!(!last.contains("key").unwrap());
    }
}

/// One that was opened with an earlier time, or whose system's clock is behind, goes by that of the store.
#[test]
fn time_is_the_store_s_and_never_runs_backwards() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    assert!(store.insert("key").unwrap());
    store.advance_to(at(BEGIN + STEPS * STEP)).unwrap();
    assert!(store.insert("other").unwrap());
    let (_copy, killed) = image(&path);
    store.close().unwrap();
    for path in [path, killed] {
        let store = forgetting(BEGIN).open(&path).unwrap();
        assert!(store.contains("key").unwrap());
        let now = store.stats().unwrap().forgetting.unwrap().now;
        assert!(now >= at(BEGIN + STEPS * STEP));
        store.advance_to(at(BEGIN + (STEPS + 2) * STEP)).unwrap();
        assert_eq!(
            store.contains_batch(&["key", "other"]).unwrap(),
            [false, true]
        );
    }
}

/// Nothing in a store that rests grows old by another number, however long it rests.
#[test]
fn a_store_that_rests_forgets_all_once() {
    for on_damage in [OnDamage::Error, OnDamage::NeverSeen] {
        forgets_all_once(on_damage);
    }
}

fn forgets_all_once(on_damage: OnDamage) {
    let forgetting = |clock| forgetting(clock).on_damage(on_damage);
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    let keys: Vec<u64> = (0..5000).map(key).collect();
    assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
    store.close().unwrap();
    let step_of_the_same_age = (STEPS + 1) * STEP;
    for rested in 1..5 {
        let clock = BEGIN + rested * step_of_the_same_age;
        let store = forgetting(clock).open_read_only(&path).unwrap();
        assert!(!store.contains_batch(&keys).unwrap().contains(&true));
        store.close().unwrap();
    }
    let store = forgetting(BEGIN + 9 * step_of_the_same_age)
        .open(&path)
        .unwrap();
    assert_eq!(store.stats().unwrap().keys, 5000);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().unwrap().keys, 0);
    assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
}

/// Exactly in a small store, about in one of more than 1,024 pages.
#[test]
fn a_store_tells_how_many_keys_are_how_old() {
    for (each, is_small) in [(500, true), (130_000, false)] {
        let (_folder, path) = place();
        let store = forgetting(BEGIN)
            .capacity(10_000_000)
            .create(&path)
            .unwrap();
        for step in 0..8 {
            store.advance_to(at(BEGIN + 2 * step * STEP)).unwrap();
            let keys: Vec<u64> = (step * each..(step + 1) * each).map(key).collect();
            assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
            if step % 3 == 2 {
                store.checkpoint().unwrap();
            }
        }
        let by_age = store.keys_by_age().unwrap().unwrap();
        assert_eq!(by_age.are_all_read, is_small);
        assert_eq!(by_age.steps.len(), 8);
        for (number, step) in (0..).zip(by_age.steps) {
            assert_eq!(step.came, at(BEGIN + 2 * number * STEP));
            assert_eq!(step.forgotten, at(BEGIN + (2 * number + STEPS + 1) * STEP));
            let apart = step.keys.abs_diff(each);
            assert!(apart * 20 <= if is_small { 0 } else { each }, "{step:?}");
        }
    }
    let (_folder, path) = place();
    let keeps = small().capacity(10).create(path).unwrap();
    assert_eq!(keeps.keys_by_age().unwrap(), None);
}

/// Room for keys comes back as they are forgotten.
#[test]
fn a_full_store_takes_keys_again_once_others_are_forgotten() {
    for on_damage in [OnDamage::Error, OnDamage::NeverSeen] {
        takes_keys_again(on_damage);
    }
}

fn takes_keys_again(on_damage: OnDamage) {
    let (_folder, path) = place();
    let options = forgetting(BEGIN).capacity(1000).on_damage(on_damage);
    let store = options.create(&path).unwrap();
    let mut clock = BEGIN;
    for round in 0..4 {
        let keys: Vec<u64> = (round * 1000..(round + 1) * 1000).map(key).collect();
        assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
        let refused = store.insert(key(1 << 40)).unwrap_err();
        assert!(matches!(refused, Error::Full { capacity: 1000 }));
        assert!(!store.insert(keys[7]).unwrap());
        clock += (STEPS + 1) * STEP;
        store.advance_to(at(clock)).unwrap();
    }
    store.close().unwrap();
}

/// Also in the middle of a batch.
#[test]
fn a_batch_that_fills_a_store_drops_what_is_forgotten() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).capacity(1000).create(&path).unwrap();
    let some = |numbers: std::ops::Range<u64>| numbers.map(key).collect::<Vec<_>>();
    store.insert_batch(&some(0..600)).unwrap();
    store.advance_to(at(BEGIN + (STEPS + 1) * STEP)).unwrap();
    assert_eq!(store.insert_batch(&some(600..1400)).unwrap(), [true; 800]);
    let refused = store.insert_batch(&some(1400..1700)).unwrap_err();
    assert!(matches!(*refused.error, Error::Full { capacity: 1000 }));
    assert_eq!(refused.done, [true; 200]);
}

/// A stream at a steady rate stays at a steady size.
#[test]
fn a_steady_stream_takes_steady_room() {
    const EACH: u64 = 2000;
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    let mut sizes = Vec::new();
    for step in 0..8 * STEPS {
        store.advance_to(at(BEGIN + step * STEP)).unwrap();
        let keys: Vec<u64> = (step * EACH..(step + 1) * EACH).map(key).collect();
        assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
        let stats = store.stats().unwrap();
        // Forgotten keys leave with the merges that pass them.
        let live = (step + 1).min(STEPS + 1) * EACH;
        assert!(stats.keys * 2 <= live * 3, "{} of {live}", stats.keys);
        sizes.push(stats.bytes);
    }
    let later = &sizes[2 * STEPS as usize..];
    let (least, most) = (later.iter().min().unwrap(), later.iter().max().unwrap());
    println!("{least} to {most} bytes");
    assert!(most * 4 < least * 5);
    assert!(store.verify().unwrap().is_ok());
}

/// Each session writes all segments again, beside the old ones, and closes the file small again.
#[test]
fn sessions_of_a_steady_stream_close_a_small_file() {
    const EACH: u64 = 4000;
    let (_folder, path) = place();
    forgetting(BEGIN).create(&path).unwrap().close().unwrap();
    for session in 0..60 {
        let options = forgetting(BEGIN + 3 * session * STEP).segment_pages(4 + session % 9);
        let store = options.open(&path).unwrap();
        let keys: Vec<u64> = (session * EACH..(session + 1) * EACH).map(key).collect();
        assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
        store.close().unwrap();
        let stats = forgetting(0)
            .open_read_only(&path)
            .unwrap()
            .stats()
            .unwrap();
        let pages = stats.runs.iter().map(|run| run.pages).sum::<u64>() + 32;
        let took = stats.bytes / 4096;
        assert!(took * 4 <= pages * 5, "{session}: {took} for {pages}");
    }
}

#[test]
fn windows_that_can_t_be_are_refused() {
    let (folder, path) = place();
    let refused = |options: CreateOptions, name: &str| match options.create(&path) {
        Err(Error::InvalidOption { option, .. }) => assert_eq!(option, name),
        other => panic!("{name}: {other:?}"),
    };
    let options = CreateOptions::new;
    refused(
        options().forget_after(Duration::from_millis(999)),
        "forget_after",
    );
    refused(options().forget_after(Duration::MAX), "forget_after");
    refused(
        options().forget_after(WINDOW).forget_steps(0),
        "forget_steps",
    );
    refused(
        options().forget_after(WINDOW).forget_steps(256),
        "forget_steps",
    );
    refused(options().forget_steps(16), "forget_steps");
    refused(
        options().forget_after(WINDOW).kind(Kind::Bloom),
        "forget_after",
    );
    let measured = options().forget_after(WINDOW).measured(true);
    refused(measured, "measured");
    let narrow = options().forget_after(WINDOW).capacity(1 << 40).fpr(1e-6);
    refused(narrow, "forget_steps");
    // A limit that is not asked for leaves room for ages.
    let store = options().forget_after(WINDOW).fpr(1e-12);
    let store = store.create(folder.path().join("wide")).unwrap();
    assert!(store.insert("key").unwrap());
}

#[test]
fn what_a_store_has_is_compared_with_what_is_asked_for() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    let found = |options: CreateOptions| -> Vec<_> {
        let found = options.differences(&store).unwrap();
        found.iter().map(|one| (one.option, one.is_unmet)).collect()
    };
    let options = || CreateOptions::new().forget_after(WINDOW);
    assert_eq!(found(options().forget_steps(15)), []);
    assert_eq!(found(options().forget_steps(30)), [("forget_steps", true)]);
    assert_eq!(found(options().forget_steps(3)), [("forget_steps", false)]);
    assert_eq!(
        found(options().forget_after(2 * WINDOW)),
        [("forget_after", true)]
    );
    let (_other, path) = place();
    let keeps = small().kind(Kind::Fingerprint).create(path).unwrap();
    let found = options().differences(&keeps).unwrap();
    assert_eq!((found[0].option, found[0].is_unmet), ("forget_after", true));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store.insert("key").unwrap();
    store.close().unwrap();
    let out = folder.path().join("union");
    let others = [
        (forgetting(BEGIN).forget_steps(14), "window"),
        (forgetting(BEGIN).forget_by(ForgetBy::Last), "forget_by"),
    ];
    for (number, (options, expected)) in others.into_iter().enumerate() {
        let other = folder.path().join(number.to_string());
        options.create(&other).unwrap().close().unwrap();
        match Merge::new().union(&out, &[&path, &other]) {
            Err(Error::Mismatch { field, .. }) => assert_eq!(field, expected),
            union => panic!("{union:?}"),
        }
    }
    let keeps = folder.path().join("keeps");
    let keeps: Store = small().capacity(10).create(keeps).unwrap();
    let refused = keeps.advance_to(at(BEGIN));
    assert!(matches!(refused, Err(Error::NeverForgets { .. })));
    assert_eq!(keeps.stats().unwrap().forgetting, None);
}

/// Without a time that it is told, a store goes by the system's clock.
#[test]
fn a_handle_has_the_time_of_the_system() {
    let (_folder, path) = place();
    let options = small().forget_after(WINDOW).capacity(1000);
    let store = options.create(&path).unwrap();
    assert!(store.insert("key").unwrap());
    let now = store.stats().unwrap().forgetting.unwrap().now;
    let apart = now.duration_since(std::time::SystemTime::now());
    assert!(apart.unwrap_or_else(|early| early.duration()) < Duration::from_secs(600));
    assert!(!store.insert("key").unwrap());
    store.close().unwrap();
}

/// Copies and deltas carry ages as they are.
#[test]
fn a_copy_forgets_as_its_store_does() {
    let (folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store
        .insert_batch(&(0..3000).map(key).collect::<Vec<_>>())
        .unwrap();
    let copy = folder.path().join("copy");
    store.snapshot(&copy).unwrap();
    store.advance_to(at(BEGIN + 5 * STEP)).unwrap();
    store
        .insert_batch(&(3000..4000).map(key).collect::<Vec<_>>())
        .unwrap();
    let delta = folder.path().join("delta");
    store.snapshot_since(&delta, &copy).unwrap();
    store.close().unwrap();
    apply_delta(&delta, &copy, &OpenOptions::new(), |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    for path in [path, copy] {
        let store = forgetting(BEGIN).open(&path).unwrap();
        for (clock, old, new) in [
            (STEPS * STEP, true, true),
            ((STEPS + 1) * STEP, false, true),
            ((STEPS + 6) * STEP, false, false),
        ] {
            store.advance_to(at(BEGIN + clock)).unwrap();
            assert_eq!(store.contains(key(7)).unwrap(), old);
            assert_eq!(store.contains(key(3007)).unwrap(), new);
        }
    }
}

/// What is exempt is absent; inserted again, it is there for a window.
#[test]
fn an_exempt_key_is_forgotten_like_any_other() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store
        .insert_batch(&(0..1000).map(key).collect::<Vec<_>>())
        .unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.exempt(&[key(7)]).unwrap().exempted, 1);
    assert!(!store.contains(key(7)).unwrap());
    store.advance_to(at(BEGIN + 3 * STEP)).unwrap();
    assert!(store.insert(key(7)).unwrap());
    store.checkpoint().unwrap();
    store.advance_to(at(BEGIN + (STEPS + 1) * STEP)).unwrap();
    assert!(store.contains(key(7)).unwrap() && !store.contains(key(8)).unwrap());
    store.advance_to(at(BEGIN + (STEPS + 4) * STEP)).unwrap();
    assert!(!store.contains(key(7)).unwrap());
    assert!(store.insert(key(7)).unwrap());
}
