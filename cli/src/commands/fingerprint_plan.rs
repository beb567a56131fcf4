//! `everseen plan --kind fingerprint`: a store that grows without layers, at a few sizes on the way to its limit.

use everseen::sizing::{PAGE_BYTES, ideal_bits_per_key};
use everseen::{CreateOptions, FingerprintPlan};
use serde::Serialize;

use crate::commands::plan::Json;
use crate::error::CliError;
use crate::output::format::{bytes, rate, table, thousands};

const PAGE_BITS: u64 = 8 * PAGE_BYTES;
/// The first size that is shown. What a store of fewer keys takes is mostly its header.
const FIRST_SHOWN: u64 = 1_000_000;

/// A store on its way to its limit.
pub struct Outlook {
    plan: FingerprintPlan,
    /// How many bits the age of each key takes; 0 in a store that keeps them for ever.
    age_bits: u32,
}

/// What a store takes when it has some keys.
#[derive(Serialize)]
pub struct JsonFill {
    pub keys: u64,
    pub fpr: f64,
    pub bits_per_key: f64,
    pub pages: u64,
    pub bytes: u64,
}

impl JsonFill {
    /// Returns the cells of a table's row.
    pub fn row(&self) -> [String; 4] {
        [
            thousands(self.keys),
            rate(self.fpr),
            format!("{:.2}", self.bits_per_key),
            bytes(self.bytes),
        ]
    }
}

impl Outlook {
    /// Plans as `everseen create` does, where no limit is given too.
    pub fn of(limit: Option<u64>, fpr: f64, age_bits: u32) -> Result<Self, CliError> {
        let most = || (FingerprintPlan::most_keys(fpr) >> age_bits).max(1);
        let limit = limit.unwrap_or_else(|| CreateOptions::DEFAULT_GROWS_TO.min(most()));
        let plan = FingerprintPlan::for_rate(limit, fpr)?;
        Ok(Outlook { plan, age_bits })
    }

    /// Returns the most keys that the store may have.
    pub fn limit(&self) -> u64 {
        self.plan.limit()
    }

    /// Returns whether fingerprints leave so many bits of 63 to ages.
    pub fn has_room_for_ages(&self) -> bool {
        self.plan.space() <= 1 << (63 - self.age_bits)
    }

    pub fn with(&self, keys: u64) -> JsonFill {
        let of_ages = (u128::from(keys) * u128::from(self.age_bits)).div_ceil(PAGE_BITS.into());
        let pages = self.plan.pages(keys).saturating_add(of_ages as u64);
        JsonFill {
            keys,
            fpr: self.plan.rate(keys),
            bits_per_key: pages as f64 * PAGE_BITS as f64 / keys.max(1) as f64,
            pages,
            bytes: pages.saturating_mul(PAGE_BYTES),
        }
    }

    /// Returns each power of ten below the limit, and the limit.
    fn fills(&self) -> Vec<JsonFill> {
        let limit = self.limit();
        let powers = std::iter::successors(Some(FIRST_SHOWN), |keys| keys.checked_mul(10));
        let below = powers.take_while(|keys| *keys < limit);
        below.chain([limit]).map(|keys| self.with(keys)).collect()
    }

    pub fn json(&self) -> Json {
        let full = self.with(self.limit());
        Json {
            capacity: full.keys,
            fpr: full.fpr,
            bits: full.bytes.saturating_mul(8),
            bits_per_key: full.bits_per_key,
            k: None,
            pages: full.pages,
            bytes: full.bytes,
            ideal_bits_per_key: ideal_bits_per_key(full.fpr),
            folds: Vec::new(),
            layers: Vec::new(),
            fills: self.fills(),
            forgetting: None,
        }
    }

    pub fn text(&self) -> String {
        let full = self.with(self.limit());
        let mut text = format!(
            "capacity      {} keys at most\n\
             fpr           {} by then, and the lower the fewer keys there are\n\
             size          {} by then, and as large as its keys need until then\n\n",
            thousands(full.keys),
            rate(full.fpr),
            bytes(full.bytes),
        );
        let header = ["keys", "fpr", "bits a key", "size"].map(str::to_owned);
        let rows = self.fills().into_iter().map(|fill| fill.row());
        text += &table(std::iter::once(header).chain(rows));
        text
    }
}
