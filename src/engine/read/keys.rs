//! Is a key there, how often, and may it be looked up before its turn: chooses by what the store knows of a key.

use crate::engine::read::Reader;
use crate::error::Result;
use crate::page::KeyModel;
use crate::prefetch::hash_source::HashSource;

impl Reader<'_> {
    /// Returns whether a key is there.
    #[inline]
    pub(crate) fn contains(self, hash: u64) -> Result<bool> {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.is_in_set(hash),
            KeyModel::Multiset => self.is_counted(hash),
        }
    }

    /// Looks up the keys of a part, and appends an answer for each.
    pub(crate) fn contains_each(self, keys: &dyn HashSource, out: &mut Vec<bool>) -> Result<()> {
        self.check_readable(keys.count())?;
        let done = out.len();
        out.resize(done + keys.count(), false);
        let found = &mut out[done..];
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.find_in_set(keys, found),
            KeyModel::Multiset => self.find_counted(keys, found),
        }
    }

    /// Returns how often the store holds the key; [`STUCK`](crate::bloom::counting_page::STUCK) means that often or more.
    ///
    /// # Errors
    /// The store does not know that.
    pub(crate) fn count_of(self, hash: u64) -> Result<u8> {
        match self.file.model.has_counts() {
            true => self.count_exactly(hash),
            false => Err(self
                .file
                .wrong_kind("count keys", "a store of kind counting")),
        }
    }

    /// Returns whether looking keys up before their turn spares work then. How often a key is there, only its turn tells.
    pub(crate) fn can_look_ahead(self) -> bool {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => true,
            KeyModel::Multiset => false,
        }
    }
}
