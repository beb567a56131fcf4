//! Commands about the connection: HELLO, AUTH, CLIENT and their like.

use std::sync::atomic::Ordering;

use super::{Context, SYNTAX, wrong_number};
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;
use crate::session::Session;

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

pub fn quit(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.ends = true;
    Ok(Reply::OK)
}

/// RESET: as if just connected. Claims are given back.
pub fn reset(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.take_claimants();
    let rights = context.server.users.of_strangers();
    *context.session = Session::new(context.session.id, rights);
    Ok(Reply::simple("RESET"))
}

pub fn select(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match std::str::from_utf8(request.arg(1))
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(0) => Ok(Reply::OK),
        Some(i64::MIN..) => Err(Refusal::new("ERR DB index is out of range")),
        None => Err(Refusal::new("ERR value is not an integer or out of range")),
    }
}

/// HELLO [version [AUTH user password] [SETNAME name]]
pub fn hello(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let protocol = match request.get(1) {
        None => context.session.protocol,
        Some(b"2") => Protocol::Resp2,
        Some(b"3") => Protocol::Resp3,
        Some(other) if std::str::from_utf8(other).is_ok_and(|text| text.parse::<i64>().is_ok()) => {
            return Err(Refusal::new("NOPROTO unsupported protocol version"));
        }
        Some(_) => {
            return Err(Refusal::new(
                "ERR Protocol version is not an integer or out of range",
            ));
        }
    };
    let mut name = None;
    let mut at = 2;
    while at < request.len() {
        match request.arg(at).to_ascii_uppercase().as_slice() {
            b"AUTH" if at + 2 < request.len() => {
                authenticate(context, request.arg(at + 1), request.arg(at + 2))?;
                at += 3;
            }
            b"SETNAME" if at + 1 < request.len() => {
                name = Some(client_name(request.arg(at + 1))?);
                at += 2;
            }
            other => {
                let other = String::from_utf8_lossy(other);
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
    if let Some(name) = name {
        context.session.name = name;
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

pub fn client(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let session = &mut *context.session;
    let word = request.arg(1).to_ascii_uppercase();
    match (word.as_slice(), request.len()) {
        (b"ID", 2) => Ok(Reply::count(session.id)),
        (b"GETNAME", 2) => Ok(session.name.as_ref().map_or(Reply::Null, Reply::bulk)),
        (b"SETNAME", 3) => {
            session.name = client_name(request.arg(2))?;
            // What it claimed under the other name is given back: a handle commits under one.
            session.take_claimants();
            Ok(Reply::OK)
        }
        (b"SETINFO", 4) => {
            let value = client_name(request.arg(3))?;
            match request.arg(2).to_ascii_uppercase().as_slice() {
                b"LIB-NAME" => session.library[0] = value,
                b"LIB-VER" => session.library[1] = value,
                other => {
                    let other = String::from_utf8_lossy(other);
                    return Err(Refusal::of(&format!("ERR Unrecognized option '{other}'")));
                }
            }
            Ok(Reply::OK)
        }
        (b"INFO", 2) => {
            let name = session.name.as_deref().unwrap_or("");
            Ok(Reply::bulk(format!("id={} name={name} db=0\n", session.id)))
        }
        (b"REPLY" | b"NO-EVICT" | b"NO-TOUCH", 3)
            if request.is_word(2, "ON") || request.is_word(2, "OFF") =>
        {
            Ok(Reply::OK)
        }
        (other, _) => {
            let other = String::from_utf8_lossy(other);
            Err(Refusal::of(&format!(
                "ERR unknown subcommand or wrong number of arguments for '{other}'. Try CLIENT HELP."
            )))
        }
    }
}
