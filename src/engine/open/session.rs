//! An open store that closes itself.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::open::close::{CloseReport, Closer};
use crate::error::Result;

/// An engine that is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Session(Arc<Engine>);

impl Session {
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self(engine)
    }

    pub(crate) fn close(&self) -> Result<CloseReport> {
        Closer::of(&self.0).close()
    }
}

impl Deref for Session {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.0.handle.is_own_for_certain() {
            // The locks are the parent's; a drop would release them.
            std::mem::forget(Arc::clone(&self.0));
        } else if !std::thread::panicking() {
            // A panic may have struck in the middle of anything: the log must then suffice.
            if self.close().is_err() {
                // It can't be tried again. The others, or the next one, go on.
                Closer::of(&self.0).give_up();
            }
        }
    }
}
