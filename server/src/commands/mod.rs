//! Commands: their table, and how a batch of them is run.

mod bloom;
mod claims;
mod client;
mod cuckoo;
mod introspection;
mod keys;
mod run;
mod table;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::database::{Name, OpenStore};
use crate::options::Durability;
use crate::reply::{Outcome, Protocol, Refusal, Reply};
use crate::request::Request;
use crate::server::Server;
use crate::session::Session;

pub use self::run::run_batch;
pub use self::table::COMMANDS;

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
    pub run_many: Option<fn(&mut Context<'_>, &Name, &[&[u8]]) -> Vec<Reply>>,
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

/// Returns the number in an argument.
pub fn number_of<T: std::str::FromStr>(
    argument: &[u8],
    otherwise: &'static str,
) -> Result<T, Refusal> {
    let text = std::str::from_utf8(argument).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(Refusal::new(otherwise))
}

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
