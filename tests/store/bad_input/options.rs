//! Options and sizes that make no sense.

use everseen::sizing::SizingError;
use everseen::testing::Options;
use everseen::{Error, Kind, UnknownKind};

use crate::support::files::{beside, image, keys, names, place, small};

/// The error of making a store so; nothing may be left of it.
fn refused(options: &Options) -> Error {
    let (_folder, path) = place();
    let error = options.create(&path).unwrap_err();
    assert!(names(&path).is_empty(), "{error:?}: {:?}", names(&path));
    error
}

#[track_caller]
fn sizing(options: &Options, expected: &SizingError) {
    let error = refused(options);
    let Error::Sizing(got) = &error else {
        panic!("{error:?}");
    };
    // NaN differs from itself.
    assert_eq!(format!("{got:?}"), format!("{expected:?}"));
}

#[test]
fn sizes() {
    let bloom = || small().capacity(1000);
    let growing = || small().kind(Kind::Scalable);
    sizing(&small().capacity(0), &SizingError::CapacityZero);
    sizing(&growing().capacity(0), &SizingError::CapacityZero);
    for got in [
        0.0,
        -0.0,
        -1e-9,
        1.0,
        1.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        let expected = SizingError::RateOutOfRange { got };
        sizing(&bloom().fpr(got), &expected);
        sizing(&growing().fpr(got), &expected);
    }
    for got in [0.0, -3.0, f64::NAN, f64::INFINITY] {
        let expected = SizingError::BitsPerKeyOutOfRange { got };
        sizing(&bloom().bits_per_key(got), &expected);
    }
    for got in [0, 1, 17, u32::MAX] {
        sizing(
            &growing().growth(got),
            &SizingError::FactorOutOfRange { got },
        );
    }
    for got in [0.0, 1.0, -0.5, f64::NAN] {
        let expected = SizingError::TighteningOutOfRange { got };
        sizing(&growing().tightening(got), &expected);
    }
}

#[test]
fn more_keys_than_fit() {
    let expected = SizingError::RateBelowFloor {
        fpr: 0.5,
        floor: everseen::sizing::hash_floor(u64::MAX),
        capacity: u64::MAX,
    };
    sizing(&small().capacity(u64::MAX).fpr(0.5), &expected);
    let expected = SizingError::RateBelowFloor {
        fpr: 1e-19,
        floor: everseen::sizing::hash_floor(1000),
        capacity: 1000,
    };
    sizing(&small().capacity(1000).fpr(1e-19), &expected);
    let pages = ((1_u64 << 60) as f64 * 1000.0 / 32_640.0).ceil();
    let expected = SizingError::TooLarge {
        bytes: pages * 4096.0,
    };
    sizing(&small().capacity(1 << 60).bits_per_key(1000.0), &expected);
}

/// The planner allows it; no file system and no address space holds it.
#[test]
fn a_filter_larger_than_any_disk() {
    let error = refused(&small().capacity(1 << 58).bits_per_key(64.0));
    assert!(
        matches!(
            &error,
            Error::Io {
                action: "create the store" | "map a layer of",
                ..
            }
        ),
        "{error:?}"
    );
}

#[track_caller]
fn invalid(error: &Error, option: &str, expected: &str, got: &str) {
    let Error::InvalidOption {
        option: named,
        expected: allowed,
        got: given,
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!((*named, &**allowed, &**given), (option, expected, got));
}

#[test]
fn values_out_of_their_range() {
    for pages in [0, 1, 1021, u64::MAX] {
        let (error, got) = (refused(&small().segment_pages(pages)), pages.to_string());
        invalid(&error, "segment_pages", "2 to 1020", &got);
    }
    let buffer = "at least 131072 bytes";
    invalid(&refused(&small().buffer(0)), "buffer", buffer, "0");
    invalid(
        &refused(&small().buffer(131_071)),
        "buffer",
        buffer,
        "131071",
    );
    let name = "a name of 1 to 255 bytes";
    invalid(&refused(&small().writer("")), "writer", name, "0 bytes");
    let long = "w".repeat(256);
    invalid(
        &refused(&small().writer(&long)),
        "writer",
        name,
        "256 bytes",
    );
    invalid(
        &refused(&small().kind(Kind::Bloom)),
        "capacity",
        "a number of keys for kind bloom; kinds fingerprint and scalable grow without one",
        "none",
    );
    invalid(
        &refused(&small().kind(Kind::Counting)),
        "capacity",
        "a number of keys for kind counting, which can't grow: removing a key from the wrong layer would damage others",
        "none",
    );
    let shared = small().kind(Kind::Counting).capacity(5);
    invalid(
        &refused(&shared.transactional(true)),
        "transactional",
        "no for kind counting: one handle can't give up a key that two have counted",
        "yes",
    );
    invalid(
        &refused(&small().capacity(5).fpr(0.01).bits_per_key(9.5)),
        "bits_per_key",
        "none beside a rate of 0.01: one follows from the other",
        "9.5",
    );
    for (kind, name) in [(Kind::Bloom, "bloom"), (Kind::Scalable, "scalable")] {
        invalid(
            &refused(&Options::new().kind(kind).grows_to(5000)),
            "grows_to",
            &format!("none for kind {name}: only kind fingerprint has a limit to grow to"),
            "5000",
        );
    }
    invalid(
        &refused(&small().kind(Kind::Scalable).bits_per_key(9.5)),
        "bits_per_key",
        "a rate for kind scalable, whose layers differ in bits a key",
        "9.5",
    );
    invalid(
        &refused(&small().bits_per_key(9.5)),
        "bits_per_key",
        "a rate for kind fingerprint, from which bits a key follow",
        "9.5",
    );
    invalid(
        &refused(&small().growth(4).grows_to(5000)),
        "grows_to",
        "none for kind scalable: only kind fingerprint has a limit to grow to",
        "5000",
    );
    // Opening checks them too.
    let (_folder, path) = place();
    small().create(&path).unwrap().close().unwrap();
    for outcome in [
        small().buffer(1).open(&path),
        small().buffer(1).open_read_only(&path),
    ] {
        invalid(&outcome.unwrap_err(), "buffer", buffer, "1");
    }
}

#[test]
fn a_kind_that_does_not_exist() {
    let UnknownKind { got, .. } = "cuckoo".parse::<Kind>().unwrap_err();
    assert_eq!(got, "cuckoo");
}

/// More memory than there is.
#[test]
fn a_buffer_that_no_machine_has() {
    for (buffer, alone) in [(u64::MAX, true), (1 << 62, true), (1 << 62, false)] {
        let error = refused(&small().buffer(buffer).exclusive(alone));
        // Memory of its own, or a file that is shared; other systems than Linux share memory.
        let is_memory = alone || cfg!(everseen_portable);
        let expected = match alone {
            true => "reserve memory for",
            false => "make the write buffer",
        };
        let is_told = match &error {
            Error::OutOfMemory { action, limit, .. } => {
                is_memory && *action == expected && limit.is_none()
            }
            Error::Io { action, .. } => !is_memory && *action == expected,
            _ => false,
        };
        assert!(is_told, "{error:?}");
    }
}

/// A reader can't empty a log into the pages, so it must have room for it; how much is said, and
/// is enough.
#[test]
fn a_log_that_a_reader_has_no_room_for() {
    let (_folder, path) = place();
    let large = small().buffer(4 << 20).capacity(100_000).fpr(1e-9);
    let store = large.create(&path).unwrap();
    store.insert_batch(&keys(0..20_000)).unwrap();
    let (_killed, path) = image(&path);
    assert!(beside(&path, "-log.1").exists());
    let error = small().open_read_only(&path).unwrap_err();
    let Error::InvalidOption {
        option: "buffer",
        expected,
        got,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(got, &everseen::testing::LEAST_BUFFER.to_string());
    let least = expected
        .strip_prefix("at least ")
        .and_then(|rest| rest.strip_suffix(" bytes, for the 20000 keys of the log"));
    let least: u64 = least.unwrap().parse().unwrap();
    let store = small().buffer(least).open_read_only(&path).unwrap();
    let found = store.contains_batch(&keys(0..20_000)).unwrap();
    assert!(found.iter().all(|found| *found));
    drop(store);
    // A writer takes it in pieces.
    let store = small().open(&path).unwrap();
    let found = store.contains_batch(&keys(0..20_000)).unwrap();
    assert!(found.iter().all(|found| *found));
}
