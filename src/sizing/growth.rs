//! A store that grows: a stack of filters, each larger and stricter than the one before.
//!
//! Source: P. S. Almeida, C. Baquero, N. Preguiça, D. Hutchison, "Scalable Bloom filters" (IPL 101, 2007), sections
//! 3 and 4. Layer `i` may be wrong at a rate of `p (1 - r) r^i`; however many layers there are, the sum stays below `p`.

use super::plan::{FLOOR_MARGIN, above_floor, check_capacity, check_rate};
use super::{MAX_LAYERS, Plan, SizingError};

/// How the layers of a growing store follow one another.
///
/// [`Growth::new`] checks the fields. Fields set by hand are not checked, and may make the methods return errors.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Capacity of the first layer, in keys, 1 or more.
    pub first: u64,
    /// Upper bound of the sum of the rates of all layers, 0 < p < 1.
    pub fpr: f64,
    /// Growth factor from each layer to the next, 2 to 16.
    pub factor: u32,
    /// Ratio of each layer's rate to that of the layer before it, 0 < r < 1.
    pub tightening: f64,
}

impl Growth {
    /// Returns a checked growth.
    ///
    /// # Errors
    /// Returns `CapacityZero`, `RateOutOfRange`, `FactorOutOfRange`, `TighteningOutOfRange`; `GrowthBelowFloor` if 64-bit
    /// hashes already rule out the first layer.
    pub fn new(first: u64, fpr: f64, factor: u32, tightening: f64) -> Result<Growth, SizingError> {
        check_capacity(first)?;
        check_rate(fpr)?;
        if !(2..=16).contains(&factor) {
            return Err(SizingError::FactorOutOfRange { got: factor });
        }
        if !(tightening > 0.0 && tightening < 1.0) {
            return Err(SizingError::TighteningOutOfRange { got: tightening });
        }
        let growth = Growth {
            first,
            fpr,
            factor,
            tightening,
        };
        let rate = growth.layer_rate(0);
        if !above_floor(first, rate) {
            let floor = super::hash_floor(first);
            return Err(SizingError::GrowthBelowFloor {
                fpr,
                floor,
                // Rounding may take a little of it away again.
                least: FLOOR_MARGIN * floor / (1.0 - tightening) * (1.0 + 4.0 * f64::EPSILON),
                capacity: first,
            });
        }
        Ok(growth)
    }

    /// Returns the rate that layer `index`, from 0, may have: `p (1 - r) r^index`. Not limited to [`MAX_LAYERS`].
    #[must_use]
    pub fn layer_rate(&self, index: u32) -> f64 {
        self.fpr * (1.0 - self.tightening) * self.tightening.powf(f64::from(index))
    }

    /// Returns the plan of layer `index`, from 0, with room for `capacity` keys.
    ///
    /// # Errors
    /// Returns `TooManyLayers` from [`MAX_LAYERS`] on, otherwise the errors of [`Plan::for_rate`] with
    /// [`Growth::layer_rate`].
    pub fn layer(&self, index: u32, capacity: u64) -> Result<Plan, SizingError> {
        if index >= MAX_LAYERS {
            return Err(SizingError::TooManyLayers { index });
        }
        Plan::for_rate(capacity, self.layer_rate(index))
    }

    /// Returns the capacity of the layer after one of `last` keys (`None`: of the first layer), at least `at_least`
    /// keys.
    ///
    /// # Errors
    /// Returns `CapacityTooLarge` past 2^64 - 1; `CapacityZero` if all of `last`, `first` and `at_least` that apply are
    /// 0.
    pub fn next_capacity(&self, last: Option<u64>, at_least: u64) -> Result<u64, SizingError> {
        let regular = match last {
            None => self.first,
            Some(last) => {
                last.checked_mul(u64::from(self.factor))
                    .ok_or(SizingError::CapacityTooLarge {
                        got: last as f64 * f64::from(self.factor),
                    })?
            }
        };
        let capacity = regular.max(at_least);
        debug_assert!(last.is_none_or(|last| last < capacity));
        check_capacity(capacity)?;
        Ok(capacity)
    }

    /// Returns the layers of a store that has accepted `keys` keys one by one, filling each layer before it creates the
    /// next.
    ///
    /// The last layer has its full capacity here. The size of the store is the sum of [`Plan::bytes`]; the rate when
    /// all layers are full is at most the sum of [`Plan::fpr`]; and an absent key reads one page per layer. 0 keys have
    /// the first layer.
    ///
    /// # Errors
    /// Returns `PastGrowthLimit` if `keys` exceeds [`Growth::limit`]; for a growth whose fields were set by hand, also
    /// the errors of [`Growth::layer`].
    pub fn outlook(&self, keys: u64) -> Result<Vec<Plan>, SizingError> {
        let limit = self.limit();
        if keys > limit {
            return Err(SizingError::PastGrowthLimit { keys, limit });
        }
        let mut layers = Vec::new();
        let (mut room, mut last) = (0u64, None);
        for index in 0..MAX_LAYERS {
            let capacity = self.next_capacity(last, 0)?;
            layers.push(self.layer(index, capacity)?);
            room = room.saturating_add(capacity);
            last = Some(capacity);
            if room >= keys {
                break;
            }
        }
        assert!(room >= keys, "{room} for {keys} keys below the limit");
        Ok(layers)
    }

    /// Returns the maximum number of keys for which the sum of the rates stays at or below `fpr` when every layer has
    /// its regular capacity: the room of all layers above the floor of 64-bit hashes, at most [`MAX_LAYERS`].
    #[must_use]
    pub fn limit(&self) -> u64 {
        let (mut room, mut last) = (0u64, None);
        for index in 0..MAX_LAYERS {
            let Ok(capacity) = self.next_capacity(last, 0) else {
                break;
            };
            // Above the floor a layer never exceeds the largest size: at rate p it has at most p · 2^63 keys.
            if !above_floor(capacity, self.layer_rate(index)) {
                break;
            }
            room = room.saturating_add(capacity);
            last = Some(capacity);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use crate::sizing::{Growth, Plan, SizingError};

    #[test]
    fn growth_keeps_its_promise_up_to_its_limit() {
        for (first, fpr, factor, tightening) in [
            (1 << 20, 1e-6, 2, 0.85),
            (1 << 20, 1e-3, 4, 0.5),
            (1, 0.01, 16, 0.95),
            (1 << 30, 1e-9, 2, 0.3),
        ] {
            let growth = Growth::new(first, fpr, factor, tightening).unwrap();
            let limit = growth.limit();
            let layers = growth.outlook(limit).unwrap();
            assert_eq!(
                layers.iter().map(|layer| layer.capacity).sum::<u64>(),
                limit
            );
            assert!(layers.iter().map(|layer| layer.fpr).sum::<f64>() <= fpr);
            for (index, layer) in layers.iter().enumerate() {
                assert_eq!(layer.target, growth.layer_rate(index as u32));
                assert_eq!(layer.capacity, first * u64::from(factor).pow(index as u32));
            }
            assert_eq!(
                growth.outlook(limit + 1),
                Err(SizingError::PastGrowthLimit {
                    keys: limit + 1,
                    limit
                })
            );
            // The planner refuses one more layer for the same reason.
            let more = growth
                .next_capacity(layers.last().map(|layer| layer.capacity), 0)
                .unwrap();
            let refused = growth.layer(layers.len() as u32, more);
            assert!(
                matches!(refused, Err(SizingError::RateBelowFloor { .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn growth_layers_follow_the_keys() {
        let growth = Growth::new(1000, 0.01, 2, 0.85).unwrap();
        for (keys, count) in [
            (0, 1),
            (1, 1),
            (1000, 1),
            (1001, 2),
            (3000, 2),
            (3001, 3),
            (1_023_000, 10),
        ] {
            assert_eq!(growth.outlook(keys).unwrap().len(), count, "{keys} keys");
        }
        assert!((growth.layer_rate(2) - 0.01 * 0.15 * 0.85 * 0.85).abs() < 1e-15);
        assert_eq!(growth.next_capacity(None, 0), Ok(1000));
        assert_eq!(growth.next_capacity(None, 5000), Ok(5000));
        assert_eq!(growth.next_capacity(Some(1000), 1), Ok(2000));
        assert_eq!(growth.next_capacity(Some(1000), 2001), Ok(2001));
        assert_eq!(
            growth.layer(3, 8000),
            Plan::for_rate(8000, growth.layer_rate(3))
        );
        // Fields set by hand cause errors, not a panic or an endless loop.
        let by_hand = Growth {
            first: 0,
            fpr: f64::NAN,
            factor: 0,
            tightening: f64::NAN,
        };
        assert_eq!(
            (by_hand.limit(), by_hand.outlook(0)),
            (0, Err(SizingError::CapacityZero))
        );
        assert_eq!(
            Growth {
                first: u64::MAX,
                ..growth
            }
            .limit(),
            0
        );
    }

    /// Prints the table behind docs/design.md, "Growth": `cargo test --release growth_table -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints a table, checks nothing"]
    fn growth_table() {
        println!(
            "| p | factor | r | limit | {} |",
            "layers; bits a key now, just filled, mean | "
                .repeat(4)
                .trim_end_matches([' ', '|'])
        );
        for fpr in [1e-3, 1e-6] {
            for factor in [2, 4] {
                for tightening in [0.5, 0.7, 0.8, 0.85, 0.9, 0.95] {
                    let growth = Growth::new(1 << 20, fpr, factor, tightening).unwrap();
                    let mut row = format!(
                        "| {fpr:e} | {factor} | {tightening} | {:.1e} |",
                        growth.limit() as f64
                    );
                    for keys in [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000] {
                        let Ok(layers) = growth.outlook(keys) else {
                            row += " - |";
                            continue;
                        };
                        let bits = layers.iter().map(Plan::bytes).sum::<u64>() as f64 * 8.0;
                        let room = layers.iter().map(|layer| layer.capacity).sum::<u64>() as f64;
                        let before = room - layers[layers.len() - 1].capacity as f64;
                        // Mean of bits / keys while the last layer fills, keys spread evenly on a logarithmic scale.
                        let mean = bits * (1.0 / before - 1.0 / room) / (room / before).ln();
                        row += &format!(
                            " {}; {:.1}, {:.1}, {mean:.1} |",
                            layers.len(),
                            bits / keys as f64,
                            bits / room
                        );
                    }
                    println!("{row}");
                }
            }
        }
    }
}
