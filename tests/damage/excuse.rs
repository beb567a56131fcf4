//! Why a key that was inserted may be missing without an error: what the format can't tell.

use super::judge::{Page, Reading};

/// A reason, each named with the place in FORMAT.md that it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// "Torn tail or damage": the chain breaks off at or before the record that made the key count, that record has
    /// other bytes than before, and no mark behind it proves that it had been durable.
    TornTail,
    /// "Recovery", 7: the record that closes the log before is such a torn tail, so the key's log never counted.
    NeverCounted,
    /// "Intents": the page has other bytes than before and lies where a checkpoint was interrupted.
    TornPage,
    /// "Pages": the page is all zeros now, in a layer not all of which was written.
    BlankPage,
    /// "Recovery", 4: the newest superblock is damaged, the one before does not expect the log, and the log's header
    /// is damaged too, or the log is gone.
    TwoAtOnce,
}

/// The reason why a key that the undamaged store has is absent from the damaged one; `None` if there is none.
pub fn excuse(good: &Reading<'_>, bad: &Reading<'_>, hash: u64) -> Option<Excuse> {
    let Some((generation, counted_at)) = good.logged.get(&hash) else {
        return excuse_pages(good, bad, hash);
    };
    if let Some(chain) = bad.chains.get(generation) {
        let was = good.chains[generation].end;
        let changed = differ(good, bad, *generation, chain.end..was);
        return (chain.end <= *counted_at && changed).then_some(Excuse::TornTail);
    }
    let before = generation - 1;
    if let (Some(good_first), Some(bad_first)) = (good.chains.get(&before), bad.chains.get(&before))
        && good_first.is_cut()
        && !bad_first.is_cut()
        && differ(good, bad, before, bad_first.end..good_first.end)
    {
        return Some(Excuse::NeverCounted);
    }
    // The log that the older superblock could have gone on with: its own, or the one before.
    let lost = |generation: u64| {
        let header = |log: Option<&[u8]>| Some(log?.get(..4096)?[..64].to_vec());
        good.chains.contains_key(&generation)
            && header(bad.image.log(generation)) != header(good.image.log(generation))
    };
    let gone = bad.chains.is_empty() && (lost(*generation) || lost(before));
    (!bad.log_expected && good.log_expected && gone).then_some(Excuse::TwoAtOnce)
}

/// Whether a range of a log has other bytes than before, or is not there any more.
fn differ(
    good: &Reading<'_>,
    bad: &Reading<'_>,
    generation: u64,
    range: std::ops::Range<usize>,
) -> bool {
    let bytes = |reading: &Reading<'_>| {
        let log = reading.image.log(generation)?;
        Some(log.get(range.clone())?.to_vec())
    };
    !range.is_empty() && bytes(good) != bytes(bad)
}

/// The page that held the key must be one that the format can't call damaged.
fn excuse_pages(good: &Reading<'_>, bad: &Reading<'_>, hash: u64) -> Option<Excuse> {
    let holds = good.layers.iter().find(|layer| {
        let number = layer.number_of(hash);
        good.state(number) != Some(Page::Damaged) && layer.has_bits(good.page(number), hash)
    })?;
    let number = holds.number_of(hash);
    if good.page(number) == bad.page(number) {
        return None;
    }
    match bad.state(number)? {
        Page::Blank => Some(Excuse::BlankPage),
        Page::Torn => Some(Excuse::TornPage),
        Page::Good | Page::Damaged => None,
    }
}
