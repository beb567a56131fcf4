//! A new store after another one's measure, so that the two can be merged.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::{Header, SectionKind, Superblock};
use crate::page::Kind;
use crate::sizing::{PAGE_BITS, Plan};
use crate::store::config::options::Options;
use crate::store::open::create::{check_transactional, first_layer, first_superblock, now, random};
use crate::store::open::handle::check_exists;
use crate::store::storefile::meta::identify;

/// What a new store takes over from another.
#[derive(Debug)]
pub(crate) struct Like {
    header: Header,
    measured: bool,
}

impl Like {
    /// Whether the other one keeps a sample of its keys.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured
    }
}

impl Options {
    /// For a new store: all that decides where a key's bits are is as in the store at `path`, and so
    /// are capacity and rate: kind, hash, seed, probes, pages, growth. Such stores can be
    /// [merged](crate::Merge). Whatever else these options say of that does not count;
    /// [`times`](Self::times) does. Whether the new store is [`transactional`](Self::transactional) and whether it is
    /// [`measured`](Self::measured) is as in the other one too, unless these options tell. Nothing but header and
    /// superblock of the store at `path` is read, and only now.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Format`] if its header is damaged.
    pub fn like(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        check_exists(&self, path)?;
        let (_, identity) = identify(&self, path, false)?;
        let mut sections = identity.superblock.sections.iter();
        self.like = Some(Arc::new(Like {
            measured: sections.any(|section| section.kind == SectionKind::Sample),
            header: identity.header,
        }));
        Ok(self)
    }

    /// For a new store that is [`like`](Self::like) another of fixed capacity: so many times its
    /// pages, 1 or more, and room for as many keys as keep the same rate in them. It can be merged with
    /// the other one all the same, which folds it.
    pub fn times(mut self, factor: u64) -> Self {
        self.times = factor;
        self
    }

    /// For a new store of fixed capacity: its number of pages is rounded up to a multiple of
    /// 2^`levels`, so that it can be [folded](crate::Merge::fold) in half so many times; 0 to 20, 0
    /// unless told.
    pub fn foldable(mut self, levels: u32) -> Self {
        self.foldable = levels;
        self
    }
}

/// What header and superblock of the new store say.
pub(crate) fn design(options: &Options, like: &Like) -> Result<(Header, Superblock)> {
    check_transactional(options, like.header.kind)?;
    let mut header = Header {
        transactional: options.transactional.unwrap_or(like.header.transactional),
        store_id: random()?,
        created: now(),
        compatible: 0,
        read_only_compatible: 0,
        locks_itself: true,
        ..like.header.clone()
    };
    let times = options.times;
    let wrong = |expected: &str| Error::InvalidOption {
        option: "times",
        expected: expected.to_owned(),
        got: times.to_string(),
    };
    if times == 0 {
        return Err(wrong("1 or more"));
    }
    if header.kind == Kind::Scalable {
        return match times {
            1 => Ok((header, first_superblock(Vec::new()))),
            _ => Err(wrong("1 for a store that grows")),
        };
    }
    let cell = header.kind.cell();
    let own = header.bits / PAGE_BITS;
    // At least as many keys as the other one has room for keep the rate in more pages.
    let pages = own.saturating_mul(times);
    let plan = cell.plan_for_layout(header.capacity, pages, header.probes)?;
    let more = match times {
        1 => header.capacity,
        _ => cell
            .plan_for_most_keys(pages, header.probes, header.fpr)
            .map_or(0, |plan| plan.capacity),
    };
    let plan = Plan {
        capacity: header.capacity.max(more),
        target: header.fpr,
        ..plan
    };
    header.capacity = plan.capacity;
    header.bits = plan.bits();
    let layer = first_layer(header.kind, &plan);
    Ok((header, first_superblock(vec![layer])))
}
