//! What a store was made for, which its label says.

use std::fmt::Write as _;
use std::str::FromStr;

use everseen::{CreateOptions, Kind};
use everseen_keys::rule::Kept;

/// What a store was made for.
#[derive(Clone, Debug, PartialEq)]
pub enum Design {
    /// By BF.RESERVE and its like.
    Bloom(BloomDesign),
    /// By CF.RESERVE and its like.
    Cuckoo(CuckooDesign),
    /// By EV.CLAIM: only a commit makes anything count.
    Claims,
    /// By another program, for whole lines or keys of its own. `counts` tells a counting store.
    Foreign { counts: bool },
    /// By another program, whose keys are made from lines by a rule that this server doesn't apply.
    OtherKeys { rule: String },
}

/// What BF.RESERVE was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BloomDesign {
    pub error: f64,
    pub capacity: u64,
    /// `None`: it takes its capacity and no more.
    pub expansion: Option<u32>,
}

/// What CF.RESERVE was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooDesign {
    pub capacity: u64,
    pub bucket: u16,
    pub iterations: u16,
    pub expansion: u16,
}

impl Default for BloomDesign {
    fn default() -> Self {
        BloomDesign {
            error: 0.01,
            capacity: 100,
            expansion: Some(2),
        }
    }
}

impl Default for CuckooDesign {
    fn default() -> Self {
        CuckooDesign {
            capacity: 1024,
            bucket: 2,
            iterations: 20,
            expansion: 1,
        }
    }
}

const BEGIN: &str = "everseen server: ";

impl Design {
    /// What CF.* promises where nothing else is said: Redis' filters are wrong for 3 of 100 absent items.
    const CUCKOO_FPR: f64 = 1e-6;
    /// A store that must be wrong more often than this is no smaller for it.
    const MOST_FPR: f64 = 0.25;
    /// A store that may be wrong less often takes fewer items, and is wrong as often for as many.
    const LEAST_FPR: f64 = Self::MOST_ITEMS as f64 / (1_u64 << 63) as f64;
    /// The most items that a store takes.
    pub const MOST_ITEMS: u64 = 1 << 36;

    /// Returns whether a store's items are a set: BF.* and EV.* are for them.
    pub fn is_set(&self) -> bool {
        matches!(
            self,
            Design::Bloom(_) | Design::Claims | Design::Foreign { counts: false }
        )
    }

    /// Returns whether a store's items are counted: CF.* are for them.
    pub fn is_counted(&self) -> bool {
        matches!(self, Design::Cuckoo(_) | Design::Foreign { counts: true })
    }

    /// Returns how a store is made. All of them grow, whatever capacity was told.
    pub fn create_options(&self) -> CreateOptions {
        let options = CreateOptions::new().kind(Kind::Fingerprint);
        let options = match self {
            Design::Bloom(design) => {
                options.fpr(design.error.clamp(Self::LEAST_FPR, Self::MOST_FPR))
            }
            Design::Cuckoo(_) => options.fpr(Self::CUCKOO_FPR),
            Design::Claims => options.transactional(true),
            Design::Foreign { .. } | Design::OtherKeys { .. } => options,
        };
        options.label(self.label().as_bytes())
    }

    fn label(&self) -> String {
        let mut label = String::from(BEGIN);
        let written = match self {
            Design::Bloom(design) => {
                let expansion = design.expansion.unwrap_or(0);
                let (error, capacity) = (design.error, design.capacity);
                write!(
                    label,
                    "bloom error={error} capacity={capacity} expansion={expansion}"
                )
            }
            Design::Cuckoo(design) => write!(
                label,
                "cuckoo capacity={} bucket={} iterations={} expansion={}",
                design.capacity, design.bucket, design.iterations, design.expansion
            ),
            Design::Claims => write!(label, "claims"),
            Design::Foreign { .. } | Design::OtherKeys { .. } => write!(label, "foreign"),
        };
        written.expect("a string takes all");
        label
    }

    /// Returns what a store was made for, by its label and kind.
    pub fn of_store(label: Option<&[u8]>, kind: Kind) -> Self {
        let label = label.unwrap_or_default();
        let own = std::str::from_utf8(label)
            .ok()
            .and_then(|text| text.strip_prefix(BEGIN))
            .and_then(parse);
        match (own, Kept::of_label(label)) {
            (Some(design), _) => design,
            (None, Kept::Nothing) => Design::Foreign {
                counts: kind == Kind::Counting,
            },
            (None, Kept::Rule(rule)) if rule == Default::default() => Design::Foreign {
                counts: kind == Kind::Counting,
            },
            (None, _) => Design::OtherKeys {
                rule: label.escape_ascii().to_string(),
            },
        }
    }
}

fn parse(text: &str) -> Option<Design> {
    let mut words = text.split(' ');
    let design = match words.next()? {
        "bloom" => Design::Bloom(BloomDesign {
            error: value(words.next(), "error")?,
            capacity: value(words.next(), "capacity").filter(|&capacity| capacity > 0)?,
            expansion: Some(value(words.next(), "expansion")?).filter(|&expansion| expansion > 0),
        }),
        "cuckoo" => Design::Cuckoo(CuckooDesign {
            capacity: value(words.next(), "capacity")?,
            bucket: value(words.next(), "bucket")?,
            iterations: value(words.next(), "iterations")?,
            expansion: value(words.next(), "expansion")?,
        }),
        "claims" => Design::Claims,
        _ => return None,
    };
    words.next().is_none().then_some(design)
}

fn value<T: FromStr>(word: Option<&str>, name: &str) -> Option<T> {
    word?.strip_prefix(name)?.strip_prefix('=')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use everseen::Kind;

    use super::{BloomDesign, CuckooDesign, Design};

    #[test]
    fn a_label_says_what_a_store_was_made_for() {
        for (design, label) in [
            (
                Design::Bloom(BloomDesign::default()),
                "everseen server: bloom error=0.01 capacity=100 expansion=2",
            ),
            (
                Design::Bloom(BloomDesign {
                    error: 1e-7,
                    capacity: u64::MAX,
                    expansion: None,
                }),
                "everseen server: bloom error=0.0000001 capacity=18446744073709551615 expansion=0",
            ),
            (
                Design::Cuckoo(CuckooDesign::default()),
                "everseen server: cuckoo capacity=1024 bucket=2 iterations=20 expansion=1",
            ),
            (Design::Claims, "everseen server: claims"),
        ] {
            assert_eq!(design.label(), label);
            assert_eq!(
                Design::of_store(Some(label.as_bytes()), Kind::Fingerprint),
                design
            );
        }
    }

    #[test]
    fn stores_of_others_are_foreign() {
        let foreign = Design::Foreign { counts: false };
        for label in [
            None,
            Some(&b"mine"[..]),
            Some(b"everseen lines: bytes"),
            Some(b"everseen server: later"),
        ] {
            assert_eq!(Design::of_store(label, Kind::Fingerprint), foreign);
        }
        let counting = Design::of_store(None, Kind::Counting);
        assert_eq!(counting, Design::Foreign { counts: true });
        let urls = Design::of_store(
            Some(b"everseen lines: url rules=1 not-url=pass"),
            Kind::Bloom,
        );
        assert!(matches!(urls, Design::OtherKeys { .. }), "{urls:?}");
    }
}
