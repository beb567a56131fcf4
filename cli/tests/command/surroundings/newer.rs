//! A store that a newer version has written to.

use std::fs;

use crate::support::Lab;

/// Where a superblock of sequence 1, or 3, lies, and its flags.
const SUPERBLOCK: usize = 73_728;
const FLAGS: usize = SUPERBLOCK + 304;

fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc))
    })
}

#[test]
fn a_flag_that_this_version_does_not_know_is_no_damage() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "-q", "s"], b"a\n").expect(0);
    let mut bytes = fs::read(lab.path("s")).expect("a store");
    bytes[FLAGS] |= 0x10;
    let place = &mut bytes[SUPERBLOCK..];
    let length = u32::from_le_bytes(place[12..16].try_into().expect("4 bytes")) as usize;
    let crc = crc32(&place[12..length]);
    place[8..12].copy_from_slice(&crc.to_le_bytes());
    lab.write("s", &bytes);
    let here = lab.path("s").canonicalize().expect("there");
    let expected = format!(
        "everseen: {}: a newer version of Everseen has written to the store (superblock flags 0x10); use a newer program",
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
