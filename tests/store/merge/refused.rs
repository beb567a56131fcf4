//! What does not fit, is too full, damaged or can't be read is refused, by its name, and leaves nothing behind.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::sizing::SizingError;
use everseen::testing::Options;
use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::{Error, FormatError, Hash, Kind, Merge, MergeReport, OnDamage, Result};

use super::pages::{Bench, assert_holds, merge};
use crate::support::files::{image, keys, small};
use crate::support::forge::patch;

/// The union of two stores, which must fail and leave nothing.
#[track_caller]
fn refused(bench: &Bench, merge: Merge<'_>, inputs: &[&Path]) -> Error {
    nothing_left(bench, merge.union(bench.path("out"), inputs))
}

#[track_caller]
fn nothing_left(bench: &Bench, outcome: Result<MergeReport>) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(bench.names("out"), [""; 0], "{error}");
    error
}

#[track_caller]
fn mismatch(bench: &Bench, inputs: [&Path; 2], wrong: (&str, &str, &str)) {
    let error = refused(bench, merge(), &inputs);
    match &error {
        Error::Mismatch {
            path,
            other,
            field,
            expected,
            got,
        } => {
            assert_eq!([&**other, &**path], inputs);
            assert_eq!((*field, &**expected, &**got), wrong);
        }
        _ => panic!("{error:?}"),
    }
}

#[test]
fn rates_that_are_none() {
    for kind in [Kind::Fingerprint, Kind::Bloom, Kind::Scalable] {
        let bench = Bench::new();
        let options = small().kind(kind).capacity(20_000);
        let paths = ["one", "two"].map(|name| bench.make(name, &options, &keys(0..10)));
        for got in [0.0, -1e-9, 1.0, 1.5, f64::INFINITY, f64::NAN] {
            let inputs = paths.each_ref().map(PathBuf::as_path);
            let error = refused(&bench, merge().fpr(got), &inputs);
            match &error {
                Error::Sizing(SizingError::RateOutOfRange { got: told }) => {
                    assert_eq!(told.to_bits(), got.to_bits());
                }
                _ => panic!("{kind}, {got}: {error:?}"),
            }
        }
    }
}

#[test]
fn stores_that_do_not_fit() {
    let bench = Bench::new();
    let options = small().capacity(20_000).fpr(1e-4);
    let make = |name: &str, options: &Options| bench.make(name, options, &keys(0..10));
    let one = make("one", &options);
    let layered = small().kind(Kind::Scalable);
    let grows = make("grows", &layered);
    mismatch(&bench, [&one, &grows], ("kind", "bloom", "scalable"));
    mismatch(&bench, [&grows, &one], ("kind", "scalable", "bloom"));
    let hash = make("hash", &options.clone().hash(Hash::Xxh3));
    mismatch(&bench, [&one, &hash], ("hash", "highway", "xxh3"));
    let seed = make("seed", &options.clone().seed([8; 32]));
    mismatch(&bench, [&one, &seed], ("seed", "the other's", "another"));
    let probes = make("probes", &options.clone().fpr(1e-3));
    mismatch(&bench, [&one, &probes], ("probes", "14", "10"));
    let pages = make("pages", &options.clone().capacity(30_000));
    mismatch(&bench, [&one, &pages], ("pages", "a multiple of 12", "18"));
    // Seeds are no matter of growth: stores that grow are held to them as well.
    let seed = make("seed2", &layered.seed([8; 32]));
    mismatch(&bench, [&grows, &seed], ("seed", "the other's", "another"));
    let prints = make("prints", &small());
    mismatch(&bench, [&one, &prints], ("kind", "bloom", "fingerprint"));
    let seed = make("seed3", &small().seed([8; 32]));
    mismatch(&bench, [&prints, &seed], ("seed", "the other's", "another"));
}

#[test]
fn a_union_that_is_too_full() {
    let bench = Bench::new();
    let options = small().capacity(20_000).fpr(1e-3);
    let one = bench.make("one", &options, &keys(0..20_000));
    let two = bench.like("two", &one, 1, &keys(20_000..40_000));
    let overfull = |error: Error| match error {
        Error::Overfull {
            path,
            keys,
            expected,
            got,
        } => {
            assert_eq!(path, bench.path("out"));
            assert!((39_000..=40_000).contains(&keys), "{keys}");
            (expected, got)
        }
        _ => panic!("{error:?}"),
    };
    let error = refused(&bench, merge(), &[&one, &two]);
    // What to do is told, and is enough.
    let text = error.to_string();
    let (expected, got) = overfull(error);
    assert_eq!(expected, 1e-3);
    let told = text.split("raise its bound to ").nth(1).unwrap();
    let told: f64 = told.split(' ').next().unwrap().parse().unwrap();
    assert!(told >= got && told < 1.1 * got, "{text}");
    let enough = small().fpr(told).merge();
    let report = enough.union(bench.path("enough"), &[&one, &two]).unwrap();
    assert_eq!(report.fpr, told);
    // Of nine pages, some luck.
    assert!(report.fpr_now <= 1.1 * told, "{report:?}");
    assert_holds(&bench.path("enough"), &keys(0..40_000));
    // A bound that not even one input keeps is refused before any page is read.
    let less = small()
        .fpr(1e-5)
        .merge()
        .watch(|read, _| panic!("{read} pages read"));
    let (expected, _) = overfull(refused(&bench, less, &[&one, &two]));
    assert_eq!(expected, 1e-5);
    // Shared keys take no room.
    let again = bench.like("again", &one, 4, &keys(0..20_000));
    let report = merge().union(bench.path("fine"), &[&one, &again]).unwrap();
    assert!(report.keys <= 20_200, "{report:?}");
}

#[test]
fn nonsense_is_refused() {
    let bench = Bench::new();
    let options = small().capacity(20_000).fpr(1e-4);
    let one = bench.make("one", &options, &keys(0..10));
    let invalid = |error: Error, wanted: (&str, &str, &str)| match &error {
        Error::InvalidOption {
            option,
            expected,
            got,
        } => assert_eq!((*option, &**expected, &**got), wanted),
        _ => panic!("{error:?}"),
    };
    let none = ("inputs", "at least one store", "none");
    invalid(refused(&bench, merge(), &[]), none);
    for factor in [0, 1, 5, 13, u64::MAX] {
        let outcome = merge().fold(&one, bench.path("out"), factor);
        let got = factor.to_string();
        let expected = "2 or more, and a divisor of 12, the number of pages of the store";
        let wanted = ("factor", expected, &*got);
        invalid(nothing_left(&bench, outcome), wanted);
    }
    let layered = small().kind(Kind::Scalable);
    let grows = bench.make("grows", &layered, &keys(0..10));
    let outcome = merge().fold(&grows, bench.path("out"), 2);
    let error = nothing_left(&bench, outcome);
    assert!(
        matches!(
            &error,
            Error::WrongKind {
                path,
                action: "be folded",
                got: Kind::Scalable,
                ..
            } if *path == grows
        ),
        "{error:?}"
    );
    let wanted = ("times", "1 or more", "0");
    let like = |path: &Path, times| small().like(path).times(times);
    invalid(like(&one, 0).create(bench.path("out")).unwrap_err(), wanted);
    let wanted = ("times", "1 for a store that grows", "2");
    invalid(
        like(&grows, 2).create(bench.path("out")).unwrap_err(),
        wanted,
    );
    let wanted = "none for kind scalable, whose layers are as large as their keys need";
    let outcome = layered.foldable(1).create(bench.path("out"));
    invalid(outcome.unwrap_err(), ("foldable", wanted, "1"));
    let wanted = "none for kind fingerprint, which follows its keys";
    let outcome = small().foldable(1).create(bench.path("out"));
    invalid(outcome.unwrap_err(), ("foldable", wanted, "1"));
    let outcome = options.clone().foldable(21).create(bench.path("out"));
    let error = outcome.unwrap_err();
    let folds = SizingError::FoldsOutOfRange { got: 21 };
    assert!(
        matches!(&error, Error::Sizing(got) if *got == folds),
        "{error:?}"
    );
    let outcome = small()
        .like(bench.path("nothing"))
        .create(bench.path("out"));
    assert!(
        matches!(outcome, Err(Error::NotFound { .. })),
        "{outcome:?}"
    );
    assert_eq!(bench.names("out"), [""; 0]);
}

#[test]
fn paths_that_can_not_be() {
    [Kind::Scalable, Kind::Fingerprint]
        .into_iter()
        .for_each(wrong_paths_of);
}

fn wrong_paths_of(kind: Kind) {
    let bench = Bench::new();
    let one = bench.make("one", &small().kind(kind), &keys(0..10));
    let gone = bench.path("gone");
    let error = refused(&bench, merge(), &[&one, &gone]);
    assert!(
        matches!(&error, Error::NotFound { path } if *path == gone),
        "{error:?}"
    );
    let error = merge().union(&one, &[&one]).unwrap_err();
    assert!(
        matches!(&error, Error::AlreadyExists { path } if *path == one),
        "{error:?}"
    );
    let error = merge().union(gone.join("out"), &[&one]).unwrap_err();
    assert!(
        matches!(&error, Error::MissingFolder { path } if *path == gone),
        "{error:?}"
    );
    // Whoever has it alone has to close it first.
    let alone = small().exclusive(true).open(&one).unwrap();
    let error = refused(&bench, merge(), &[&one]);
    assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    alone.close().unwrap();
    // None of this has hurt it.
    merge().union(bench.path("out"), &[&one]).unwrap();
    assert_holds(&bench.path("out"), &keys(0..10));
}

#[test]
fn a_damaged_page_is_named_with_its_store() {
    let bench = Bench::new();
    let options = small().capacity(20_000).fpr(1e-4);
    let one = bench.make("one", &options, &keys(0..10_000));
    let two = bench.like("two", &one, 2, &keys(0..10_000));
    patch(&two, 131_072 + 5 * 4096 + 100, &[0xAA; 3]);
    let named = |error: Error| match error {
        Error::Format {
            path,
            source: FormatError::PageDamaged { layer, page, .. },
        } => assert_eq!((path, layer, page), (two.clone(), 0, 5)),
        _ => panic!("{error:?}"),
    };
    named(refused(&bench, merge(), &[&one, &two]));
    // A policy does not make up keys that a page has lost.
    let options = small().on_damage(OnDamage::NeverSeen);
    named(refused(&bench, options.merge(), &[&one, &two]));
    named(nothing_left(
        &bench,
        merge().fold(&two, bench.path("out"), 2),
    ));
    // A page of zeros is damage where all were written.
    small().repair(&two, OnDamage::NeverSeen).unwrap();
    patch(&two, 131_072 + 5 * 4096, &[0; 4096]);
    named(refused(&bench, merge(), &[&one, &two]));
    small().repair(&two, OnDamage::NeverSeen).unwrap();
    merge().union(bench.path("out"), &[&one, &two]).unwrap();
    assert_holds(&bench.path("out"), &keys(0..10_000));
}

#[test]
fn who_watches_may_end_it() {
    let bench = Bench::new();
    let options = small().capacity(400_000).fpr(1e-6);
    let one = bench.make("one", &options, &keys(0..4000));
    let two = bench.like("two", &one, 1, &keys(4000..8000));
    let mut seen = Vec::new();
    let watched = merge().watch(|read, total| {
        seen.push((read, total));
        ControlFlow::Continue(())
    });
    let report = watched.union(bench.path("fine"), &[&one, &two]).unwrap();
    let total = report.pages_read;
    assert_eq!(seen.first(), Some(&(0, total)));
    assert_eq!(seen.last(), Some(&(total, total)));
    assert!(
        seen.windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[1].0 - pair[0].0 <= 256)
    );
    for most in 0..seen.len() {
        let mut calls = 0;
        let ended = merge().watch(|_, _| {
            calls += 1;
            match calls > most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let error = refused(&bench, ended, &[&one, &two]);
        assert!(matches!(error, Error::Cancelled), "{error:?}");
        assert_eq!(calls, most + 1);
    }
    assert_holds(&one, &keys(0..4000));
}

/// A disk on which some files may be read and not written.
#[derive(Debug)]
struct Protected {
    disk: Arc<dyn Storage>,
    path: PathBuf,
}

impl Storage for Protected {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.disk.create_new(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        if write && path == self.path {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.open(path, write)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

/// Options by which a store can be read, but not written.
fn protected(path: &Path) -> Options {
    let storage = Protected {
        disk: disk(),
        path: path.to_owned(),
    };
    small().storage(Arc::new(storage))
}

/// A commit without a key before it stands in the log alone.
#[test]
fn a_store_that_can_only_be_read_keeps_the_commits_of_its_log() {
    let bench = Bench::new();
    for kind in [Kind::Fingerprint, Kind::Bloom, Kind::Scalable] {
        let name = kind.to_string();
        let options = small().kind(kind).capacity(20_000).fpr(1e-4);
        let path = bench.make(&name, &options.transactional(true), &keys(0..0));
        let store = small().writer("w").open(&path).unwrap();
        store.insert_batch(&keys(0..130)).unwrap();
        store.commit_with(b"1").unwrap();
        store.checkpoint().unwrap();
        assert_eq!(store.insert_batch(&keys(0..130)).unwrap(), [false; 130]);
        store.commit_with(b"2").unwrap();
        let last = store.last_commit("w").unwrap();
        assert_eq!(last.as_ref().unwrap().tag, b"2");
        let (_folder, killed) = image(&path);
        store.close().unwrap();
        let out = bench.path(&format!("{name}-out"));
        protected(&killed).merge().union(&out, &[&killed]).unwrap();
        assert_holds(&out, &keys(0..130));
        let merged = small().writer("w").open(&out).unwrap();
        assert_eq!(merged.last_commit("w").unwrap(), last, "{kind}");
        let next = merged.commit_with(b"3").unwrap();
        assert!(next > last.unwrap().sequence);
        merged.close().unwrap();
    }
}

#[test]
fn a_store_that_can_only_be_read_has_no_keys_in_its_log() {
    let bench = Bench::new();
    for kind in [Kind::Bloom, Kind::Scalable] {
        let name = kind.to_string();
        let options = small().kind(kind).capacity(20_000).fpr(1e-4);
        let path = bench.make(&name, &options, &keys(0..100));
        let out = bench.path(&format!("{name}-out"));
        let only_read = protected(&path).merge();
        let report = only_read.union(&out, &[&path]).unwrap();
        assert_eq!(report.keys, 100);
        assert_holds(&out, &keys(0..100));
        // Killed.
        let store = small().open(&path).unwrap();
        store.insert_batch(&keys(100..130)).unwrap();
        let (_folder, killed) = image(&path);
        store.close().unwrap();
        let only_read = protected(&killed).merge();
        let error = refused(&bench, only_read, &[&killed]);
        match &error {
            Error::KeysInLog { path, keys } => assert_eq!((path, *keys), (&killed, 30)),
            _ => panic!("{error:?}"),
        }
    }
}
