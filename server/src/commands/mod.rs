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
    /// Anybody who is connected.
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
        // What isn't committed counts for nobody in a transactional store.
        if self.server.durability != Durability::Always && !store.is_transactional {
            return;
        }
        let known = self.unsettled.iter_mut();
        let places = match known
            .into_iter()
            .find(|(other, _)| Arc::ptr_eq(other, store))
        {
            Some((_, places)) => places,
            None => {
                self.unsettled.push((Arc::clone(store), Vec::new()));
                let (_, places) = self.unsettled.last_mut().expect("one was added");
                places
            }
        };
        places.extend(self.places.clone());
    }
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
