//! Commands about the connection: HELLO, AUTH, CLIENT and their like.

use std::sync::atomic::Ordering;

use super::arguments::integer;
use super::{Context, SYNTAX, check_subcommand, unknown_subcommand, wrong_number};
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;
use crate::session::{Answering, Session};

const WRONG_PASSWORD: Refusal =
    Refusal::new("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: Refusal = Refusal::new(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
);

pub fn ping(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match request.len() {
        1 => Ok(Reply::simple("PONG")),
        2 => Ok(Reply::bulk(request.arg(1))),
        _ => Err(wrong_number("ping")),
    }
}

pub fn echo(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    Ok(Reply::bulk(request.arg(1)))
}

/// QUIT takes any arguments.
pub fn quit(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.ends = true;
    Ok(Reply::OK)
}

/// RESET: as if just connected. Claims are given back.
pub fn reset(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.take_claimants();
    let rights = context.server.users.of_strangers();
    // It is no way around the delay.
    let denials = context.session.denials;
    *context.session = Session::new(context.session.id, rights);
    context.session.denials = denials;
    Ok(Reply::simple("RESET"))
}

/// HELLO [version [AUTH user password] [SETNAME name]]
pub fn hello(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let protocol = match request.get(1) {
        None => context.session.protocol,
        Some(b"2") => Protocol::Resp2,
        Some(b"3") => Protocol::Resp3,
        Some(other) if integer(other).is_some() => {
            return Err(Refusal::new("NOPROTO unsupported protocol version"));
        }
        Some(_) => {
            return Err(Refusal::new(
                "ERR Protocol version is not an integer or out of range",
            ));
        }
    };
    let mut at = 2;
    while at < request.len() {
        match request.arg(at).to_ascii_uppercase().as_slice() {
            b"AUTH" if at + 2 < request.len() => {
                authenticate(context, request.arg(at + 1), request.arg(at + 2))?;
                at += 3;
            }
            b"SETNAME" if at + 1 < request.len() => {
                set_name(context, request.arg(at + 1))?;
                at += 2;
            }
            _ => {
                let other = String::from_utf8_lossy(request.arg(at));
                return Err(Refusal::of(&format!(
                    "ERR Syntax error in HELLO option '{other}'"
                )));
            }
        }
    }
    if context.session.rights.is_none() {
        return Err(Refusal::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    context.session.protocol = protocol;
    let version = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let id = i64::try_from(context.session.id).unwrap_or(i64::MAX);
    let pair = |name: &str, value| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        pair("server", Reply::bulk("redis")),
        pair("version", Reply::bulk(super::introspection::REDIS_VERSION)),
        pair("proto", Reply::Integer(version)),
        pair("id", Reply::Integer(id)),
        pair("mode", Reply::bulk("standalone")),
        pair("role", Reply::bulk("master")),
        pair("modules", super::introspection::modules()),
    ]))
}

/// AUTH [user] password
pub fn auth(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match request.len() {
        2 if !context.server.users.are_asked() => return Err(NO_PASSWORD),
        2 => authenticate(context, b"default", request.arg(1))?,
        3 => authenticate(context, request.arg(1), request.arg(2))?,
        _ => return Err(SYNTAX),
    }
    Ok(Reply::OK)
}

fn authenticate(context: &mut Context<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    let users = &context.server.users;
    if !users.are_asked() {
        return match user {
            b"default" => Ok(()),
            _ => Err(WRONG_PASSWORD),
        };
    }
    match users.authenticate(user, password) {
        Some(rights) => {
            context.session.rights = Some(rights);
            Ok(())
        }
        None => {
            context.session.denials += 1;
            context.server.counts.denied.fetch_add(1, Ordering::Relaxed);
            Err(WRONG_PASSWORD)
        }
    }
}

fn client_name(name: &[u8]) -> Result<Option<String>, Refusal> {
    const INVALID: Refusal =
        Refusal::new("ERR Client names cannot contain spaces, newlines or special characters.");
    if name.is_empty() {
        return Ok(None);
    }
    let is_plain = name.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(name) {
        // A writer's name has at most 255 bytes.
        Ok(name) if is_plain && name.len() <= 255 => Ok(Some(name.to_owned())),
        _ => Err(INVALID),
    }
}

/// CLIENT, what of it concerns this connection, and what a client asks before it does without.
pub fn client(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let session = &mut *context.session;
    let arguments = |least, most| check_subcommand(request, least, most);
    match request.arg(1).to_ascii_uppercase().as_slice() {
        b"ID" => {
            arguments(2, 2)?;
            Ok(Reply::count(session.id))
        }
        b"GETNAME" => {
            arguments(2, 2)?;
            Ok(session.name.as_ref().map_or(Reply::Null, Reply::bulk))
        }
        b"SETNAME" => {
            arguments(3, 3)?;
            set_name(context, request.arg(2))?;
            Ok(Reply::OK)
        }
        b"SETINFO" => {
            arguments(4, 4)?;
            set_info(session, request)
        }
        b"INFO" => {
            arguments(2, 2)?;
            Ok(Reply::Text(line_about(session)))
        }
        b"LIST" => list(session, request),
        b"REPLY" => {
            arguments(3, 3)?;
            session.answers = match request.arg(2).to_ascii_uppercase().as_slice() {
                b"ON" => Answering::All,
                b"OFF" => Answering::None,
                // Where nothing is answered, nothing is skipped.
                b"SKIP" if session.answers == Answering::None => Answering::None,
                b"SKIP" => Answering::AfterNext,
                _ => return Err(SYNTAX),
            };
            Ok(Reply::OK)
        }
        b"NO-EVICT" | b"NO-TOUCH" => {
            arguments(3, 3)?;
            match request.is_word(2, "ON") || request.is_word(2, "OFF") {
                true => Ok(Reply::OK),
                false => Err(SYNTAX),
            }
        }
        word if word.starts_with(b"TRACKING") || word == b"GETREDIR" => tracking(word, request),
        _ => Err(unknown_subcommand(request)),
    }
}

/// CLIENT TRACKING and what asks about it: no client is told of changes.
fn tracking(word: &[u8], request: Request<'_>) -> Outcome {
    match word {
        b"TRACKING" => match request.is_word(2, "OFF") && request.len() == 3 {
            true => Ok(Reply::OK),
            false if request.is_word(2, "ON") => Err(Refusal::new(
                "ERR this server tells nobody of changes: CLIENT TRACKING is not supported",
            )),
            false => Err(SYNTAX),
        },
        b"TRACKINGINFO" => {
            check_subcommand(request, 2, 2)?;
            let field = |name: &str, value| (Reply::bulk(name), value);
            Ok(Reply::Map(vec![
                field("flags", Reply::Set(vec![Reply::bulk("off")])),
                field("redirect", Reply::Integer(-1)),
                field("prefixes", Reply::Array(Vec::new())),
            ]))
        }
        b"GETREDIR" => {
            check_subcommand(request, 2, 2)?;
            Ok(Reply::Integer(-1))
        }
        _ => Err(unknown_subcommand(request)),
    }
}

fn set_name(context: &mut Context<'_>, name: &[u8]) -> Result<(), Refusal> {
    let name = client_name(name)?;
    if name != context.session.name {
        context.session.name = name;
        // What it claimed under the other name is given back: a handle commits under one.
        context.session.give_all_back();
    }
    Ok(())
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version
fn set_info(session: &mut Session, request: Request<'_>) -> Outcome {
    let value = client_name(request.arg(3))?;
    match request.arg(2).to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => session.library[0] = value,
        b"LIB-VER" => session.library[1] = value,
        _ => {
            let other = String::from_utf8_lossy(request.arg(2));
            return Err(Refusal::of(&format!("ERR Unrecognized option '{other}'")));
        }
    }
    Ok(Reply::OK)
}

fn line_about(session: &Session) -> String {
    let name = session.name.as_deref().unwrap_or("");
    let version = match session.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let [library, library_version] = &session.library;
    format!(
        "id={} name={name} db=0 resp={version} lib-name={} lib-ver={}\n",
        session.id,
        library.as_deref().unwrap_or(""),
        library_version.as_deref().unwrap_or("")
    )
}

/// CLIENT LIST [TYPE type | ID id …]. A connection sees itself, and no other.
fn list(session: &Session, request: Request<'_>) -> Outcome {
    let shows = match request.len() {
        2 => true,
        4 if request.is_word(2, "TYPE") => {
            let known = ["normal", "master", "replica", "slave", "pubsub"];
            let Some(place) = known.iter().position(|kind| request.is_word(3, kind)) else {
                let kind = String::from_utf8_lossy(request.arg(3));
                return Err(Refusal::of(&format!("ERR Unknown client type '{kind}'")));
            };
            place == 0
        }
        length if length > 3 && request.is_word(2, "ID") => {
            let ids: Option<Vec<i64>> = request.from(3).map(integer).collect();
            let ids = ids.ok_or(Refusal::new("ERR Invalid client ID"))?;
            ids.iter().any(|&id| u64::try_from(id) == Ok(session.id))
        }
        _ => return Err(SYNTAX),
    };
    Ok(Reply::Text(match shows {
        true => line_about(session),
        false => String::new(),
    }))
}
