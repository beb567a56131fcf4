//! BF.*: sets of items. A store of fingerprints has them, which grows; what it was reserved for stands in its label.

use std::sync::Arc;

use everseen::{ClaimOptions, Error, Verdict};
use tokio::task::block_in_place;

use super::arguments::{double, integer_or, six_digits};
use super::as_redis::BloomFilters;
use super::{
    Context, NOT_FOUND, WRONG_TYPE, bools, check_capacity, existing, found, name_of, wrong_number,
};
use crate::database::{BloomDesign, Design, Name, OpenStore};
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;

const FULL: Refusal = Refusal::new("ERR non scaling filter is full");
const CLAIMED: Refusal = Refusal::new(
    "TRYAGAIN another client has claimed this item and neither committed it nor given it back",
);

/// Refuses a store whose items aren't a set, or aren't whole keys.
pub fn check(store: &OpenStore) -> Result<(), Refusal> {
    match &store.design {
        design if design.is_set() => Ok(()),
        Design::OtherKeys { rule } => Err(Refusal::of(&format!(
            "ERR the keys of this store are made by a rule of the command, which the server doesn't apply: {rule}"
        ))),
        _ => Err(WRONG_TYPE),
    }
}

/// Returns what a store was reserved for. One that BF.RESERVE didn't make takes what it takes.
fn design_of(store: &OpenStore) -> Result<BloomDesign, Refusal> {
    match &store.design {
        Design::Bloom(design) => Ok(*design),
        _ => {
            let stats = store.store.stats()?;
            Ok(BloomDesign {
                error: stats.fpr_target,
                capacity: stats.capacity.unwrap_or(stats.key_limit),
                expansion: None,
            })
        }
    }
}

/// BF.RESERVE key error capacity [EXPANSION n] [NONSCALING]. Other words are ignored, as Redis does.
pub fn reserve(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 7 {
        return Err(wrong_number("bf.reserve"));
    }
    let name = name_of(request.arg(1))?;
    let error = double(request.arg(2)).ok_or(Refusal::new("ERR bad error rate"))?;
    if !(error > 0.0 && error < 1.0) {
        return Err(Refusal::new("ERR (0 < error rate range < 1) "));
    }
    let capacity = integer_or(request.arg(3), "ERR bad capacity")?;
    let capacity = match u64::try_from(capacity) {
        Ok(capacity) if capacity > 0 => capacity,
        _ => return Err(Refusal::new("ERR (capacity should be larger than 0)")),
    };
    let place = |word| (4..request.len()).find(|&at| request.is_word(at, word));
    let scales = place("NONSCALING").is_none();
    let mut growth = BloomDesign::default().expansion;
    if let Some(at) = place("EXPANSION") {
        let value = request
            .get(at + 1)
            .ok_or(Refusal::new("ERR no expansion"))?;
        if !scales {
            return Err(Refusal::new("Nonscaling filters cannot expand"));
        }
        let value = integer_or(value, "ERR bad expansion")?;
        growth = Some(expansion_of(value).ok_or(Refusal::new(
            "ERR expansion should be greater or equal to 1",
        ))?);
    }
    check_capacity(capacity)?;
    let design = BloomDesign {
        error,
        capacity,
        expansion: growth.filter(|_| scales),
    };
    super::reserve(context, &name, &Design::Bloom(design), check)
}

/// Returns an expansion. One that is larger than can be told is as large as can be.
fn expansion_of(value: i64) -> Option<u32> {
    (value > 0).then(|| u32::try_from(value).unwrap_or(u32::MAX))
}

pub fn add(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut replies = add_many(context, &name, &[request.arg(2)]);
    Ok(replies.pop().expect("one answer for one item"))
}

/// Adds items to the store of a name, which is made if it isn't there.
pub fn add_many(context: &mut Context<'_>, name: &Name, items: &[&[u8]]) -> Vec<Reply> {
    let design = Design::Bloom(BloomDesign::default());
    let store = context.server.database.get_or_create(name, &design);
    match store.and_then(|store| check(&store).map(|()| store)) {
        Ok(store) => insert(context, &store, items),
        Err(refusal) => vec![refusal.into(); items.len()],
    }
}

/// Inserts items, and returns an answer for each.
fn insert(context: &mut Context<'_>, store: &Arc<OpenStore>, items: &[&[u8]]) -> Vec<Reply> {
    let at_work = store.work();
    let (mut replies, outcome) = match store.design {
        Design::Bloom(BloomDesign {
            capacity,
            expansion: None,
            ..
        }) => insert_up_to(store, capacity, items),
        _ => insert_all(store, items),
    };
    let is_there = replies.contains(&Reply::Bool(false));
    let is_changed = replies.contains(&Reply::Bool(true)) || (store.renews && is_there);
    if is_changed {
        context.changed(store);
    }
    drop(at_work);
    if is_there && !is_changed {
        context.relies_on(store);
    }
    if let Err(refusal) = outcome {
        replies.resize(items.len(), refusal.into());
    }
    replies
}

/// Inserts items. Where that fails, there are answers for those before.
fn insert_all(store: &OpenStore, items: &[&[u8]]) -> (Vec<Reply>, Result<(), Refusal>) {
    let answer = |verdict| match verdict {
        Verdict::New => Reply::Bool(true),
        Verdict::Seen => Reply::Bool(false),
        // It may be given back: to call it there would lose it.
        Verdict::Pending => CLAIMED.into(),
    };
    let mut replies = Vec::with_capacity(items.len());
    let outcome = loop {
        let rest = &items[replies.len()..];
        let (done, error) = match store.store.claim_batch(rest, ClaimOptions::new()) {
            Ok(verdicts) => (verdicts, None),
            Err(error) => (error.done, Some(*error.error)),
        };
        replies.extend(done.into_iter().map(answer));
        match error {
            None => break Ok(()),
            // The server's own handle commits for all clients, and all of them wait for that before they are answered.
            Some(Error::TransactionTooLarge { .. }) if has_uncommitted(store) => {
                if let Err(refusal) = block_in_place(|| store.commit()) {
                    break Err(refusal);
                }
            }
            Some(error) => break Err(error.into()),
        }
    };
    (replies, outcome)
}

fn has_uncommitted(store: &OpenStore) -> bool {
    store.store.uncommitted().is_ok_and(|open| open.keys > 0)
}

/// Inserts items until the store has as many as it may. After that, those that are there are still found.
fn insert_up_to(
    store: &OpenStore,
    capacity: u64,
    items: &[&[u8]],
) -> (Vec<Reply>, Result<(), Refusal>) {
    let _alone = store.alone();
    let mut replies = Vec::with_capacity(items.len());
    let outcome = store.keys().and_then(|mut keys| {
        for item in items {
            let is_full = keys >= capacity;
            let is_new = match is_full {
                true => !store.store.contains(*item)?,
                false => store.store.insert(*item)?,
            };
            replies.push(match is_full && is_new {
                true => FULL.into(),
                false => Reply::Bool(is_new),
            });
            keys += u64::from(is_new && !is_full);
        }
        Ok(())
    });
    (replies, outcome)
}

/// Cuts answers behind the first error, as Redis does in an array.
fn until_error(mut replies: Vec<Reply>) -> Reply {
    if let Some(first) = replies.iter().position(Reply::is_error) {
        replies.truncate(first + 1);
    }
    Reply::Array(replies)
}

pub fn madd(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    let design = Design::Bloom(BloomDesign::default());
    let store = context.server.database.get_or_create(&name, &design)?;
    check(&store)?;
    Ok(until_error(insert(context, &store, &items)))
}

/// What BF.INSERT was told before its items.
struct InsertOptions {
    design: BloomDesign,
    creates: bool,
    /// Where the items begin.
    items: usize,
}

/// Reads the options of BF.INSERT. Their first letters decide, as in Redis.
fn insert_options(request: Request<'_>) -> Result<InsertOptions, Refusal> {
    let mut error = BloomDesign::default().error;
    let mut capacity = i64::try_from(BloomDesign::default().capacity).unwrap_or(i64::MAX);
    let mut expansion = 2;
    let (mut creates, mut scales) = (true, true);
    let mut at = 2;
    let too_few = || wrong_number("bf.insert");
    loop {
        let word = request.get(at).ok_or_else(too_few)?.to_ascii_lowercase();
        if word.starts_with(b"i") {
            break;
        }
        at += 1;
        if word.starts_with(b"n") {
            match word.get(2) {
                Some(b'c') => creates = false,
                _ => scales = false,
            }
            continue;
        }
        let value = || request.get(at).ok_or_else(too_few);
        match word.as_slice() {
            [b'e', b'r', ..] => {
                error = double(value()?).ok_or(Refusal::new("Bad error rate"))?;
            }
            [b'e', ..] => expansion = integer_or(value()?, "Bad expansion")?,
            [b'c', ..] => capacity = integer_or(value()?, "Bad capacity")?,
            _ => return Err(Refusal::new("Unknown argument received")),
        }
        at += 1;
    }
    if at + 1 >= request.len() {
        return Err(too_few());
    }
    const BAD: Refusal = Refusal::new("Bad argument received");
    if !(error > 0.0 && error < 1.0) || capacity < 1 {
        return Err(BAD);
    }
    let expansion = expansion_of(expansion).ok_or(BAD)?;
    let capacity = capacity.unsigned_abs();
    check_capacity(capacity)?;
    Ok(InsertOptions {
        design: BloomDesign {
            error,
            capacity,
            expansion: scales.then_some(expansion),
        },
        creates,
        items: at + 1,
    })
}

pub fn bf_insert(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let options = insert_options(request)?;
    let items: Vec<&[u8]> = request.from(options.items).collect();
    let database = &context.server.database;
    let store = match options.creates {
        true => database.get_or_create(&name, &Design::Bloom(options.design))?,
        false => database.get(&name)?.ok_or(NOT_FOUND)?,
    };
    check(&store)?;
    Ok(until_error(insert(context, &store, &items)))
}

pub fn exists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut replies = exists_many(context, &name, &[request.arg(2)]);
    Ok(replies.pop().expect("one answer for one item"))
}

pub fn exists_many(context: &mut Context<'_>, name: &Name, items: &[&[u8]]) -> Vec<Reply> {
    match found(context, name, check, items) {
        Ok(found) => bools(found),
        Err(refusal) => vec![refusal.into(); items.len()],
    }
}

pub fn mexists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    super::mexists(context, request, check)
}

pub fn card(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    match existing(context, &name, check)? {
        None => Ok(Reply::Integer(0)),
        Some(store) => Ok(Reply::count(store.keys()?)),
    }
}

/// BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]
pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 3 {
        return Err(wrong_number("bf.info"));
    }
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name, check)?.ok_or(NOT_FOUND)?;
    let design = design_of(&store)?;
    let items = store.keys()?;
    let filters = BloomFilters::new(&design, items);
    let expansion = match design.expansion {
        Some(expansion) => Reply::Integer(expansion.into()),
        None => Reply::Null,
    };
    let fields = [
        ("CAPACITY", "Capacity", Reply::count(filters.capacity)),
        ("SIZE", "Size", Reply::count(filters.size())),
        ("FILTERS", "Number of filters", Reply::count(filters.count)),
        ("ITEMS", "Number of items inserted", Reply::count(items)),
        ("EXPANSION", "Expansion rate", expansion),
    ];
    let pair = |(_, name, value)| (Reply::simple(name), value);
    if request.len() == 2 {
        return Ok(Reply::Map(fields.into_iter().map(pair).collect()));
    }
    let asked = fields
        .into_iter()
        .find(|(word, ..)| request.is_word(2, word))
        .ok_or(Refusal::new("Invalid information value"))?;
    match context.session.protocol {
        Protocol::Resp2 => Ok(Reply::Array(vec![asked.2])),
        Protocol::Resp3 => Ok(Reply::Map(vec![pair(asked)])),
    }
}

/// BF.DEBUG: a line for each filter that Redis would have.
pub fn debug(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name, check)?.ok_or(NOT_FOUND)?;
    let items = store.keys()?;
    let filters = BloomFilters::new(&design_of(&store)?, items).filters;
    let lines = filters.iter().map(|filter| {
        Reply::bulk(format!(
            "bytes:{} bits:{} hashes:{} hashwidth:64 capacity:{} size:{} ratio:{}",
            filter.bytes,
            filter.bits,
            filter.hashes,
            filter.capacity,
            filter.items,
            six_digits(filter.rate)
        ))
    });
    let all = Reply::bulk(format!("size:{items}"));
    Ok(Reply::Array(std::iter::once(all).chain(lines).collect()))
}
