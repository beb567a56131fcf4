//! Merging: building one store from several, or a smaller one from one.
//!
//! The bits of a key in its page depend on its hash alone, and page `i` of a filter holds the keys of the pages `f i`
//! to `f i + f - 1` of a filter with `f` times as many pages. So the union of filters is the OR of their pages, and so
//! is folding (FORMAT.md, "Folding and merging").

mod exemptions;
mod input;
mod listed;
mod page_stream;
mod plan;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::config::create_options::CreateOptions;
use crate::config::open_options::OpenOptions;
use crate::engine::open::create::make;
use crate::error::{Error, Result};
use crate::filter::has_segments;
use crate::filter::merge::SetOperation;
use crate::shm::place::Place;
use crate::storefile::atomic_file::{is_unfinished_file, refuse_existing};
use input::Input;
use listed::ListedMerge;
use page_stream::Stream;
use plan::{Design, check_fit};

/// Builds stores from other stores.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = |name: &str| folder.path().join(name);
/// use everseen::{CreateOptions, Merge, Store};
///
/// let monday = CreateOptions::new().capacity(100_000).create(path("monday"))?;
/// let tuesday = CreateOptions::new().like(path("monday")).create(path("tuesday"))?;
/// monday.insert("https://example.org/")?;
/// tuesday.insert("https://example.org/a")?;
///
/// let report = Merge::new().union(path("both"), &[path("monday"), path("tuesday")])?;
/// assert_eq!(report.keys, 2);
/// let both = Store::open(path("both"))?;
/// assert!(both.contains("https://example.org/")? && both.contains("https://example.org/a")?);
/// # Ok(())
/// # }
/// ```
///
/// # Inputs
/// Stores that are open elsewhere are fine. The result contains what they had acknowledged before the merge began (of a
/// transactional store: what was committed), and may contain what they do meanwhile. The merge first brings each store
/// to a [checkpoint](crate::Store::checkpoint), and checks its pages as it reads them. A damaged page ends the merge
/// ([`Error::Format`]), whatever [`on_damage`](OpenOptions::on_damage) says; [repair](crate::Store::repair) the store
/// first. A store that can't be opened for writing is read as it is, if no keys are in its logs ([`Error::KeysInLog`]).
/// The merge does not check that no other handle writes to it.
///
/// # Result
/// A new store, which appears under its name when it is whole and durable. Until then it is `NAME-new`, which the next
/// merge or `create` of that name removes. It has an id of its own, hash and seed of the inputs, and no commits,
/// because positions of different runs have no common meaning. If built from a single store, it has that store's
/// commits. It is [transactional](Self::transactional) if all inputs are, unless set otherwise. It has the
/// [label](CreateOptions::label) that all inputs have; inputs of different labels do not fit.
///
/// **Stores of [`Kind::Fingerprint`](crate::Kind::Fingerprint)** must have one limit and one rate: the result has each
/// fingerprint once. **Stores of [`Kind::Bloom`](crate::Kind::Bloom)** must have equal probes, and their page counts
/// must be multiples of the smallest one, which the result gets. **Stores of [`Kind::Scalable`](crate::Kind::Scalable)**
/// merge layer by layer: two layers with equal probes whose pages fit become one if all their keys together keep it
/// within its own rate; otherwise both are layers of the result. Layers without keys are left out.
///
/// A key is [exempt](crate::Store::exempt) in the result if it is exempt in an input and no input answers "seen" for
/// it.
///
/// # False-positive rate
/// The result never promises more than it keeps. Its bound is [`fpr`](Self::fpr), or else that of the
/// smallest input (of inputs with layers: the largest of their bounds). If its pages are too full for that bound,
/// merging ends with [`Error::Overfull`], which names the bound that it would meet. A union that may hold more keys than
/// one input was created for therefore needs inputs that are large enough, or a larger bound.
///
/// Memory: 2 MiB on top of what the open inputs take, and of kind fingerprint a segment, of some 4 MiB, for each run of each
/// input, twice that for runs of a store whose keys were removed; [`checkpoint_full`](crate::Store::checkpoint_full) leaves
/// an input a single run. Besides, a few open files for each input.
#[must_use = "nothing is merged until an operation is called"]
pub struct Merge<'a> {
    options: CreateOptions,
    watch: Watch<'a>,
}

/// The callback that receives the number of pages read and of pages to read. It may end the merge.
type Watch<'a> = Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'a>;

/// The result of a [`Merge`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct MergeReport {
    /// The approximate number of keys in the result, estimated from its occupancy: no fewer than the largest input
    /// holds, and no more than all inputs hold together.
    pub keys: u64,
    /// The current rate of false positives, from the occupancy of each of its pages.
    pub fpr_now: f64,
    /// The bound on the rate that the result promises.
    pub fpr: f64,
    /// The keys that it has room for; `None` if it grows in layers.
    pub capacity: Option<u64>,
    /// The number of layers.
    pub layers: u32,
    /// The number of pages in all layers.
    pub pages: u64,
    /// The number of input pages that were read.
    pub pages_read: u64,
    /// The size of the result in bytes.
    pub bytes: u64,
}

impl Default for Merge<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Merge<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Merge")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> Merge<'a> {
    /// Returns a merge with the default options.
    pub fn new() -> Self {
        Self {
            options: CreateOptions::new(),
            watch: Box::new(|_, _| ControlFlow::Continue(())),
        }
    }

    /// Sets how inputs are opened, and how long the merge waits for them.
    pub fn open_options(mut self, options: OpenOptions) -> Self {
        self.options.open = options;
        self
    }

    /// Sets the bound on the false-positive rate of the result, above 0 and below 1.
    pub fn fpr(mut self, rate: f64) -> Self {
        self.options.fpr = Some(rate);
        self
    }

    /// Sets whether the result is [transactional](CreateOptions::transactional).
    pub fn transactional(mut self, yes: bool) -> Self {
        self.options.transactional = Some(yes);
        self
    }

    /// Sets a callback that receives, after each mebibyte or so, how many pages of the inputs have been read and how
    /// many will be. If it breaks, the merge ends with [`Error::Cancelled`].
    pub fn watch(mut self, watch: impl FnMut(u64, u64) -> ControlFlow<()> + 'a) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// Creates at `out` the union of the inputs: whatever is in one of them is in it. A single input is copied.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for counting stores, [`Error::Mismatch`] for stores that don't fit, [`Error::Overfull`],
    /// [`Error::KeysInLog`], [`Error::Cancelled`]; the errors of [`CreateOptions::create`] for `out` and of [`OpenOptions::open`]
    /// for the inputs; [`Error::InvalidOption`] without an input. After an error there is no store at `out`, and the
    /// inputs are unchanged.
    pub fn union<P: AsRef<Path>>(self, out: impl AsRef<Path>, inputs: &[P]) -> Result<MergeReport> {
        let paths = owned(inputs);
        self.merge(
            out.as_ref(),
            paths,
            Some(SetOperation::Union),
            Design::union,
        )
    }

    /// Creates at `out` the intersection of the inputs: the keys that are in all of them, as exact as their fingerprints
    /// are. Only for stores of [`Kind::Fingerprint`](crate::Kind::Fingerprint).
    ///
    /// # Errors
    /// The same as [`union`](Self::union); [`Error::WrongKind`] for stores of another kind.
    pub fn intersection<P: AsRef<Path>>(
        self,
        out: impl AsRef<Path>,
        inputs: &[P],
    ) -> Result<MergeReport> {
        let paths = owned(inputs);
        let operation = SetOperation::Intersection;
        self.merge(out.as_ref(), paths, Some(operation), |inputs, _, _| {
            Err(not_listed(&inputs[0], "be intersected"))
        })
    }

    /// Creates at `out` the difference of the inputs: the keys that are in the first and in no other, as exact as their
    /// fingerprints are. Only for stores of [`Kind::Fingerprint`](crate::Kind::Fingerprint).
    ///
    /// # Errors
    /// The same as [`union`](Self::union); [`Error::WrongKind`] for stores of another kind.
    pub fn difference<P: AsRef<Path>>(
        self,
        out: impl AsRef<Path>,
        inputs: &[P],
    ) -> Result<MergeReport> {
        let paths = owned(inputs);
        let operation = SetOperation::Difference;
        self.merge(out.as_ref(), paths, Some(operation), |inputs, _, _| {
            Err(not_listed(&inputs[0], "be subtracted"))
        })
    }

    /// Returns how many keys the [union](Self::union) of the inputs would have, without creating it. Only for stores of
    /// [`Kind::Fingerprint`](crate::Kind::Fingerprint).
    ///
    /// # Errors
    /// The same as [`intersection`](Self::intersection), but those about `out`.
    pub fn count_union<P: AsRef<Path>>(self, inputs: &[P]) -> Result<u64> {
        self.count(&owned(inputs), SetOperation::Union)
    }

    /// Does the same for the [intersection](Self::intersection).
    ///
    /// # Errors
    /// The same as [`count_union`](Self::count_union).
    pub fn count_intersection<P: AsRef<Path>>(self, inputs: &[P]) -> Result<u64> {
        self.count(&owned(inputs), SetOperation::Intersection)
    }

    /// Does the same for the [difference](Self::difference).
    ///
    /// # Errors
    /// The same as [`count_union`](Self::count_union).
    pub fn count_difference<P: AsRef<Path>>(self, inputs: &[P]) -> Result<u64> {
        self.count(&owned(inputs), SetOperation::Difference)
    }

    fn count(mut self, paths: &[PathBuf], operation: SetOperation) -> Result<u64> {
        expect_some(paths)?;
        let inputs = Input::open_all(&self.options.open, paths)?;
        check_fit(&inputs)?;
        if !has_segments(inputs[0].header()) {
            return Err(not_listed(&inputs[0], "be counted together"));
        }
        ListedMerge::new(&inputs, operation, &mut self.watch).count()
    }

    /// Creates at `out` the store at `path` with `factor` times fewer pages. Only for stores of fixed capacity. The
    /// capacity falls as the pages do, and the rate stays the same, or is what [`fpr`](Self::fpr) says.
    ///
    /// # Errors
    /// The same as [`union`](Self::union); [`Error::InvalidOption`] if `factor` is not 2 or more and a divisor of the
    /// number of pages; [`Error::WrongKind`] for a store that is not of kind bloom.
    pub fn fold(
        self,
        path: impl AsRef<Path>,
        out: impl AsRef<Path>,
        factor: u64,
    ) -> Result<MergeReport> {
        let paths = vec![path.as_ref().to_owned()];
        self.merge(out.as_ref(), paths, None, |inputs, options, out| {
            Design::fold(inputs, options, out, factor)
        })
    }

    fn merge(
        mut self,
        out: &Path,
        paths: Vec<PathBuf>,
        operation: Option<SetOperation>,
        design: impl FnOnce(&[Input], &CreateOptions, &Path) -> Result<Design>,
    ) -> Result<MergeReport> {
        expect_some(&paths)?;
        if !is_unfinished_file(&self.options.open, out)? {
            Place::of_new(out)?;
            refuse_existing(&self.options.open, out)?;
        }
        let inputs = Input::open_all(&self.options.open, &paths)?;
        // Fingerprints are merged as they are listed, pages and layers by a design.
        let operation = operation.filter(|_| has_segments(inputs[0].header()));
        let mut design = match operation {
            Some(_) => check_fit(&inputs).map(|()| None)?,
            None => Some(design(&inputs, &self.options, out)?),
        };
        // A store without a plan would be published empty.
        assert_ne!(design.is_some(), operation.is_some());
        let mut report = None;
        // No other handle can have it before it is closed, and it has no keys to buffer.
        let options = self.options.open.clone().exclusive(true).background(false);
        let options = options.buffer(OpenOptions::LEAST_BUFFER);
        let owner = Input::common_owner(&inputs)?;
        let store = make(&options, out, owner, |draft| {
            report = match (&mut design, operation) {
                (Some(design), _) => {
                    let stream = Stream::new(&inputs, &mut self.watch);
                    Some(stream.write(draft, out, design)?)
                }
                (None, Some(operation)) => {
                    let merge = ListedMerge::new(&inputs, operation, &mut self.watch);
                    Some(merge.write(draft, out, &self.options)?)
                }
                (None, None) => None,
            };
            Ok(())
        })?;
        // It is whole and on the disk since it has its name, and nothing has come since.
        let _ = store.close();
        report.ok_or(Error::Cancelled)
    }
}

fn owned<P: AsRef<Path>>(paths: &[P]) -> Vec<PathBuf> {
    paths.iter().map(|path| path.as_ref().to_owned()).collect()
}

fn expect_some(paths: &[PathBuf]) -> Result<()> {
    match paths.is_empty() {
        false => Ok(()),
        true => Err(Error::InvalidOption {
            option: "inputs",
            expected: "at least one store".to_owned(),
            got: "none".to_owned(),
        }),
    }
}

/// Returns the error for a store whose keys can't be listed.
fn not_listed(input: &Input, action: &'static str) -> Error {
    Error::WrongKind {
        path: input.path.clone(),
        action,
        expected: "stores of kind fingerprint",
        got: input.header().kind,
    }
}
