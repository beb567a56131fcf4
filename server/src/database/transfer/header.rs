//! The first piece of a dump, which says what all others make.

/// What a dump is of: each command takes its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bloom,
    Cuckoo,
}

/// ```text
///   0        8        9     10      16       24       28                124      128
///   | magic  | version | kind | zeros | length | CRC-32 | a note          | CRC-32 |
///     8        1         1      6       8        4 of all  96               4 of the header
/// ```
///
/// Integers are little-endian. The length and the first CRC are of the store's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub length: u64,
    pub crc: u32,
}

impl Header {
    pub const BYTES: usize = 128;
    const MAGIC: [u8; 8] = *b"EVERDUMP";
    const VERSION: u8 = 1;
    const CHECKED: usize = Self::BYTES - 4;
    /// For a person who looks at one.
    const NOTE: [u8; 96] =
        *b"The first piece of a store that everseen-server dumped. Its LOADCHUNK loads it, Redis' does not.";

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::CHECKED];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8] = Self::VERSION;
        bytes[9] = match self.kind {
            Kind::Bloom => b'b',
            Kind::Cuckoo => b'c',
        };
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc.to_le_bytes());
        bytes[28..].copy_from_slice(&Self::NOTE);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header. Whatever is not written by [`encode`](Self::encode), to the bit, is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = match bytes.get(9)? {
            b'b' => Kind::Bloom,
            b'c' => Kind::Cuckoo,
            _ => return None,
        };
        let header = Header {
            kind,
            length: u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?),
            crc: u32::from_le_bytes(bytes.get(24..28)?.try_into().ok()?),
        };
        (header.encode() == bytes).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::{Header, Kind};

    #[test]
    fn a_header_is_read_to_the_bit() {
        for kind in [Kind::Bloom, Kind::Cuckoo] {
            let header = Header {
                kind,
                length: 1 << 33,
                crc: 0xDEAD_BEEF,
            };
            let bytes = header.encode();
            assert_eq!(bytes.len(), Header::BYTES);
            assert_eq!(Header::decode(&bytes), Some(header));
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&changed), None, "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert_eq!(Header::decode(&bytes[..length]), None);
            }
        }
    }
}
