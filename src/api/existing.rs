//! How a store that exists differs from what options for a new one ask for.

use crate::api::store::Store;
use crate::config::create_options::CreateOptions;
use crate::error::Result;
use crate::filter::differences::{OptionDifference, differences};

impl CreateOptions {
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
    /// use everseen::CreateOptions;
    ///
    /// CreateOptions::new().capacity(1000).fpr(1e-4).create(&path)?;
    /// let options = CreateOptions::new().capacity(500).fpr(1e-9);
    /// let store = options.open_or_create(&path)?;
    /// let found = options.differences(&store)?;
    /// assert_eq!((found[0].option, found[0].is_unmet), ("capacity", false));
    /// assert_eq!((found[1].option, found[1].is_unmet), ("fpr", true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of the store that a new one is to be [like](Self::like), as at [creation](Self::create).
    pub fn differences(&self, store: &Store) -> Result<Vec<OptionDifference>> {
        let like = self.template()?;
        let is_measured = store.engine.sample.sampling.is_some();
        let label = store.label().unwrap_or_default();
        let header = &store.engine.file.header;
        Ok(differences(self, like.as_ref(), header, is_measured, label))
    }
}
