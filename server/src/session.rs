//! What belongs to one connection.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::task::block_in_place;

use crate::commands::{Command, Rights};
use crate::database::{Claimant, Database, Name, Watch};
use crate::memory::Reserved;
use crate::reply::{Protocol, Refusal};
use crate::request::{Batch, Request};
use crate::server::Server;

/// One connection's state.
#[derive(Debug)]
pub struct Session {
    pub id: u64,
    pub protocol: Protocol,
    /// What CLIENT SETNAME says; it commits under this name.
    pub name: Option<String>,
    pub library: [Option<String>; 2],
    /// What MULTI has gathered.
    pub transaction: Option<Transaction>,
    /// What WATCH asks for, until EXEC.
    pub watch: Option<Watch>,
    pub answers: Answering,
    /// Whether it speaks HTTP.
    pub is_http: bool,
    /// What it may do; `None` until it has said who it is.
    pub rights: Option<Rights>,
    /// Wrong passwords since the last answers: each delays them.
    pub denials: u32,
    /// Whether the connection ends after this answer.
    pub ends: bool,
    claimants: HashMap<Name, Arc<Claimant>>,
    /// Stores whose claims were given back by a command that failed, until the client is told.
    failed: HashSet<Name>,
}

/// Handles of its own that a connection keeps, also without open claims: each takes some open files.
const MOST_CLAIMANTS: usize = 64;

const CLAIMS_LOST: Refusal = Refusal::new(
    "ERR the key was removed or renamed meanwhile, and what was claimed in it is given back",
);

const CLAIMS_GIVEN_BACK: Refusal = Refusal::new(
    "ERR a command failed, and what this connection had claimed in the key before is given back",
);

/// Which commands are answered, as CLIENT REPLY sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    All,
    /// All but the next.
    AfterNext,
    None,
}

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    pub queued: Vec<Batch>,
    /// The bytes of memory that they take, and those that are reserved for them.
    bytes: usize,
    reserved: Reserved,
    /// Whether one of them was refused, so that none is run.
    pub is_refused: bool,
}

impl Transaction {
    /// What is reserved at a time.
    const STEP: usize = 4 << 10;

    /// Gathers one more command; nothing once one was refused, since none will be run.
    ///
    /// # Errors
    /// There is no memory for it, or the client has as much as it may have. No command is run then, so none is kept.
    pub fn queue(&mut self, server: &Server, request: Request<'_>) -> Result<(), Refusal> {
        if self.is_refused {
            return Ok(());
        }
        let queued = request.to_owned();
        self.bytes += queued.memory();
        let missing = self.bytes.saturating_sub(self.reserved.bytes());
        if self.bytes > server.limits.request {
            return Err(self.refuse("OOM commands queued for EXEC exceed --max-request"));
        }
        let step = missing.next_multiple_of(Self::STEP);
        if missing > 0 && !server.queued.reserve(&mut self.reserved, step) {
            return Err(self.refuse("OOM commands queued for EXEC exceed --max-pending"));
        }
        self.queued.push(queued);
        Ok(())
    }

    fn refuse(&mut self, why: &'static str) -> Refusal {
        *self = Transaction {
            is_refused: true,
            ..Transaction::default()
        };
        Refusal::new(why)
    }
}

impl Session {
    /// The name of a writer that has none.
    const WRITER: &'static str = "default";

    pub fn new(id: u64, rights: Option<Rights>) -> Self {
        Session {
            id,
            protocol: Protocol::Resp2,
            name: None,
            library: [None, None],
            transaction: None,
            watch: None,
            answers: Answering::All,
            is_http: false,
            rights,
            denials: 0,
            ends: false,
            claimants: HashMap::new(),
            failed: HashSet::new(),
        }
    }

    /// Refuses a command for which this connection has no right.
    pub fn check(&self, command: &Command) -> Result<(), Refusal> {
        match self.rights {
            None if command.is_for_strangers() => Ok(()),
            Some(_) if command.rights == Rights::Connection => Ok(()),
            None => Err(Refusal::new("NOAUTH Authentication required.")),
            Some(rights) if rights >= command.rights => Ok(()),
            Some(_) => Err(Refusal::of(&format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            ))),
        }
    }

    pub fn writer(&self) -> &str {
        self.name.as_deref().unwrap_or(Self::WRITER)
    }

    /// Returns this connection's own handle of a store; `None` if there is no such store.
    pub fn claimant(
        &mut self,
        database: &Database,
        name: &Name,
    ) -> Result<Option<Arc<Claimant>>, Refusal> {
        if let Some(claimant) = self.claimants.get(name) {
            if !claimant.is_gone() {
                // A handle that a failed write has ended stays so: the next command has another.
                if claimant.store.uncommitted().is_ok() {
                    return Ok(Some(Arc::clone(claimant)));
                }
                self.claimants.remove(name);
                return Err(CLAIMS_GIVEN_BACK);
            }
            self.claimants.remove(name);
            // Said once: the client must not take for committed what it claimed there.
            return Err(CLAIMS_LOST);
        }
        if self.failed.remove(name) {
            return Err(CLAIMS_GIVEN_BACK);
        }
        if self.claimants.len() >= MOST_CLAIMANTS {
            self.close_idle();
        }
        let claimant = database.claimant(name, self.writer())?;
        if let Some(claimant) = &claimant {
            self.claimants.insert(name.clone(), Arc::clone(claimant));
        }
        Ok(claimant)
    }

    /// Closes the handles without open claims.
    fn close_idle(&mut self) {
        let is_idle = |claimant: &Arc<Claimant>| {
            let uncommitted = claimant.store.uncommitted();
            uncommitted.is_ok_and(|uncommitted| uncommitted.keys == 0)
        };
        let idle = self.claimants.extract_if(|_, claimant| is_idle(claimant));
        let idle: Vec<_> = idle.collect();
        block_in_place(|| drop(idle));
    }

    /// Gives up the handle of one store, whose claims are lost.
    pub fn drop_claimant(&mut self, name: &Name) {
        self.claimants.remove(name);
        self.failed.remove(name);
    }

    /// Does so after a command that failed. The client must not take for committed what it had claimed before.
    pub fn give_claims_back(&mut self, name: &Name, had_claims: bool) {
        self.drop_claimant(name);
        if had_claims {
            self.failed.insert(name.clone());
        }
    }

    /// Gives up all handles. Of a store that had claims of this one, the client is told so.
    pub fn give_all_back(&mut self) {
        for (name, claimant) in self.claimants.drain() {
            let uncommitted = claimant.store.uncommitted();
            if uncommitted.is_ok_and(|uncommitted| uncommitted.keys > 0) {
                self.failed.insert(name);
            }
        }
    }

    /// Takes all handles, to be closed on a thread that may wait.
    pub fn take_claimants(&mut self) -> Vec<Arc<Claimant>> {
        self.claimants
            .drain()
            .map(|(_, claimant)| claimant)
            .collect()
    }
}
