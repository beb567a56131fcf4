//! CF.*: items that may be there more than once, and go again.
//!
//! A store of fingerprints is a set, so the second of an item is a key of its own: the item and its number. A counting store
//! that another program made counts by itself.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arguments::{integer, integer_or};
use super::as_redis::CuckooFilters;
use super::{
    Context, NOT_FOUND, WRONG_TYPE, check_capacity, existing, found, name_of, with_items,
    wrong_number,
};
use crate::database::{CuckooDesign, Design, Name, OpenStore};
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;

/// What stands between an item and its number. An item that ends like this would be another's.
const NUMBERED: &[u8] = b"\0everseen item number \0";

/// Returns the key of the second of an item (1), the third, and so on. The first is the item itself.
fn key_of(item: &[u8], number: u64) -> Vec<u8> {
    match number {
        0 => item.to_vec(),
        number => [item, NUMBERED, &number.to_le_bytes()].concat(),
    }
}

/// Returns how many of an item there are.
fn count(store: &OpenStore, item: &[u8]) -> Result<u64, Refusal> {
    if let Design::Foreign { counts: true } = store.design {
        return Ok(store.store.count_estimate(item)?);
    }
    let has = |number| store.store.contains(&key_of(item, number)[..]);
    if !has(0)? {
        return Ok(0);
    }
    // They come and go at the end: the numbers that are there have no gap.
    let mut most = 1;
    while has(most)? {
        // A client may add the numbers by themselves.
        if most > Design::MOST_ITEMS {
            return Err(Refusal::new(
                "ERR the item has more numbers than there may be items",
            ));
        }
        most *= 2;
    }
    let (mut there, mut absent) = (most / 2, most);
    while absent - there > 1 {
        let middle = there + (absent - there) / 2;
        match has(middle)? {
            true => there = middle,
            false => absent = middle,
        }
    }
    Ok(there + 1)
}

fn add_one(store: &OpenStore, item: &[u8]) -> Result<(), Refusal> {
    if let Design::Foreign { counts: true } = store.design {
        store.store.insert(item)?;
        return Ok(());
    }
    // Somebody else may take the number meanwhile.
    loop {
        let number = count(store, item)?;
        if store.store.insert(&key_of(item, number)[..])? {
            return Ok(());
        }
    }
}

/// Returns whether there was one.
fn remove_one(store: &OpenStore, item: &[u8]) -> Result<bool, Refusal> {
    if let Design::Foreign { counts: true } = store.design {
        return Ok(store.store.remove(item)?);
    }
    loop {
        match count(store, item)? {
            0 => return Ok(false),
            number => {
                if store.store.remove(&key_of(item, number - 1)[..])? {
                    return Ok(true);
                }
            }
        }
    }
}

/// Refuses a store whose items aren't counted.
pub fn check(store: &OpenStore) -> Result<(), Refusal> {
    match store.design.is_counted() {
        true => Ok(()),
        false => Err(WRONG_TYPE),
    }
}

/// CF.RESERVE key capacity [BUCKETSIZE n] [MAXITERATIONS n] [EXPANSION n]. Other pairs of words are ignored, as Redis does.
pub fn reserve(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.len().is_multiple_of(2) {
        return Err(wrong_number("cf.reserve"));
    }
    let name = name_of(request.arg(1))?;
    let capacity = integer_or(request.arg(2), "Bad capacity")?;
    let defaults = CuckooDesign::default();
    let iterations = option(request, "MAXITERATIONS", 1..=65_535)?;
    let bucket = option(request, "BUCKETSIZE", 1..=255)?;
    let expansion = option(request, "EXPANSION", 0..=32_768)?;
    let design = CuckooDesign {
        capacity: 0,
        bucket: bucket.unwrap_or(defaults.bucket),
        iterations: iterations.unwrap_or(defaults.iterations),
        // None is none; else it is told as the next power of two.
        expansion: match expansion {
            Some(0) => 0,
            Some(expansion) => expansion.next_power_of_two(),
            None => defaults.expansion,
        },
    };
    let design = CuckooDesign {
        capacity: capacity_of(capacity, design.bucket)?,
        ..design
    };
    super::reserve(context, &name, &Design::Cuckoo(design), check)
}

/// Returns the number behind a word, if the word is among the options.
fn option(
    request: Request<'_>,
    word: &str,
    range: RangeInclusive<u16>,
) -> Result<Option<u16>, Refusal> {
    let Some(at) = (3..request.len()).find(|&at| request.is_word(at, word)) else {
        return Ok(None);
    };
    let number = request.get(at + 1).and_then(integer);
    let Some(number) = number else {
        return Err(Refusal::of(&format!("Couldn't parse {word}")));
    };
    match u16::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(Refusal::of(&format!(
            "{word}: value must be an integer between {} and {}, inclusive.",
            range.start(),
            range.end()
        ))),
    }
}

fn capacity_of(capacity: i64, bucket: u16) -> Result<u64, Refusal> {
    match u64::try_from(capacity) {
        Ok(capacity) if capacity >= u64::from(bucket) * 2 => {
            check_capacity(capacity)?;
            Ok(capacity)
        }
        _ => Err(Refusal::new("Capacity must be at least (BucketSize * 2)")),
    }
}

fn store_to_add(
    context: &Context<'_>,
    name: &Name,
    design: CuckooDesign,
) -> Result<Arc<OpenStore>, Refusal> {
    let store = context
        .server
        .database
        .get_or_create(name, &Design::Cuckoo(design))?;
    check(&store)?;
    Ok(store)
}

/// What became of an item that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    Yes,
    WasThere,
    /// The filter may not grow, and has as many items as it was reserved for.
    Full,
}

/// Adds items one by one, and calls a function for each.
fn add_each<'i>(
    store: &OpenStore,
    items: impl Iterator<Item = &'i [u8]>,
    only_absent: bool,
    mut each: impl FnMut(Added),
) -> Result<(), Refusal> {
    // Nothing is added between the look and the insert.
    let _alone = store.alone();
    let limit = match &store.design {
        Design::Cuckoo(design) => CuckooFilters::limit(design),
        _ => None,
    };
    let mut left = match limit {
        None => u64::MAX,
        Some(limit) => limit.saturating_sub(store.keys()?),
    };
    for item in items {
        let added = match only_absent && store.store.contains(item)? {
            true => Added::WasThere,
            false if left == 0 => Added::Full,
            false => {
                add_one(store, item)?;
                left -= 1;
                Added::Yes
            }
        };
        each(added);
    }
    Ok(())
}

fn add_item(context: &mut Context<'_>, request: Request<'_>, only_absent: bool) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = store_to_add(context, &name, CuckooDesign::default())?;
    let mut added = Added::Full;
    let item = std::iter::once(request.arg(2));
    let at_work = store.work();
    add_each(&store, item, only_absent, |what| added = what)?;
    match added {
        Added::Yes => {
            context.changed(&store);
            Ok(Reply::Bool(true))
        }
        Added::WasThere => {
            drop(at_work);
            context.relies_on(&store);
            Ok(Reply::Bool(false))
        }
        Added::Full => Err(Refusal::new("Filter is full")),
    }
}

pub fn add(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    add_item(context, request, false)
}

pub fn addnx(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    add_item(context, request, true)
}

/// CF.INSERT and CF.INSERTNX key [CAPACITY n] [NOCREATE] ITEMS item …. The first letters of options decide, as in Redis.
fn insert_items(
    context: &mut Context<'_>,
    request: Request<'_>,
    own: &str,
    only_absent: bool,
) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut design = CuckooDesign::default();
    let mut creates = true;
    let mut at = 2;
    let too_few = || wrong_number(own);
    loop {
        let word = request.get(at).ok_or_else(too_few)?;
        at += 1;
        match word.first().map(u8::to_ascii_lowercase) {
            Some(b'i') => break,
            Some(b'n') => creates = false,
            Some(b'c') => {
                let value = request.get(at).ok_or_else(too_few)?;
                let capacity = integer_or(value, "Bad capacity")?;
                design.capacity = capacity_of(capacity, design.bucket)?;
                at += 1;
            }
            _ => return Err(Refusal::new("Unknown argument received")),
        }
    }
    if at >= request.len() {
        return Err(too_few());
    }
    let store = match creates {
        true => store_to_add(context, &name, design)?,
        false => existing(context, &name, check)?.ok_or(NOT_FOUND)?,
    };
    // Of the third version's answers, those of CF.INSERT are true or false, and a full filter is false.
    let is_bool = !only_absent && context.session.protocol == Protocol::Resp3;
    let mut replies = Vec::with_capacity(request.len() - at);
    let _at_work = store.work();
    let outcome = add_each(&store, request.from(at), only_absent, |added| {
        replies.push(match added {
            Added::Full if is_bool => Reply::Bool(false),
            Added::Yes if is_bool => Reply::Bool(true),
            Added::Yes => Reply::Integer(1),
            Added::WasThere => Reply::Integer(0),
            Added::Full => Reply::Integer(-1),
        });
    });
    context.changed(&store);
    outcome?;
    Ok(Reply::Array(replies))
}

pub fn insert(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    insert_items(context, request, "cf.insert", false)
}

pub fn insertnx(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    insert_items(context, request, "cf.insertnx", true)
}

pub fn exists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let found = found(context, &name, check, &[request.arg(2)])?;
    Ok(Reply::Bool(found[0]))
}

pub fn mexists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    super::mexists(context, request, check)
}

pub fn del(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = with_items(context, &name, check)?.ok_or(Refusal::new("Not found"))?;
    let _alone = store.alone();
    let removed = remove_one(&store, request.arg(2))?;
    if removed {
        store.deleted.fetch_add(1, Ordering::Relaxed);
        context.changed(&store);
    }
    Ok(Reply::Bool(removed))
}

pub fn count_of(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    match with_items(context, &name, check)? {
        None => Ok(Reply::Integer(0)),
        Some(store) => {
            let count = count(&store, request.arg(2))?;
            if count > 0 {
                context.relies_on(&store);
            }
            Ok(Reply::count(count))
        }
    }
}

/// Nothing to do: the library merges by itself.
pub fn compact(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    with_items(context, &name, check)?.ok_or(Refusal::new("Cuckoo filter was not found"))?;
    Ok(Reply::OK)
}

/// What CF.INFO and CF.DEBUG tell.
struct Told {
    design: CuckooDesign,
    filters: CuckooFilters,
    items: u64,
    deleted: u64,
}

fn told(context: &Context<'_>, request: Request<'_>) -> Result<Told, Refusal> {
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name, check)?.ok_or(NOT_FOUND)?;
    let design = match store.design {
        Design::Cuckoo(design) => design,
        _ => CuckooDesign::default(),
    };
    let items = store.keys()?;
    Ok(Told {
        design,
        filters: CuckooFilters::new(&design, items),
        items,
        deleted: store.deleted.load(Ordering::Relaxed),
    })
}

pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let told = told(context, request)?;
    let fields = [
        ("Size", Reply::count(told.filters.size)),
        ("Number of buckets", Reply::count(told.filters.buckets)),
        ("Number of filters", Reply::count(told.filters.count)),
        ("Number of items inserted", Reply::count(told.items)),
        ("Number of items deleted", Reply::count(told.deleted)),
        ("Bucket size", Reply::Integer(told.design.bucket.into())),
        (
            "Expansion rate",
            Reply::Integer(told.design.expansion.into()),
        ),
        (
            "Max iterations",
            Reply::Integer(told.design.iterations.into()),
        ),
    ];
    let pairs = fields
        .into_iter()
        .map(|(name, value)| (Reply::simple(name), value));
    Ok(Reply::Map(pairs.collect()))
}

pub fn debug(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let told = told(context, request)?;
    Ok(Reply::bulk(format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        told.design.bucket,
        told.filters.buckets,
        told.items,
        told.deleted,
        told.filters.count,
        told.design.iterations,
        told.design.expansion
    )))
}

#[cfg(test)]
mod tests {
    use everseen::{CreateOptions, Kind};

    use super::{add_one, count, remove_one};
    use crate::database::{CuckooDesign, Design, OpenStore};

    #[test]
    fn items_are_counted_up_and_down() {
        let folder = tempfile::tempdir().unwrap();
        let cuckoo = Design::Cuckoo(CuckooDesign::default()).create_options();
        let counting = CreateOptions::new().kind(Kind::Counting).capacity(1_000);
        for (options, file) in [(cuckoo, "cuckoo"), (counting, "counting")] {
            let store = OpenStore::new(
                options.create(folder.path().join(file)).unwrap(),
                Default::default(),
            )
            .unwrap();
            for expected in 0..12 {
                assert_eq!(count(&store, b"a").unwrap(), expected, "{file}");
                add_one(&store, b"a").unwrap();
            }
            assert_eq!(count(&store, b"b").unwrap(), 0, "{file}");
            for expected in (0..12).rev() {
                assert!(remove_one(&store, b"a").unwrap(), "{file}");
                assert_eq!(count(&store, b"a").unwrap(), expected, "{file}");
            }
            assert!(!remove_one(&store, b"a").unwrap(), "{file}");
            store.store.close().unwrap();
        }
    }
}
