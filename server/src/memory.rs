//! Memory that many clients share, of which each reserves what it holds.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So much memory, for all clients together. It is handed out by the KiB.
#[derive(Debug)]
pub struct Pool(Arc<Semaphore>);

/// What one client has reserved of a pool, until it is dropped.
#[derive(Debug, Default)]
pub struct Reserved(Option<OwnedSemaphorePermit>);

impl Pool {
    pub fn new(bytes: usize) -> Self {
        Pool(Arc::new(Semaphore::new(bytes >> 10)))
    }

    /// Reserves so many bytes more, and returns whether they were left.
    pub fn reserve(&self, reserved: &mut Reserved, bytes: usize) -> bool {
        let permit = u32::try_from(bytes.div_ceil(1024))
            .ok()
            .and_then(|kib| Arc::clone(&self.0).try_acquire_many_owned(kib).ok());
        let Some(permit) = permit else {
            return false;
        };
        match &mut reserved.0 {
            Some(before) => before.merge(permit),
            none => *none = Some(permit),
        }
        true
    }
}

impl Reserved {
    pub fn bytes(&self) -> usize {
        let permits = self.0.as_ref().map(OwnedSemaphorePermit::num_permits);
        permits.unwrap_or(0) << 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_reserved_again() {
        let pool = Pool::new(10 << 10);
        let (mut one, mut other) = (Reserved::default(), Reserved::default());
        assert!(pool.reserve(&mut one, 4000) && pool.reserve(&mut one, 4 << 10));
        assert_eq!(one.bytes(), 8 << 10);
        assert!(!pool.reserve(&mut other, 3 << 10) && pool.reserve(&mut other, 2 << 10));
        drop(one);
        assert!(pool.reserve(&mut other, 8 << 10));
        assert!(!pool.reserve(&mut other, 1) && !pool.reserve(&mut other, usize::MAX));
        assert_eq!(other.bytes(), 10 << 10);
    }
}
