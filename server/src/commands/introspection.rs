//! What the server says of itself.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::block_in_place;

use super::glob::glob_matches;
use super::{Context, SYNTAX, check_subcommand, unknown_subcommand};
use crate::metrics::Counts;
use crate::options::Durability;
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;
use crate::server::Server;

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
    match request.arg(1).to_ascii_uppercase().as_slice() {
        b"LIST" => {
            check_subcommand(request, 2, 2)?;
            Ok(modules())
        }
        b"LOAD" | b"LOADEX" | b"UNLOAD" => Err(Refusal::new(
            "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        )),
        _ => Err(unknown_subcommand(request)),
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

/// INFO [section …]
pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let is_asked = |section: &str| {
        let all = [section, "all", "default", "everything"];
        request.len() == 1
            || request.from(1).any(|word| {
                all.iter()
                    .any(|asked| word.eq_ignore_ascii_case(asked.as_bytes()))
            })
    };
    let sections: [(&str, Section); 8] = [
        ("Server", about_server),
        ("Clients", about_clients),
        ("Persistence", about_persistence),
        ("Stats", about_stats),
        ("Replication", |_, lines| {
            lines.add("role", "master");
            lines.add("connected_slaves", 0);
            Ok(())
        }),
        ("Modules", |_, lines| {
            lines.add("module", MODULE);
            Ok(())
        }),
        ("Cluster", |_, lines| {
            lines.add("cluster_enabled", 0);
            Ok(())
        }),
        ("Keyspace", about_keys),
    ];
    let mut lines = Lines::default();
    for (title, section) in sections {
        if is_asked(&title.to_ascii_lowercase()) {
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            write!(lines.0, "# {title}\r\n").expect("a string takes all");
            section(context.server, &mut lines)?;
        }
    }
    Ok(Reply::Text(lines.0))
}

type Section = fn(&Server, &mut Lines) -> Result<(), Refusal>;

/// The lines of INFO.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        write!(self.0, "{name}:{value}\r\n").expect("a string takes all");
    }
}

/// What clients look for before they use Bloom commands.
const MODULE: &str = "name=bf,ver=20802,api=1,filters=0,usedby=[],using=[],options=[]";

fn about_server(server: &Server, lines: &mut Lines) -> Result<(), Refusal> {
    lines.add("redis_version", REDIS_VERSION);
    lines.add("redis_mode", "standalone");
    lines.add("everseen_version", env!("CARGO_PKG_VERSION"));
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", std::process::id());
    let uptime = server.begun.elapsed().as_secs();
    lines.add("uptime_in_seconds", uptime);
    lines.add("uptime_in_days", uptime / 86_400);
    Ok(())
}

fn about_clients(server: &Server, lines: &mut Lines) -> Result<(), Refusal> {
    lines.add("connected_clients", server.clients.load(Ordering::Relaxed));
    lines.add("maxclients", server.max_clients);
    Ok(())
}

fn about_persistence(server: &Server, lines: &mut Lines) -> Result<(), Refusal> {
    lines.add("loading", 0);
    lines.add("async_loading", 0);
    // SAVE answers when it is done, and so does its like in the background.
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add("rdb_last_bgsave_status", "ok");
    lines.add("aof_enabled", 1);
    lines.add("aof_rewrite_in_progress", 0);
    lines.add("aof_last_bgrewrite_status", "ok");
    lines.add("appendfsync", fsync(server.durability));
    Ok(())
}

fn about_stats(server: &Server, lines: &mut Lines) -> Result<(), Refusal> {
    let connections = server.connections.load(Ordering::Relaxed);
    let refused = server.refused_connections.load(Ordering::Relaxed);
    lines.add("total_connections_received", connections);
    lines.add("rejected_connections", refused);
    lines.add("total_commands_processed", Counts::commands());
    lines.add("stores_open", server.database.open_stores().len());
    lines.add("stores_opened", server.database.opened_in_all());
    Ok(())
}

fn about_keys(server: &Server, lines: &mut Lines) -> Result<(), Refusal> {
    let names = server.database.names()?;
    if !names.is_empty() {
        let dated = names
            .iter()
            .filter(|name| server.database.expiry(name).is_some());
        let (keys, expires) = (names.len(), dated.count());
        lines.add("db0", format!("keys={keys},expires={expires},avg_ttl=0"));
    }
    Ok(())
}

/// CONFIG GET: what clients ask for. Nothing is set while the server runs.
pub fn config(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    match request.arg(1).to_ascii_uppercase().as_slice() {
        b"GET" => {
            check_subcommand(request, 3, usize::MAX)?;
            Ok(settings(context, request))
        }
        b"SET" => {
            check_subcommand(request, 4, usize::MAX)?;
            let name = String::from_utf8_lossy(request.arg(2));
            Err(Refusal::of(&format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )))
        }
        b"RESETSTAT" => {
            check_subcommand(request, 2, 2)?;
            Ok(Reply::OK)
        }
        b"REWRITE" => {
            check_subcommand(request, 2, 2)?;
            Err(Refusal::new(
                "ERR The server is running without a config file",
            ))
        }
        _ => Err(unknown_subcommand(request)),
    }
}

fn settings(context: &Context<'_>, request: Request<'_>) -> Reply {
    let server = context.server;
    let known = [
        ("appendfsync", fsync(server.durability).to_owned()),
        ("appendonly", "yes".to_owned()),
        ("databases", "1".to_owned()),
        ("dir", server.database.folder().display().to_string()),
        ("maxclients", server.max_clients.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("proto-max-bulk-len", server.limits.argument.to_string()),
        ("save", String::new()),
    ];
    let asked = known.into_iter().filter(|(name, _)| {
        let mut patterns = request.from(2);
        patterns.any(|pattern| glob_matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    });
    let pairs = asked.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)));
    Reply::Map(pairs.collect())
}

/// Returns Redis' word for a durability.
fn fsync(durability: Durability) -> &'static str {
    match durability {
        Durability::Always => "always",
        Durability::Second => "everysec",
        Durability::No => "no",
    }
}

/// SAVE and BGSAVE: all that was done is on the disk before the answer.
pub fn save(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let is_background = request.arg(0).eq_ignore_ascii_case(b"bgsave");
    if request.len() > 2 || request.len() == 2 && !request.is_word(1, "SCHEDULE") {
        return Err(SYNTAX);
    }
    block_in_place(|| -> Result<(), Refusal> {
        for store in context.server.database.open_stores() {
            if store.is_dirty() {
                store.commit()?;
            }
        }
        Ok(())
    })?;
    Ok(match is_background {
        true => Reply::simple("Background saving started"),
        false => Reply::OK,
    })
}

/// DEBUG RELOAD closes all stores, which the next commands open again. Nothing else of DEBUG is there, in Redis' words.
pub fn debug(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if request.is_word(1, "RELOAD") {
        block_in_place(|| context.server.database.close())?;
        return Ok(Reply::OK);
    }
    Err(Refusal::new(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
    ))
}

/// What clients ask to learn whether they talk to a cluster.
pub fn cluster(_: &mut Context<'_>, _: Request<'_>) -> Outcome {
    Err(Refusal::new(
        "ERR This instance has cluster support disabled",
    ))
}

pub fn role(_: &mut Context<'_>, _: Request<'_>) -> Outcome {
    Ok(Reply::Array(vec![
        Reply::bulk("master"),
        Reply::Integer(0),
        Reply::Array(Vec::new()),
    ]))
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]. What was answered is kept in any case.
pub fn shutdown(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let words = ["NOSAVE", "SAVE", "NOW", "FORCE"];
    let is_known = |word: &[u8]| {
        words
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    };
    if !request.from(1).all(is_known) {
        return Err(SYNTAX);
    }
    context.session.ends = true;
    context.server.end();
    Ok(Reply::OK)
}
