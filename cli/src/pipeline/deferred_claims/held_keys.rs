//! A set of keys that many are added to and all are removed from at once.

use std::hint::black_box;

use everseen::hash::HashedKey;

/// The least slots of a table that has any.
const LEAST_SLOTS: usize = 1024;

/// An open-addressing table of hashes, at most three quarters full, so that adding a key mostly touches one cache line.
/// Hashes are spread already: they need no hash of their own.
#[derive(Default)]
pub struct HeldKeys {
    /// Zero is a free slot. A power of two of them, or none.
    slots: Vec<u64>,
    count: usize,
    /// The key whose bits are all zero is in no slot.
    has_zero: bool,
}

impl HeldKeys {
    pub fn len(&self) -> u64 {
        self.count as u64
    }

    pub fn contains(&self, key: HashedKey) -> bool {
        match key.bits() {
            0 => self.has_zero,
            _ if self.slots.is_empty() => false,
            bits => self.slots[self.slot_of(bits)] == bits,
        }
    }

    /// Adds a key. Returns whether it was absent.
    pub fn insert(&mut self, key: HashedKey) -> bool {
        let bits = key.bits();
        if bits == 0 {
            self.count += usize::from(!self.has_zero);
            return !std::mem::replace(&mut self.has_zero, true);
        }
        if self.count >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let slot = self.slot_of(bits);
        if self.slots[slot] == bits {
            return false;
        }
        self.slots[slot] = bits;
        self.count += 1;
        true
    }

    /// Fetches the slots of keys that are about to be added. The processor waits for all of them at once.
    pub fn fetch(&self, keys: &[HashedKey]) {
        if !self.slots.is_empty() {
            let mask = self.slots.len() - 1;
            let slot = |key: &HashedKey| self.slots[key.bits() as usize & mask];
            black_box(keys.iter().fold(0, |sum, key| sum ^ slot(key)));
        }
    }

    /// Removes all keys, and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        (self.count, self.has_zero) = (0, false);
    }

    /// Returns the slot that has a key, or the free one where it belongs.
    fn slot_of(&self, bits: u64) -> usize {
        let mask = self.slots.len() - 1;
        // The mask keeps what is cut off from mattering.
        let mut slot = bits as usize & mask;
        while self.slots[slot] != 0 && self.slots[slot] != bits {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(LEAST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        for bits in old.into_iter().filter(|bits| *bits != 0) {
            let slot = self.slot_of(bits);
            self.slots[slot] = bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn answers_are_those_of_a_set() {
        let seed = 5;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut held = HeldKeys::default();
        for round in 0..20 {
            let mut twin = HashSet::new();
            for step in 0..random.usize(..5000) {
                // Few different keys, zero among them, and many that share a slot.
                let bits = random.u64(..2000) << (4 * random.u32(..8));
                let key = HashedKey::from_bits(bits);
                let place = format!("seed {seed}, round {round}, step {step}");
                assert_eq!(held.contains(key), twin.contains(&bits), "{place}");
                assert_eq!(held.insert(key), twin.insert(bits), "{place}");
                assert_eq!(held.len(), twin.len() as u64, "{place}");
            }
            held.clear();
            assert_eq!(held.len(), 0);
            assert!(
                twin.iter()
                    .all(|bits| !held.contains(HashedKey::from_bits(*bits)))
            );
        }
    }
}
