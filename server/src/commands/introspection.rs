//! What the server says of itself.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::table::{COMMANDS, command};
use super::{Command, Context, Rights, SYNTAX};
use crate::metrics::Counts;
use crate::options::Durability;
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

/// The Redis that clients may take this for: its answers are those of RedisBloom 2.8.2, which runs in it.
pub const REDIS_VERSION: &str = "7.0.15";

/// The modules that clients look for.
pub fn modules() -> Reply {
    let module = Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk("bf")),
        (Reply::bulk("ver"), Reply::Integer(20_802)),
        (Reply::bulk("path"), Reply::bulk("")),
        (Reply::bulk("args"), Reply::Array(Vec::new())),
    ]);
    Reply::Array(vec![module])
}

pub fn module(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match request.is_word(1, "LIST") {
        true => Ok(modules()),
        false => Err(SYNTAX),
    }
}

pub fn time(_: &mut Context<'_>, _: Request<'_>) -> Outcome {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Reply::Array(vec![
        Reply::bulk(since.as_secs().to_string()),
        Reply::bulk(since.subsec_micros().to_string()),
    ]))
}

pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let server = context.server;
    let is_asked = |section: &str| {
        request.len() == 1
            || request.from(1).any(|word| {
                let all = [section, "all", "default", "everything"];
                all.iter()
                    .any(|asked| word.eq_ignore_ascii_case(asked.as_bytes()))
            })
    };
    let mut text = String::new();
    let line = |text: &mut String, name: &str, value: &dyn std::fmt::Display| {
        write!(text, "{name}:{value}\r\n").expect("a string takes all");
    };
    if is_asked("server") {
        text.push_str("# Server\r\n");
        line(&mut text, "redis_version", &REDIS_VERSION);
        line(&mut text, "redis_mode", &"standalone");
        line(&mut text, "everseen_version", &env!("CARGO_PKG_VERSION"));
        line(&mut text, "process_id", &std::process::id());
        line(
            &mut text,
            "uptime_in_seconds",
            &server.begun.elapsed().as_secs(),
        );
        text.push_str("\r\n");
    }
    if is_asked("clients") {
        text.push_str("# Clients\r\n");
        line(
            &mut text,
            "connected_clients",
            &server.clients.load(Ordering::Relaxed),
        );
        line(&mut text, "maxclients", &server.max_clients);
        text.push_str("\r\n");
    }
    if is_asked("persistence") {
        let fsync = match server.durability {
            Durability::Always => "always",
            Durability::Second => "everysec",
            Durability::No => "no",
        };
        text.push_str("# Persistence\r\n");
        line(&mut text, "loading", &0);
        line(&mut text, "aof_enabled", &1);
        line(&mut text, "appendfsync", &fsync);
        text.push_str("\r\n");
    }
    if is_asked("stats") {
        text.push_str("# Stats\r\n");
        let connections = server.connections.load(Ordering::Relaxed);
        let refused = server.refused_connections.load(Ordering::Relaxed);
        line(&mut text, "total_connections_received", &connections);
        line(&mut text, "rejected_connections", &refused);
        line(&mut text, "total_commands_processed", &Counts::commands());
        line(
            &mut text,
            "stores_open",
            &server.database.open_stores().len(),
        );
        line(&mut text, "stores_opened", &server.database.opened_in_all());
        text.push_str("\r\n");
    }
    if is_asked("replication") {
        text.push_str("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n");
    }
    if is_asked("modules") {
        text.push_str("# Modules\r\nmodule:name=bf,ver=20802,api=1,filters=0,usedby=[],using=[],options=[]\r\n\r\n");
    }
    if is_asked("keyspace") {
        let keys = server.database.names()?.len();
        text.push_str("# Keyspace\r\n");
        if keys > 0 {
            write!(text, "db0:keys={keys},expires=0,avg_ttl=0\r\n").expect("a string takes all");
        }
    }
    Ok(Reply::bulk(text))
}

/// CONFIG GET: what clients ask for; nothing is set while the server runs.
pub fn config(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if !request.is_word(1, "GET") || request.len() < 3 {
        return Err(Refusal::new("ERR only CONFIG GET is supported"));
    }
    let server = context.server;
    let fsync = match server.durability {
        Durability::Always => "always",
        Durability::Second => "everysec",
        Durability::No => "no",
    };
    let known = [
        ("appendfsync", fsync.to_owned()),
        ("appendonly", "yes".to_owned()),
        ("databases", "1".to_owned()),
        ("dir", server.database.folder().display().to_string()),
        ("maxclients", server.max_clients.to_string()),
        ("maxmemory", "0".to_owned()),
        ("proto-max-bulk-len", server.limits.argument.to_string()),
        ("save", String::new()),
    ];
    let asked = known.into_iter().filter(|(name, _)| {
        let mut patterns = request.from(2);
        patterns.any(|pattern| {
            super::keys::glob_matches(&pattern.to_ascii_lowercase(), name.as_bytes())
        })
    });
    let pairs = asked.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)));
    Ok(Reply::Map(pairs.collect()))
}

pub fn shutdown(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.ends = true;
    context.server.end();
    Ok(Reply::OK)
}

/// COMMAND [COUNT | LIST | INFO name … | DOCS name …]
pub fn command_command(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let Some(word) = request.get(1) else {
        return Ok(Reply::Array(COMMANDS.iter().map(described).collect()));
    };
    match word.to_ascii_uppercase().as_slice() {
        b"COUNT" => Ok(Reply::count(COMMANDS.len().try_into().unwrap_or(u64::MAX))),
        b"LIST" => Ok(Reply::Array(
            COMMANDS
                .iter()
                .map(|command| Reply::bulk(command.name))
                .collect(),
        )),
        b"INFO" if request.len() == 2 => Ok(Reply::Array(COMMANDS.iter().map(described).collect())),
        b"INFO" => Ok(Reply::Array(
            request
                .from(2)
                .map(|name| command(name).map_or(Reply::Null, described))
                .collect(),
        )),
        b"DOCS" => {
            let named = request.from(2).filter_map(command);
            let asked: Vec<&Command> = match request.len() {
                2 => COMMANDS.iter().collect(),
                _ => named.collect(),
            };
            let pairs = asked.into_iter().map(|command| {
                let summary = (Reply::bulk("group"), Reply::bulk("module"));
                (Reply::bulk(command.name), Reply::Map(vec![summary]))
            });
            Ok(Reply::Map(pairs.collect()))
        }
        _ => Err(SYNTAX),
    }
}

fn described(command: &Command) -> Reply {
    let (first, last, step) = command.keys;
    let flags: &[&str] = match command.rights {
        Rights::Connection => &["noscript", "loading", "stale", "fast"],
        Rights::Read => &["readonly"],
        Rights::Write => &["write", "denyoom"],
        Rights::Admin => &["admin", "noscript"],
    };
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Integer(command.arity.into()),
        Reply::Array(flags.iter().map(|flag| Reply::simple(flag)).collect()),
        Reply::Integer(first.into()),
        Reply::Integer(last.into()),
        Reply::Integer(step.into()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}
