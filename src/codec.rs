//! The single codec for everything on disk: little-endian, bounds-checked, no allocation.

/// Reads numbers from bytes, front to back. Past the end it returns `None`.
#[derive(Debug, Clone)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Returns whether only zeros are left.
    pub(crate) fn rest_is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// Appends numbers to bytes.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn f64(&mut self, value: f64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends zeros until the total length is `length`.
    ///
    /// # Panics
    /// If it is longer already: what follows a structure lies at a fixed place, which a longer one would overwrite.
    pub(crate) fn pad_to(&mut self, length: usize) -> &mut Self {
        let own = self.bytes.len();
        assert!(own <= length, "{own} bytes in {length}");
        self.bytes.resize(length, 0);
        self
    }

    /// Appends zeros until the total length is a multiple of 8.
    pub(crate) fn align(&mut self) -> &mut Self {
        let length = self.bytes.len().next_multiple_of(8);
        self.pad_to(length)
    }
}

/// Returns the number at `offset` of `bytes`, which must be long enough.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(number)
}

/// Returns the number at `offset` of `bytes`, which must be long enough.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(number)
}

/// Writes the number to `offset` of `bytes`, which must be long enough.
#[inline]
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// Writes the number to `offset` of `bytes`, which must be long enough.
#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value to encode.
    #[derive(Debug, Clone, PartialEq)]
    enum Value {
        U16(u16),
        U32(u32),
        U64(u64),
        F64(u64),
        Bytes(Vec<u8>),
        Align,
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u16>().prop_map(Value::U16),
            any::<u32>().prop_map(Value::U32),
            any::<u64>().prop_map(Value::U64),
            any::<u64>().prop_map(Value::F64),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
            Just(Value::Align),
        ]
    }

    /// The slow twin computes each byte by division.
    fn bytes_of(mut number: u64, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.push((number % 256) as u8);
            number /= 256;
        }
        bytes
    }

    proptest! {
        #[test]
        fn encodes_as_by_hand_and_decodes_again(values in prop::collection::vec(value(), 0..40)) {
            let mut bytes = Vec::new();
            let mut twin = Vec::new();
            let mut out = Encoder::new(&mut bytes);
            for value in &values {
                let by_hand = match value {
                    Value::U16(n) => { out.u16(*n); bytes_of((*n).into(), 2) }
                    Value::U32(n) => { out.u32(*n); bytes_of((*n).into(), 4) }
                    Value::U64(n) => { out.u64(*n); bytes_of(*n, 8) }
                    Value::F64(n) => { out.f64(f64::from_bits(*n)); bytes_of(*n, 8) }
                    Value::Bytes(bytes) => { out.bytes(bytes); bytes.clone() }
                    Value::Align => { out.align(); vec![0; (8 - twin.len() % 8) % 8] }
                };
                twin.extend(by_hand);
            }
            prop_assert_eq!(&bytes, &twin);
            let mut input = Decoder::new(&bytes);
            let mut at = 0;
            for value in &values {
                let before = at;
                match value {
                    Value::U16(n) => { prop_assert_eq!(input.u16(), Some(*n)); at += 2; }
                    Value::U32(n) => {
                        prop_assert_eq!(u32_at(&bytes, at), *n);
                        prop_assert_eq!(input.u32(), Some(*n));
                        at += 4;
                    }
                    Value::U64(n) => {
                        prop_assert_eq!(u64_at(&bytes, at), *n);
                        prop_assert_eq!(input.u64(), Some(*n));
                        at += 8;
                    }
                    Value::F64(n) => {
                        prop_assert_eq!(input.f64().map(f64::to_bits), Some(*n));
                        at += 8;
                    }
                    Value::Bytes(expected) => {
                        prop_assert_eq!(input.bytes(expected.len()), Some(&expected[..]));
                        at += expected.len();
                    }
                    Value::Align => {
                        let zeros = at.next_multiple_of(8) - at;
                        prop_assert!(input.bytes(zeros).is_some());
                        at += zeros;
                    }
                }
                prop_assert!(at >= before);
            }
            prop_assert!(input.rest_is_zero());
            prop_assert_eq!(input.bytes(1), None);
            prop_assert_eq!(input.u64(), None);
        }

        #[test]
        fn puts_where_it_reads(
            bytes in prop::collection::vec(any::<u8>(), 24),
            at in 0_usize..16,
            number in any::<u64>(),
        ) {
            let mut twin = bytes.clone();
            twin.splice(at..at + 8, bytes_of(number, 8));
            let mut put = bytes.clone();
            put_u64(&mut put, at, number);
            prop_assert_eq!(&put, &twin);
            twin.splice(at..at + 4, bytes_of(!number % (1 << 32), 4));
            put_u32(&mut put, at, !number as u32);
            prop_assert_eq!(&put, &twin);
            prop_assert_eq!(u32_at(&put, at), !number as u32);
        }

        #[test]
        fn what_is_left_is_zero_if_all_its_bytes_are(
            length in 0_usize..40,
            set in prop::option::of((0_usize..40, 1_u8..)),
            taken in 0_usize..40,
        ) {
            let mut bytes = vec![0; length];
            if let Some((at, value)) = set
                && at < length
            {
                bytes[at] = value;
            }
            let mut input = Decoder::new(&bytes);
            let left = if input.bytes(taken).is_some() { taken } else { 0 };
            let twin = bytes[left..].iter().filter(|byte| **byte != 0).count() == 0;
            prop_assert_eq!(input.rest_is_zero(), twin);
        }
    }
}
