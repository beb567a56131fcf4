//! How the filter of a store differs from what options for a new one ask for.

use std::time::Duration;

use crate::config::create_options::CreateOptions;
use crate::config::forget_by::ForgetBy;
use crate::config::template::Template;
use crate::file::Header;
use crate::page::Kind;
use crate::sizing::PAGE_BITS;

/// How much larger the rate of a store may be than the one that is asked for: plans round.
const TOLERANCE: f64 = 1.001;

/// An option for new stores that a store which exists does not follow; see [`CreateOptions::differences`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDifference {
    /// The option, as the method of [`CreateOptions`] is called.
    pub option: &'static str,
    /// What the store was created with: "kind bloom", "a capacity of 5000".
    pub has: String,
    /// Whether the store is less than the option asks for, or something else. Otherwise it is more, and the option only
    /// has no effect.
    pub is_unmet: bool,
}

/// Returns how a store with this header, label, and perhaps a sample, differs from options.
pub(crate) fn differences(
    options: &CreateOptions,
    like: Option<&Template>,
    header: &Header,
    is_measured: bool,
    label: &[u8],
) -> Vec<OptionDifference> {
    let mut comparison = Comparison {
        options,
        header,
        found: Vec::new(),
    };
    match like {
        // It decides all that the other options could ask for.
        Some(like) => comparison.template(like),
        None => {
            comparison.kind();
            comparison.keys();
            comparison.rate();
            comparison.bits();
            comparison.shape();
            comparison.hashing();
            comparison.forgetting();
        }
    }
    comparison.transactional();
    comparison.measured(is_measured);
    comparison.label(label);
    comparison.found
}

struct Comparison<'a> {
    options: &'a CreateOptions,
    header: &'a Header,
    found: Vec<OptionDifference>,
}

impl Comparison<'_> {
    fn add(&mut self, option: &'static str, is_unmet: bool, has: String) {
        self.found.push(OptionDifference {
            option,
            has,
            is_unmet,
        });
    }

    fn has_kind(&self) -> String {
        format!("kind {}", self.header.kind)
    }

    fn kind(&mut self) {
        let kind = self.header.kind;
        if self.options.kind.is_some_and(|asked| asked != kind) {
            self.add("kind", true, self.has_kind());
        }
    }

    fn keys(&mut self) {
        let (kind, has) = (self.header.kind, self.header.capacity);
        if let Some(asked) = self.options.capacity
            && asked != has
        {
            match kind {
                Kind::Bloom | Kind::Counting => {
                    self.add("capacity", asked > has, format!("a capacity of {has}"));
                }
                Kind::Fingerprint => {
                    self.add("capacity", asked > has, format!("a limit of {has} keys"));
                }
                // It grows on, whatever its first layer was made for.
                Kind::Scalable => {
                    let has = format!("layers that grow, the first for {has} keys");
                    self.add("capacity", false, has);
                }
            }
        }
        match self.options.grows_to {
            Some(_) if kind != Kind::Fingerprint => self.add("grows_to", true, self.has_kind()),
            Some(asked) if asked != has => {
                self.add("grows_to", asked > has, format!("a limit of {has} keys"));
            }
            _ => {}
        }
    }

    fn rate(&mut self) {
        let has = self.header.fpr;
        if let Some(asked) = self.options.fpr {
            let is_unmet = has > asked * TOLERANCE;
            if is_unmet || asked > has * TOLERANCE {
                self.add("fpr", is_unmet, format!("a rate of {has:e}"));
            }
        }
    }

    /// Compares the bits that a store of this capacity would get: it has whole pages.
    fn bits(&mut self) {
        let header = self.header;
        let Some(asked) = self.options.bits_per_key else {
            return;
        };
        let keys = self.options.capacity.unwrap_or(header.capacity);
        let plan = header.kind.cell().plan_for_bits_per_key(keys, asked);
        let plan = plan.and_then(|plan| plan.foldable(self.options.foldable));
        let is_fixed = matches!(header.kind, Kind::Bloom | Kind::Counting);
        match plan {
            Ok(plan) if is_fixed && plan.bits() == header.bits => {}
            Ok(plan) if is_fixed => {
                let has = header.bits as f64 / header.capacity as f64;
                let is_unmet = header.bits < plan.bits();
                self.add("bits_per_key", is_unmet, format!("{has:.1} bits a key"));
            }
            _ => self.add("bits_per_key", true, self.has_kind()),
        }
    }

    /// How layers grow, and how often the store folds.
    fn shape(&mut self) {
        let (options, header) = (self.options, self.header);
        let grows = header.kind == Kind::Scalable;
        if options.growth != CreateOptions::DEFAULT_GROWTH && options.growth != header.growth {
            let has = match grows {
                true => format!("a growth of {}", header.growth),
                false => self.has_kind(),
            };
            self.add("growth", !grows, has);
        }
        if options.tightening != CreateOptions::DEFAULT_TIGHTENING
            && options.tightening != header.tightening
        {
            let has = match grows {
                true => format!("a tightening of {}", header.tightening),
                false => self.has_kind(),
            };
            self.add("tightening", !grows, has);
        }
        if options.foldable == 0 {
            return;
        }
        match header.kind {
            Kind::Bloom | Kind::Counting => {
                let times = (header.bits / PAGE_BITS).trailing_zeros();
                if options.foldable > times {
                    let has = format!("pages that fold {times} times");
                    self.add("foldable", true, has);
                }
            }
            _ => self.add("foldable", true, self.has_kind()),
        }
    }

    fn hashing(&mut self) {
        let (options, header) = (self.options, self.header);
        if options.hash.is_some_and(|asked| asked != header.hash) {
            self.add("hash", true, format!("hash {}", header.hash));
        }
        if options.seed.is_some_and(|asked| asked != header.seed) {
            self.add("seed", true, "another seed".to_owned());
        }
    }

    fn forgetting(&mut self) {
        let options = self.options;
        let Some(has) = self.header.window else {
            let asked = [
                ("forget_after", options.forget_after.is_some()),
                ("forget_steps", options.forget_steps.is_some()),
                ("forget_by", options.forget_by.is_some()),
            ];
            if let Some((option, _)) = asked.into_iter().find(|(_, is_asked)| *is_asked) {
                let has = "no window: it keeps keys for ever".to_owned();
                self.add(option, true, has);
            }
            return;
        };
        if let Some(asked) = options.forget_after
            && u128::from(has.milliseconds()) != asked.as_millis()
        {
            let has = Duration::from_millis(has.milliseconds());
            // Neither a longer window nor a shorter one is more than the other.
            self.add("forget_after", true, format!("a window of {has:?}"));
        }
        if let Some(asked) = self.options.forget_steps
            && asked != has.steps()
        {
            let is_unmet = has.steps() < asked;
            self.add("forget_steps", is_unmet, format!("{} steps", has.steps()));
        }
        let has = ForgetBy::of(self.header.renews());
        if self.options.forget_by.is_some_and(|asked| asked != has) {
            let has = match has {
                ForgetBy::First => "ages since keys first came",
                ForgetBy::Last => "ages since keys last came",
            };
            self.add("forget_by", true, has.to_owned());
        }
    }

    fn template(&mut self, like: &Template) {
        let (own, other) = (self.header, &like.header);
        let grows = matches!(own.kind, Kind::Scalable | Kind::Fingerprint);
        let shape = |of: &Header| {
            (
                of.kind,
                of.hash,
                of.seed,
                of.probes,
                of.growth,
                of.forgetting(),
            )
        };
        let is_other = shape(own) != shape(other)
            || own.tightening != other.tightening
            || (grows && (own.bits, own.capacity) != (other.bits, other.capacity));
        if is_other {
            return self.add("like", true, "a seed or dimensions of its own".to_owned());
        }
        let asked = other.bits.saturating_mul(self.options.times);
        if !grows && own.bits != asked {
            let has = format!("{} pages", own.bits / PAGE_BITS);
            self.add("times", own.bits < asked, has);
        }
    }

    fn transactional(&mut self) {
        let has = self.header.transactional;
        if self.options.transactional.is_some_and(|asked| asked != has) {
            let has = match has {
                true => "transactions: what is not committed is dropped",
                false => "no transactions",
            };
            // Neither is more than the other.
            self.add("transactional", true, has.to_owned());
        }
    }

    fn measured(&mut self, has: bool) {
        match self.options.measured {
            // A counting store never has a sample, and creating one doesn't complain.
            Some(true)
                if !has && self.header.kind != Kind::Counting && self.header.window.is_none() =>
            {
                self.add("measured", true, "no sample".to_owned());
            }
            Some(false) if has => self.add("measured", false, "a sample".to_owned()),
            _ => {}
        }
    }

    fn label(&mut self, has: &[u8]) {
        if let Some(asked) = &self.options.label
            && asked != has
        {
            let has = match has {
                [] => "no label",
                _ => "another label",
            };
            self.add("label", true, has.to_owned());
        }
    }
}
