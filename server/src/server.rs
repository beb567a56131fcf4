//! What all connections share.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::database::{Database, Opening};
use crate::memory::Pool;
use crate::metrics::Counts;
use crate::options::{Durability, Options};
use crate::request::Limits;
use crate::sys;
use crate::users::Users;

/// The server: its stores, and what it counts.
#[derive(Debug)]
pub struct Server {
    pub database: Database,
    pub durability: Durability,
    pub limits: Limits,
    pub max_clients: usize,
    pub users: Users,
    pub counts: Counts,
    pub begun: Instant,
    order: RwLock<()>,
    pub clients: AtomicUsize,
    pub connections: AtomicU64,
    pub refused_connections: AtomicU64,
    /// For requests that have come in part.
    pub pending: Pool,
    /// For commands queued for EXEC.
    pub queued: Pool,
    ends: watch::Sender<bool>,
}

/// Files that a store has open: its own, its logs, its shared memory and its locks.
const FILES_OF_STORE: u64 = 10;
/// Files that the server has open besides.
const OWN_FILES: u64 = 64;

/// Returns how many clients there may be, so that files of stores can be opened beside their connections.
fn clients_beside(options: &Options) -> usize {
    let Some(files) = sys::raise_open_files() else {
        return options.max_clients;
    };
    let of_stores = (options.max_open as u64).saturating_mul(FILES_OF_STORE);
    let left = files.saturating_sub(of_stores + OWN_FILES);
    let clients = usize::try_from(left).unwrap_or(usize::MAX).max(32);
    if clients < options.max_clients {
        eprintln!(
            "everseen-server: {files} files may be open: {clients} clients are admitted, not {}; raise the limit (ulimit -n)",
            options.max_clients
        );
    }
    clients.min(options.max_clients)
}

impl Server {
    pub fn new(options: &Options, stores: &Path, users: Users) -> std::io::Result<Self> {
        let opening = Opening {
            open: options.max_open,
            idle: Duration::from_secs(options.idle),
            buffer: options.buffer << 20,
        };
        let bytes = |mib: u64| usize::try_from(mib << 20).unwrap_or(usize::MAX);
        Ok(Server {
            database: Database::open(stores, opening)?,
            durability: options.durable,
            limits: Limits {
                arguments: 1 << 20,
                argument: bytes(options.max_argument),
                request: bytes(options.max_request),
            },
            max_clients: clients_beside(options),
            users,
            counts: Counts::default(),
            begun: Instant::now(),
            order: RwLock::default(),
            clients: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            pending: Pool::new(bytes(options.max_pending)),
            queued: Pool::new(bytes(options.max_pending)),
            ends: watch::Sender::new(false),
        })
    }

    /// Takes one more client, and returns its number; `None` if there are as many as may be.
    pub fn admit(&self) -> Option<u64> {
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        if before >= self.max_clients {
            self.leave();
            self.refused_connections.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.connections.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets commands run beside others, as long as the guard is held.
    pub fn beside_others(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all commands under way, and keeps others out, as long as the guard is held.
    pub fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn leave(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Asks the server to end.
    pub fn end(&self) {
        self.ends.send_replace(true);
    }

    /// Returns once the server is asked to end.
    pub async fn ended(&self) {
        let mut ends = self.ends.subscribe();
        // The sender lives as long as `self`.
        let _ = ends.wait_for(|&ends| ends).await;
    }
}
