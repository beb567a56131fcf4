//! Every field of a header out of its range has its error.

use super::*;

fn header() -> Header {
    Header {
        kind: Kind::Bloom,
        hash: Hash::Highway,
        transactional: true,
        probes: 7,
        capacity: 1000,
        fpr: 0.01,
        bits: PAYLOAD_BITS,
        seed: [7; 32],
        store_id: [9; 16],
        created: 1,
        growth: 0,
        tightening: 0.0,
        window: None,
        compatible: 0,
        read_only_compatible: 0,
        locks_itself: true,
        has_bound_pages: true,
    }
}

fn page(header: &Header) -> Vec<u8> {
    let mut page = header.encode().to_vec();
    page.resize(PAGE_BYTES, 0);
    page
}

/// Changes bytes and corrects the CRC.
fn forged(offset: usize, bytes: &[u8]) -> Result<Header, FormatError> {
    let mut page = page(&header());
    page[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = crc32fast::hash(&page[..HEADER_CRC_OFFSET]);
    put_u32(&mut page, HEADER_CRC_OFFSET, crc);
    Header::decode(&page, PAGES_OFFSET)
}

#[test]
fn there_and_back() {
    let header = header();
    assert_eq!(Header::decode(&page(&header), PAGES_OFFSET), Ok(header));
}

#[test]
fn every_flipped_byte_has_its_error() {
    for at in 0..PAGE_BYTES {
        let mut page = page(&header());
        page[at] ^= 0x40;
        let error = Header::decode(&page, PAGES_OFFSET).unwrap_err();
        match at {
            0..8 => assert_eq!(
                error,
                FormatError::NotAStore {
                    got: *page.first_chunk().unwrap()
                }
            ),
            8..256 => assert!(
                matches!(error, FormatError::HeaderChecksum { .. }),
                "{at}: {error}"
            ),
            _ => assert_eq!(
                error,
                field("padding", "zeros up to byte 4096", "something else")
            ),
        }
    }
}

#[test]
fn every_field_out_of_range_has_its_error() {
    let named = |field: &str, error: FormatError| match error {
        FormatError::HeaderField { field: got, .. } => assert_eq!(got, field),
        other => panic!("{field}: {other}"),
    };
    assert_eq!(
        forged(8, &2_u32.to_le_bytes()),
        Err(FormatError::UnsupportedVersion {
            expected: 1,
            got: 2
        })
    );
    assert_eq!(
        forged(32, &16_u64.to_le_bytes()),
        Err(FormatError::IncompatibleFeatures { unknown: 16 })
    );
    named("header_length", forged(12, &[1]).unwrap_err());
    named("page_size", forged(40, &[1]).unwrap_err());
    named("flags", forged(44, &[2]).unwrap_err());
    named("kind", forged(44, &[9]).unwrap_err());
    named("hash", forged(46, &[0]).unwrap_err());
    named("flags", forged(48, &[2]).unwrap_err());
    named("probes", forged(52, &[0]).unwrap_err());
    named("probes", forged(52, &[65]).unwrap_err());
    named("capacity", forged(56, &[0; 8]).unwrap_err());
    for rate in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
        named("fpr", forged(64, &rate.to_le_bytes()).unwrap_err());
    }
    named("bits", forged(72, &[0; 8]).unwrap_err());
    named("bits", forged(72, &[1]).unwrap_err());
    named("growth", forged(136, &[2]).unwrap_err());
    named("reserved", forged(140, &[1]).unwrap_err());
    named("reserved", forged(251, &[1]).unwrap_err());
    named("reserved", forged(152, &[1]).unwrap_err());
    named("reserved", forged(160, &[1]).unwrap_err());
    named("kind", forged(44, &[0]).unwrap_err());
    named("probes", forged(44, &[3]).unwrap_err());
}

#[test]
fn a_window_out_of_range_has_its_error() {
    let of = |milliseconds: u64, steps: u32, kind: u16, bits: u64| {
        let window = Window::new(1000, 15);
        let header = Header {
            kind: Kind::Fingerprint,
            probes: 0,
            window,
            ..header()
        };
        let mut page = page(&header);
        page[44..46].copy_from_slice(&kind.to_le_bytes());
        page[72..80].copy_from_slice(&bits.to_le_bytes());
        page[152..160].copy_from_slice(&milliseconds.to_le_bytes());
        page[160..164].copy_from_slice(&steps.to_le_bytes());
        let crc = crc32fast::hash(&page[..HEADER_CRC_OFFSET]);
        put_u32(&mut page, HEADER_CRC_OFFSET, crc);
        match Header::decode(&page, PAGES_OFFSET) {
            Ok(_) => "none",
            Err(FormatError::HeaderField { field, .. }) => field,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(of(1000, 15, 4, 1 << 59), "none");
    assert_eq!(of(1000, 15, 4, (1 << 59) + 1), "bits");
    assert_eq!(of(1000, 16, 4, 1 << 59), "bits");
    for (milliseconds, steps) in [(999, 15), (u64::MAX, 15), (1000, 0), (1000, 256)] {
        assert_eq!(of(milliseconds, steps, 4, 1), "window");
    }
    assert_eq!(of(1000, 15, 3, 1), "incompatible");
}

#[test]
fn features_to_be_ignored_are_kept() {
    let header = forged(16, &[5]).unwrap();
    assert_eq!(header.compatible, 5);
    let header = forged(24, &[6]).unwrap();
    assert_eq!(header.read_only_compatible, 6);
}
