//! A new store with the dimensions of another, so that the two can be merged.

use crate::config::create_options::CreateOptions;
use crate::config::forget_by::ForgetBy;
use crate::config::template::Template;
use crate::error::{Error, Result};
use crate::file::{DirectoryRef, Header, Superblock};
use crate::filter::design::{check_transactional, first_layer, first_superblock, now, random};
use crate::page::Kind;
use crate::page::ages::Window;
use crate::sizing::{PAGE_BITS, Plan};

/// Refuses another window than the other store's, and another number of steps if one was asked for.
fn expect_window(options: &CreateOptions, header: &Header) -> Result<()> {
    let Some(asked) = options.window()? else {
        return Ok(());
    };
    let is_same = |has: Window| {
        let has_steps = options.forget_steps.is_none() || has.steps() == asked.steps();
        has_steps && has.milliseconds() == asked.milliseconds()
    };
    let is_by_same = options
        .forget_by
        .is_none_or(|by| by == ForgetBy::of(header.renews()));
    match header.window.is_some_and(is_same) && is_by_same {
        true => Ok(()),
        false => Err(Error::InvalidOption {
            option: "forget_after",
            expected: "that of the store that it is like".to_owned(),
            got: format!(
                "{} ms, {} steps, by {:?}",
                asked.milliseconds(),
                asked.steps(),
                options.forget_by.unwrap_or_default()
            ),
        }),
    }
}

/// Returns the header and superblock of the new store.
pub(crate) fn design(options: &CreateOptions, like: &Template) -> Result<(Header, Superblock)> {
    check_transactional(options, like.header.kind)?;
    let mut header = Header {
        transactional: options.transactional.unwrap_or(like.header.transactional),
        store_id: random()?,
        created: now(),
        compatible: 0,
        read_only_compatible: like.header.known_to_writers(),
        locks_itself: true,
        has_bound_pages: true,
        ..like.header.clone()
    };
    expect_window(options, &header)?;
    let times = options.times;
    let wrong = |expected: &str| Error::InvalidOption {
        option: "times",
        expected: expected.to_owned(),
        got: times.to_string(),
    };
    if times == 0 {
        return Err(wrong("1 or more"));
    }
    if matches!(header.kind, Kind::Scalable | Kind::Fingerprint) {
        let mut superblock = first_superblock(Vec::new());
        superblock.directory = header.space().map(|_| DirectoryRef::empty());
        return match times {
            1 => Ok((header, superblock)),
            _ => Err(wrong("1 for a store that grows")),
        };
    }
    let cell = header.kind.cell();
    let own = header.bits / PAGE_BITS;
    // With more pages, at least as many keys as the other store has room for keep the rate.
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
