//! `everseen plan --kind fingerprint`: a store that grows without layers, at a few sizes on the way to its limit.

use everseen::sizing::ideal_bits_per_key;
use everseen::{CreateOptions, FingerprintPlan};
use serde::Serialize;

use crate::commands::plan::Json;
use crate::error::CliError;
use crate::output::format::{bytes, rate, table, thousands};

/// The first size that is shown. What a store of fewer keys takes is mostly its header.
const FIRST_SHOWN: u64 = 1_000_000;

/// A store on its way to its limit.
pub struct Outlook {
    plan: FingerprintPlan,
}

/// What a store takes when it has some keys.
#[derive(Serialize)]
pub struct JsonFill {
    keys: u64,
    fpr: f64,
    bits_per_key: f64,
    pages: u64,
    bytes: u64,
}

impl Outlook {
    /// Plans as `everseen create` does, where no limit is given too.
    pub fn of(limit: Option<u64>, fpr: f64) -> Result<Self, CliError> {
        let most = || CreateOptions::DEFAULT_GROWS_TO.min(FingerprintPlan::most_keys(fpr));
        let plan = FingerprintPlan::for_rate(limit.unwrap_or_else(most), fpr)?;
        Ok(Outlook { plan })
    }

    fn with(&self, keys: u64) -> JsonFill {
        JsonFill {
            keys,
            fpr: self.plan.rate(keys),
            bits_per_key: self.plan.bits_per_key(keys),
            pages: self.plan.pages(keys),
            bytes: self.plan.bytes(keys),
        }
    }

    /// Returns each power of ten below the limit, and the limit.
    fn fills(&self) -> Vec<JsonFill> {
        let limit = self.plan.limit();
        let powers = std::iter::successors(Some(FIRST_SHOWN), |keys| keys.checked_mul(10));
        let below = powers.take_while(|keys| *keys < limit);
        below.chain([limit]).map(|keys| self.with(keys)).collect()
    }

    pub fn json(&self) -> Json {
        let full = self.with(self.plan.limit());
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
        }
    }

    pub fn text(&self) -> String {
        let full = self.with(self.plan.limit());
        let mut text = format!(
            "capacity      {} keys at most\n\
             fpr           {} by then, and the lower the fewer keys there are\n\
             size          {} by then, and as large as its keys need until then\n\n",
            thousands(full.keys),
            rate(full.fpr),
            bytes(full.bytes),
        );
        let header = ["keys", "fpr", "bits a key", "size"].map(str::to_owned);
        let rows = self.fills().into_iter().map(|fill| {
            [
                thousands(fill.keys),
                rate(fill.fpr),
                format!("{:.2}", fill.bits_per_key),
                bytes(fill.bytes),
            ]
        });
        text += &table(std::iter::once(header).chain(rows));
        text
    }
}
