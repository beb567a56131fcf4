//! CF.*: items that may be there more than once, and go again.
//!
//! A store of fingerprints is a set, so the second of an item is a key of its own: the item and its number. A counting store
//! that another program made counts by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Context, ITEM_EXISTS, NOT_FOUND, WRONG_TYPE, name_of, number_of, wrong_number};
use crate::database::{CuckooDesign, Design, Name, OpenStore};
use crate::reply::{Outcome, Refusal, Reply};
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
fn count(store: &OpenStore, item: &[u8]) -> everseen::Result<u64> {
    if let Design::Foreign { counts: true } = store.design {
        return store.store.count_estimate(item);
    }
    let has = |number| store.store.contains(&key_of(item, number)[..]);
    if !has(0)? {
        return Ok(0);
    }
    // They come and go at the end: the numbers that are there have no gap.
    let mut most = 1;
    while has(most)? {
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

fn add_one(store: &OpenStore, item: &[u8]) -> everseen::Result<()> {
    if let Design::Foreign { counts: true } = store.design {
        return store.store.insert(item).map(drop);
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
fn remove_one(store: &OpenStore, item: &[u8]) -> everseen::Result<bool> {
    if let Design::Foreign { counts: true } = store.design {
        return store.store.remove(item);
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

fn check(store: &OpenStore) -> Result<(), Refusal> {
    match &store.design {
        Design::Cuckoo(_) | Design::Foreign { counts: true } => Ok(()),
        _ => Err(WRONG_TYPE),
    }
}

fn existing(context: &Context<'_>, name: &Name) -> Result<Option<Arc<OpenStore>>, Refusal> {
    let Some(store) = context.server.database.get(name)? else {
        return Ok(None);
    };
    check(&store)?;
    Ok(Some(store))
}

pub fn reserve(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut design = CuckooDesign {
        capacity: number_of(request.arg(2), "Bad capacity")?,
        ..CuckooDesign::default()
    };
    let mut at = 3;
    while at < request.len() {
        let word = request.arg(at).to_ascii_uppercase();
        let Some(value) = request.get(at + 1) else {
            return Err(wrong_number("cf.reserve"));
        };
        match word.as_slice() {
            b"MAXITERATIONS" => {
                design.iterations = number_of(value, "Couldn't parse MAXITERATIONS")?
            }
            b"BUCKETSIZE" => design.bucket = number_of(value, "Couldn't parse BUCKETSIZE")?,
            b"EXPANSION" => design.expansion = number_of(value, "Couldn't parse EXPANSION")?,
            _ => return Err(Refusal::new("ERR syntax error")),
        }
        at += 2;
    }
    if design.capacity < u64::from(design.bucket) * 2 {
        return Err(Refusal::new("Capacity must be at least (BucketSize * 2)"));
    }
    match context
        .server
        .database
        .create(&name, &Design::Cuckoo(design))?
    {
        None => Err(ITEM_EXISTS),
        Some(store) => {
            context.changed(&store);
            Ok(Reply::OK)
        }
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

pub fn add(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = store_to_add(context, &name, CuckooDesign::default())?;
    add_one(&store, request.arg(2))?;
    context.changed(&store);
    Ok(Reply::Bool(true))
}

/// Adds an item unless it is there.
fn add_absent(store: &OpenStore, item: &[u8]) -> everseen::Result<bool> {
    match store.design {
        Design::Foreign { counts: true } if store.store.contains(item)? => Ok(false),
        _ => store.store.insert(item),
    }
}

pub fn addnx(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = store_to_add(context, &name, CuckooDesign::default())?;
    let _alone = store.alone();
    let is_new = add_absent(&store, request.arg(2))?;
    if is_new {
        context.changed(&store);
    }
    Ok(Reply::Bool(is_new))
}

fn insert_items(context: &mut Context<'_>, request: Request<'_>, only_absent: bool) -> Outcome {
    let own = if only_absent {
        "cf.insertnx"
    } else {
        "cf.insert"
    };
    let name = name_of(request.arg(1))?;
    let mut design = CuckooDesign::default();
    let mut creates = true;
    let mut at = 2;
    let items = loop {
        let Some(word) = request.get(at) else {
            return Err(wrong_number(own));
        };
        match word.to_ascii_uppercase().as_slice() {
            b"ITEMS" => break request.from(at + 1).collect::<Vec<_>>(),
            b"NOCREATE" => {
                creates = false;
                at += 1;
            }
            b"CAPACITY" => {
                let value = request.get(at + 1).ok_or_else(|| wrong_number(own))?;
                design.capacity = number_of(value, "Bad capacity")?;
                at += 2;
            }
            _ => return Err(Refusal::new("Unknown argument received")),
        }
    };
    if items.is_empty() {
        return Err(wrong_number(own));
    }
    let store = match creates {
        true => store_to_add(context, &name, design)?,
        false => existing(context, &name)?.ok_or(NOT_FOUND)?,
    };
    let _alone = store.alone();
    let mut replies = Vec::with_capacity(items.len());
    let mut outcome = Ok(());
    for item in items {
        let added = match only_absent {
            true => add_absent(&store, item),
            false => add_one(&store, item).map(|()| true),
        };
        match added {
            // This one answers numbers in both versions of the protocol: it may say -1.
            Ok(added) => replies.push(Reply::Integer(added.into())),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    context.changed(&store);
    outcome?;
    Ok(Reply::Array(replies))
}

pub fn insert(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    insert_items(context, request, false)
}

pub fn insertnx(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    insert_items(context, request, true)
}

pub fn exists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let found = match existing(context, &name)? {
        None => false,
        Some(store) => store.store.contains(request.arg(2))?,
    };
    Ok(Reply::Bool(found))
}

pub fn mexists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    let found = match existing(context, &name)? {
        None => vec![false; items.len()],
        Some(store) => store.store.contains_batch(&items)?,
    };
    Ok(Reply::Array(found.into_iter().map(Reply::Bool).collect()))
}

pub fn del(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name)?.ok_or(Refusal::new("Not found"))?;
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
    match existing(context, &name)? {
        None => Ok(Reply::Integer(0)),
        Some(store) => Ok(Reply::count(count(&store, request.arg(2))?)),
    }
}

/// Nothing to do: the library merges by itself.
pub fn compact(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    existing(context, &name)?.ok_or(NOT_FOUND)?;
    Ok(Reply::OK)
}

pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name)?.ok_or(NOT_FOUND)?;
    let design = match store.design {
        Design::Cuckoo(design) => design,
        _ => CuckooDesign::default(),
    };
    let buckets = (design.capacity / u64::from(design.bucket).max(1)).next_power_of_two();
    let fields = [
        ("Size", Reply::count(store.store.stats()?.bytes)),
        ("Number of buckets", Reply::count(buckets)),
        ("Number of filters", Reply::Integer(1)),
        ("Number of items inserted", Reply::count(store.keys()?)),
        (
            "Number of items deleted",
            Reply::count(store.deleted.load(Ordering::Relaxed)),
        ),
        ("Bucket size", Reply::Integer(design.bucket.into())),
        ("Expansion rate", Reply::Integer(design.expansion.into())),
        ("Max iterations", Reply::Integer(design.iterations.into())),
    ];
    let pairs = fields
        .into_iter()
        .map(|(name, value)| (Reply::simple(name), value));
    Ok(Reply::Map(pairs.collect()))
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
            let store = OpenStore::new(options.create(folder.path().join(file)).unwrap()).unwrap();
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
