//! Commands for whole keys: their names, kinds and ends.

use super::{Context, SYNTAX, name_of, number_of, wrong_number};
use crate::database::{Design, Name, now};
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

const NO_SUCH_KEY: Refusal = Refusal::new("ERR no such key");
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";

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

/// SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. A cursor counts names in their order, so that a key which is there all
/// the time may be missed only where others before it go meanwhile.
pub fn scan(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let cursor: u64 = number_of(request.arg(1), "ERR invalid cursor")?;
    let mut pattern = None;
    let mut count = 10;
    let mut kind = None;
    let mut at = 2;
    while at < request.len() {
        let value = request.get(at + 1).ok_or(SYNTAX)?;
        match request.arg(at).to_ascii_uppercase().as_slice() {
            b"MATCH" => pattern = Some(value),
            b"COUNT" => {
                count = number_of::<usize>(value, NOT_A_NUMBER)?;
                if count == 0 {
                    return Err(SYNTAX);
                }
            }
            b"TYPE" => kind = Some(value),
            _ => return Err(SYNTAX),
        }
        at += 2;
    }
    let mut names = context.server.database.names()?;
    names.sort();
    let begin = usize::try_from(cursor)
        .unwrap_or(usize::MAX)
        .min(names.len());
    let end = begin.saturating_add(count).min(names.len());
    let mut found = Vec::new();
    for name in &names[begin..end] {
        let fits = pattern.is_none_or(|pattern| glob_matches(pattern, name.as_bytes()));
        let is_kind = match kind {
            None => true,
            Some(kind) => fits && kind.eq_ignore_ascii_case(type_name(context, name)?.as_bytes()),
        };
        if fits && is_kind {
            found.push(Reply::bulk(name.as_bytes()));
        }
    }
    let next = if end == names.len() { 0 } else { end };
    Ok(Reply::Array(vec![
        Reply::bulk(next.to_string()),
        Reply::Array(found),
    ]))
}

fn type_name(context: &Context<'_>, name: &Name) -> Result<&'static str, Refusal> {
    let Some(store) = context.server.database.get(name)? else {
        return Ok("none");
    };
    Ok(match store.design {
        Design::Cuckoo(_) | Design::Foreign { counts: true } => "MBbloomCF",
        _ => "MBbloom--",
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
pub fn flush(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
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
    let time: i64 = number_of(request.arg(2), NOT_A_NUMBER)?;
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
    let database = &context.server.database;
    if !database.exists(&name)? {
        return Ok(Reply::Integer(0));
    }
    let before = database.expiry(&name);
    // A key without a date stays for ever, which is later than any.
    let applies = !(nx && before.is_some())
        && !(xx && before.is_none())
        && !(gt && before.is_none_or(|before| at <= before))
        && !(lt && before.is_some_and(|before| at >= before));
    if applies {
        database.set_expiry(&name, Some(at))?;
    }
    Ok(Reply::Integer(applies.into()))
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

pub fn object(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.len() != 3 {
        return Err(wrong_number("object"));
    }
    if !context.server.database.exists(&name_of(request.arg(2))?)? {
        return Ok(Reply::Null);
    }
    match request.arg(1).to_ascii_uppercase().as_slice() {
        b"ENCODING" => Ok(Reply::bulk("raw")),
        b"REFCOUNT" => Ok(Reply::Integer(1)),
        b"IDLETIME" => Ok(Reply::Integer(0)),
        _ => Err(SYNTAX),
    }
}

/// MEMORY USAGE: bytes of the store's file.
pub fn memory(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if !request.is_word(1, "USAGE") || request.len() < 3 {
        return Err(SYNTAX);
    }
    let name = name_of(request.arg(2))?;
    match context.server.database.get(&name)? {
        None => Ok(Reply::Null),
        Some(store) => Ok(Reply::count(store.store.stats()?.bytes)),
    }
}

pub fn not_for_filters(_: &mut Context<'_>, _: Request<'_>) -> Outcome {
    Err(Refusal::new("ERR not supported for this module key"))
}

/// Returns whether a name is one of a pattern, by Redis' rules: `*`, `?`, `[a-c]`, `[^a]`, `\`.
pub fn glob_matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star stands, and how much it takes: so no pattern takes longer than its length times the name's.
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if place == name.len() && pattern[at..].iter().all(|&byte| byte == b'*') {
            return true;
        }
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
                continue;
            }
            Some(_) if place < name.len() => one_matches(&pattern[at..], name[place]),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                at += length;
                place += 1;
            }
            (None, Some((begin, taken))) if taken < name.len() => {
                star = Some((begin, taken + 1));
                at = begin + 1;
                place = taken + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns how long the front of a pattern is that one byte fits.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let is_negated = rest.first() == Some(&b'^');
            let mut at = usize::from(is_negated);
            let mut found = false;
            while at < rest.len() && rest[at] != b']' {
                match rest[at..] {
                    [b'\\', escaped, ..] => {
                        found |= escaped == byte;
                        at += 2;
                    }
                    [from, b'-', to, ..] if to != b']' => {
                        found |= (from.min(to)..=from.max(to)).contains(&byte);
                        at += 3;
                    }
                    [one, ..] => {
                        found |= one == byte;
                        at += 1;
                    }
                    [] => break,
                }
            }
            // The bracket that opens, and the one that closes.
            (found != is_negated).then_some((at + 2).min(pattern.len()))
        }
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*b*b*", "xbxbx", true),
            ("*b*b*", "xbx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[a-b]llo", "hcllo", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("[", "a", false),
            ("abc", "abcd", false),
            ("abc*d", "abcd", true),
        ] {
            let found = glob_matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!glob_matches(pattern.as_bytes(), &[b'a'; 10_000]));
    }
}
