//! Answers for pages that are damaged, or seem to be.

use crate::config::damage_policy::OnDamage;
use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::error::{Error, Result};
use crate::file::{FormatError, Intent};
use crate::page_io::probe::PageLookup;
use crate::shm::handle::Access;

impl Reader<'_> {
    /// Answers for a page that seems to be damaged. Looks again if other writers may be writing it, and otherwise
    /// applies the handle's policy. `number` is the page's number, and `source` is what the first look found.
    #[cold]
    pub(crate) fn answer_damaged<L: PageLookup + ?Sized>(
        self,
        view: &View,
        number: u64,
        lookup: &L,
        source: FormatError,
    ) -> Result<L::Answer> {
        match self.look_again(view, number, lookup, source) {
            Err(Error::Format { path, source }) => {
                let seen = match source {
                    FormatError::PageDamaged { .. } | FormatError::SegmentDamaged { .. } => {
                        self.on_damage.answer()
                    }
                    _ => None,
                };
                match seen {
                    // What is wrong may be that the file is another one.
                    Some(seen) => self.expect_name().map(|()| lookup.assume(seen)),
                    None => Err(Error::Format { path, source }),
                }
            }
            outcome => outcome,
        }
    }

    /// Looks into the page again. Writers that don't share this handle's memory may be writing it: those that opened
    /// the store after a snapshot was opened. While their intent names the page, it is read as it is. Otherwise it must
    /// be whole by now.
    fn look_again<L: PageLookup + ?Sized>(
        self,
        view: &View,
        number: u64,
        lookup: &L,
        source: FormatError,
    ) -> Result<L::Answer> {
        match self.handle.access {
            Access::Alone | Access::Shared => return Err(self.file.format_error(source)),
            Access::Watching if self.shared.is_ended() => return Err(Error::Ended),
            Access::Watching => return Err(self.file.format_error(source)),
            Access::Snapshot => {}
        }
        let names = |intent: &Intent| {
            intent.generation >= view.superblock.generation && intent.pages.contains(&number)
        };
        let newest = || Ok::<_, Error>(self.file.read_meta()?.intent);
        let mut intent = newest()?;
        loop {
            if intent.as_ref().is_some_and(names) {
                return Ok(lookup.look_torn());
            }
            // If it isn't whole by now, it is damaged, or those writers are writing it again.
            let source = match lookup.look() {
                Ok(answer) => return Ok(answer),
                Err(source) => source,
            };
            let before = std::mem::replace(&mut intent, newest()?);
            if intent == before {
                return Err(self.file.format_error(source));
            }
        }
    }

    /// Returns whether a key of the pages is present if the section of exemptions is damaged. A policy that answers for
    /// damaged pages treats no key as exempt.
    #[cold]
    pub(crate) fn answer_without_exemptions(self, error: Error) -> Result<bool> {
        match error {
            Error::Format {
                source: FormatError::SectionDamaged { .. },
                ..
            } if self.on_damage != OnDamage::Error => self.expect_name().map(|()| true),
            error => Err(error),
        }
    }
}
