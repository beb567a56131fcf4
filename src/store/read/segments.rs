//! Looking keys up in segments of fingerprints.
//!
//! A look-up reads whatever its directory leads to, and then asks whether the room may have been written again since. If
//! so, it looks in a newer directory.

use crate::error::{Error, Result};
use crate::segment::pages::{NoAnswer, SegmentPages};
use crate::store::coordination::handle::Access;
use crate::store::prefetch::BATCH;
use crate::store::read::Reader;
use crate::store::read::staged::{NeedsPointLookup, ProbeContext, SelectionVector};
use crate::store::view::View;

/// How often to look in a newer directory. Each was passed because two checkpoints, or two steps of one, went by during
/// one look-up.
const MAX_LOOKS: usize = 100;

impl Reader<'_> {
    /// Returns whether the sealed buffer or the segments hold the key.
    pub(crate) fn probe_segments(
        self,
        view: &View,
        segments: &SegmentPages,
        hash: u64,
    ) -> Result<bool> {
        match self.try_probe(view, segments, hash)? {
            Some(found) => Ok(found),
            None => self.probe_newer(segments.version(), hash),
        }
    }

    /// Does the same; `None` if the segments were passed.
    fn try_probe(self, view: &View, segments: &SegmentPages, hash: u64) -> Result<Option<bool>> {
        if let Some(found) = view.sealed_says(hash) {
            return Ok(Some(found));
        }
        match segments.contains(hash) {
            Ok(false) => Ok(Some(false)),
            Ok(true) => {
                let Some(exempt) = &view.sections.exempt else {
                    return Ok(Some(true));
                };
                let is_exempt = exempt.contains(hash);
                // The room of sections is written again as that of segments is.
                if segments.has_passed() {
                    return Ok(None);
                }
                match is_exempt {
                    Ok(is_exempt) => Ok(Some(!is_exempt)),
                    Err(error) => self.answer_without_exemptions(error).map(Some),
                }
            }
            Err(NoAnswer::Passed) => Ok(None),
            Err(NoAnswer::Damaged(fault)) => match self.on_damage.answer() {
                Some(seen) => Ok(Some(seen)),
                None => Err(self.file.format_error(fault.into())),
            },
        }
    }

    /// Looks the key up in a directory that is newer than `passed`, from the active buffer on.
    #[cold]
    fn probe_newer(self, mut passed: u64, hash: u64) -> Result<bool> {
        for _ in 0..MAX_LOOKS {
            // What this handle was opened with has been written over.
            if self.handle.access == Access::Snapshot {
                return Err(Error::Ended);
            }
            // The last writer has closed the store: there is no newer view to look in.
            if self.shared.is_ended() {
                return Err(self.ended());
            }
            let Some(view) = self.views.renew_past(passed)? else {
                return Err(self.ended());
            };
            let Some(segments) = &view.segments else {
                return Err(Error::Closed);
            };
            if let Some(seen) = self.says_seen(view.active.buffer.lookup(hash)) {
                return Ok(seen);
            }
            if let Some(found) = self.try_probe(&view, segments, hash)? {
                return Ok(found);
            }
            passed = segments.version();
        }
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "checkpoints that overtake each look-up",
            process: None,
        })
    }
}

/// Looks for keys in segments, at most [`BATCH`] of them. Sets `found` for each that is present, and drops it from
/// `rest`.
///
/// # Errors
/// After an error `found` is meaningless.
pub(crate) fn probe_segments(
    segments: &SegmentPages,
    context: &ProbeContext<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    let (mut selected, mut answers) = ([0; BATCH], [None; BATCH]);
    let wanted = rest.select(hashes, &mut selected);
    let answers = &mut answers[..wanted.len()];
    segments.contains_all(wanted, answers);
    if answers.contains(&None) {
        return Err(NeedsPointLookup);
    }
    if context.exempt.is_some() {
        for (hash, answer) in wanted.iter().zip(answers.iter_mut()) {
            *answer = Some(context.is_key(*hash, *answer == Some(true))?);
        }
    }
    if segments.has_passed() {
        return Err(NeedsPointLookup);
    }
    rest.settle(found, |turn| answers[turn] == Some(true));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::{Kind, Options, Store};

    const KEYS: u64 = 6000;

    fn options() -> Options {
        let options = Options::new().kind(Kind::Fingerprint).background(false);
        options
            .capacity(50_000)
            .fpr(1e-12)
            .measured(false)
            .segment_pages(2)
            .step_segments(2)
    }

    /// Makes a store whose file is much longer than what it holds.
    fn worn_out(path: &Path) -> Store {
        let store = options().create(path).unwrap();
        store.insert_hash_batch(&Vec::from_iter(0..KEYS)).unwrap();
        store.checkpoint().unwrap();
        for round in 1..4 {
            for passing in (round << 20..(round << 20) + 2000).step_by(1000) {
                let passing = Vec::from_iter(passing..passing + 1000);
                store.insert_hash_batch(&passing).unwrap();
                store.checkpoint().unwrap();
                passing
                    .iter()
                    .for_each(|key| assert!(store.remove_hash(*key).unwrap()));
                store.checkpoint().unwrap();
            }
        }
        store
    }

    /// What a look-up has that is under way, and how long the map of the file is that it reads.
    fn view_of(store: &Store) -> (Arc<View>, u64) {
        let view = store.engine.views.cell.load_full();
        let length = view.segments.as_ref().unwrap().map().len() as u64 * 8;
        (view, length)
    }

    /// Looks for keys through a view, all of whose map is read. The handle may be closed.
    fn look_through(store: &Store, view: &View) {
        let segments = view.segments.as_ref().unwrap();
        for word in (0..segments.map().len()).step_by(512) {
            std::hint::black_box(segments.map().word(word));
        }
        for key in 0..KEYS {
            let hash = store.hasher().mix(key);
            match Reader::of(&store.engine).probe_segments(view, segments, hash) {
                Ok(found) => assert!(found, "key {key}"),
                Err(Error::Closed | Error::Ended) => {}
                Err(error) => panic!("key {key}: {error:?}"),
            }
        }
    }

    fn length(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().len()
    }

    /// Each look-up has been passed, and finds a newer view; closing takes the maps from that one at any moment.
    #[test]
    fn look_ups_that_were_passed_end_with_the_handle_at_any_moment() {
        for round in 0..100 {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("store");
            let store = options().exclusive(true).create(path).unwrap();
            let passed = view_of(&store).0.segments.as_ref().unwrap().version();
            store.insert_hash(1).unwrap();
            store.checkpoint().unwrap();
            let hash = store.hasher().mix(1);
            let look = || loop {
                match Reader::of(&store.engine).probe_newer(passed, hash) {
                    Ok(found) => assert!(found),
                    Err(error) => break error,
                }
            };
            std::thread::scope(|scope| {
                let looking: Vec<_> = (0..6).map(|_| scope.spawn(look)).collect();
                store.close().unwrap();
                for one in looking {
                    let error = one.join().unwrap();
                    assert!(matches!(error, Error::Closed), "round {round}: {error:?}");
                }
            });
        }
    }

    /// A look-up of the handle that closes, through a view that has been renewed since; or one of another handle that is
    /// closed, and not dropped.
    #[test]
    fn no_file_is_cut_off_under_an_old_view() {
        for of_another in [false, true] {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("store");
            let first = worn_out(&path);
            // Its map is as long as the file is now.
            let store = options().open(&path).unwrap();
            let (view, mapped) = view_of(&store);
            assert_eq!(mapped, length(&path));
            store.insert_hash(1 << 40).unwrap();
            store.checkpoint().unwrap();
            assert!(!Arc::ptr_eq(&view, &view_of(&store).0));
            let (one, last) = match of_another {
                true => (&store, &first),
                false => (&first, &store),
            };
            one.close().unwrap();
            last.close().unwrap();
            let kept = length(&path);
            assert!(
                mapped <= kept,
                "cut off at {kept} under {mapped}, of another: {of_another}"
            );
            look_through(&store, &view);
            drop(view);

            options().open(&path).unwrap().close().unwrap();
            assert!(length(&path) < mapped, "nothing to cut off at {mapped}");
        }
    }
}
