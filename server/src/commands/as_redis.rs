//! What Redis' filters would be like that were reserved and filled as a store was. Clients ask for these numbers, and some
//! compare them. The store's file is another thing: EV.INFO tells of it.

use crate::database::{BloomDesign, CuckooDesign};

/// One Bloom filter of those that a key would have in Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BloomFilter {
    pub capacity: u64,
    pub items: u64,
    pub rate: f64,
    pub bytes: u64,
    pub bits: u64,
    pub hashes: u64,
}

/// The Bloom filters that a key would have.
#[derive(Clone, Debug, PartialEq)]
pub struct BloomFilters {
    /// The first ones, as many as are told of.
    pub filters: Vec<BloomFilter>,
    /// How many there would be.
    pub count: u64,
    pub capacity: u64,
    pub bytes: u64,
}

/// Filters that are told of one by one. Where each is as large as the one before, there may be millions, and from about here
/// on their rates are too small for a double.
const MOST_TOLD: u64 = 1024;

impl BloomFilter {
    /// The square of ln 2 to fifteen digits, as many as Redis takes: with more, a rate of 1/4 has a hash less than there.
    const LN2_SQUARED: f64 = 0.480_453_013_918_201;

    fn new(capacity: u64, rate: f64) -> Self {
        let rate = rate.max(f64::MIN_POSITIVE);
        let bits_per_item = -rate.ln() / Self::LN2_SQUARED;
        let bits = (capacity as f64 * bits_per_item) as u64;
        let bits = bits.div_ceil(64).max(1).saturating_mul(64);
        BloomFilter {
            capacity,
            items: 0,
            rate,
            bytes: bits / 8,
            bits,
            hashes: (std::f64::consts::LN_2 * bits_per_item).ceil() as u64,
        }
    }
}

impl BloomFilters {
    /// Returns what there would be for a number of items.
    pub fn new(design: &BloomDesign, items: u64) -> Self {
        let (first_rate, growth) = match design.expansion {
            None => (design.error, 0),
            Some(growth) => (design.error / 2.0, growth),
        };
        let mut all = BloomFilters {
            filters: Vec::new(),
            count: 0,
            capacity: 0,
            bytes: 0,
        };
        let (mut capacity, mut rate, mut left) = (design.capacity, first_rate, items);
        loop {
            let mut filter = BloomFilter::new(capacity, rate);
            let is_last = growth == 0 || left <= capacity;
            filter.items = if is_last { left } else { capacity };
            left -= filter.items;
            all.add(filter, 1);
            if is_last {
                return all;
            }
            if all.count == MOST_TOLD {
                // Only those of one size are as many.
                let others = left.div_ceil(capacity);
                all.add(BloomFilter::new(capacity, 0.0), others);
                return all;
            }
            capacity = capacity.saturating_mul(growth.into());
            rate /= 2.0;
        }
    }

    fn add(&mut self, filter: BloomFilter, times: u64) {
        self.count += times;
        self.capacity = self
            .capacity
            .saturating_add(filter.capacity.saturating_mul(times));
        self.bytes = self
            .bytes
            .saturating_add(filter.bytes.saturating_mul(times));
        if self.count <= MOST_TOLD {
            self.filters.push(filter);
        }
    }

    /// Returns what BF.INFO calls Size.
    pub fn size(&self) -> u64 {
        let structures = self.count.saturating_mul(64).saturating_add(32);
        self.bytes.saturating_add(structures)
    }
}

/// The cuckoo filters that a key would have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooFilters {
    /// Buckets of the first.
    pub buckets: u64,
    pub count: u64,
    /// What CF.INFO calls Size.
    pub size: u64,
}

impl CuckooFilters {
    /// Returns what there would be for a number of items. Which items find no place in a filter is chance there; this is what
    /// filters of different items usually come to.
    pub fn new(design: &CuckooDesign, items: u64) -> Self {
        let bucket = u64::from(design.bucket).max(1);
        let buckets = (design.capacity / bucket).max(1);
        let buckets = buckets.checked_next_power_of_two().unwrap_or(1 << 63);
        let growth = u64::from(design.expansion);
        let first = buckets.saturating_mul(bucket);
        let (mut count, mut last, mut slots) = (1_u64, first, first);
        if growth == 1 {
            count = items.div_ceil(usual(first, bucket)).max(1);
            slots = first.saturating_mul(count);
        } else if growth > 1 {
            let mut taken = usual(first, bucket);
            while taken < items {
                last = last.saturating_mul(growth);
                taken = taken.saturating_add(usual(last, bucket));
                slots = slots.saturating_add(last);
                count += 1;
            }
        }
        let structures = count.saturating_mul(16).saturating_add(40);
        CuckooFilters {
            buckets,
            count,
            size: slots.saturating_add(structures),
        }
    }

    /// Returns how many items a filter takes that may not grow.
    pub fn limit(design: &CuckooDesign) -> Option<u64> {
        let first = CuckooFilters::new(design, 0);
        (design.expansion == 0).then(|| first.buckets.saturating_mul(u64::from(design.bucket)))
    }
}

/// Returns how many items usually find a place before one finds none. The wider the buckets, the fuller they get.
fn usual(slots: u64, bucket: u64) -> u64 {
    let share = match bucket {
        1 => 0.88,
        2 | 3 => 0.95,
        _ => 0.98,
    };
    ((slots as f64 * share).ceil() as u64).clamp(1, slots)
}

#[cfg(test)]
mod tests {
    use super::{BloomFilters, CuckooFilters, MOST_TOLD};
    use crate::database::{BloomDesign, CuckooDesign};

    fn bloom(error: f64, capacity: u64, expansion: Option<u32>, items: u64) -> BloomFilters {
        let design = BloomDesign {
            error,
            capacity,
            expansion,
        };
        BloomFilters::new(&design, items)
    }

    #[test]
    fn bloom_filters_are_as_large_as_those_of_redis() {
        for (error, capacity, expansion, items, expected) in [
            (0.01, 100, Some(2), 3, (1, 100, 240)),
            (0.001, 100, Some(2), 0, (1, 100, 296)),
            (0.01, 100, None, 0, (1, 100, 216)),
            (0.01, 2, None, 2, (1, 2, 104)),
            (
                1e-6,
                300_000_000,
                Some(2),
                0,
                (1, 300_000_000, 1_132_420_232),
            ),
            (0.01, 2, Some(2), 2, (1, 2, 104)),
            (0.01, 2, Some(2), 8, (3, 14, 256)),
            (0.01, 2, Some(1), 8, (4, 8, 320)),
            (0.01, 2, Some(3), 9, (3, 26, 280)),
        ] {
            let all = bloom(error, capacity, expansion, items);
            let found = (all.count, all.capacity, all.size());
            assert_eq!(found, expected, "{error} {capacity} {expansion:?} {items}");
        }
    }

    #[test]
    fn each_filter_is_told_of() {
        let all = bloom(0.01, 10, Some(2), 99);
        let told = all.filters.iter().map(|filter| {
            let sizes = (filter.bytes, filter.bits, filter.hashes);
            (sizes, filter.capacity, filter.items)
        });
        let expected = [
            ((16, 128, 8), 10, 10),
            ((32, 256, 9), 20, 20),
            ((72, 576, 10), 40, 40),
            ((160, 1280, 11), 80, 29),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let quarter = &bloom(0.5, 100, Some(2), 0).filters[0];
        assert_eq!((quarter.bits, quarter.hashes), (320, 3));
        let least = &bloom(1e-300, 100, Some(2), 0).filters[0];
        assert_eq!((least.bits, least.hashes), (143_936, 998));
    }

    #[test]
    fn millions_of_filters_are_counted_and_not_listed() {
        let all = bloom(0.01, 1, Some(1), 10_000_000);
        assert_eq!((all.count, all.capacity), (10_000_000, 10_000_000));
        assert_eq!(all.filters.len() as u64, MOST_TOLD);
        let most = bloom(0.01, u64::MAX, Some(u32::MAX), u64::MAX);
        assert_eq!(most.count, 1);
    }

    #[test]
    fn cuckoo_filters_are_as_large_as_those_of_redis() {
        for (capacity, bucket, expansion, items, expected) in [
            (1000, 2, 1, 0, (512, 1, 1080)),
            (100, 4, 1, 0, (32, 1, 184)),
            (1000, 255, 1, 0, (4, 1, 1076)),
            (4, 2, 1, 10, (2, 3, 100)),
            (4, 2, 0, 10, (2, 1, 60)),
            (64, 1, 1, 1000, (64, 18, 40 + 18 * 16 + 64 * 18)),
            (64, 2, 1, 1000, (32, 17, 40 + 17 * 16 + 64 * 17)),
            (64, 2, 2, 1000, (32, 5, 40 + 5 * 16 + 64 * 31)),
            (64, 2, 4, 1000, (32, 3, 40 + 3 * 16 + 64 * 21)),
            (256, 4, 1, 1000, (64, 4, 40 + 4 * 16 + 256 * 4)),
            (1_000_000, 2, 1, 0, (524_288, 1, 1_048_632)),
        ] {
            let design = CuckooDesign {
                capacity,
                bucket,
                iterations: 20,
                expansion,
            };
            let all = CuckooFilters::new(&design, items);
            assert_eq!((all.buckets, all.count, all.size), expected, "{design:?}");
            assert_eq!(CuckooFilters::limit(&design), (expansion == 0).then_some(4));
        }
    }
}
