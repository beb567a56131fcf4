//! What probing the pages of a filter takes and gives, whatever the kind.

use crate::error::Result;
use crate::file::FormatError;
use crate::page::write_window::WriteWindow;
use crate::storefile::section_set::SectionReader;

/// The outcome of probing one view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    Present,
    Absent,
    Stale(StaleDirectory),
}

impl Probe {
    #[inline]
    pub(crate) fn of(found: bool) -> Self {
        match found {
            true => Self::Present,
            false => Self::Absent,
        }
    }
}

/// The directory of a probe that checkpoints overtook: what it led to may have been written over by others. Only a view
/// with a newer directory can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StaleDirectory {
    pub(crate) version: u64,
}

/// A look-up in one page.
pub(crate) trait PageLookup {
    type Answer;

    /// Returns the answer of a whole page.
    fn look(&self) -> Result<Self::Answer, FormatError>;

    /// Returns the answer of a page that may be half written.
    fn look_torn(&self) -> Self::Answer;

    /// Returns the answer if all keys of a damaged page count as seen, or all as never seen.
    fn assume(&self, seen: bool) -> Self::Answer;
}

/// Answers a look-up that met damage, in the page of this number. The last argument says what is wrong.
pub(crate) type OnDamaged<'a> =
    &'a dyn Fn(&dyn PageLookup<Answer = bool>, u64, FormatError) -> Result<bool>;

/// Why a batch can't be answered as a whole: it met an untrusted page or section. Retry key by key, so
/// that only the affected key fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeedsPointLookup;

impl From<FormatError> for NeedsPointLookup {
    fn from(_: FormatError) -> Self {
        NeedsPointLookup
    }
}

/// The order in which keys are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// In the order they were given.
    Given,
    /// Roughly in page order, `keys` of them.
    ByPage { keys: u64 },
    /// Roughly in page order, several for each page.
    SharingPages,
}

/// What looking up many keys in pages takes.
#[derive(Clone, Copy)]
pub(crate) struct BatchProbe<'a> {
    pub(crate) exempt: Option<&'a SectionReader>,
    /// The first step whose keys count, in a store that forgets.
    pub(crate) since: u64,
    pub(crate) window: WriteWindow<'a>,
    pub(crate) order: KeyOrder,
}

impl BatchProbe<'_> {
    /// Returns whether a key is present, given whether it tests positive.
    #[inline]
    pub(crate) fn is_key(&self, hash: u64, positive: bool) -> Result<bool, NeedsPointLookup> {
        match (positive, self.exempt) {
            (true, Some(exempt)) => match exempt.try_contains(hash) {
                Some(is_exempt) => Ok(!is_exempt),
                None => Err(NeedsPointLookup),
            },
            (found, _) => Ok(found),
        }
    }
}
