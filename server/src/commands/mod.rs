//! Commands: their table, and how a batch of them is run.

mod arguments;
mod as_redis;
mod bloom;
mod claims;
mod client;
mod cuckoo;
mod described;
mod dumps;
mod glob;
mod introspection;
mod keys;
mod run;
mod serialized;
mod table;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::database::{Design, Name, OpenStore};
use crate::options::Durability;
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;
use crate::server::Server;
use crate::session::Session;

pub use self::run::run_batch;
pub use self::table::COMMANDS;

/// Returns an answer for each of a key's items.
type RunMany = fn(&mut Context<'_>, &Name, &[&[u8]]) -> Vec<Reply>;

/// What a command is and does.
pub struct Command {
    /// In small letters.
    pub name: &'static str,
    /// How many arguments it has, its name included; at least as many as the negative of this, if it is negative.
    pub arity: i32,
    pub rights: Rights,
    /// Where its keys are: first, last (negative: from the end), step. All 0: it has none.
    pub keys: (i32, i32, i32),
    pub run: fn(&mut Context<'_>, Request<'_>) -> Outcome,
    /// How often this process ran it.
    pub runs: AtomicU64,
    /// Runs many of the command with one key and one item each at once.
    pub run_many: Option<RunMany>,
}

impl Command {
    /// Returns whether it may be called with a number of arguments, its name included.
    pub fn takes(&self, arguments: usize) -> bool {
        let has = i32::try_from(arguments).unwrap_or(i32::MAX);
        match self.arity {
            least if least < 0 => has >= -least,
            exact => has == exact,
        }
    }

    /// Returns whether a client may run it before it has said who it is.
    pub fn is_for_strangers(&self) -> bool {
        matches!(self.name, "auth" | "hello" | "quit" | "reset")
    }

    /// Returns the module that clients look for to learn whether there is the command; `None` if it is one of Redis itself.
    pub fn module(&self) -> Option<&'static str> {
        match self.name.split_once('.') {
            Some(("bf" | "cf", _)) => Some("bf"),
            Some(_) => Some("everseen"),
            None => None,
        }
    }

    /// Returns where the keys are in a call with a number of arguments.
    pub fn key_places(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let arguments = i32::try_from(arguments).unwrap_or(i32::MAX);
        let last = if last < 0 { arguments + last } else { last };
        // None at all where the first would be the command's name.
        let places = (first.max(1)..=last.min(arguments - 1)).step_by(step.max(1) as usize);
        places
            .filter(move |_| first > 0)
            .filter_map(|place| usize::try_from(place).ok())
    }
}

/// What it takes to run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Every connection, known or not.
    Connection,
    Read,
    Write,
    /// Ends or empties the server.
    Admin,
}

/// What a command has at hand.
pub struct Context<'c> {
    pub server: &'c Server,
    pub session: &'c mut Session,
    unsettled: &'c mut Vec<(Arc<OpenStore>, Vec<usize>)>,
    /// The places of the answers that the command gives.
    places: std::ops::Range<usize>,
}

/// The answers to a batch, and the stores in which a commit must come before them.
#[derive(Debug, Default)]
pub struct Answers {
    pub replies: Vec<(Reply, Protocol)>,
    pub unsettled: Vec<(Arc<OpenStore>, Vec<usize>)>,
}

impl Context<'_> {
    /// Notes that the command changed a store: its answer waits for a commit where that is asked.
    pub fn changed(&mut self, store: &Arc<OpenStore>) {
        store.soil();
        if self.waits_for_commits(store) {
            self.wait_for(store);
        }
    }

    /// Notes that an answer says that something is there, which another client may just have brought: if that is not durable
    /// yet, the answer waits as well.
    pub fn relies_on(&mut self, store: &Arc<OpenStore>) {
        if self.waits_for_commits(store) && store.is_unsettled() {
            self.wait_for(store);
        }
    }

    fn waits_for_commits(&self, store: &OpenStore) -> bool {
        // In a transactional store nothing counts before its commit.
        self.server.durability == Durability::Always || store.is_transactional
    }

    fn wait_for(&mut self, store: &Arc<OpenStore>) {
        let is_it = |(other, _): &&mut (Arc<OpenStore>, _)| Arc::ptr_eq(other, store);
        match self.unsettled.iter_mut().find(is_it) {
            Some((_, places)) => places.extend(self.places.clone()),
            None => {
                let places = self.places.clone().collect();
                self.unsettled.push((Arc::clone(store), places));
            }
        }
    }
}

/// Refuses a store whose items are of another kind than a command's.
type Check = fn(&OpenStore) -> Result<(), Refusal>;

/// Returns the store of a name, if there is one. A check refuses others than a command is for.
fn existing(
    context: &Context<'_>,
    name: &Name,
    check: Check,
) -> Result<Option<Arc<OpenStore>>, Refusal> {
    let store = context.server.database.get(name)?;
    if let Some(store) = &store {
        check(store)?;
    }
    Ok(store)
}

/// Likewise, for commands that find no items in another kind of thing.
fn with_items(
    context: &Context<'_>,
    name: &Name,
    check: Check,
) -> Result<Option<Arc<OpenStore>>, Refusal> {
    match existing(context, name, check) {
        Err(refusal) if refusal == WRONG_TYPE => Ok(None),
        found => found,
    }
}

/// Returns for each item whether it is there.
fn found(
    context: &mut Context<'_>,
    name: &Name,
    check: Check,
    items: &[&[u8]],
) -> Result<Vec<bool>, Refusal> {
    match with_items(context, name, check)? {
        None => Ok(vec![false; items.len()]),
        Some(store) => {
            let found = store.store.contains_batch(items)?;
            if found.contains(&true) {
                context.relies_on(&store);
            }
            Ok(found)
        }
    }
}

/// BF.MEXISTS and CF.MEXISTS.
fn mexists(context: &mut Context<'_>, request: Request<'_>, check: Check) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    Ok(Reply::Array(bools(found(context, &name, check, &items)?)))
}

/// Makes the store of a name, which must not be there.
fn reserve(context: &mut Context<'_>, name: &Name, design: &Design, check: Check) -> Outcome {
    if let Some(store) = context.server.database.create(name, design)? {
        context.changed(&store);
        return Ok(Reply::OK);
    }
    match existing(context, name, check)? {
        Some(_) => Err(ITEM_EXISTS),
        // Another program removed it meanwhile.
        None => Err(NOT_FOUND),
    }
}

fn bools(answers: Vec<bool>) -> Vec<Reply> {
    answers.into_iter().map(Reply::Bool).collect()
}

/// Returns the name in an argument.
pub fn name_of(argument: &[u8]) -> Result<Name, Refusal> {
    Name::new(argument).map_err(|error| Refusal::of(&error.to_string()))
}

/// Refuses a number of items that no store takes.
fn check_capacity(capacity: u64) -> Result<(), Refusal> {
    match capacity <= Design::MOST_ITEMS {
        true => Ok(()),
        false => Err(Refusal::of(&format!(
            "ERR could not create filter: one takes at most {} items",
            Design::MOST_ITEMS
        ))),
    }
}

pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub const NOT_FOUND: Refusal = Refusal::new("ERR not found");
pub const ITEM_EXISTS: Refusal = Refusal::new("ERR item exists");
pub const SYNTAX: Refusal = Refusal::new("ERR syntax error");
pub const WRONG_TYPE: Refusal =
    Refusal::new("WRONGTYPE Operation against a key holding the wrong kind of value");

/// Returns the answer to a wrong number of arguments.
pub fn wrong_number(name: &str) -> Refusal {
    Refusal::of(&format!(
        "ERR wrong number of arguments for '{name}' command"
    ))
}

/// Returns the answer to a subcommand that there is not.
fn unknown_subcommand(request: Request<'_>) -> Refusal {
    Refusal::of(&format!(
        "ERR unknown subcommand '{}'. Try {} HELP.",
        String::from_utf8_lossy(request.arg(1)),
        String::from_utf8_lossy(request.arg(0)).to_ascii_uppercase()
    ))
}

/// Refuses a wrong number of arguments of a subcommand, its command included. `most` may be `usize::MAX`.
fn check_subcommand(request: Request<'_>, least: usize, most: usize) -> Result<(), Refusal> {
    match (least..=most).contains(&request.len()) {
        true => Ok(()),
        false => {
            let words = [request.arg(0), b"|", request.arg(1)].concat();
            Err(wrong_number(
                &String::from_utf8_lossy(&words).to_ascii_lowercase(),
            ))
        }
    }
}
