//! Plans pages and probes for a capacity, a rate or a size.

use super::search::least;
use super::{
    Cell, MAX_BYTES, MAX_FOLDS, MAX_PAGES, MAX_PROBES, PAGE_BITS, PAGE_BYTES, SizingError,
    hash_floor, ideal_bits_per_key, ideal_probes,
};

/// The maximum number of keys that a filter may be planned for.
const MAX_CAPACITY: u64 = u64::MAX;

/// A rate must be this many times the floor of 64-bit hashes, so that half of it is left for the filter itself.
pub(super) const FLOOR_MARGIN: f64 = 2.0;

/// Room for `capacity` keys in `pages` pages, and the expected rate when it is full.
///
/// Any two of capacity, rate, bits per key and size make a plan. The fields are plain numbers: values set or changed by
/// hand are not checked.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The kind of cell in a page.
    pub cell: Cell,
    /// Keys that the filter should hold, 1 or more.
    pub capacity: u64,
    /// Pages, 1 to [`MAX_PAGES`].
    pub pages: u64,
    /// Probes per key, 1 to [`MAX_PROBES`].
    pub probes: u32,
    /// The rate requested; if none was, the same as `fpr`.
    pub target: f64,
    /// [`Cell::expected_rate`] with `capacity` keys.
    pub fpr: f64,
}

impl Plan {
    /// Returns the plan with the fewest pages, and the best number of probes, whose expected rate is at most `fpr`.
    ///
    /// # Errors
    /// Returns `CapacityZero`, `RateOutOfRange`; `RateBelowFloor` if `fpr` is below twice [`hash_floor`] of the
    /// capacity.
    pub fn for_rate(capacity: u64, fpr: f64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_rate(capacity, fpr)
    }

    /// Returns the plan with as many pages as `capacity` keys of `bits_per_key` filter bits fill, rounded up, and the
    /// best number of probes.
    ///
    /// # Errors
    /// Returns `CapacityZero`; `BitsPerKeyOutOfRange` unless finite and above 0; `TooLarge` past [`MAX_BYTES`].
    pub fn for_bits_per_key(capacity: u64, bits_per_key: f64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_bits_per_key(capacity, bits_per_key)
    }

    /// Returns the plan with as many whole pages as `bytes` hold, and the best number of probes. `bytes` is for pages
    /// only: the header and the superblocks of a store come on top.
    ///
    /// # Errors
    /// Returns `CapacityZero`; `TooSmall` for less than a page; `TooLarge` past [`MAX_BYTES`].
    pub fn for_size(capacity: u64, bytes: u64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_size(capacity, bytes)
    }

    /// Returns the plan with the most keys that the whole pages in `bytes` hold at an expected rate of at most `fpr`.
    ///
    /// # Errors
    /// Returns `RateOutOfRange`; `RateBelowFloor` if not even one key can have that rate; `TooSmall` and `TooLarge` as
    /// [`Plan::for_size`]. A rate near the floor is no error: the floor then bounds the keys.
    pub fn capacity_for_rate_and_size(fpr: f64, bytes: u64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_rate_and_size(fpr, bytes)
    }

    /// Returns the plan with the most keys that have `bits_per_key` filter bits each in the whole pages in `bytes`.
    ///
    /// # Errors
    /// Returns `BitsPerKeyOutOfRange` unless finite and above 0; `TooSmall` if not even one key has that many bits, or
    /// as [`Plan::for_size`]; `TooLarge` as there; `CapacityTooLarge` if the keys do not fit in 64 bits.
    pub fn capacity_for_bits_and_size(bits_per_key: f64, bytes: u64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_bits_and_size(bits_per_key, bytes)
    }

    /// Returns the plan of a filter whose pages and probes are given, for instance by its header.
    ///
    /// # Errors
    /// Returns `CapacityZero`, `TooSmall` for no pages, `TooLarge` for more than [`MAX_PAGES`], `ProbesOutOfRange`.
    pub fn for_layout(capacity: u64, pages: u64, probes: u32) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_layout(capacity, pages, probes)
    }

    /// Returns the plan with the most keys that `pages` pages with `probes` probes per key hold at an expected rate of
    /// at most `fpr`: the remainder of a filter after a fold of its pages.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::for_layout`]; `RateOutOfRange`; `RateBelowFloor` and `TooSmall` if not even one
    /// key can have that rate.
    pub fn most_keys(pages: u64, probes: u32, fpr: f64) -> Result<Plan, SizingError> {
        Cell::Bit.plan_for_most_keys(pages, probes, fpr)
    }

    /// Returns the same plan with its pages rounded up to a multiple of 2^`levels`, so that they can be folded in half
    /// `levels` times, and united with a filter that has fewer pages by that factor. The probes stay, so the rate only
    /// falls.
    ///
    /// # Errors
    /// Returns `FoldsOutOfRange` past [`MAX_FOLDS`]; `TooLarge` past [`MAX_BYTES`].
    pub fn foldable(self, levels: u32) -> Result<Plan, SizingError> {
        if levels > MAX_FOLDS {
            return Err(SizingError::FoldsOutOfRange { got: levels });
        }
        if levels == 0 {
            return Ok(self);
        }
        let rounded = self.pages.checked_next_multiple_of(1 << levels);
        let pages = rounded.unwrap_or(u64::MAX);
        let plan = self
            .cell
            .plan_for_layout(self.capacity, pages, self.probes)?;
        let asked = self.target != self.fpr;
        Ok(Plan {
            target: if asked { self.target } else { plan.fpr },
            ..plan
        })
    }

    /// Returns the filter bits: pages times [`PAGE_BITS`], without page headers. Saturates in a plan made by hand.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BITS)
    }

    /// Returns the bytes of the pages on disk, including page headers. Saturates in a plan made by hand.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    /// Returns the filter bits per key when full, counting all four of a counter; infinite for a plan of capacity 0,
    /// made by hand.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        if self.capacity == 0 {
            return f64::INFINITY;
        }
        self.pages as f64 * PAGE_BITS as f64 / self.capacity as f64
    }

    /// Returns the bits per key of an ideal filter with this plan's expected rate `fpr` (not `target`).
    #[must_use]
    pub fn ideal_bits_per_key(&self) -> f64 {
        ideal_bits_per_key(self.fpr)
    }
}

impl Cell {
    /// Returns [`Plan::for_rate`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::for_rate`].
    pub fn plan_for_rate(self, capacity: u64, fpr: f64) -> Result<Plan, SizingError> {
        check_capacity(capacity)?;
        check_rate(fpr)?;
        if !above_floor(capacity, fpr) {
            return Err(SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(capacity),
                capacity,
            });
        }
        let guess = (capacity as f64 * bits_guess(self, fpr) / PAGE_BITS as f64) as u64;
        let mut hint = None;
        let pages = least(guess, MAX_PAGES, |pages| {
            let best = Best::find(self, capacity, pages, hint);
            hint = Some(best.probes);
            best.rate <= fpr
        });
        // Above the floor the maximum size is never reached: at rate p there are at most p · 2^63 keys.
        let pages = pages.ok_or(SizingError::TooLarge {
            bytes: MAX_BYTES as f64,
        })?;
        let plan = self.best(capacity, pages);
        debug_assert!(plan.fpr <= fpr, "{plan:?}");
        Ok(Plan {
            target: fpr,
            ..plan
        })
    }

    /// Returns [`Plan::for_bits_per_key`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::for_bits_per_key`].
    pub fn plan_for_bits_per_key(
        self,
        capacity: u64,
        bits_per_key: f64,
    ) -> Result<Plan, SizingError> {
        check_capacity(capacity)?;
        check_bits_per_key(bits_per_key)?;
        let pages = (capacity as f64 * bits_per_key / PAGE_BITS as f64)
            .ceil()
            .max(1.0);
        if pages > MAX_PAGES as f64 {
            return Err(SizingError::TooLarge {
                bytes: pages * PAGE_BYTES as f64,
            });
        }
        Ok(self.best(capacity, pages as u64))
    }

    /// Returns [`Plan::for_size`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::for_size`].
    pub fn plan_for_size(self, capacity: u64, bytes: u64) -> Result<Plan, SizingError> {
        check_capacity(capacity)?;
        Ok(self.best(capacity, whole_pages(bytes)?))
    }

    /// Returns [`Plan::capacity_for_rate_and_size`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::capacity_for_rate_and_size`].
    pub fn plan_for_rate_and_size(self, fpr: f64, bytes: u64) -> Result<Plan, SizingError> {
        check_rate(fpr)?;
        let pages = whole_pages(bytes)?;
        if !above_floor(1, fpr) {
            return Err(SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(1),
                capacity: 1,
            });
        }
        let guess = (pages as f64 * PAGE_BITS as f64 / bits_guess(self, fpr)) as u64;
        let mut hint = None;
        let first_too_many = least(guess, MAX_CAPACITY, |keys| {
            if !above_floor(keys, fpr) {
                return true;
            }
            let best = Best::find(self, keys, pages, hint);
            hint = Some(best.probes);
            best.rate > fpr
        });
        // Never `None`: 2^64 - 1 keys are below the floor of every rate. Never 1 either: one key in a page has a
        // negligible rate above the floor.
        match first_too_many {
            Some(keys) if keys > 1 => Ok(Plan {
                target: fpr,
                ..self.best(keys - 1, pages)
            }),
            _ => Err(SizingError::TooSmall {
                bytes,
                least: bytes.saturating_add(PAGE_BYTES),
            }),
        }
    }

    /// Returns [`Plan::capacity_for_bits_and_size`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::capacity_for_bits_and_size`].
    pub fn plan_for_bits_and_size(
        self,
        bits_per_key: f64,
        bytes: u64,
    ) -> Result<Plan, SizingError> {
        check_bits_per_key(bits_per_key)?;
        let pages = whole_pages(bytes)?;
        let keys = (pages as f64 * PAGE_BITS as f64 / bits_per_key).floor();
        if keys < 1.0 {
            let least = self.plan_for_bits_per_key(1, bits_per_key)?.bytes();
            return Err(SizingError::TooSmall { bytes, least });
        }
        if keys >= MAX_CAPACITY as f64 {
            return Err(SizingError::CapacityTooLarge { got: keys });
        }
        Ok(self.best(keys as u64, pages))
    }

    /// Returns [`Plan::for_layout`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::for_layout`].
    pub fn plan_for_layout(
        self,
        capacity: u64,
        pages: u64,
        probes: u32,
    ) -> Result<Plan, SizingError> {
        check_capacity(capacity)?;
        if pages == 0 {
            return Err(SizingError::TooSmall {
                bytes: 0,
                least: PAGE_BYTES,
            });
        }
        if pages > MAX_PAGES {
            return Err(SizingError::TooLarge {
                bytes: pages as f64 * PAGE_BYTES as f64,
            });
        }
        if !(1..=MAX_PROBES).contains(&probes) {
            return Err(SizingError::ProbesOutOfRange { got: probes });
        }
        let fpr = self.expected_rate(capacity, pages, probes);
        Ok(Plan {
            cell: self,
            capacity,
            pages,
            probes,
            target: fpr,
            fpr,
        })
    }

    /// Returns [`Plan::most_keys`] for a filter of such cells.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::most_keys`].
    pub fn plan_for_most_keys(
        self,
        pages: u64,
        probes: u32,
        fpr: f64,
    ) -> Result<Plan, SizingError> {
        check_rate(fpr)?;
        let one = self.plan_for_layout(1, pages, probes)?;
        if !above_floor(1, fpr) {
            return Err(SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(1),
                capacity: 1,
            });
        }
        let guess = (one.bits() as f64 / bits_guess(self, fpr)) as u64;
        let first_too_many = least(guess, MAX_CAPACITY, |keys| {
            !above_floor(keys, fpr) || self.expected_rate(keys, pages, probes) > fpr
        });
        match first_too_many {
            Some(keys) if keys > 1 => {
                let most = self.plan_for_layout(keys - 1, pages, probes)?;
                debug_assert!(most.fpr <= fpr, "{most:?}");
                Ok(Plan {
                    target: fpr,
                    ..most
                })
            }
            _ => Err(SizingError::TooSmall {
                bytes: one.bytes(),
                least: one.bytes().saturating_add(PAGE_BYTES),
            }),
        }
    }

    fn best(self, capacity: u64, pages: u64) -> Plan {
        let Best { probes, rate } = Best::find(self, capacity, pages, None);
        assert!((1..=MAX_PAGES).contains(&pages), "{pages} pages");
        assert!((1..=MAX_PROBES).contains(&probes), "{probes}");
        Plan {
            cell: self,
            capacity,
            pages,
            probes,
            target: rate,
            fpr: rate,
        }
    }
}

/// The number of probes with the lowest expected rate among those that [may be best](Cell::probes_like); at equal
/// rates, the fewest.
struct Best {
    probes: u32,
    rate: f64,
}

impl Best {
    /// Walks downhill from `hint`, or from the ideal filter's probes: the rate has a single valley in the probes.
    fn find(cell: Cell, keys: u64, pages: u64, hint: Option<u32>) -> Best {
        let ideal = ideal_probes(pages as f64 * cell.per_page() as f64 / keys as f64);
        let (least, most) = cell.probes_like(ideal).into_inner();
        let at = |probes| Best {
            probes,
            rate: cell.expected_rate(keys, pages, probes),
        };
        let mut best = at(hint.unwrap_or(ideal).clamp(least, most));
        let first = best.probes;
        while best.probes > least {
            let fewer = at(best.probes - 1);
            if fewer.rate > best.rate {
                break;
            }
            best = fewer;
        }
        while best.probes >= first && best.probes < most {
            let more = at(best.probes + 1);
            if more.rate >= best.rate {
                break;
            }
            best = more;
        }
        best
    }
}

/// Returns the bits per key from which the search for a rate starts: as many cells as the ideal filter has bits, or
/// those of a single probe.
fn bits_guess(cell: Cell, fpr: f64) -> f64 {
    let cells = ideal_bits_per_key(fpr).min(-1.0 / (-fpr).ln_1p());
    (cells * f64::from(cell.bits())).max(f64::MIN_POSITIVE)
}

/// Returns whether `keys` 64-bit hashes leave room below `fpr`; false for a NaN.
pub(super) fn above_floor(keys: u64, fpr: f64) -> bool {
    fpr >= FLOOR_MARGIN * hash_floor(keys)
}

pub(super) fn check_capacity(capacity: u64) -> Result<(), SizingError> {
    if capacity == 0 {
        Err(SizingError::CapacityZero)
    } else {
        Ok(())
    }
}

pub(crate) fn check_rate(fpr: f64) -> Result<(), SizingError> {
    if fpr > 0.0 && fpr < 1.0 {
        Ok(())
    } else {
        Err(SizingError::RateOutOfRange { got: fpr })
    }
}

fn check_bits_per_key(bits_per_key: f64) -> Result<(), SizingError> {
    if bits_per_key > 0.0 && bits_per_key.is_finite() {
        Ok(())
    } else {
        Err(SizingError::BitsPerKeyOutOfRange { got: bits_per_key })
    }
}

fn whole_pages(bytes: u64) -> Result<u64, SizingError> {
    if bytes < PAGE_BYTES {
        Err(SizingError::TooSmall {
            bytes,
            least: PAGE_BYTES,
        })
    } else if bytes > MAX_BYTES {
        Err(SizingError::TooLarge {
            bytes: bytes as f64,
        })
    } else {
        Ok(bytes / PAGE_BYTES)
    }
}
