//! SCANDUMP and LOADCHUNK of both kinds: a key's store, piece by piece.

use std::sync::Arc;

use tokio::task::block_in_place;

use super::arguments::{integer, integer_or};
use super::{Context, ITEM_EXISTS, NOT_FOUND, bloom, cuckoo, existing, name_of};
use crate::database::transfer::{Header, Kind, LoadError, Loaded};
use crate::database::{Name, OpenStore};
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

/// Bytes of a piece at most: Redis' number, less what goes around it.
const MOST: usize = (16 << 20) - (64 << 10);
/// What goes around a piece in the request that loads it: a name, numbers.
const AROUND: usize = 4 << 10;

/// BF.SCANDUMP key cursor
pub fn bloom_scandump(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name, bloom::check)?.ok_or(NOT_FOUND)?;
    let cursor = integer_or(request.arg(2), "Second argument must be numeric")?;
    match u64::try_from(cursor) {
        Ok(cursor) => scandump(context, &name, &store, cursor, Kind::Bloom),
        Err(_) => Ok(end(Kind::Bloom)),
    }
}

/// CF.SCANDUMP key cursor
pub fn cuckoo_scandump(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let cursor = integer(request.arg(2)).and_then(|cursor| u64::try_from(cursor).ok());
    let cursor = cursor.ok_or(Refusal::new("Invalid position"))?;
    let name = name_of(request.arg(1))?;
    let store = existing(context, &name, cuckoo::check)?.ok_or(NOT_FOUND)?;
    // Redis has nothing to tell of one without items, and loses what it was reserved for.
    match store.keys()? {
        0 => Ok(end(Kind::Cuckoo)),
        _ => scandump(context, &name, &store, cursor, Kind::Cuckoo),
    }
}

fn scandump(
    context: &Context<'_>,
    name: &Name,
    store: &Arc<OpenStore>,
    cursor: u64,
    kind: Kind,
) -> Outcome {
    let database = &context.server.database;
    let dumps = database.dumps();
    let owner = context.session.id;
    if cursor == 0 {
        let dump = block_in_place(|| dumps.begin(database.folder(), name, store, kind, owner))?;
        let header = dump.header().encode();
        return Ok(Reply::Array(vec![Reply::Integer(1), Reply::bulk(header)]));
    }
    let Some((dump, place)) = dumps.find(name, cursor, owner)? else {
        return Ok(end(kind));
    };
    if place >= dump.header().length {
        dumps.end(&dump);
        return Ok(end(kind));
    }
    let limits = &context.server.limits;
    let most = MOST
        .min(limits.argument)
        .min(limits.request.saturating_sub(AROUND));
    let read = block_in_place(|| dump.read(place, most));
    let (next, piece) =
        read.map_err(|error| Refusal::of(&format!("ERR reading a dump: {error}")))?;
    Ok(Reply::Array(vec![
        Reply::count(next),
        Reply::Bulk(piece.into()),
    ]))
}

/// Returns what is behind the last piece.
fn end(kind: Kind) -> Reply {
    let nothing = match kind {
        Kind::Bloom => Reply::bulk(""),
        Kind::Cuckoo => Reply::Null,
    };
    Reply::Array(vec![Reply::Integer(0), nothing])
}

/// BF.LOADCHUNK key cursor data
pub fn bloom_loadchunk(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    const BAD: Refusal = Refusal::new("ERR received bad data");
    const NO_PLACE: Refusal = Refusal::new("ERR invalid offset - no link found");
    let cursor = integer_or(request.arg(2), "ERR Second argument must be numeric")?;
    let name = name_of(request.arg(1))?;
    let piece = request.arg(3);
    if existing(context, &name, bloom::check)?.is_some() {
        // Only a whole load makes a key: one that is there takes no pieces.
        let is_before_all = u64::try_from(cursor).map_or(true, |end| end < piece.len() as u64);
        return Err(match is_before_all || cursor == 0 {
            true => BAD,
            false => NO_PLACE,
        });
    }
    let loaded = match cursor {
        1 => begin(context, &name, piece, Kind::Bloom).ok_or(BAD)?,
        _ => load(context, &name, cursor, piece, Kind::Bloom)?,
    };
    match loaded {
        Ok(()) => Ok(Reply::OK),
        Err(LoadError::NotBegun) => Err(NOT_FOUND),
        Err(LoadError::Place) => Err(NO_PLACE),
        Err(LoadError::TooLong) => Err(Refusal::new(
            "ERR invalid chunk - Too big for current filter",
        )),
        Err(LoadError::Damaged) => Err(BAD),
        Err(LoadError::TooMany) => Err(TOO_MANY),
        Err(LoadError::Io(error)) => Err(failed(&error)),
    }
}

/// CF.LOADCHUNK key cursor data
pub fn cuckoo_loadchunk(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    /// Bytes of the header of a dump that Redis made, which no store can be made of.
    const HEADER_OF_REDIS: usize = 38;
    const NOT_CREATED: Refusal = Refusal::new("Couldn't create filter!");
    const NOT_LOADED: Refusal = Refusal::new("Couldn't load chunk!");
    let cursor = integer(request.arg(2)).filter(|&cursor| cursor != 0);
    let cursor = cursor.ok_or(Refusal::new("Invalid position"))?;
    let name = name_of(request.arg(1))?;
    let is_there = existing(context, &name, cuckoo::check)?.is_some();
    let piece = request.arg(3);
    let loaded = match cursor {
        _ if is_there => return Err(if cursor == 1 { ITEM_EXISTS } else { NOT_LOADED }),
        1 if ![Header::BYTES, HEADER_OF_REDIS].contains(&piece.len()) => {
            return Err(Refusal::new("Invalid header"));
        }
        1 => begin(context, &name, piece, Kind::Cuckoo).ok_or(NOT_CREATED)?,
        _ => load(context, &name, cursor, piece, Kind::Cuckoo)?,
    };
    match loaded {
        Ok(()) => Ok(Reply::OK),
        Err(LoadError::NotBegun) => Err(NOT_FOUND),
        Err(LoadError::Place | LoadError::TooLong | LoadError::Damaged) => Err(NOT_LOADED),
        Err(LoadError::TooMany) => Err(TOO_MANY),
        Err(LoadError::Io(error)) => Err(failed(&error)),
    }
}

const TOO_MANY: Refusal = Refusal::new("ERR as many loads are under way as may be");

fn failed(error: &std::io::Error) -> Refusal {
    Refusal::of(&format!("ERR loading a store: {error}"))
}

/// Begins a load with its header; `None` if it is none.
fn begin(
    context: &Context<'_>,
    name: &Name,
    header: &[u8],
    kind: Kind,
) -> Option<Result<(), LoadError>> {
    let header = Header::decode(header).filter(|header| header.kind == kind)?;
    let database = &context.server.database;
    Some(database.loads().begin(database.folder(), name, header))
}

/// Adds a piece. The last one makes the key, unless somebody has made it meanwhile.
fn load(
    context: &Context<'_>,
    name: &Name,
    cursor: i64,
    piece: &[u8],
    kind: Kind,
) -> Result<Result<(), LoadError>, Refusal> {
    let database = &context.server.database;
    block_in_place(|| match database.loads().add(name, cursor, piece, kind) {
        Ok(Loaded::Part) => Ok(Ok(())),
        Ok(Loaded::Whole(file)) => match database.place(name, file)? {
            true => Ok(Ok(())),
            false => Err(ITEM_EXISTS),
        },
        Err(error) => Ok(Err(error)),
    })
}
