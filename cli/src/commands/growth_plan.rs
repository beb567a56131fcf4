//! `everseen plan --kind scalable`: a store that grows in layers, as those that its keys fill.

use everseen::CreateOptions;
use everseen::sizing::{Growth, PAGE_BITS, PAGE_BYTES, Plan, SizingError};
use everseen::sizing::{expected_rate, ideal_bits_per_key};

use crate::commands::plan::{Json, JsonLayer};
use crate::error::CliError;
use crate::output::format::{bytes, rate, table, thousands};

/// The rates among which the one for a size is sought.
const RATES: (f64, f64) = (1e-18, 0.5);
/// How often the span between two rates is halved: until they differ by less than can be shown.
const HALVINGS: u32 = 60;

/// The layers that a number of keys fill one after another, as those of a new store of kind scalable do.
pub struct GrowthPlan {
    capacity: u64,
    /// The bound on the rate, however many keys come.
    target: f64,
    layers: Vec<Plan>,
}

impl GrowthPlan {
    /// Plans from two of three numbers.
    pub fn of(
        capacity: Option<u64>,
        fpr: Option<f64>,
        size: Option<u64>,
    ) -> Result<Self, CliError> {
        match (capacity, fpr, size) {
            (Some(capacity), Some(fpr), None) => Ok(Self::for_rate(capacity, fpr)?),
            (Some(capacity), None, Some(size)) => Ok(Self::for_size(capacity, size)?),
            (None, Some(fpr), Some(size)) => Ok(Self::most_keys(fpr, size)?),
            _ => Err(CliError::Usage(
                "give two of --capacity, --fpr and --size for a store that grows, no more, no less",
            )),
        }
    }

    fn for_rate(capacity: u64, fpr: f64) -> Result<Self, SizingError> {
        let layers = growth(fpr)?.outlook(capacity)?;
        Ok(GrowthPlan {
            capacity,
            target: fpr,
            layers,
        })
    }

    /// Plans for the lowest rate at which the keys take no more than `size` bytes of pages.
    fn for_size(capacity: u64, size: u64) -> Result<Self, SizingError> {
        let (mut low, mut high) = RATES;
        let mut best = Self::for_rate(capacity, high)?;
        if best.bytes() > size {
            return Err(SizingError::TooSmall {
                bytes: size,
                least: best.bytes(),
            });
        }
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            match Self::for_rate(capacity, middle) {
                Ok(plan) if plan.bytes() <= size => (best, high) = (plan, middle),
                _ => low = middle,
            }
        }
        Ok(best)
    }

    /// Plans as many whole layers as there is room for.
    fn most_keys(fpr: f64, size: u64) -> Result<Self, SizingError> {
        let growth = growth(fpr)?;
        let mut plan = Self::for_rate(growth.first, fpr)?;
        if plan.bytes() > size {
            return Err(SizingError::TooSmall {
                bytes: size,
                least: plan.bytes(),
            });
        }
        let limit = growth.limit();
        // Each further key begins the next layer.
        while plan.capacity < limit {
            let mut next = Self::for_rate(plan.capacity + 1, fpr)?;
            if next.bytes() > size {
                break;
            }
            next.capacity = next
                .layers
                .iter()
                .fold(0, |sum: u64, layer| sum.saturating_add(layer.capacity))
                .min(limit);
            plan = next;
        }
        Ok(plan)
    }

    fn pages(&self) -> u64 {
        self.layers
            .iter()
            .fold(0, |sum, layer| sum.saturating_add(layer.pages))
    }

    fn bytes(&self) -> u64 {
        self.pages().saturating_mul(PAGE_BYTES)
    }

    fn bits(&self) -> u64 {
        self.pages().saturating_mul(PAGE_BITS)
    }

    fn bits_per_key(&self) -> f64 {
        self.bits() as f64 / self.capacity as f64
    }

    /// Returns the rate with as many keys as were planned for, the last layer of which need not be full.
    fn rate(&self) -> f64 {
        let mut left = self.capacity;
        // The logarithm of the chance that no layer is wrong.
        let mut right: f64 = 0.0;
        for layer in &self.layers {
            let keys = left.min(layer.capacity);
            left -= keys;
            right += (-expected_rate(keys, layer.pages, layer.probes)).ln_1p();
        }
        -right.exp_m1()
    }

    pub fn json(&self) -> Json {
        let fpr = self.rate();
        Json {
            capacity: self.capacity,
            fpr,
            bits: self.bits(),
            bits_per_key: self.bits_per_key(),
            k: None,
            pages: self.pages(),
            bytes: self.bytes(),
            ideal_bits_per_key: ideal_bits_per_key(fpr),
            folds: Vec::new(),
            fills: Vec::new(),
            forgetting: None,
            layers: self.layers.iter().map(JsonLayer::from).collect(),
        }
    }

    pub fn text(&self) -> String {
        let fpr = self.rate();
        let mut text = format!(
            "capacity      {} keys, coming little by little\n\
             fpr           {} by then, {} at most\n\
             size          {}, {} pages, {} bytes\n\
             bits a key    {:.2}, ideal {:.2}\n\
             layers        {}, each of which is asked for an absent key; large write buffers make fewer\n\n",
            thousands(self.capacity),
            rate(fpr),
            rate(self.target),
            bytes(self.bytes()),
            thousands(self.pages()),
            thousands(self.bytes()),
            self.bits_per_key(),
            ideal_bits_per_key(fpr),
            self.layers.len(),
        );
        let header = ["layer", "capacity", "pages", "bits a key", "k", "fpr"].map(str::to_owned);
        let rows = self.layers.iter().enumerate().map(|(number, layer)| {
            [
                number.to_string(),
                thousands(layer.capacity),
                thousands(layer.pages),
                format!("{:.2}", layer.bits_per_key()),
                layer.probes.to_string(),
                rate(layer.fpr),
            ]
        });
        text += &table(std::iter::once(header).chain(rows));
        text
    }
}

/// Returns how the layers of a store follow one another that the command creates with `--kind scalable` alone.
fn growth(fpr: f64) -> Result<Growth, SizingError> {
    Growth::new(
        CreateOptions::DEFAULT_FIRST_LAYER,
        fpr,
        CreateOptions::DEFAULT_GROWTH,
        CreateOptions::DEFAULT_TIGHTENING,
    )
}
