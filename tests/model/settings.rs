//! The settings that are explored, with the number of their states.

use super::setting::{Op, Setting};
use Op::{Checkpoint, Close, Commit, Contains, Insert};

const BASE: Setting = Setting {
    name: "",
    states: 0,
    transactional: false,
    growing: false,
    programs: &[],
    after: &[Insert(0), Commit],
    generations: 3,
    full: false,
    begun: true,
    power_cuts: true,
    circles: true,
    broken: None,
};

/// A store that was just made: the first log, and what its makers' deaths leave.
pub const FIRST_LOG: Setting = Setting {
    name: "first log, two handles",
    states: 42_796,
    begun: false,
    generations: 2,
    full: true,
    programs: &[&[Insert(0), Commit], &[Insert(0), Contains(0)]],
    ..BASE
};

pub const FIRST_LOG_OF_THREE: Setting = Setting {
    name: "first log, three handles",
    states: 568_910,
    programs: &[&[Insert(0)], &[Insert(0)], &[Commit]],
    ..FIRST_LOG
};

/// A reader while a key moves from the buffer to a layer that the reader did not know.
pub const LOOK_UP: Setting = Setting {
    name: "look-up in a growing store",
    states: 485_543,
    growing: true,
    power_cuts: false,
    programs: &[&[Insert(0)], &[Contains(0)], &[Checkpoint, Checkpoint]],
    ..BASE
};

/// Two who insert the same key, and one who rotates.
pub const RACE: Setting = Setting {
    name: "race for a key",
    states: 118_469,
    generations: 2,
    power_cuts: false,
    programs: &[&[Insert(0)], &[Insert(0)], &[Checkpoint]],
    ..BASE
};

pub const COMMIT: Setting = Setting {
    name: "commits, two rotations",
    states: 1_030_138,
    full: true,
    programs: &[&[Insert(0), Commit], &[Insert(1), Commit]],
    ..BASE
};

pub const TWO_KEYS: Setting = Setting {
    name: "two keys",
    states: 457_846,
    full: true,
    generations: 2,
    programs: &[
        &[Insert(0), Insert(1), Commit],
        &[Insert(1), Commit, Contains(0)],
    ],
    ..BASE
};

pub const TRANSACTIONS: Setting = Setting {
    name: "transactions, two keys",
    states: 314_677,
    transactional: true,
    full: true,
    generations: 2,
    programs: &[&[Insert(0), Insert(1), Commit], &[Insert(0), Commit]],
    ..BASE
};

/// Two who claim the same key, and one who rotates.
pub const LEASES: Setting = Setting {
    name: "leases",
    states: 758_864,
    transactional: true,
    generations: 2,
    programs: &[&[Insert(0), Commit], &[Insert(0), Commit], &[Checkpoint]],
    ..BASE
};

/// A reader while an open key is carried over.
pub const CARRIED: Setting = Setting {
    name: "look-up of an open key",
    states: 148_649,
    transactional: true,
    growing: true,
    generations: 2,
    power_cuts: false,
    programs: &[&[Insert(0), Commit], &[Contains(0)], &[Checkpoint]],
    ..BASE
};

/// Two who close, one of them as the last, and the next to open.
pub const CLOSING: Setting = Setting {
    name: "closing",
    states: 194_993,
    full: true,
    generations: 2,
    programs: &[&[Insert(0), Close], &[Insert(1), Commit, Close]],
    after: &[Insert(0), Close],
    ..BASE
};

pub const CLOSING_TRANSACTIONS: Setting = Setting {
    name: "closing, transactional",
    states: 95_291,
    transactional: true,
    programs: &[&[Insert(0), Close], &[Insert(0), Commit, Close]],
    ..CLOSING
};

pub const SMALL: [Setting; 11] = [
    CLOSING,
    CLOSING_TRANSACTIONS,
    FIRST_LOG,
    FIRST_LOG_OF_THREE,
    LOOK_UP,
    RACE,
    COMMIT,
    TWO_KEYS,
    TRANSACTIONS,
    LEASES,
    CARRIED,
];

const LARGE_BASE: Setting = Setting {
    circles: false,
    ..BASE
};

pub const LARGE: [Setting; 5] = [
    Setting {
        name: "large: plain, two rotations",
        states: 2_237_720,
        programs: &[
            &[Insert(0), Commit],
            &[Insert(0), Contains(0)],
            &[Checkpoint, Checkpoint],
        ],
        ..LARGE_BASE
    },
    Setting {
        name: "large: first log",
        states: 9_928_233,
        begun: false,
        full: true,
        programs: &[&[Insert(0), Commit], &[Insert(0), Commit], &[Contains(0)]],
        ..LARGE_BASE
    },
    Setting {
        name: "large: growing, two keys",
        states: 1_722_802,
        growing: true,
        full: true,
        programs: &[
            &[Insert(0), Insert(1), Commit],
            &[Insert(1), Commit, Contains(0)],
        ],
        ..LARGE_BASE
    },
    Setting {
        name: "large: transactional, three rotations",
        states: 5_393_980,
        transactional: true,
        full: true,
        generations: 4,
        programs: &[
            &[Insert(0), Commit, Insert(1)],
            &[Insert(0), Insert(1), Commit],
        ],
        ..LARGE_BASE
    },
    Setting {
        name: "large: look-up of an open key, two rotations",
        states: 1_240_755,
        transactional: true,
        growing: true,
        programs: &[
            &[Insert(0), Commit],
            &[Contains(0)],
            &[Checkpoint, Checkpoint],
        ],
        ..LARGE_BASE
    },
];
