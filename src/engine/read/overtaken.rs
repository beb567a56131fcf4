//! Look-ups through views of segments that checkpoints and closing handles overtake.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::engine::read::Reader;
use crate::engine::read::point::{Found, look_up};
use crate::engine::view::View;
use crate::error::Error;
use crate::page_io::probe::{Probe, StaleDirectory};
use crate::testing::Options;
use crate::{Kind, Store};

const KEYS: u64 = 6000;

fn options() -> Options {
    let options = Options::new().kind(Kind::Fingerprint).background(false);
    options
        .capacity(50_000)
        .fpr(1e-12)
        .measured(false)
        .segment_pages(2)
        .step_segments(2)
}

/// Makes a store whose file is much longer than what it holds.
fn worn_out(path: &Path) -> Store {
    let store = options().create(path).unwrap();
    store.insert_batch(&Vec::from_iter(0..KEYS)).unwrap();
    store.checkpoint().unwrap();
    for round in 1..4 {
        for passing in (round << 20..(round << 20) + 2000).step_by(1000) {
            let passing = Vec::from_iter(passing..passing + 1000);
            store.insert_batch(&passing).unwrap();
            store.checkpoint().unwrap();
            passing
                .iter()
                .for_each(|key| assert!(store.remove(*key).unwrap()));
            store.checkpoint().unwrap();
        }
    }
    store
}

/// What a look-up has that is under way, and how long the map of the file is that it reads.
fn view_of(store: &Store) -> (Arc<View>, u64) {
    let view = store.engine.views.cell.load_full();
    let length = view.filter.segments().unwrap().map().len() as u64 * 8;
    (view, length)
}

/// Looks for keys through a view, all of whose map is read. The handle may be closed.
fn look_through(store: &Store, view: &View) {
    let segments = view.filter.segments().unwrap();
    for word in (0..segments.map().len()).step_by(512) {
        std::hint::black_box(segments.map().word(word));
    }
    for key in 0..KEYS {
        let hash = store.hasher().mix(key);
        // Checkpoints have overtaken the view, whatever else has become of it.
        let probed = Reader::of(&store.engine).probe(view, hash);
        let probed = probed.unwrap_or_else(|error| panic!("key {key}: {error:?}"));
        assert!(probed != Probe::Absent, "key {key}");
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Each look-up has been passed, and finds a newer view; closing takes the maps from that one at any moment.
#[test]
fn look_ups_that_were_passed_end_with_the_handle_at_any_moment() {
    for round in 0..100 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = options().exclusive(true).create(path).unwrap();
        let passed = view_of(&store).0.filter.segments().unwrap().version();
        store.insert(1).unwrap();
        store.checkpoint().unwrap();
        let hash = store.hasher().mix(1);
        let reader = Reader::of(&store.engine);
        let stale = StaleDirectory { version: passed };
        let look = || loop {
            let view = |newer: Option<_>| reader.view_after(newer.unwrap_or(stale));
            let there = |presence| reader.says_there(presence);
            let probe = |view: &View| reader.probe(view, hash);
            match look_up(hash, reader.shared, view, |_| (), there, probe) {
                Ok(found) => assert_eq!(found, Found::Present),
                Err(error) => break error,
            }
        };
        std::thread::scope(|scope| {
            let looking: Vec<_> = (0..6).map(|_| scope.spawn(look)).collect();
            store.close().unwrap();
            for one in looking {
                let error = one.join().unwrap();
                assert!(matches!(error, Error::Closed), "round {round}: {error:?}");
            }
        });
    }
}

/// A look-up of the handle that closes, through a view that has been renewed since; or one of another handle that is
/// closed, and not dropped.
#[test]
fn no_file_is_cut_off_under_an_old_view() {
    for of_another in [false, true] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let first = worn_out(&path);
        // Its map is as long as the file is now.
        let store = options().open(&path).unwrap();
        let (view, mapped) = view_of(&store);
        assert_eq!(mapped, length(&path));
        store.insert(1 << 40).unwrap();
        store.checkpoint().unwrap();
        assert!(!Arc::ptr_eq(&view, &view_of(&store).0));
        let (one, last) = match of_another {
            true => (&store, &first),
            false => (&first, &store),
        };
        one.close().unwrap();
        last.close().unwrap();
        let kept = length(&path);
        assert!(
            mapped <= kept,
            "cut off at {kept} under {mapped}, of another: {of_another}"
        );
        look_through(&store, &view);
        drop(view);

        options().open(&path).unwrap().close().unwrap();
        assert!(length(&path) < mapped, "nothing to cut off at {mapped}");
    }
}
