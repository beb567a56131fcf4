//! The blocks on their way from the thread that reads, and perhaps through one that looks up their keys, to the one that
//! judges.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, Scope};
use std::time::Duration;

use everseen::hash::HashedKey;
use everseen::{Precheck, Store};

use crate::error::CliError;
use crate::input::keying::Strays;
use crate::input::record_blocks::Block;
use crate::process::memory;

/// How often a thread that waits for a block looks whether it is to end.
const ENDING_PAUSE: Duration = Duration::from_millis(20);

/// Returns the error of a thread that could not be started.
pub fn thread_failed(source: io::Error) -> CliError {
    CliError::System {
        action: "start a thread",
        source,
    }
}

/// What a thread sends that reads.
pub enum Event {
    Block(Block, Box<Strays>),
    Failed(CliError),
    End,
}

/// The next message of the reading thread.
pub enum Next {
    Block(Block, Box<Strays>),
    /// No message yet.
    Wait,
    End,
}

/// The working side of the reading thread.
pub struct Feed {
    events: Receiver<Event>,
    free: Sender<Block>,
    /// Ends the thread that looks up their keys.
    _end: Option<End>,
}

/// Says at its end that a thread is to end.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Feed {
    /// Returns the working side of a thread that sends `events` and takes blocks back through `free`.
    pub fn new(events: Receiver<Event>, free: Sender<Block>) -> Self {
        Feed {
            events,
            free,
            _end: None,
        }
    }

    /// Starts a thread that looks up the keys of each block on its way.
    pub fn prechecked<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        store: &'scope Store,
        how: PrecheckFor,
    ) -> Result<Self, CliError> {
        if memory::is_tight() {
            return Ok(self);
        }
        let (passed, feed_events) = channel();
        let is_ended = Arc::new(AtomicBool::new(false));
        let end = End(Arc::clone(&is_ended));
        let events = self.events;
        thread::Builder::new()
            .name("precheck".to_owned())
            .spawn_scoped(scope, move || {
                while !is_ended.load(Ordering::Relaxed) {
                    let mut event = match events.recv_timeout(ENDING_PAUSE) {
                        Ok(event) => event,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => return,
                    };
                    if let Event::Block(block, _) = &mut event {
                        block.precheck(|keys| how.look(store, keys));
                    }
                    if passed.send(event).is_err() {
                        return;
                    }
                }
            })
            .map_err(thread_failed)?;
        Ok(Feed {
            events: feed_events,
            free: self.free,
            _end: Some(end),
        })
    }

    /// Returns a message that has already arrived.
    pub fn poll(&self) -> Result<Next, CliError> {
        match self.events.try_recv() {
            Ok(event) => event.into_next(),
            Err(TryRecvError::Empty) => Ok(Next::Wait),
            Err(TryRecvError::Disconnected) => Err(CliError::ReaderDied),
        }
    }

    /// Returns a message that arrives within some time.
    pub fn wait(&self, timeout: Duration) -> Result<Next, CliError> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => event.into_next(),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Wait),
            Err(RecvTimeoutError::Disconnected) => Err(CliError::ReaderDied),
        }
    }

    /// Returns a block to the reading thread for reuse.
    pub fn recycle(&self, block: Block) {
        // A reader that has finished needs no more blocks.
        let _ = self.free.send(block);
    }
}

/// What items are looked up for before their turn.
#[derive(Clone, Copy)]
pub enum PrecheckFor {
    Claims,
    /// The store is asked for them, and those that are new are claimed later.
    Lookups,
}

impl PrecheckFor {
    fn look(self, store: &Store, keys: &[HashedKey]) -> everseen::Result<Precheck> {
        match self {
            PrecheckFor::Claims => Precheck::for_claims(store, keys),
            PrecheckFor::Lookups => Precheck::for_lookups(store, keys),
        }
    }
}

impl Event {
    fn into_next(self) -> Result<Next, CliError> {
        match self {
            Event::Block(block, strays) => Ok(Next::Block(block, strays)),
            Event::End => Ok(Next::End),
            Event::Failed(error) => Err(error),
        }
    }
}
