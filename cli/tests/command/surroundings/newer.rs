//! A store that a newer version has written to, and one that no version may write to any more.

use std::fs;

use crate::support::Lab;

/// Where superblocks lie: of even sequences, and of odd ones.
const SUPERBLOCKS: [usize; 2] = [16_384, 73_728];
const FLAGS: usize = SUPERBLOCKS[1] + 304;

fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc))
    })
}

fn seal(superblock: &mut [u8]) {
    let length = u32::from_le_bytes(superblock[12..16].try_into().expect("4 bytes")) as usize;
    let crc = crc32(&superblock[12..length]);
    superblock[8..12].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_flag_that_this_version_does_not_know_is_no_damage() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "-q", "s"], b"a\n").expect(0);
    let mut bytes = fs::read(lab.path("s")).expect("a store");
    bytes[FLAGS] |= 0x40;
    seal(&mut bytes[SUPERBLOCKS[1]..]);
    lab.write("s", &bytes);
    let here = lab.path("s").canonicalize().expect("there");
    let expected = format!(
        "everseen: {}: a newer version of Everseen has written to the store (superblock flags 0x40); use a newer program",
        here.display()
    );
    for command in ["info", "check", "add", "verify", "repair", "dedup"] {
        lab.run(&[command, "s"]).expect_error(&expected);
        assert!(
            fs::read(lab.path("s")).expect("there") == bytes,
            "{command}"
        );
    }
}

#[test]
fn a_store_at_the_end_of_its_counters_is_read_and_not_written() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "-q", "s"], b"a\n").expect(0);
    let mut bytes = fs::read(lab.path("s")).expect("a store");
    let sequence = |slot: usize| {
        let field = &bytes[SUPERBLOCKS[slot] + 16..][..8];
        u64::from_le_bytes(field.try_into().expect("8 bytes"))
    };
    let newest = usize::from(sequence(1) > sequence(0));
    let end = (1_u64 << 60) - newest as u64;
    let superblock = &mut bytes[SUPERBLOCKS[newest]..];
    superblock[16..24].copy_from_slice(&end.to_le_bytes());
    seal(superblock);
    lab.write("s", &bytes);
    let here = lab.path("s").canonicalize().expect("there");
    let expected = format!(
        "everseen: {}: its sequence is {end}, near the end of counters (2^60): the store can be read, but not written to; merge it into a new one",
        here.display()
    );
    for command in ["add", "dedup"] {
        lab.run_on(&[command, "s"], b"b\n").expect_error(&expected);
        assert!(
            fs::read(lab.path("s")).expect("there") == bytes,
            "{command}"
        );
    }
    lab.run_on(&["check", "s"], b"a\n").expect(0);
    lab.run(&["union", "new", "s"]).expect(0);
    lab.run_on(&["check", "new"], b"a\n").expect(0);
    lab.run_on(&["add", "new"], b"b\n").expect(0);
}
