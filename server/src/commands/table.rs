//! The table of commands.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use super::Rights::{Admin, Connection, Read, Write};
use super::{
    Command, Context, Rights, bloom, claims, client, cuckoo, described, dumps, introspection, keys,
    serialized, transaction,
};
use crate::reply::Outcome;
use crate::request::Request;

type Run = fn(&mut Context<'_>, Request<'_>) -> Outcome;

/// Where a command's keys are, as COMMAND tells it.
const NONE: (i32, i32, i32) = (0, 0, 0);
const FIRST: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const SECOND: (i32, i32, i32) = (2, 2, 1);

const fn row(
    name: &'static str,
    arity: i32,
    rights: Rights,
    keys: (i32, i32, i32),
    run: Run,
) -> Command {
    Command {
        name,
        arity,
        rights,
        keys,
        run,
        run_many: None,
        runs: AtomicU64::new(0),
    }
}

pub static COMMANDS: [Command; 85] = [
    Command {
        run_many: Some(bloom::add_many),
        ..row("bf.add", 3, Write, FIRST, bloom::add)
    },
    row("bf.card", 2, Read, FIRST, bloom::card),
    Command {
        run_many: Some(bloom::exists_many),
        ..row("bf.exists", 3, Read, FIRST, bloom::exists)
    },
    row("bf.debug", 2, Read, FIRST, bloom::debug),
    row("bf.info", -2, Read, FIRST, bloom::info),
    row("bf.insert", -4, Write, FIRST, bloom::bf_insert),
    row("bf.madd", -3, Write, FIRST, bloom::madd),
    row("bf.mexists", -3, Read, FIRST, bloom::mexists),
    row("bf.reserve", -4, Write, FIRST, bloom::reserve),
    row("bf.loadchunk", 4, Write, FIRST, dumps::bloom_loadchunk),
    row("bf.scandump", 3, Read, FIRST, dumps::bloom_scandump),
    row("cf.add", 3, Write, FIRST, cuckoo::add),
    row("cf.addnx", 3, Write, FIRST, cuckoo::addnx),
    row("cf.compact", 2, Write, FIRST, cuckoo::compact),
    row("cf.count", 3, Read, FIRST, cuckoo::count_of),
    row("cf.debug", 2, Read, FIRST, cuckoo::debug),
    row("cf.del", 3, Write, FIRST, cuckoo::del),
    row("cf.exists", 3, Read, FIRST, cuckoo::exists),
    row("cf.info", 2, Read, FIRST, cuckoo::info),
    row("cf.insert", -4, Write, FIRST, cuckoo::insert),
    row("cf.insertnx", -4, Write, FIRST, cuckoo::insertnx),
    row("cf.loadchunk", 4, Write, FIRST, dumps::cuckoo_loadchunk),
    row("cf.mexists", -3, Read, FIRST, cuckoo::mexists),
    row("cf.reserve", -3, Write, FIRST, cuckoo::reserve),
    row("cf.scandump", 3, Read, FIRST, dumps::cuckoo_scandump),
    row("ev.claim", -3, Write, FIRST, claims::claim),
    row("ev.commit", -2, Write, FIRST, claims::commit),
    row("ev.create", -2, Write, FIRST, claims::create),
    row("ev.info", 2, Read, FIRST, claims::info),
    row("ev.last", -2, Read, FIRST, claims::last),
    row("ev.remove", -3, Write, FIRST, claims::remove),
    row("auth", -2, Connection, NONE, client::auth),
    row("bgrewriteaof", 1, Admin, NONE, introspection::save),
    row("bgsave", -1, Admin, NONE, introspection::save),
    row("client", -2, Connection, NONE, client::client),
    row("cluster", -2, Connection, NONE, introspection::cluster),
    row("command", -1, Connection, NONE, described::command_command),
    row("config", -2, Read, NONE, introspection::config),
    row("copy", -3, Write, TWO, keys::copy),
    row("debug", -2, Admin, NONE, introspection::debug),
    row("dbsize", 1, Read, NONE, keys::dbsize),
    row("del", -2, Write, ALL, keys::del),
    row("discard", 1, Connection, NONE, transaction::discard),
    row("dump", 2, Read, FIRST, serialized::dump),
    row("echo", 2, Connection, NONE, client::echo),
    row("exec", 1, Connection, NONE, transaction::exec),
    row("exists", -2, Read, ALL, keys::exists),
    row("expire", -3, Write, FIRST, keys::expire),
    row("expireat", -3, Write, FIRST, keys::expire),
    row("expiretime", 2, Read, FIRST, keys::time_to_live),
    row("flushall", -1, Admin, NONE, keys::flush),
    row("flushdb", -1, Admin, NONE, keys::flush),
    row("hello", -1, Connection, NONE, client::hello),
    row("info", -1, Read, NONE, introspection::info),
    row("keys", 2, Read, NONE, keys::keys),
    row("memory", -2, Read, SECOND, keys::memory),
    row("module", -2, Read, NONE, introspection::module),
    row("multi", 1, Connection, NONE, transaction::multi),
    row("object", -2, Read, SECOND, keys::object),
    row("persist", 2, Write, FIRST, keys::persist),
    row("pexpire", -3, Write, FIRST, keys::expire),
    row("pexpireat", -3, Write, FIRST, keys::expire),
    row("pexpiretime", 2, Read, FIRST, keys::time_to_live),
    row("ping", -1, Connection, NONE, client::ping),
    row("pttl", 2, Read, FIRST, keys::time_to_live),
    row("quit", -1, Connection, NONE, client::quit),
    row("randomkey", 1, Read, NONE, keys::random_key),
    row("readonly", 1, Connection, NONE, introspection::cluster),
    row("readwrite", 1, Connection, NONE, introspection::cluster),
    row("rename", 3, Write, TWO, keys::rename),
    row("renamenx", 3, Write, TWO, keys::renamenx),
    row("reset", 1, Connection, NONE, client::reset),
    row("restore", -4, Write, FIRST, serialized::restore),
    row("role", 1, Read, NONE, introspection::role),
    row("save", 1, Admin, NONE, introspection::save),
    row("scan", -2, Read, NONE, keys::scan),
    row("select", 2, Connection, NONE, keys::select),
    row("shutdown", -1, Admin, NONE, introspection::shutdown),
    row("time", 1, Connection, NONE, introspection::time),
    row("touch", -2, Read, ALL, keys::exists),
    row("ttl", 2, Read, FIRST, keys::time_to_live),
    row("type", 2, Read, FIRST, keys::type_of),
    row("unlink", -2, Write, ALL, keys::del),
    row("unwatch", 1, Connection, NONE, transaction::unwatch),
    row("watch", -2, Connection, ALL, transaction::watch),
];

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    let pairs = COMMANDS
        .iter()
        .map(|command| (command.name.as_bytes(), command));
    pairs.collect()
});

/// Returns the command of a name, in whatever case.
pub fn command(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 16;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}
