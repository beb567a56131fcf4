//! COMMAND: what the commands are, for clients that ask.

use super::glob::glob_matches;
use super::table::{COMMANDS, command};
use super::{Command, Context, Rights, SYNTAX, check_subcommand, unknown_subcommand};
use crate::reply::{Outcome, Refusal, Reply};
use crate::request::Request;

/// The most arguments of a command that describes others: what it answers is many times as long.
const MOST_NAMED: usize = 1024;

/// COMMAND [COUNT | LIST | INFO name … | DOCS name … | GETKEYS command …]
pub fn command_command(_: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let Some(word) = request.get(1) else {
        return Ok(all());
    };
    match word.to_ascii_uppercase().as_slice() {
        b"COUNT" => {
            check_subcommand(request, 2, 2)?;
            Ok(Reply::count(COMMANDS.len().try_into().unwrap_or(u64::MAX)))
        }
        b"LIST" => list(request),
        b"INFO" if request.len() == 2 => Ok(all()),
        b"INFO" | b"DOCS" if request.len() > MOST_NAMED => {
            Err(Refusal::new("ERR too many commands are named"))
        }
        b"INFO" => {
            let named = request.from(2);
            let described = named.map(|name| command(name).map_or(Reply::Null, described));
            Ok(Reply::Array(described.collect()))
        }
        b"DOCS" => {
            let named = request.from(2).filter_map(command);
            let asked: Vec<&Command> = match request.len() {
                2 => COMMANDS.iter().collect(),
                _ => named.collect(),
            };
            let pairs = asked
                .into_iter()
                .map(|command| (Reply::bulk(command.name), documented(command)));
            Ok(Reply::Map(pairs.collect()))
        }
        b"GETKEYS" => keys_of(request),
        _ => Err(unknown_subcommand(request)),
    }
}

fn all() -> Reply {
    Reply::Array(COMMANDS.iter().map(described).collect())
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
fn list(request: Request<'_>) -> Outcome {
    let fits: Box<dyn Fn(&Command) -> bool + '_> = match request.len() {
        2 => Box::new(|_| true),
        5 if request.is_word(2, "FILTERBY") => {
            let value = request.arg(4);
            match request.arg(3).to_ascii_uppercase().as_slice() {
                b"MODULE" => Box::new(move |command| {
                    let module = command.module();
                    module.is_some_and(|module| value == module.as_bytes())
                }),
                // Users here have rights, and no categories.
                b"ACLCAT" => Box::new(|_| false),
                b"PATTERN" => {
                    let pattern = value.to_ascii_lowercase();
                    Box::new(move |command| glob_matches(&pattern, command.name.as_bytes()))
                }
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    let names = COMMANDS.iter().filter(|command| fits(command));
    Ok(Reply::Array(
        names.map(|command| Reply::bulk(command.name)).collect(),
    ))
}

/// COMMAND GETKEYS command argument …
fn keys_of(request: Request<'_>) -> Outcome {
    check_subcommand(request, 4, usize::MAX)?;
    let words: Vec<&[u8]> = request.from(2).collect();
    let found = command(words[0]).ok_or(Refusal::new("ERR Invalid command specified"))?;
    if !found.takes(words.len()) {
        return Err(Refusal::new(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<Reply> = found
        .key_places(words.len())
        .map(|place| Reply::bulk(words[place]))
        .collect();
    match keys.is_empty() {
        true => Err(Refusal::new("ERR The command has no key arguments")),
        false => Ok(Reply::Array(keys)),
    }
}

fn documented(command: &Command) -> Reply {
    let module = command.module();
    let group = match module {
        Some(_) => "module",
        None if command.rights == Rights::Connection => "connection",
        None if command.keys.0 > 0 => "generic",
        None => "server",
    };
    let mut fields = vec![(Reply::bulk("group"), Reply::bulk(group))];
    fields.extend(module.map(|module| (Reply::bulk("module"), Reply::bulk(module))));
    Reply::Map(fields)
}

fn words(words: &[&'static str]) -> Reply {
    Reply::Set(words.iter().map(|word| Reply::simple(word)).collect())
}

/// Returns what COMMAND INFO says of a command. A module counts its arguments by itself there, so that it takes any number.
fn described(command: &Command) -> Reply {
    let (first, last, step) = command.keys;
    let flags: &[&str] = match (command.module(), command.rights, command.name) {
        // Redis has it among those that read.
        (Some(_), Rights::Read, _) | (_, _, "cf.compact") => &["readonly", "module", "fast"],
        // It takes no memory.
        (_, _, "cf.del") => &["write", "module", "fast"],
        (Some(_), ..) => &["write", "denyoom", "module"],
        (None, Rights::Connection, _) => &["noscript", "loading", "stale", "fast"],
        (None, Rights::Read, _) => &["readonly"],
        (None, Rights::Write, _) => &["write"],
        (None, Rights::Admin, _) => &["admin", "noscript"],
    };
    let arity = match command.module() {
        Some(_) => -1,
        None => command.arity,
    };
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Integer(arity.into()),
        words(flags),
        Reply::Integer(first.into()),
        Reply::Integer(last.into()),
        Reply::Integer(step.into()),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
        Reply::Set(key_places(command)),
        Reply::Set(Vec::new()),
    ])
}

/// Returns where the keys are, in the newer of the two ways in which Redis says it.
fn key_places(command: &Command) -> Vec<Reply> {
    let (first, last, step) = command.keys;
    if first == 0 {
        return Vec::new();
    }
    let field = |name: &str, value| (Reply::bulk(name), value);
    let number = |name: &str, value: i32| field(name, Reply::Integer(value.into()));
    let kind = |kind: &str, spec| {
        let fields = vec![
            field("type", Reply::bulk(kind)),
            field("spec", Reply::Map(spec)),
        ];
        Reply::Map(fields)
    };
    let flags = match (command.module(), command.rights) {
        (None, Rights::Read) => words(&["RO", "access"]),
        // Redis says so of all commands of a module.
        _ => words(&["RW", "access", "update"]),
    };
    // The last is counted from the first here, unless it is counted from the end.
    let last = if last < 0 { last } else { last - first };
    let range = vec![
        number("lastkey", last),
        number("keystep", step),
        number("limit", 0),
    ];
    vec![Reply::Map(vec![
        field("flags", flags),
        field("begin_search", kind("index", vec![number("index", first)])),
        field("find_keys", kind("range", range)),
    ])]
}
