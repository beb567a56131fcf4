//! The run table and its runs, field by field.

use super::*;
use crate::codec::{put_u32, put_u64};
use crate::file::layout::MAX_COUNTER;

fn run(number: u64) -> Run {
    Run {
        directory: DirectoryRef {
            places: [5000 + 10 * number, 5005 + 10 * number],
            segments: 3,
            pages: 40,
            keys: 1000,
            end_page: 6000,
            version: 7,
            generation: 5,
        },
        went: 300,
        begin: 77,
        begun_with: 1200,
        arrived: 9,
        below_until: 0,
    }
}

fn table() -> RunTable {
    RunTable {
        set_version: 8,
        runs: vec![run(1), run(2)],
        forgets: false,
    }
}

fn bytes_of(table: &RunTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.encode(&mut Encoder::new(&mut bytes));
    bytes
}

fn decoded(bytes: &[u8]) -> Option<Result<RunTable, SuperblockFault>> {
    RunTable::decode(&mut Decoder::new(bytes), (9, 6), false)
}

#[test]
fn there_and_back() {
    let bytes = bytes_of(&table());
    assert_eq!(bytes.len(), TABLE_FRONT_BYTES + 2 * RUN_BYTES);
    assert_eq!(decoded(&bytes), Some(Ok(table())));
    assert_eq!(decoded(&bytes[..bytes.len() - 1]), None);
    let most = RunTable {
        set_version: 8,
        runs: (0..MOST_RUNS as u64).map(run).collect(),
        forgets: false,
    };
    assert_eq!(bytes_of(&most).len(), MOST_TABLE_BYTES);
    assert_eq!(decoded(&bytes_of(&most)), Some(Ok(most)));
}

#[test]
fn every_field_out_of_range_has_its_fault() {
    let second = TABLE_FRONT_BYTES + RUN_BYTES;
    for (place, value, name) in [
        (0, 0, "directory_page"),
        (0, 5998 + 2, "directory_page"),
        (8, 5020, "directory_page"),
        (16, 0, "segments"),
        (16, 41, "segments"),
        (24, 6000 - 31, "segment_pages"),
        (32, u64::MAX, "keys"),
        (32, 1201 - 300, "begun_with"),
        (40, u64::MAX, "keys"),
        (40, 1201 - 700, "begun_with"),
        (48, 31, "end_page"),
        (56, 0, "version"),
        (56, 10, "version"),
        (56, MAX_COUNTER + 1, "version"),
        (64, 0, "directory_generation"),
        (64, 7, "directory_generation"),
        (80, 999, "begun_with"),
        (80, 0, "arrived"),
    ] {
        let mut bytes = bytes_of(&table());
        put_u64(&mut bytes, second + place, value);
        match decoded(&bytes) {
            Some(Err(SuperblockFault::Field { field, .. })) => assert_eq!(field, name),
            other => panic!("{name} {value}: {other:?}"),
        }
    }
}

#[test]
fn a_run_without_segments_is_none() {
    let mut bytes = bytes_of(&table());
    for place in (0..48).step_by(8) {
        put_u64(&mut bytes, TABLE_FRONT_BYTES + place, 0);
    }
    let (field, expected, got) = ("segments", "some in a run", 0);
    let fault = SuperblockFault::Field {
        field,
        expected,
        got,
    };
    assert_eq!(decoded(&bytes), Some(Err(fault)));
}

/// A superblock with an oldest run of 500 keys and the runs of the table.
fn superblock() -> Superblock {
    let oldest = DirectoryRef {
        places: [4000, 4001],
        segments: 1,
        pages: 9,
        keys: 500,
        end_page: 4002,
        version: 3,
        generation: 2,
    };
    Superblock {
        sequence: 9,
        generation: 6,
        log_expected: true,
        commit_sequence: 0,
        layers: Vec::new(),
        directory: Some(oldest),
        partly_merged: None,
        sections: Vec::new(),
        commits: Default::default(),
        moment: 0,
        clock: 0,
        earliest: 0,
        runs: Some(table()),
    }
}

#[test]
fn keys_are_the_sum_over_the_runs() {
    let mut superblock = superblock();
    assert_eq!(superblock.keys(), 500 + 2 * (700 - 300));
    assert_eq!(
        (superblock.set_version(), superblock.segment_pages()),
        (8, 89)
    );
    assert_eq!(superblock.end_offset(), 6000 * 4096);
    superblock.partly_merged = Some(77);
    assert_eq!(superblock.keys(), 77);
    superblock.runs = None;
    assert_eq!(superblock.set_version(), 3);
}

#[test]
fn runs_that_do_not_fit_together_have_their_faults() {
    let space = FingerprintSpace::new(1 << 20);
    let checked = |harm: &dyn Fn(&mut Superblock, &mut RunTable)| {
        let (mut superblock, mut table) = (superblock(), table());
        harm(&mut superblock, &mut table);
        superblock.runs = Some(table);
        match superblock.check_runs(space) {
            Ok(()) => "none",
            Err(SuperblockFault::Field { field, .. }) => field,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(checked(&|_, _| ()), "none");
    assert_eq!(checked(&|_, table| table.set_version = 6), "set_version");
    assert_eq!(checked(&|_, table| table.set_version = 10), "set_version");
    assert_eq!(checked(&|all, _| all.sequence = 7), "set_version");
    assert_eq!(checked(&|_, table| table.runs[1].begin = 1 << 20), "begin");
    let twice = |_: &mut Superblock, table: &mut RunTable| table.runs[1] = table.runs[0];
    assert_eq!(checked(&twice), "directory_page");
    let shared = |_: &mut Superblock, table: &mut RunTable| {
        table.runs[1].directory.places[0] = 4001;
    };
    assert_eq!(checked(&shared), "directory_page");
    let too_many = |_: &mut Superblock, table: &mut RunTable| table.runs[0].went = 501;
    assert_eq!(checked(&too_many), "went");
    let partly = |all: &mut Superblock, table: &mut RunTable| {
        table.runs[0].went = 501;
        all.partly_merged = Some(5);
    };
    assert_eq!(checked(&partly), "went");
    let later = |_: &mut Superblock, table: &mut RunTable| table.runs[1].below_until = 1;
    assert_eq!(checked(&later), "below_until");
}

#[test]
fn an_entry_of_a_store_that_forgets_says_nothing_of_those_below() {
    let with_steps = |steps: [u64; 2]| {
        let mut superblock = superblock();
        let mut table = table();
        table.forgets = true;
        for (run, step) in table.runs.iter_mut().zip(steps) {
            (run.went, run.below_until) = (700, step);
        }
        superblock.runs = Some(table);
        superblock
    };
    // More may have gone than there was.
    assert_eq!(with_steps([3, 3]).keys(), 500 + 2 * 300);
    let checked = |steps| with_steps(steps).check_runs(FingerprintSpace::new(1 << 20));
    assert_eq!(checked([3, 3]), Ok(()));
    assert_eq!(checked([3, MOST_STEP]), Ok(()));
    for (steps, got) in [([4, 3], 3), ([0, MOST_STEP + 1], MOST_STEP + 1)] {
        let expected = "a step, not below that of the run before";
        let field = "below_until";
        let fault = SuperblockFault::Field {
            field,
            expected,
            got,
        };
        assert_eq!(checked(steps), Err(fault));
    }
}

#[test]
fn the_front_out_of_range_has_its_fault() {
    for (place, value, name) in [
        (0, 0, "run_count"),
        (0, 25, "run_count"),
        (4, 1, "reserved"),
    ] {
        let mut bytes = bytes_of(&table());
        put_u32(&mut bytes, place, value);
        match decoded(&bytes) {
            Some(Err(SuperblockFault::Field { field, .. })) => assert_eq!(field, name),
            other => panic!("{name} {value}: {other:?}"),
        }
    }
}
