//! The protocol as it is: no state of any setting breaks a promise.

use super::explorer::explore;
use super::setting::Setting;
use super::settings::{
    CARRIED, CLOSING, CLOSING_TRANSACTIONS, COMMIT, FIRST_LOG, FIRST_LOG_OF_THREE, LARGE, LEASES,
    LOOK_UP, RACE, SMALL, TRANSACTIONS, TWO_KEYS,
};

/// Explores a setting. That it has as many states as ever is asserted, since a model that reaches
/// fewer by mistake finds nothing either.
fn assert_sound(setting: &Setting) {
    let begun = std::time::Instant::now();
    let found = explore(setting);
    if let Some(trace) = &found.violation {
        panic!("{}, after {} states:\n{trace}", setting.name, found.states);
    }
    println!(
        "{}: {} states, {} of them ends, depth {}, {:.1} s",
        setting.name,
        found.states,
        found.ends,
        found.depth,
        begun.elapsed().as_secs_f64()
    );
    assert!(found.ends > 0, "{} comes to no end", setting.name);
    assert_eq!(found.states, setting.states, "{}", setting.name);
}

#[test]
fn a_store_with_its_first_log() {
    assert_sound(&FIRST_LOG);
    assert_sound(&FIRST_LOG_OF_THREE);
}

#[test]
fn readers_and_inserts_of_a_plain_store() {
    assert_sound(&LOOK_UP);
    assert_sound(&RACE);
}

#[test]
fn commits_of_a_plain_store() {
    assert_sound(&COMMIT);
    assert_sound(&TWO_KEYS);
}

#[test]
fn a_transactional_store() {
    assert_sound(&TRANSACTIONS);
    assert_sound(&LEASES);
    assert_sound(&CARRIED);
}

#[test]
fn closing() {
    assert_sound(&CLOSING);
    assert_sound(&CLOSING_TRANSACTIONS);
}

#[test]
fn no_two_settings_are_the_same() {
    for (place, setting) in SMALL.iter().enumerate() {
        assert!(
            SMALL[..place]
                .iter()
                .all(|other| other.name != setting.name)
        );
    }
}

#[test]
#[ignore = "minutes, GB of memory; cargo test --release --test model -- --ignored --nocapture long"]
fn long_larger_settings() {
    LARGE.iter().for_each(assert_sound);
}
