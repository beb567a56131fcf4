//! What applying a delta asks of the pages, whatever their kind.

use crate::error::Result;
use crate::file::Superblock;
use crate::file::delta::Content;
use crate::storefile::progress::Watched;

/// The pages of a delta, and the copy they are for, which is to get the superblock of the delta.
pub(crate) trait PageDelta {
    /// Checks the whole delta. Returns the digest that a copy with the superblock `old` will have.
    fn check(
        &self,
        old: Option<&Superblock>,
        content: Content,
        watched: &mut Watched<'_>,
    ) -> Result<Option<u64>>;

    /// Writes the pages and the sections, and zeroes between. Syncs nothing.
    fn write(&self, content: Content) -> Result<()>;

    /// Returns the digest of all pages of the copy, which it checks.
    fn digest(&self) -> Result<u64>;
}
