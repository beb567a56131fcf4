//! Reads all segments of a store of fingerprints and lists what is damaged.

use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::file::{DirectoryRef, Superblock};
use crate::fingerprint::directory_file::{expect_directory, read_segment};
use crate::fingerprint::fingerprint_list::ListedFile;
use crate::fingerprint::net_list::{CheckedRuns, check_runs};
use crate::fingerprint::runs::run_directories::read_runs;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::image::Image;
use crate::page::ages::Ages;
use crate::page::{Binding, PageState};
use crate::storefile::meta::Meta;
use crate::storefile::progress::{Visit, Visited};
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
/// fingerprints, counted over all segments, and how it is; then which pages were read again, if there are several runs.
pub(crate) fn verify_segments(
    file: &StoreFile,
    meta: &Meta,
    each: &mut Visit<'_>,
) -> Result<SegmentReport> {
    let superblock = &meta.superblock;
    let (_, space) = expect_directory(&file.place, superblock, file.header.space())?;
    let binding = file.header.binding();
    let runs = read_runs(&*file.raw, &file.place, superblock, (Some(space), binding))?;
    let copies = superblock.directories().flat_map(DirectoryRef::copies);
    let copies: u64 = copies.map(|copy| copy.end - copy.start).sum();
    let mut verified = Verified {
        file,
        binding,
        age_bits: space.age_bits(),
        report: SegmentReport {
            pages: superblock.segment_pages() + copies,
            space: space.distinct(),
            ..SegmentReport::default()
        },
        listed: 0,
        bytes: Vec::new(),
    };
    for run in &runs {
        let lost = run.damaged.iter().map(|fault| SegmentDamage::of(fault, 0));
        verified.report.damaged.extend(lost);
        for (segment, end) in run.with_ends(space) {
            verified.segment(segment, end, each)?;
        }
    }
    let mut report = verified.report;
    if runs.len() > 1 {
        let from = ListedFile {
            file: &*file.raw,
            path: &file.place,
            bound: (space, binding),
            ages: Ages::left_out(space.age_bits()),
            salvages: true,
        };
        sum_up(&mut report, superblock, check_runs(from, &runs, each)?);
    }
    Ok(report)
}

/// Replaces the entries of all runs by what they come to together, and reports what contradicts the runs below or the
/// superblock. Where pages are damaged, nothing is known of that.
fn sum_up(report: &mut SegmentReport, superblock: &Superblock, found: CheckedRuns) {
    report.keys = found.keys;
    if !report.damaged.is_empty() {
        return;
    }
    let mut wrong = |reason: String| {
        report.damaged.push(SegmentDamage {
            page: 0,
            keys: 0,
            reason,
        });
    };
    for (number, (run, found)) in (1..).zip(superblock.runs().iter().zip(&found.runs)) {
        // Where keys are forgotten, what came may be below, and what went need not be.
        if let Some(fingerprint) = found.contradicts
            && !superblock.may_count_twice()
        {
            wrong(format!(
                "run {number} contradicts the runs below it about fingerprint {fingerprint}"
            ));
        }
        for (list, expected, got) in [
            ("came", run.came(), found.came),
            ("went", run.went, found.went),
        ] {
            if expected != got {
                wrong(format!(
                    "run {number} holds {got} fingerprints that {list}, expected {expected}"
                ));
            }
        }
    }
}

/// A check of segments on its way.
struct Verified<'a> {
    file: &'a StoreFile,
    binding: Binding,
    age_bits: u32,
    report: SegmentReport,
    /// How many pages of fingerprints came before.
    listed: u64,
    bytes: Vec<u8>,
}

impl Verified<'_> {
    /// Checks a segment whose range ends here.
    fn segment(&mut self, segment: &Segment, end: u64, each: &mut Visit<'_>) -> Result<()> {
        let report = &mut self.report;
        read_segment(&*self.file.raw, &self.file.place, segment, &mut self.bytes)?;
        let Some(image) = Image::of(self.binding, *segment, end, &self.bytes) else {
            return Ok(());
        };
        let fences = image.check_fences();
        if let Err(fault) = &fences {
            report.damaged.push(SegmentDamage::of(fault, 0));
        }
        let before = report.keys;
        let mut whole = true;
        for page in 0..segment.pages as usize {
            let checked = match fences {
                Ok(()) => image
                    .check_page(page)
                    .and_then(|count| image.check_ages(page, self.age_bits).map(|()| count)),
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
            let number = self.listed + page as u64;
            each(Visited::Pages(0, number..number + 1, state))?;
        }
        self.listed += u64::from(segment.pages);
        if let Err(fault) = image.check_keys(report.keys - before)
            && whole
        {
            report.damaged.push(SegmentDamage::of(&fault, 0));
        }
        Ok(())
    }
}
