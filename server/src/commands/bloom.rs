//! BF.*: sets of items. A store of fingerprints has them, which grows; what it was reserved for stands in its label.

use std::sync::Arc;

use super::{Context, ITEM_EXISTS, NOT_FOUND, WRONG_TYPE, name_of, number_of, wrong_number};
use crate::database::{BloomDesign, Design, Name, OpenStore};
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;

const FULL: Refusal = Refusal::new("ERR non scaling filter is full");
const MOST_EXPANSION: u64 = 32_768;

/// Returns the items' store, if there is one and it is no other kind of thing.
fn existing(context: &Context<'_>, name: &Name) -> Result<Option<Arc<OpenStore>>, Refusal> {
    let Some(store) = context.server.database.get(name)? else {
        return Ok(None);
    };
    check(&store)?;
    Ok(Some(store))
}

fn check(store: &OpenStore) -> Result<(), Refusal> {
    match &store.design {
        Design::Bloom(_) | Design::Claims | Design::Foreign { counts: false } => Ok(()),
        Design::Cuckoo(_) | Design::Foreign { counts: true } => Err(WRONG_TYPE),
        Design::OtherKeys { rule } => Err(Refusal::of(&format!(
            "ERR the keys of this store are made by a rule of the command, which the server doesn't apply: {rule}"
        ))),
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

pub fn reserve(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let error = error_rate(request.arg(2))?;
    let capacity = capacity_of(request.arg(3))?;
    let mut expansion = None;
    let mut scales = true;
    let mut at = 4;
    while at < request.len() {
        if request.is_word(at, "NONSCALING") {
            scales = false;
            at += 1;
        } else if request.is_word(at, "EXPANSION") {
            let Some(number) = request.get(at + 1) else {
                return Err(Refusal::new("ERR no expansion"));
            };
            expansion = Some(expansion_of(number)?);
            at += 2;
        } else {
            at += 1;
        }
    }
    if !scales && expansion.is_some() {
        return Err(Refusal::new("Nonscaling filters cannot expand"));
    }
    let design = BloomDesign {
        error,
        capacity,
        expansion: scales.then(|| expansion.unwrap_or(2)),
    };
    match context
        .server
        .database
        .create(&name, &Design::Bloom(design))?
    {
        None => Err(ITEM_EXISTS),
        Some(store) => {
            context.changed(&store);
            Ok(Reply::OK)
        }
    }
}

fn error_rate(argument: &[u8]) -> Result<f64, Refusal> {
    let rate: f64 = number_of(argument, "ERR bad error rate")?;
    match rate > 0.0 && rate < 1.0 {
        true => Ok(rate),
        false => Err(Refusal::new("ERR (0 < error rate range < 1) ")),
    }
}

fn capacity_of(argument: &[u8]) -> Result<u64, Refusal> {
    let capacity: i64 = number_of(argument, "ERR bad capacity")?;
    match u64::try_from(capacity) {
        Ok(capacity) if capacity > 0 => Ok(capacity),
        _ => Err(Refusal::new("ERR (capacity should be larger than 0)")),
    }
}

fn expansion_of(argument: &[u8]) -> Result<u32, Refusal> {
    let expansion: u64 = number_of(argument, "ERR bad expansion")?;
    match expansion {
        1..=MOST_EXPANSION => Ok(expansion.try_into().expect("within its bounds")),
        _ => Err(Refusal::new(
            "ERR expansion should be greater or equal to 1",
        )),
    }
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

/// Inserts items, and returns an answer for each. Those behind an error have that error too.
fn insert(context: &mut Context<'_>, store: &Arc<OpenStore>, items: &[&[u8]]) -> Vec<Reply> {
    let (mut replies, refusal) = match store.design {
        Design::Bloom(BloomDesign {
            capacity,
            expansion: None,
            ..
        }) => insert_up_to(store, capacity, items),
        _ => insert_all(store, items),
    };
    if replies.iter().any(|reply| *reply == Reply::Bool(true)) {
        context.changed(store);
    }
    if let Some(refusal) = refusal {
        replies.resize(items.len(), refusal.into());
    }
    replies
}

fn insert_all(store: &OpenStore, items: &[&[u8]]) -> (Vec<Reply>, Option<Refusal>) {
    match store.store.insert_batch(items) {
        Ok(answers) => (bools(answers), None),
        Err(error) => (bools(error.done), Some((*error.error).into())),
    }
}

fn bools(answers: Vec<bool>) -> Vec<Reply> {
    answers.into_iter().map(Reply::Bool).collect()
}

/// Inserts items until the store has as many as it may.
fn insert_up_to(
    store: &OpenStore,
    capacity: u64,
    items: &[&[u8]],
) -> (Vec<Reply>, Option<Refusal>) {
    let _alone = store.alone();
    let mut replies = Vec::with_capacity(items.len());
    let outcome = store.keys().and_then(|mut keys| {
        for item in items {
            if keys >= capacity {
                match store.store.contains(*item)? {
                    true => replies.push(Reply::Bool(false)),
                    false => return Err(FULL),
                }
                continue;
            }
            let is_new = store.store.insert(*item)?;
            keys += u64::from(is_new);
            replies.push(Reply::Bool(is_new));
        }
        Ok(())
    });
    (replies, outcome.err())
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

pub fn bf_insert(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut design = BloomDesign::default();
    let mut creates = true;
    let mut scales = true;
    let mut at = 2;
    let items = loop {
        let Some(word) = request.get(at) else {
            return Err(wrong_number("bf.insert"));
        };
        let value = request.get(at + 1);
        let needed = || value.ok_or_else(|| wrong_number("bf.insert"));
        match word.to_ascii_uppercase().as_slice() {
            b"ITEMS" => break request.from(at + 1).collect::<Vec<_>>(),
            b"NOCREATE" => {
                creates = false;
                at += 1;
            }
            b"NONSCALING" => {
                scales = false;
                at += 1;
            }
            b"CAPACITY" => {
                design.capacity = match number_of::<u64>(needed()?, "Bad capacity")? {
                    0 => return Err(Refusal::new("Bad capacity")),
                    capacity => capacity,
                };
                at += 2;
            }
            b"ERROR" => {
                let rate: f64 = number_of(needed()?, "Bad error rate")?;
                if !(rate > 0.0 && rate < 1.0) {
                    return Err(Refusal::new("Bad error rate"));
                }
                design.error = rate;
                at += 2;
            }
            b"EXPANSION" => {
                design.expansion = Some(expansion_of(needed()?)?);
                at += 2;
            }
            _ => return Err(Refusal::new("Unknown argument received")),
        }
    };
    if items.is_empty() {
        return Err(wrong_number("bf.insert"));
    }
    if !scales {
        design.expansion = None;
    }
    let database = &context.server.database;
    let store = match creates {
        true => database.get_or_create(&name, &Design::Bloom(design))?,
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
    let found = existing(context, name).and_then(|store| match store {
        None => Ok(vec![false; items.len()]),
        Some(store) => Ok(store.store.contains_batch(items)?),
    });
    match found {
        Ok(found) => bools(found),
        Err(refusal) => vec![refusal.into(); items.len()],
    }
}

pub fn mexists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    match existing(context, &name)? {
        None => Ok(Reply::Array(bools(vec![false; items.len()]))),
        Some(store) => Ok(Reply::Array(bools(store.store.contains_batch(&items)?))),
    }
}

pub fn card(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    match existing(context, &name)? {
        None => Ok(Reply::Integer(0)),
        Some(store) => Ok(Reply::count(store.keys()?)),
    }
}

/// Returns how many filters Redis would have made for a number of items, and how many they take.
fn filters_for(design: &BloomDesign, items: u64) -> (u64, u64) {
    let mut filters = 1;
    let mut last = design.capacity;
    let mut all = design.capacity;
    if let Some(expansion) = design.expansion {
        while all < items {
            last = last.saturating_mul(expansion.into());
            all = all.saturating_add(last);
            filters += 1;
        }
    }
    (filters, all)
}

pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 3 {
        return Err(wrong_number("bf.info"));
    }
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name)?.ok_or(NOT_FOUND)?;
    let design = design_of(&store)?;
    let items = store.keys()?;
    let (filters, capacity) = filters_for(&design, items);
    let size = store.store.stats()?.bytes;
    let expansion = match design.expansion {
        Some(expansion) => Reply::Integer(expansion.into()),
        None => Reply::Null,
    };
    let fields = [
        ("CAPACITY", "Capacity", Reply::count(capacity)),
        ("SIZE", "Size", Reply::count(size)),
        ("FILTERS", "Number of filters", Reply::count(filters)),
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
