//! What a new store is like.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::forget_by::ForgetBy;
use crate::config::open_options::OpenOptions;
use crate::config::template::Template;
use crate::error::{Error, Result};
use crate::file::label::MAX_LABEL;
use crate::hash::Hash;
use crate::page::Kind;
use crate::page::ages::{MOST_WINDOW_STEPS, Window};

/// What a new store is like, and how the handle that creates it [opens](OpenOptions) it.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("urls.ever");
/// use everseen::{CreateOptions, Store};
///
/// let store = CreateOptions::new().capacity(1_000_000).fpr(1e-4).create(&path)?;
/// assert!(store.insert("https://example.org/")?);
/// store.close()?;
///
/// let store = Store::open(&path)?;
/// assert!(!store.insert("https://example.org/")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CreateOptions {
    pub(crate) kind: Option<Kind>,
    pub(crate) capacity: Option<u64>,
    pub(crate) grows_to: Option<u64>,
    pub(crate) fpr: Option<f64>,
    pub(crate) bits_per_key: Option<f64>,
    pub(crate) growth: u32,
    pub(crate) tightening: f64,
    pub(crate) hash: Option<Hash>,
    pub(crate) seed: Option<[u8; 32]>,
    pub(crate) transactional: Option<bool>,
    pub(crate) foldable: u32,
    pub(crate) measured: Option<bool>,
    pub(crate) forget_after: Option<Duration>,
    pub(crate) forget_steps: Option<u32>,
    pub(crate) forget_by: Option<ForgetBy>,
    pub(crate) label: Option<Vec<u8>>,
    pub(crate) like: Option<PathBuf>,
    pub(crate) times: u64,
    pub(crate) open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            kind: None,
            capacity: None,
            grows_to: None,
            fpr: None,
            bits_per_key: None,
            growth: Self::DEFAULT_GROWTH,
            tightening: Self::DEFAULT_TIGHTENING,
            hash: None,
            seed: None,
            transactional: None,
            foldable: 0,
            measured: None,
            forget_after: None,
            forget_steps: None,
            forget_by: None,
            label: None,
            like: None,
            times: 1,
            open: OpenOptions::new(),
        }
    }
}

impl CreateOptions {
    /// The default number of keys of the first layer of a store of [`Kind::Scalable`].
    pub const DEFAULT_FIRST_LAYER: u64 = 1 << 20;
    /// How many times as large each layer of a store of [`Kind::Scalable`] is as the one before it by default.
    pub const DEFAULT_GROWTH: u32 = 2;
    /// The ratio of each layer's rate to that of the layer before it in a store of [`Kind::Scalable`] by default.
    pub const DEFAULT_TIGHTENING: f64 = 0.85;
    /// The default false-positive rate.
    pub const DEFAULT_FPR: f64 = 1e-6;
    /// The default number of steps in which a store that forgets counts the ages of keys: 15, which take 4 bits a key.
    pub const DEFAULT_FORGET_STEPS: u32 = 15;
    /// The default number of keys that a store of [`Kind::Fingerprint`] may grow to: 2^36.
    pub const DEFAULT_GROWS_TO: u64 = 1 << 36;

    /// Returns the defaults: a store of [`Kind::Fingerprint`], which grows, at a rate of 1e-6, hashed by HighwayHash with a
    /// random key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the kind of filter of a new store. Defaults to [`Kind::Bloom`] where a [`capacity`](Self::capacity) is
    /// given, to [`Kind::Scalable`] where its layers are ([`layers`](Self::layers)), else
    /// to [`Kind::Fingerprint`].
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets how many keys a new store is for. For [`Kind::Scalable`], this is the capacity of its first layer
    /// (1,048,576 by default).
    #[must_use]
    pub fn capacity(mut self, keys: u64) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// Sets how many keys a new store of [`Kind::Fingerprint`] may grow to. Defaults to 2^36, or to as many as keep the
    /// rate among 2^63 fingerprints. The more there may be, the more bits each key takes: one for each doubling.
    #[must_use]
    pub fn grows_to(mut self, keys: u64) -> Self {
        self.grows_to = Some(keys);
        self
    }

    /// Sets the false-positive rate of a new store at capacity, above 0 and below 1 (1e-6 by default). For
    /// [`Kind::Scalable`], it bounds the rate of all layers together.
    #[must_use]
    pub fn fpr(mut self, rate: f64) -> Self {
        self.fpr = Some(rate);
        self
    }

    /// Sets the filter bits per key of a new store of fixed capacity, instead of a rate.
    #[must_use]
    pub fn bits_per_key(mut self, bits: f64) -> Self {
        self.bits_per_key = Some(bits);
        self
    }

    /// Sets how the layers of a new store of [`Kind::Scalable`] follow each other: each is `growth` times as large as the
    /// one before it, 2 to 16 (2 by default), and has `tightening` times its rate, above 0 and below 1 (0.85 by default).
    /// Other values than the defaults ask for that kind, unless a kind or a capacity is given.
    #[must_use]
    pub fn layers(mut self, growth: u32, tightening: f64) -> Self {
        (self.growth, self.tightening) = (growth, tightening);
        self
    }

    /// Sets the algorithm with which a new store hashes keys to 64 bits.
    #[must_use]
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = Some(hash);
        self
    }

    /// Sets the hash key of a new store, instead of a random one. Anyone who knows it can choose colliding keys; set it
    /// only to create stores that agree with each other.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets whether a new store is transactional: then closing a handle **drops** what the handle has not
    /// [committed](crate::Store::commit), as dropping or killing it does; the inserts never happened, and
    /// [`close`](crate::Store::close) returns how many they were. Otherwise every insert that returned outlives the
    /// process.
    ///
    /// Defaults to `false`, so that a program that never commits loses nothing; to the other store's setting for a store
    /// that is [`like`](Self::like) another; for one that is [merged](crate::Merge) from others to whether all of them
    /// are. The command `everseen` creates transactional stores.
    #[must_use]
    pub fn transactional(mut self, yes: bool) -> Self {
        self.transactional = Some(yes);
        self
    }

    /// Sets whether a new store keeps a share of its keys exactly, so that
    /// [`Stats::measured`](crate::Stats::measured) can report how often it was wrong. The share is one key in 4096, or
    /// fewer so that it takes less than a hundredth of the filter.
    ///
    /// Defaults to `true`, or to the other store's setting for a store that is [`like`](Self::like) another. A store
    /// that is [merged](crate::Merge) from others keeps no such sample, nor does one of [`Kind::Counting`]: why a
    /// removed key is seen cannot be known.
    #[must_use]
    pub fn measured(mut self, yes: bool) -> Self {
        self.measured = Some(yes);
        self
    }

    /// Lets a new store forget each key some time after it was inserted: one second to a thousand years. Such a store is of
    /// [`Kind::Fingerprint`], whatever its capacity.
    ///
    /// A key is seen for at least `window` after it was accepted as new (in a transactional store, after the commit of that),
    /// by every handle, and is forgotten at the latest after `window` and one of its [steps](Self::forget_steps). From then on
    /// it is new for exactly one of all who insert it. Inserts and look-ups of a key that is seen change nothing, unless the store
    /// forgets [by when it last came](Self::forget_by).
    ///
    /// Time is the store's: the latest that any handle knew or that a log has recorded. It never runs backwards.
    /// [`OpenOptions::clock`] tells the store another time than the system's. What is forgotten counts among the
    /// [keys](crate::Stats::keys) until a checkpoint drops the run that it lies in, or merges it. Steps should be longer than checkpoints
    /// take: the keys of one step have a log of their own.
    ///
    /// Such a store has no sample of its keys. Of two ages that stores have of a key, a [merge](crate::Merge) keeps the younger.
    ///
    /// Forgotten keys take room until a checkpoint merges what they lie in: at a steady rate some 6 % of 10^8 keys. A store near its
    /// capacity counts again, which reads all of it; give it a fourth more than you expect.
    ///
    /// ```
    /// # fn main() -> everseen::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("urls.ever");
    /// use everseen::{CreateOptions, OpenOptions};
    /// use std::time::{Duration, SystemTime};
    ///
    /// const DAY: Duration = Duration::from_secs(86_400);
    /// let now = SystemTime::now();
    /// let store = CreateOptions::new()
    ///     .forget_after(30 * DAY)
    ///     .open_options(OpenOptions::new().clock(now))
    ///     .create(&path)?;
    /// assert!(store.insert("https://example.org/")?);
    /// store.advance_to(now + 30 * DAY)?;
    /// assert!(!store.insert("https://example.org/")?);
    /// // Two days are the fifteenth part.
    /// store.advance_to(now + 33 * DAY)?;
    /// assert!(store.insert("https://example.org/")?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn forget_after(mut self, window: Duration) -> Self {
        self.forget_after = Some(window);
        self
    }

    /// Sets in how many steps a store that [forgets](Self::forget_after) counts ages: 1 to 255,
    /// [15](Self::DEFAULT_FORGET_STEPS) by default. With more steps it forgets more exactly, and each key takes as many bits
    /// more as this number has.
    #[must_use]
    pub fn forget_steps(mut self, steps: u32) -> Self {
        self.forget_steps = Some(steps);
        self
    }

    /// Sets which event of a key starts its window in a store that [forgets](Self::forget_after):
    /// [its acceptance](ForgetBy::First) by default. By [`ForgetBy::Last`], an insert or a claim renews a key that is seen. That
    /// costs a record in the log, once in each [step](Self::forget_steps) at most.
    /// [`Store::renew_batch`](crate::Store::renew_batch) renews keys that were looked up.
    ///
    /// In a transactional store a renewal counts with its commit, and until then others can't remove the key
    /// ([`Error::Busy`](crate::Error::Busy)). If two handles renew one key at a time, the first one's commit decides; a handle that
    /// dies takes that renewal with it. A key that shares its fingerprint with an [exempt](crate::Store::exempt) one isn't renewed.
    #[must_use]
    pub fn forget_by(mut self, by: ForgetBy) -> Self {
        self.forget_by = Some(by);
        self
    }

    /// Gives a new store a label: up to 4096 bytes of the application's own, such as the version of the rules by which it
    /// makes keys of its data. The store never interprets them, and they never change. [`Store::label`](crate::Store::label)
    /// returns them, of each copy of the store too. No bytes are no label.
    ///
    /// Defaults to no label, or to the other store's for a store that is [`like`](Self::like) another. A store that is
    /// [merged](crate::Merge) from others has the label that all of them have.
    #[must_use]
    pub fn label(mut self, label: &[u8]) -> Self {
        self.label = Some(label.to_vec());
        self
    }

    /// Makes a new store like the one at `path`: of its kind, dimensions, rate, hash and seed, so that the two can be
    /// [merged](crate::Merge). Of the other options for new stores, [`transactional`](Self::transactional),
    /// [`measured`](Self::measured), [`label`](Self::label) and [`times`](Self::times) still apply. The other store is
    /// read when the new one is created.
    #[must_use]
    pub fn like(mut self, path: impl AsRef<Path>) -> Self {
        self.like = Some(path.as_ref().to_owned());
        self
    }

    /// Gives a new store that is [`like`](Self::like) another of fixed capacity `factor` times that store's pages, 1 or
    /// more, and room for as many keys as keep the same rate in them. It can still be merged with the other store,
    /// which folds it.
    #[must_use]
    pub fn times(mut self, factor: u64) -> Self {
        self.times = factor;
        self
    }

    /// Rounds the number of pages of a new store of fixed capacity up to a multiple of 2^`levels`, so that the store
    /// can be [folded](crate::Merge::fold) in half `levels` times. 0 to 20, 0 by default.
    #[must_use]
    pub fn foldable(mut self, levels: u32) -> Self {
        self.foldable = levels;
        self
    }

    /// Sets how the handle opens the new store, or the one that exists.
    #[must_use]
    pub fn open_options(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Returns the kind that a new store gets.
    pub(crate) fn kind_of_new(&self) -> Kind {
        let shapes_layers =
            self.growth != Self::DEFAULT_GROWTH || self.tightening != Self::DEFAULT_TIGHTENING;
        let has_capacity = self.capacity.is_some() && self.forget_after.is_none();
        let default = || Kind::default_for(has_capacity, shapes_layers);
        self.kind.unwrap_or_else(default)
    }

    /// Refuses options with which no store can be created.
    pub(crate) fn check(&self) -> Result<()> {
        let label = self.label.as_deref().unwrap_or_default();
        if label.len() > MAX_LABEL {
            return Err(Error::InvalidOption {
                option: "label",
                expected: "at most 4096 bytes".to_owned(),
                got: format!("{} bytes", label.len()),
            });
        }
        self.open.check()
    }

    /// Returns how long a new store remembers its keys; `None` for ever.
    pub(crate) fn window(&self) -> Result<Option<Window>> {
        let wrong = |option, expected: String, got: String| Error::InvalidOption {
            option,
            expected,
            got,
        };
        let Some(after) = self.forget_after else {
            let expected = || "none without a window to forget after".to_owned();
            return match (self.forget_steps, self.forget_by) {
                (None, None) => Ok(None),
                (Some(steps), _) => Err(wrong("forget_steps", expected(), steps.to_string())),
                (None, Some(by)) => Err(wrong("forget_by", expected(), format!("{by:?}"))),
            };
        };
        if self.measured == Some(true) {
            let expected = "false for a store that forgets".to_owned();
            return Err(wrong("measured", expected, "true".to_owned()));
        }
        let steps = self.forget_steps.unwrap_or(Self::DEFAULT_FORGET_STEPS);
        if !(1..=MOST_WINDOW_STEPS).contains(&steps) {
            let expected = format!("1 to {MOST_WINDOW_STEPS}");
            return Err(wrong("forget_steps", expected, steps.to_string()));
        }
        let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        match Window::new(milliseconds, steps) {
            Some(window) => Ok(Some(window)),
            None => {
                let expected = "a second to a thousand years".to_owned();
                Err(wrong("forget_after", expected, format!("{after:?}")))
            }
        }
    }

    /// Returns the label of a new store, empty if it has none.
    pub(crate) fn new_label<'a>(&'a self, like: Option<&'a Template>) -> &'a [u8] {
        let like = like.and_then(|like| like.label.as_deref());
        self.label.as_deref().or(like).unwrap_or_default()
    }

    /// Returns whether a new store keeps a sample of its keys.
    pub(crate) fn is_measured(&self, like: Option<&Template>) -> bool {
        self.measured
            .unwrap_or(like.is_none_or(Template::is_measured))
    }
}
