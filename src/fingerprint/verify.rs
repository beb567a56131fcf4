//! Reads all segments of a store of fingerprints and lists what is damaged.

use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::fingerprint::directory_file::{expect_directory, read_directory, read_segment};
use crate::fingerprint::segment::directory::range;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::image::Image;
use crate::page::PageState;
use crate::storefile::meta::Meta;
use crate::storefile::store_file::StoreFile;

/// A damaged page of a store of fingerprints.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentDamage {
    /// The page, by its number in the file.
    pub page: u64,
    /// How many keys the page may have held; 0 if none is lost with it, because another page says the same.
    pub keys: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl SegmentDamage {
    fn of(fault: &SegmentFault, keys: u64) -> Self {
        Self {
            page: fault.page(),
            keys,
            reason: fault.to_string(),
        }
    }
}

/// What the segments of a store hold.
#[derive(Debug, Default)]
pub(crate) struct SegmentReport {
    /// Pages of fingerprints, fences and directory.
    pub(crate) pages: u64,
    /// Fingerprints on pages that are whole.
    pub(crate) keys: u64,
    pub(crate) damaged: Vec<SegmentDamage>,
    /// How many fingerprints there may be.
    pub(crate) space: u64,
}

/// Refuses a policy that damaged pages of fingerprints can't follow.
pub(crate) fn expect_repairable(on: OnDamage) -> Result<()> {
    match on {
        OnDamage::NeverSeen => Ok(()),
        OnDamage::Error | OnDamage::Seen => Err(Error::InvalidOption {
            option: "repair",
            expected: "never seen for kind fingerprint: no page can have all keys".to_owned(),
            got: "seen".to_owned(),
        }),
    }
}

/// Checks every byte of the segments. The caller keeps checkpoints from running. `each` gets the number of each page of
/// fingerprints, counted over all segments, and how it is.
pub(crate) fn verify_segments(
    file: &StoreFile,
    meta: &Meta,
    each: &mut dyn FnMut(u64, PageState),
) -> Result<SegmentReport> {
    let superblock = &meta.superblock;
    let (directory, space) = expect_directory(&file.place, superblock, file.header.space())?;
    let binding = file.header.binding();
    let found = read_directory(&*file.raw, &file.place, &directory, (space, binding))?;
    let copies = directory.copies().map(|copy| copy.end - copy.start);
    let mut report = SegmentReport {
        pages: directory.pages + copies[0] + copies[1],
        keys: 0,
        damaged: Vec::new(),
        space: space.count(),
    };
    let lost = found.damaged.iter();
    report.damaged = lost.map(|fault| SegmentDamage::of(fault, 0)).collect();
    let (mut first, mut bytes) = (0, Vec::new());
    for (index, segment) in found.segments.iter().enumerate() {
        let end = range(&found.segments, index, space).end;
        read_segment(&*file.raw, &file.place, segment, &mut bytes)?;
        let Some(image) = Image::of(binding, *segment, end, &bytes) else {
            continue;
        };
        let fences = image.check_fences();
        if let Err(fault) = &fences {
            report.damaged.push(SegmentDamage::of(fault, 0));
        }
        let before = report.keys;
        let mut whole = true;
        for page in 0..segment.pages as usize {
            let checked = match fences {
                Ok(()) => image.check_page(page),
                Err(_) => image.check_header(page),
            };
            let state = match &checked {
                Ok(count) => {
                    report.keys += u64::from(*count);
                    PageState::Good { set: *count }
                }
                Err(fault) => {
                    whole = false;
                    let keys = segment.keys.div_ceil(segment.pages.into());
                    report.damaged.push(SegmentDamage::of(fault, keys));
                    PageState::Damaged
                }
            };
            each(first + page as u64, state);
        }
        first += u64::from(segment.pages);
        if let Err(fault) = image.check_keys(report.keys - before)
            && whole
        {
            report.damaged.push(SegmentDamage::of(&fault, 0));
        }
    }
    Ok(report)
}
