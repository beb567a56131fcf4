//! Many durations in little memory, and their percentiles.

/// Steps between a power of two and the next: a percentile is told to within 1/64.
const STEPS: u64 = 64;

/// How often each duration came, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, nanoseconds: u64) {
        let index = index_of(nanoseconds);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest; 0 if there are none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that this percentage of them does not exceed; `None` if there are too few to have one beyond.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let beyond = (1.0 - percent / 100.0) * self.total as f64;
        // To within what a fraction such as 0.999 is off.
        if beyond < 1.0 - 1e-6 {
            return None;
        }
        let within = self.total - beyond.round() as u64;
        let mut sum = 0;
        let found = self.counts.iter().position(|count| {
            sum += count;
            sum >= within
        })?;
        Some(last_of(found).min(self.max))
    }
}

/// The place of a duration: exact below 128, then in steps that double.
fn index_of(value: u64) -> usize {
    let shift = value.max(STEPS).ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The longest duration that has this place.
fn last_of(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    let first = u128::from(index % STEPS + STEPS);
    let last = ((first + 1) << shift) - 1;
    u64::try_from(last).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_on_without_a_gap() {
        for value in (0..5000).chain([1 << 40, u64::MAX - 1, u64::MAX]) {
            let last = last_of(index_of(value));
            assert!(last >= value && last - value <= value / STEPS, "{value}");
            if last < u64::MAX {
                assert_eq!(index_of(last), index_of(value));
                assert_eq!(index_of(last + 1), index_of(value) + 1);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_list() {
        let mut all = Histogram::default();
        let mut odd = Histogram::default();
        for value in 1..=100 {
            if value % 2 == 0 { &mut all } else { &mut odd }.add(value);
        }
        all.merge(&odd);
        assert_eq!((all.total(), all.max()), (100, 100));
        assert_eq!(all.percentile(50.0), Some(50));
        assert_eq!(all.percentile(99.0), Some(99));
        assert_eq!(all.percentile(99.9), None);
        assert_eq!(Histogram::default().percentile(50.0), None);
    }
}
