//! Commits that all connections share which wait for one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::open_store::OpenStore;
use crate::reply::Refusal;

type Waiter = oneshot::Sender<Result<(), Refusal>>;

/// Who waits for the next commit of a store. While one is under way, the next gathers all who come.
#[derive(Debug, Default)]
pub struct GroupCommit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiters: Vec<Waiter>,
    is_running: bool,
}

impl OpenStore {
    /// Makes durable what was done in the store before the call, in one commit with all others who wait.
    pub async fn settle(self: &Arc<Self>) -> Result<(), Refusal> {
        let (sender, receiver) = oneshot::channel();
        if self.commits().add(sender) {
            let store = Arc::clone(self);
            tokio::task::spawn_blocking(move || store.commits().run(&store));
        }
        match receiver.await {
            Ok(outcome) => outcome,
            // The server ends.
            Err(_) => Err(Refusal::new("ERR the server ends")),
        }
    }
}

impl GroupCommit {
    /// Adds a waiter, and returns whether the caller has to commit.
    fn add(&self, waiter: Waiter) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiters.push(waiter);
        !std::mem::replace(&mut state.is_running, true)
    }

    /// Commits until no one waits any more.
    fn run(&self, store: &OpenStore) {
        loop {
            let waiters = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if state.waiters.is_empty() {
                    state.is_running = false;
                    return;
                }
                std::mem::take(&mut state.waiters)
            };
            // What they did returned before they asked.
            let outcome = store.commit();
            for waiter in waiters {
                // A connection that left needs no answer.
                let _ = waiter.send(outcome.clone());
            }
        }
    }
}
