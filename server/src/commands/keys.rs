//! Commands for whole keys: their names, kinds and ends.

use std::hash::{DefaultHasher, Hasher as _};

use super::arguments::{integer, integer_or};
use super::glob::glob_matches;
use super::{Context, NOT_AN_INTEGER, SYNTAX, check_subcommand, name_of, unknown_subcommand};
use crate::database::{Name, now};
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

const NO_SUCH_KEY: Refusal = Refusal::new("ERR no such key");

pub fn dbsize(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    let names = context.server.database.names()?;
    Ok(Reply::count(names.len().try_into().unwrap_or(u64::MAX)))
}

pub fn keys(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let names = context.server.database.names()?;
    let matching = names
        .iter()
        .filter(|name| glob_matches(request.arg(1), name.as_bytes()));
    Ok(Reply::Array(
        matching.map(|name| Reply::bulk(name.as_bytes())).collect(),
    ))
}

/// SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. Keys come in the order of their places, and a cursor is the place where the
/// next call begins: a key that is there all the time is met, whatever comes and goes meanwhile.
pub fn scan(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let cursor = cursor_of(request.arg(1)).ok_or(Refusal::new("ERR invalid cursor"))?;
    let mut pattern = None;
    let mut count = 10;
    let mut kind = None;
    let mut at = 2;
    while at < request.len() {
        let value = request.get(at + 1).ok_or(SYNTAX)?;
        match request.arg(at).to_ascii_uppercase().as_slice() {
            b"MATCH" => pattern = Some(value),
            b"COUNT" => {
                let number = integer_or(value, NOT_AN_INTEGER)?;
                count = match usize::try_from(number) {
                    Ok(number) if number > 0 => number,
                    _ => return Err(SYNTAX),
                };
            }
            b"TYPE" => kind = Some(value),
            _ => return Err(SYNTAX),
        }
        at += 2;
    }
    let names = context.server.database.names()?;
    let mut names: Vec<(u64, Name)> = names
        .into_iter()
        .map(|name| (place_of(&name), name))
        .filter(|&(place, _)| place >= cursor)
        .collect();
    names.sort_unstable();
    let mut end = count.min(names.len());
    // Keys of one place stay together: a cursor can't part them.
    while 0 < end && end < names.len() && names[end].0 == names[end - 1].0 {
        end += 1;
    }
    let mut found = Vec::new();
    for (_, name) in &names[..end] {
        let fits = pattern.is_none_or(|pattern| glob_matches(pattern, name.as_bytes()));
        let is_kind = match kind {
            None => true,
            Some(kind) => fits && kind.eq_ignore_ascii_case(type_name(context, name)?.as_bytes()),
        };
        if fits && is_kind {
            found.push(Reply::bulk(name.as_bytes()));
        }
    }
    let next = names.get(end).map_or(0, |&(place, _)| place);
    Ok(Reply::Array(vec![
        Reply::bulk(next.to_string()),
        Reply::Array(found),
    ]))
}

/// Returns a key's place in a scan: not 0, which begins and ends one, and below 2^53, since clients keep cursors in doubles.
fn place_of(name: &Name) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    (hasher.finish() >> 11).max(1)
}

/// Returns a cursor. Redis reads it less strictly than other numbers.
fn cursor_of(argument: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(argument).ok()?;
    match text.strip_prefix('-') {
        Some(digits) => digits.parse::<u64>().ok().map(u64::wrapping_neg),
        None => text.parse().ok(),
    }
}

/// RANDOMKEY: some key, drawn by the clock.
pub fn random_key(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    let names = context.server.database.names()?;
    let drawn = usize::try_from(now()).unwrap_or(0) % names.len().max(1);
    let name = names.get(drawn);
    Ok(name.map_or(Reply::Null, |name| Reply::bulk(name.as_bytes())))
}

fn type_name(context: &Context<'_>, name: &Name) -> Result<&'static str, Refusal> {
    let Some(store) = context.server.database.get(name)? else {
        return Ok("none");
    };
    Ok(match store.design.is_counted() {
        true => "MBbloomCF",
        false => "MBbloom--",
    })
}

pub fn type_of(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    Ok(Reply::simple(type_name(
        context,
        &name_of(request.arg(1))?,
    )?))
}

/// EXISTS and TOUCH: how many of the keys there are.
pub fn exists(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let mut found = 0;
    for argument in request.from(1) {
        // A name that no file can have is no key's.
        if let Ok(name) = name_of(argument) {
            found += u64::from(context.server.database.exists(&name)?);
        }
    }
    Ok(Reply::count(found))
}

/// DEL and UNLINK.
pub fn del(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let mut removed = 0;
    for argument in request.from(1) {
        if let Ok(name) = name_of(argument) {
            context.session.drop_claimant(&name);
            removed += u64::from(context.server.database.remove(&name)?);
        }
    }
    Ok(Reply::count(removed))
}

/// FLUSHALL and FLUSHDB remove all stores in the folder.
pub fn flush(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let is_known = request.is_word(1, "ASYNC") || request.is_word(1, "SYNC");
    if request.len() > 2 || request.len() == 2 && !is_known {
        return Err(SYNTAX);
    }
    context.server.database.remove_expired(|| ())?;
    for name in context.server.database.names()? {
        context.session.drop_claimant(&name);
        context.server.database.remove(&name)?;
    }
    Ok(Reply::OK)
}

pub fn rename(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let (from, to) = (name_of(request.arg(1))?, name_of(request.arg(2))?);
    context.session.drop_claimant(&from);
    match context.server.database.rename(&from, &to)? {
        true => Ok(Reply::OK),
        false => Err(NO_SUCH_KEY),
    }
}

pub fn renamenx(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let (from, to) = (name_of(request.arg(1))?, name_of(request.arg(2))?);
    let database = &context.server.database;
    if !database.exists(&from)? {
        return Err(NO_SUCH_KEY);
    }
    if database.exists(&to)? {
        return Ok(Reply::Integer(0));
    }
    context.session.drop_claimant(&from);
    database.rename(&from, &to)?;
    Ok(Reply::Integer(1))
}

/// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT: key, time, [NX | XX | GT | LT].
pub fn expire(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let time = integer_or(request.arg(2), NOT_AN_INTEGER)?;
    let command = request.arg(0).to_ascii_lowercase();
    let invalid = || {
        let command = String::from_utf8_lossy(&command);
        Refusal::of(&format!("ERR invalid expire time in '{command}' command"))
    };
    let is_in_milliseconds = command.starts_with(b"p");
    let is_absolute = command.ends_with(b"at");
    let time = match is_in_milliseconds {
        true => time,
        false => time.checked_mul(1000).ok_or_else(invalid)?,
    };
    let at = match is_absolute {
        true => time,
        false => i64::try_from(now())
            .unwrap_or(i64::MAX)
            .checked_add(time)
            .ok_or_else(invalid)?,
    };
    let at = u64::try_from(at).unwrap_or(0);
    let options = ExpireOptions::new(request)?;
    let database = &context.server.database;
    if !database.exists(&name)? {
        return Ok(Reply::Integer(0));
    }
    if !options.apply(database.expiry(&name), at) {
        return Ok(Reply::Integer(0));
    }
    // What is past is removed at once.
    match at <= now() {
        true => {
            context.session.drop_claimant(&name);
            database.remove(&name)?;
        }
        false => database.set_expiry(&name, Some(at))?,
    }
    Ok(Reply::Integer(1))
}

/// When EXPIRE does something.
struct ExpireOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl ExpireOptions {
    fn new(request: Request<'_>) -> Result<Self, Refusal> {
        let [mut nx, mut xx, mut gt, mut lt] = [false; 4];
        for word in request.from(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => nx = true,
                b"XX" => xx = true,
                b"GT" => gt = true,
                b"LT" => lt = true,
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Refusal::of(&format!("ERR Unsupported option {word}")));
                }
            }
        }
        if nx && (xx || gt || lt) {
            return Err(Refusal::new(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if gt && lt {
            return Err(Refusal::new(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(ExpireOptions { nx, xx, gt, lt })
    }

    /// Returns whether a date is set where there is one, or none, before.
    fn apply(&self, before: Option<u64>, at: u64) -> bool {
        // A key without a date stays always, which is later than any date.
        let is_kept = self.nx && before.is_some()
            || self.xx && before.is_none()
            || self.gt && before.is_none_or(|before| at <= before)
            || self.lt && before.is_some_and(|before| at >= before);
        !is_kept
    }
}

/// TTL, PTTL, EXPIRETIME, PEXPIRETIME.
pub fn time_to_live(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let database = &context.server.database;
    if !database.exists(&name)? {
        return Ok(Reply::Integer(-2));
    }
    let Some(at) = database.expiry(&name) else {
        return Ok(Reply::Integer(-1));
    };
    let left = at.saturating_sub(now());
    Ok(Reply::count(
        match request.arg(0).to_ascii_lowercase().as_slice() {
            b"ttl" => left.saturating_add(500) / 1000,
            b"pttl" => left,
            b"expiretime" => at / 1000,
            _ => at,
        },
    ))
}

pub fn persist(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let database = &context.server.database;
    if !database.exists(&name)? || database.expiry(&name).is_none() {
        return Ok(Reply::Integer(0));
    }
    database.set_expiry(&name, None)?;
    Ok(Reply::Integer(1))
}

/// OBJECT ENCODING | REFCOUNT | IDLETIME | FREQ key
pub fn object(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let answer = match request.arg(1).to_ascii_uppercase().as_slice() {
        b"ENCODING" => Ok(Reply::bulk("raw")),
        b"REFCOUNT" => Ok(Reply::Integer(1)),
        b"IDLETIME" => Ok(Reply::Integer(0)),
        b"FREQ" => Err(Refusal::new(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )),
        b"HELP" => {
            check_subcommand(request, 2, 2)?;
            return Err(unknown_subcommand(request));
        }
        _ => return Err(unknown_subcommand(request)),
    };
    check_subcommand(request, 3, 3)?;
    match context.server.database.exists(&name_of(request.arg(2))?)? {
        true => answer,
        false => Ok(Reply::Null),
    }
}

/// MEMORY USAGE key [SAMPLES n]: bytes of the store's file.
pub fn memory(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if !request.is_word(1, "USAGE") {
        return Err(unknown_subcommand(request));
    }
    check_subcommand(request, 3, usize::MAX)?;
    match request.len() {
        3 => {}
        5 if request.is_word(3, "SAMPLES") => {
            let samples = integer_or(request.arg(4), NOT_AN_INTEGER)?;
            if samples < 0 {
                return Err(SYNTAX);
            }
        }
        _ => return Err(SYNTAX),
    }
    let name = name_of(request.arg(2))?;
    match context.server.database.get(&name)? {
        None => Ok(Reply::Null),
        Some(store) => Ok(Reply::count(store.store.stats()?.bytes)),
    }
}

/// COPY source destination [DB n] [REPLACE], which Redis' module refuses, too. `everseen snapshot` copies a store.
pub fn copy(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let mut at = 3;
    let mut other_database = false;
    while at < request.len() {
        if request.is_word(at, "REPLACE") {
            at += 1;
        } else if request.is_word(at, "DB") && at + 1 < request.len() {
            other_database = integer_or(request.arg(at + 1), NOT_AN_INTEGER)? != 0;
            at += 2;
        } else {
            return Err(SYNTAX);
        }
    }
    if request.arg(1) == request.arg(2) && !other_database {
        return Err(Refusal::new(
            "ERR source and destination objects are the same",
        ));
    }
    match context.server.database.exists(&name_of(request.arg(1))?)? {
        false => Ok(Reply::Integer(0)),
        true => Err(Refusal::new("ERR not supported for this module key")),
    }
}

/// SELECT index. There is one database.
pub fn select(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match integer(request.arg(1)) {
        Some(0) => Ok(Reply::OK),
        Some(_) => Err(Refusal::new("ERR DB index is out of range")),
        None => Err(Refusal::new(NOT_AN_INTEGER)),
    }
}
