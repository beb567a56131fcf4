//! How a batch of keys ends.

use std::fmt;

use crate::error::Error;

/// A batch that failed partway through. `?` turns it into its [`Error`] where that is what a function returns.
///
/// The keys of the answers in [`done`](Self::done) are inserted, or removed; none of the others is.
#[derive(Debug)]
#[non_exhaustive]
pub struct BatchError<T> {
    /// The answers for the keys before the one that failed, in order.
    pub done: Vec<T>,
    /// Why the others have none.
    pub error: Box<Error>,
}

impl<T> BatchError<T> {
    /// Appends the answers of a batch to a list: all of them, or those before the key that failed.
    ///
    /// # Errors
    /// That of the batch.
    pub fn append(
        outcome: std::result::Result<Vec<T>, Self>,
        answers: &mut Vec<T>,
    ) -> crate::error::Result<()> {
        match outcome {
            Ok(done) => {
                answers.extend(done);
                Ok(())
            }
            Err(failed) => {
                answers.extend(failed.done);
                Err(*failed.error)
            }
        }
    }
}

impl<T> fmt::Display for BatchError<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(out)
    }
}

impl<T: fmt::Debug> std::error::Error for BatchError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<T> From<BatchError<T>> for Error {
    fn from(failed: BatchError<T>) -> Self {
        *failed.error
    }
}

/// The answers of a batch, in the order of its keys.
pub(crate) type BatchResult<T> = std::result::Result<Vec<T>, BatchError<T>>;

/// Collects the answers that `work` appends.
pub(crate) fn collect<T>(
    keys: usize,
    work: impl FnOnce(&mut Vec<T>) -> crate::error::Result<()>,
) -> BatchResult<T> {
    let mut done = Vec::with_capacity(keys);
    match work(&mut done) {
        Ok(()) => {
            assert!(done.len() <= keys, "more answers than keys");
            Ok(done)
        }
        Err(error) => Err(BatchError {
            done,
            error: Box::new(error),
        }),
    }
}
