//! DUMP and RESTORE, which move values between Redis servers. A store is no such value: SCANDUMP and LOADCHUNK move it.

use super::arguments::integer_or;
use super::{Context, NOT_AN_INTEGER, name_of};
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

/// DUMP key
pub fn dump(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match context.server.database.exists(&name_of(request.arg(1))?)? {
        false => Ok(Reply::Null),
        true => Err(Refusal::new(
            "ERR a store is no value of Redis: BF.SCANDUMP and CF.SCANDUMP move it",
        )),
    }
}

/// RESTORE key ttl value …: says what is wrong with the value, and takes none.
pub fn restore(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let replaces = (4..request.len()).any(|at| request.is_word(at, "REPLACE"));
    if !replaces && context.server.database.exists(&name_of(request.arg(1))?)? {
        return Err(Refusal::new("BUSYKEY Target key name already exists."));
    }
    if integer_or(request.arg(2), NOT_AN_INTEGER)? < 0 {
        return Err(Refusal::new("ERR Invalid TTL value, must be >= 0"));
    }
    match is_whole(request.arg(3)) {
        false => Err(Refusal::new(
            "ERR DUMP payload version or checksum are wrong",
        )),
        true => Err(Refusal::new("ERR Bad data format")),
    }
}

/// Returns whether a value is whole: its last eight bytes are the CRC of those before, two of which are its version.
fn is_whole(value: &[u8]) -> bool {
    match value.split_last_chunk::<8>() {
        Some((rest, crc)) => rest.len() >= 2 && crc64(rest) == u64::from_le_bytes(*crc),
        None => false,
    }
}

/// The CRC of Jones, which Redis takes.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut crc = byte as u64;
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    bytes.iter().fold(0, |crc, byte| {
        TABLE[((crc ^ u64::from(*byte)) & 0xFF) as usize] ^ (crc >> 8)
    })
}

#[cfg(test)]
mod tests {
    use super::{crc64, is_whole};

    #[test]
    fn a_value_ends_with_its_sum() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
        let mut value = b"\0\x03abc\x0B\0".to_vec();
        value.extend(crc64(&value).to_le_bytes());
        assert!(is_whole(&value));
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 4;
            assert!(!is_whole(&changed), "byte {at}");
            assert!(!is_whole(&value[..at]), "{at} bytes");
        }
    }
}
