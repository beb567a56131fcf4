//! The header: the properties that are fixed when a store is created (FORMAT.md, "Header").

use super::FormatError;
use super::draft_mark::STORE_ID_OFFSET;
use super::layout::{HEADER_BYTES, PAGES_OFFSET, SECTOR_BYTES};
use crate::codec::{Decoder, Encoder, put_u32, u32_at};
use crate::hash::Hash;
use crate::page::KeyModel;
use crate::page::ages::Window;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, Kind, PAGE_BYTES, PAYLOAD_BITS};
use crate::sizing::{Growth, MAX_PROBES};

pub(crate) const STORE_MAGIC: [u8; 8] = *b"EVERSEEN";
pub(crate) const STORE_VERSION: u32 = 1;
/// Flag: a handle's uncommitted operations are dropped when the handle goes away.
pub(crate) const FLAG_TRANSACTIONAL: u32 = 1;
const KNOWN_FLAGS: u32 = FLAG_TRANSACTIONAL;
/// Incompatible feature: the locks are on the store file itself. Builds without this feature lock separate files, and
/// would not notice the handles that have the store open.
pub(crate) const FEATURE_LOCKS: u64 = 1;
/// Incompatible feature: the store has segments, and no layers. Only stores of fingerprints have it.
pub(crate) const FEATURE_SEGMENTS: u64 = 2;
/// Incompatible feature: the CRC of each page is bound to the store. Stores of earlier builds lack it, and keep lacking it.
pub(crate) const FEATURE_BOUND_PAGES: u64 = 4;
/// Incompatible feature: the store forgets keys, and its pages have ages. Only stores of fingerprints have it.
pub(crate) const FEATURE_FORGETS: u64 = 8;
/// Read-only compatible feature: a key that is seen gets the age of the insert that sees it. Only stores that forget have it.
pub(crate) const FEATURE_RENEWS: u64 = 1;
const KNOWN_FEATURES: u64 =
    FEATURE_LOCKS | FEATURE_SEGMENTS | FEATURE_BOUND_PAGES | FEATURE_FORGETS;

pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const HEADER_LENGTH_OFFSET: usize = 12;
pub(crate) const HEADER_CRC_OFFSET: usize = 252;
const _: () = assert!(HEADER_CRC_OFFSET + 4 == HEADER_BYTES);
/// A header that is written again, to set the bit for locks, is never torn.
const _: () = assert!(HEADER_BYTES <= SECTOR_BYTES);
const _: () = assert!(
    KNOWN_FEATURES.count_ones() == 4,
    "each feature has a bit of its own"
);

/// A header whose CRC and fields have all been checked.
#[derive(Clone, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) hash: Hash,
    pub(crate) transactional: bool,
    /// Bits or counters per key in a fixed store; 0 where each layer has its own number.
    pub(crate) probes: u32,
    /// Keys that a fixed store was created for; in a growing store, keys of its first layer.
    pub(crate) capacity: u64,
    /// Upper bound of the false-positive rate over all layers together.
    pub(crate) fpr: f64,
    /// Filter bits of a fixed store, four for each counter; 0 where each layer has its own number. In a store of
    /// fingerprints, how many of them there may be.
    pub(crate) bits: u64,
    pub(crate) seed: [u8; 32],
    pub(crate) store_id: [u8; 16],
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// Growth factor from each layer to the next; 0 for a fixed store.
    pub(crate) growth: u32,
    /// Tightening factor of the rate from each layer to the next; 0 for a fixed store.
    pub(crate) tightening: f64,
    /// How long it remembers a key; `None` for ever.
    pub(crate) window: Option<Window>,
    /// Features that a reader or writer may ignore, preserved as found.
    pub(crate) compatible: u64,
    /// Features that a writer must understand but a reader may ignore.
    pub(crate) read_only_compatible: u64,
    /// Whether the locks are on the store file itself. If not, an earlier build created the store.
    pub(crate) locks_itself: bool,
    /// Whether its pages are bound to it. If not, an earlier build created the store.
    pub(crate) has_bound_pages: bool,
}

impl std::fmt::Debug for Header {
    /// Omits the seed: an attacker who knows it can choose colliding keys.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Header")
            .field("kind", &self.kind)
            .field("hash", &self.hash)
            .field("capacity", &self.capacity)
            .field("fpr", &self.fpr)
            .finish_non_exhaustive()
    }
}

impl Header {
    /// Returns the header's 256 bytes, including the CRC.
    ///
    /// # Panics
    /// If a reader would refuse it: the header is written once, and all that is written later hangs on it.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        assert_eq!(self.check(self.incompatible()), Ok(()));
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        Encoder::new(&mut bytes)
            .bytes(&STORE_MAGIC)
            .u32(STORE_VERSION)
            .u32(HEADER_BYTES as u32)
            .u64(self.compatible)
            .u64(self.read_only_compatible)
            .u64(self.incompatible())
            .u32(PAGE_BYTES as u32)
            .u16(self.kind.id())
            .u16(self.hash.id())
            .u32(if self.transactional {
                FLAG_TRANSACTIONAL
            } else {
                0
            })
            .u32(self.probes)
            .u64(self.capacity)
            .f64(self.fpr)
            .u64(self.bits)
            .bytes(&self.seed)
            .bytes(&self.store_id)
            .u64(self.created)
            .u32(self.growth)
            .u32(0)
            .f64(self.tightening)
            .u64(self.window.map_or(0, Window::milliseconds))
            .u32(self.window.map_or(0, Window::steps))
            .pad_to(HEADER_BYTES);
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        // Places that others know without decoding the header.
        assert_eq!(header[STORE_ID_OFFSET..][..16], self.store_id);
        assert_eq!(u32_at(&header, VERSION_OFFSET), STORE_VERSION);
        let crc = crc32fast::hash(&header[..HEADER_CRC_OFFSET]);
        put_u32(&mut header, HEADER_CRC_OFFSET, crc);
        header
    }

    /// Checks the first page of a file of `file_length` bytes and decodes the header from it.
    ///
    /// `page` holds as much of that page as the file has.
    pub(crate) fn decode(page: &[u8], file_length: u64) -> Result<Self, FormatError> {
        let truncated = FormatError::Truncated {
            expected: PAGES_OFFSET,
            got: file_length,
        };
        let Some(magic) = page.first_chunk::<8>() else {
            return Err(truncated);
        };
        if *magic != STORE_MAGIC {
            return Err(FormatError::NotAStore { got: *magic });
        }
        if file_length < PAGES_OFFSET || page.len() < PAGE_BYTES {
            return Err(truncated);
        }
        let expected = crc32fast::hash(&page[..HEADER_CRC_OFFSET]);
        let got = u32_at(page, HEADER_CRC_OFFSET);
        if expected != got {
            return Err(FormatError::HeaderChecksum { expected, got });
        }
        let version = u32_at(page, VERSION_OFFSET);
        if version != STORE_VERSION {
            return Err(FormatError::UnsupportedVersion {
                expected: STORE_VERSION,
                got: version,
            });
        }
        if page[HEADER_BYTES..PAGE_BYTES].iter().any(|byte| *byte != 0) {
            return Err(field("padding", "zeros up to byte 4096", "something else"));
        }
        let mut decoder = Decoder::new(&page[HEADER_LENGTH_OFFSET..HEADER_CRC_OFFSET]);
        // The slice covers all fields together, so no field is ever missing.
        Self::fields(&mut decoder).unwrap_or(Err(truncated))
    }

    fn fields(decoder: &mut Decoder<'_>) -> Option<Result<Self, FormatError>> {
        let length = decoder.u32()?;
        let compatible = decoder.u64()?;
        let read_only_compatible = decoder.u64()?;
        let incompatible = decoder.u64()?;
        let page_bytes = decoder.u32()?;
        let kind_id = decoder.u16()?;
        let hash_id = decoder.u16()?;
        let flags = decoder.u32()?;
        let probes = decoder.u32()?;
        let capacity = decoder.u64()?;
        let fpr = decoder.f64()?;
        let bits = decoder.u64()?;
        let seed = decoder.array()?;
        let store_id = decoder.array()?;
        let created = decoder.u64()?;
        let (growth, reserved, tightening) = (decoder.u32()?, decoder.u32()?, decoder.f64()?);
        if let unknown @ 1.. = incompatible & !KNOWN_FEATURES {
            return Some(Err(FormatError::IncompatibleFeatures { unknown }));
        }
        if length as usize != HEADER_BYTES {
            return Some(Err(field("header_length", "256", length)));
        }
        if page_bytes as usize != PAGE_BYTES {
            return Some(Err(field("page_size", "4096", page_bytes)));
        }
        let Some(kind) = Kind::from_id(kind_id) else {
            return Some(Err(field("kind", "1 to 4", kind_id)));
        };
        let Some(hash) = Hash::from_id(hash_id) else {
            return Some(Err(field("hash", "1, 2 or 3", hash_id)));
        };
        if flags & !KNOWN_FLAGS != 0 {
            return Some(Err(field("flags", "bit 0 alone", flags)));
        }
        let window = match take_window(decoder, reserved, incompatible)? {
            Ok(window) => window,
            Err(error) => return Some(Err(error)),
        };
        let header = Self {
            kind,
            hash,
            transactional: flags & FLAG_TRANSACTIONAL != 0,
            probes,
            capacity,
            fpr,
            bits,
            seed,
            store_id,
            created,
            growth,
            tightening,
            window,
            compatible,
            read_only_compatible,
            locks_itself: incompatible & FEATURE_LOCKS != 0,
            has_bound_pages: incompatible & FEATURE_BOUND_PAGES != 0,
        };
        Some(header.check(incompatible).map(|()| header))
    }

    fn check(&self, incompatible: u64) -> Result<(), FormatError> {
        let forgets = self.window.is_some();
        if self.incompatible() != incompatible || (forgets && self.kind != Kind::Fingerprint) {
            let expected = "bits 1 and 3 in a store of fingerprints alone";
            return Err(field("incompatible", expected, incompatible));
        }
        if !(self.fpr > 0.0 && self.fpr < 1.0) {
            return Err(field("fpr", "above 0 and below 1", self.fpr));
        }
        if self.capacity == 0 {
            return Err(field("capacity", "at least 1", self.capacity));
        }
        if self.kind == Kind::Fingerprint {
            return self.check_space();
        }
        if self.kind == Kind::Scalable {
            if self.probes != 0 {
                return Err(field("probes", "0 in a store that grows", self.probes));
            }
            if self.bits != 0 {
                return Err(field("bits", "0 in a store that grows", self.bits));
            }
            if Growth::new(self.capacity, self.fpr, self.growth, self.tightening).is_err() {
                let got = format!("{} and {}", self.growth, self.tightening);
                return Err(field("growth", "2 to 16, and tightening in (0, 1)", got));
            }
            return Ok(());
        }
        if !(1..=MAX_PROBES).contains(&self.probes) {
            return Err(field("probes", "1 to 64", self.probes));
        }
        if self.kind == Kind::Counting && self.transactional {
            return Err(field("flags", "0 in a counting store", FLAG_TRANSACTIONAL));
        }
        if self.bits == 0 || !self.bits.is_multiple_of(PAYLOAD_BITS) {
            return Err(field("bits", "a multiple of 32640, not 0", self.bits));
        }
        if self.growth != 0 || self.tightening != 0.0 {
            return Err(field("growth", "0 in a fixed store", self.growth));
        }
        Ok(())
    }

    /// Checks what a store of fingerprints says of its sizes.
    fn check_space(&self) -> Result<(), FormatError> {
        if self.probes != 0 {
            return Err(field("probes", "0 in a store of fingerprints", self.probes));
        }
        if self.space().is_none() {
            let expected = "1 to 2^63 fingerprints, each with its ages";
            return Err(field("bits", expected, self.bits));
        }
        if self.growth != 0 || self.tightening != 0.0 {
            return Err(field("growth", "0 in a store of fingerprints", self.growth));
        }
        Ok(())
    }

    /// Returns the incompatible features.
    fn incompatible(&self) -> u64 {
        let features = [
            (self.locks_itself, FEATURE_LOCKS),
            (self.kind == Kind::Fingerprint, FEATURE_SEGMENTS),
            (self.has_bound_pages, FEATURE_BOUND_PAGES),
            (self.window.is_some(), FEATURE_FORGETS),
        ];
        let present = features.iter().filter(|(is_present, _)| *is_present);
        present.fold(0, |bits, (_, bit)| bits | bit)
    }

    /// Returns how it forgets.
    pub(crate) fn forgetting(&self) -> (Option<Window>, bool) {
        (self.window, self.renews())
    }

    /// Returns whether inserts renew keys that are seen.
    pub(crate) fn renews(&self) -> bool {
        self.window.is_some() && self.read_only_compatible & FEATURE_RENEWS != 0
    }

    /// Returns the features of a new store like this one that a writer must understand.
    pub(crate) fn known_to_writers(&self) -> u64 {
        if self.renews() { FEATURE_RENEWS } else { 0 }
    }

    /// Returns the features that a writer must understand and this one doesn't.
    pub(crate) fn unknown_to_writers(&self) -> u64 {
        match self.window {
            Some(_) => self.read_only_compatible & !FEATURE_RENEWS,
            None => self.read_only_compatible,
        }
    }

    /// Returns what the CRCs of the store's pages begin with.
    pub(crate) fn binding(&self) -> Binding {
        match self.has_bound_pages {
            true => Binding::to_store(&self.store_id),
            false => Binding::NONE,
        }
    }

    /// Returns what the store knows of a key.
    pub(crate) fn key_model(&self) -> KeyModel {
        match (self.kind, self.space()) {
            (Kind::Fingerprint, Some(space)) => KeyModel::Set(space),
            (Kind::Counting, _) => KeyModel::Multiset,
            (Kind::Bloom | Kind::Scalable, _) => KeyModel::GrowOnlySet,
            (Kind::Fingerprint, None) => unreachable!("a header without a space is refused"),
        }
    }

    /// Returns the fingerprints that there may be in a store of them; `None` for any other store.
    pub(crate) fn space(&self) -> Option<FingerprintSpace> {
        match self.kind {
            Kind::Fingerprint => {
                let age_bits = self.window.map_or(0, Window::age_bits);
                FingerprintSpace::new(self.bits)?.with_ages(age_bits)
            }
            _ => None,
        }
    }

    /// Returns whether these are the bytes of this header, even if a writer has set the bit for locks since.
    pub(crate) fn is_copied_in(&self, bytes: &[u8; HEADER_BYTES]) -> bool {
        [true, false].into_iter().any(|locks_itself| {
            let other = Self {
                locks_itself,
                ..self.clone()
            };
            other.encode() == *bytes
        })
    }

    /// Returns whether both headers belong to one store.
    pub(crate) fn is_same_store(&self, other: &Self) -> bool {
        self.is_copied_in(&other.encode())
    }

    /// Returns how the layers of a growing store follow each other, or `None` for a fixed store.
    pub(crate) fn growth(&self) -> Option<Growth> {
        if self.kind != Kind::Scalable {
            return None;
        }
        Growth::new(self.capacity, self.fpr, self.growth, self.tightening).ok()
    }
}

/// Takes the window, which a store that forgets must have, and what is reserved.
fn take_window(
    decoder: &mut Decoder<'_>,
    reserved: u32,
    incompatible: u64,
) -> Option<Result<Option<Window>, FormatError>> {
    let (milliseconds, steps) = (decoder.u64()?, decoder.u32()?);
    let forgets = incompatible & FEATURE_FORGETS != 0;
    let has_window = (milliseconds, steps) != (0, 0);
    if reserved != 0 || !decoder.rest_is_zero() || (has_window && !forgets) {
        return Some(Err(field("reserved", "zeros", "something else")));
    }
    let window = Window::new(milliseconds, steps);
    if forgets && window.is_none() {
        let got = format!("{milliseconds} and {steps}");
        return Some(Err(field(
            "window",
            "at least 1000 ms, in 1 to 255 steps",
            got,
        )));
    }
    Some(Ok(window))
}

fn field(field: &'static str, expected: &'static str, got: impl ToString) -> FormatError {
    FormatError::HeaderField {
        field,
        expected,
        got: got.to_string(),
    }
}

#[cfg(test)]
mod tests;
