//! Merging: one store out of several, or a smaller one out of one.
//!
//! The bits of a key in its page depend on its hash alone, and page `i` of a filter holds the keys of
//! the pages `f i` to `f i + f - 1` of one with `f` times as many. So the union of filters is the OR
//! of their pages, and folding is too (FORMAT.md, "Folding and merging").

mod exemptions;
mod input;
mod layer_packing;
mod page_stream;
mod plan;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::config::options::Options;
use crate::store::coordination::place::Place;
use crate::store::open::create::make;
use crate::store::storefile::atomic_file::refuse_existing;
use input::Input;
use page_stream::Stream;
use plan::Design;

/// Makes stores out of others.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = |name: &str| folder.path().join(name);
/// use everseen::{Merge, Options, Store};
///
/// let monday = Options::new().capacity(100_000).create(path("monday"))?;
/// let tuesday = Options::new().like(path("monday"))?.create(path("tuesday"))?;
/// monday.insert(b"https://example.org/")?;
/// tuesday.insert(b"https://example.org/a")?;
///
/// let report = Merge::new().union(path("both"), &[path("monday"), path("tuesday")])?;
/// assert_eq!(report.keys, 2);
/// let both = Store::open(path("both"))?;
/// assert!(both.contains(b"https://example.org/")? && both.contains(b"https://example.org/a")?);
/// # Ok(())
/// # }
/// ```
///
/// # What goes in
/// Stores that are open elsewhere are fine. What they had acknowledged before the merge began (of a
/// transactional one: what was committed) is in the result; what they do meanwhile may be. Each is
/// brought to a [checkpoint](crate::Store::checkpoint) first, and its pages are checked as they are
/// read: a damaged one ends the merge ([`Error::Format`]), whatever
/// [`on_damage`](Options::on_damage) says; [repair](crate::Store::repair) the store before. A store
/// that can't be opened for writing is read as it lies there, if no keys are in its logs
/// ([`Error::KeysInLog`]); that nobody else writes to it is not checked.
///
/// # What comes out
/// A new store, which appears under its name when it is whole and durable; until then it is
/// `NAME-new`, which the next merge or `create` of that name removes. It has an id of its own, hash
/// and seed of the others, and no commits, for positions of different runs say nothing together; made
/// of one store alone, it has that one's. It is transactional if all of them are, or if the options
/// say so.
///
/// **Stores of fixed capacity** must have equal probes, and numbers of pages that are multiples of the
/// least of them, which is the result's. **Stores that grow** merge layer by layer: two layers of
/// equal probes whose pages fit become one if all their keys together keep it within its own rate;
/// else both are layers of the result. Layers without keys are left out.
///
/// A key is [exempt](crate::Store::exempt) in the result if it is in an input, and none of them answers
/// "seen" for it.
///
/// # How often it is wrong
/// The result never promises more than it keeps. Its bound is the option [`fpr`](Options::fpr), or else
/// that of the smallest input (of growing ones: the largest of their bounds); if its pages are too full
/// for that, merging ends with [`Error::Overfull`], which names the bound that would do. A union that
/// may hold more keys than one input was made for needs one or the other: inputs that are large
/// enough, or a larger bound.
///
/// Memory: 2 MiB beside what the open inputs take, and a few open files for each of them.
pub struct Merge<'a> {
    options: Options,
    watch: Watch<'a>,
}

/// Is told the pages read and to be read, and may end it.
type Watch<'a> = Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'a>;

/// What [`Merge`] made.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct MergeReport {
    /// Keys in the result, about: estimated from its occupancy, and no fewer than the largest input
    /// has and no more than all together have.
    pub keys: u64,
    /// The rate of false positives now, from the occupancy of each of its pages.
    pub fpr_now: f64,
    /// The bound of the rate that the result promises.
    pub fpr: f64,
    /// Keys that it has room for; `None` if it grows.
    pub capacity: Option<u64>,
    /// Layers.
    pub layers: u32,
    /// Pages of all layers.
    pub pages: u64,
    /// Pages of the inputs that were read.
    pub pages_read: u64,
    /// Bytes of the result.
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
    /// With the default [`Options`].
    pub fn new() -> Self {
        Self {
            options: Options::new(),
            watch: Box::new(|_, _| ControlFlow::Continue(())),
        }
    }

    /// How inputs are opened and what the result is like. Of what is for new stores,
    /// [`fpr`](Options::fpr) and [`transactional`](Options::transactional) count.
    pub fn options(mut self, options: &Options) -> Self {
        self.options = options.clone();
        self
    }

    /// Is told, after each mebibyte or so, how many pages of the inputs have been read and how many
    /// will be. Its break ends the merge with [`Error::Cancelled`].
    pub fn watch(mut self, watch: impl FnMut(u64, u64) -> ControlFlow<()> + 'a) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// Makes at `out` the union of the inputs: whatever is in one of them is in it. One input is
    /// copied.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for counting stores, [`Error::Mismatch`] for stores that don't fit, [`Error::Overfull`], [`Error::KeysInLog`],
    /// [`Error::Cancelled`]; those of [`Options::create`] about `out` and of [`Options::open`] about
    /// the inputs; [`Error::InvalidOption`] without an input. After an error there is no store at
    /// `out`, and the inputs are as they were.
    pub fn union<P: AsRef<Path>>(self, out: impl AsRef<Path>, inputs: &[P]) -> Result<MergeReport> {
        let paths: Vec<_> = inputs.iter().map(|path| path.as_ref().to_owned()).collect();
        self.merge(out.as_ref(), paths, Design::union)
    }

    /// Makes at `out` the store at `path` with `factor` times fewer pages. For stores of fixed
    /// capacity; it falls as the pages do, and the rate stays, or is what [`fpr`](Options::fpr) says.
    ///
    /// # Errors
    /// As [`union`](Self::union); [`Error::InvalidOption`] if `factor` is not 2 or more and a divisor
    /// of the number of pages; [`Error::WrongKind`] for a store that is not of kind bloom.
    pub fn fold(
        self,
        path: impl AsRef<Path>,
        out: impl AsRef<Path>,
        factor: u64,
    ) -> Result<MergeReport> {
        let paths = vec![path.as_ref().to_owned()];
        self.merge(out.as_ref(), paths, |inputs, options, out| {
            Design::fold(inputs, options, out, factor)
        })
    }

    fn merge(
        mut self,
        out: &Path,
        paths: Vec<PathBuf>,
        design: impl FnOnce(&[Input], &Options, &Path) -> Result<Design>,
    ) -> Result<MergeReport> {
        if paths.is_empty() {
            return Err(Error::InvalidOption {
                option: "inputs",
                expected: "one store at least".to_owned(),
                got: "none".to_owned(),
            });
        }
        Place::of_new(out)?;
        refuse_existing(&self.options, out)?;
        let inputs = Input::open_all(&self.options, &paths)?;
        let mut design = design(&inputs, &self.options, out)?;
        let mut report = None;
        // Nobody can have it before it is closed, and it has no keys to buffer.
        let options = self.options.clone().exclusive(true).background(false);
        let options = options.buffer(crate::store::config::options::LEAST_BUFFER);
        let owner = Input::common_owner(&inputs)?;
        let store = make(&options, out, owner, |draft| {
            let stream = Stream::new(&inputs, &mut self.watch);
            report = Some(stream.write(draft, out, &mut design)?);
            Ok(())
        })?;
        store.close()?;
        report.ok_or(Error::Cancelled)
    }
}
