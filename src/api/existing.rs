//! How a store that exists differs from what options for a new one ask for.

use crate::api::store::Store;
use crate::config::options::Options;
use crate::filter::differences::{OptionDifference, differences};

impl Options {
    /// Returns which of these options for new stores an existing store does not follow, among those that are set.
    ///
    /// Opening ignores them all. A program that lets its users set them calls this after
    /// [`open_or_create`](Self::open_or_create): it refuses the store if a difference [is
    /// unmet](OptionDifference::is_unmet), and warns of the others. A store that these options have just created has none.
    ///
    /// ```
    /// # fn main() -> everseen::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("urls.ever");
    /// use everseen::Options;
    ///
    /// Options::new().capacity(1000).fpr(1e-4).create(&path)?;
    /// let options = Options::new().capacity(500).fpr(1e-9);
    /// let store = options.open_or_create(&path)?;
    /// let found = options.differences(&store);
    /// assert_eq!((found[0].option, found[0].is_unmet), ("capacity", false));
    /// assert_eq!((found[1].option, found[1].is_unmet), ("fpr", true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn differences(&self, store: &Store) -> Vec<OptionDifference> {
        let is_measured = store.engine.sample.sampling.is_some();
        let label = store.label().unwrap_or_default();
        differences(self, &store.engine.file.header, is_measured, label)
    }
}
