//! A store that is made like another is as that one in all that is not told.

use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, Kind, Store};

use super::pages::Bench;
use crate::support::files::small;

/// Whether a store is transactional, and whether it keeps a sample.
fn nature(path: &Path) -> (bool, bool) {
    let store = Store::open(path).unwrap();
    let nature = (
        store.stats().unwrap().transactional,
        store.stats().unwrap().measured.is_some(),
    );
    store.close().unwrap();
    nature
}

#[test]
fn what_is_not_told_is_inherited() {
    let bench = Bench::new();
    let kinds = [small().capacity(1000), small().kind(Kind::Scalable)];
    for (number, options) in kinds.iter().enumerate() {
        for (transactional, measured) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let name = |part: &str| bench.path(&format!("{part}{number}{transactional}{measured}"));
            let options = options
                .clone()
                .transactional(transactional)
                .measured(measured);
            options.create(name("one")).unwrap().close().unwrap();
            // Not `small`, which may tell of some of it.
            let like = || Options::new().like(name("one"));
            like().create(name("same")).unwrap().close().unwrap();
            assert_eq!(nature(&name("same")), (transactional, measured));
            let other = like().transactional(!transactional).measured(!measured);
            other.create(name("other")).unwrap().close().unwrap();
            assert_eq!(nature(&name("other")), (!transactional, !measured));
        }
    }
}

#[test]
fn a_counting_store_is_not_made_transactional_by_that() {
    let bench = Bench::new();
    let options = small().capacity(1000).kind(Kind::Counting);
    options.create(bench.path("one")).unwrap().close().unwrap();
    let like = Options::new().like(bench.path("one"));
    let error = like.clone().transactional(true).create(bench.path("two"));
    let error = error.unwrap_err();
    assert!(
        matches!(&error, Error::InvalidOption { option: "transactional", got, .. } if got == "yes"),
        "{error:?}"
    );
    assert_eq!(bench.names("two"), [""; 0]);
    like.create(bench.path("two")).unwrap().close().unwrap();
    assert_eq!(nature(&bench.path("two")), (false, false));
}
