//! How a call ends: with a code, and with a text that is kept until somebody asks for it.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use everseen::{BatchError, Error};

use crate::code::{Code, EVERSEEN_ERROR_PANIC, code_of};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// The end of a call that has written its results.
pub(crate) type Outcome = Result<(), Failure>;

thread_local! {
    /// The text of the thread's last failure, whatever it was about.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, text: String) -> Self {
        Self { code, text }
    }

    fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
        let text = format!(
            "a fault of the library; free this handle, and open the store again: {}",
            said.unwrap_or("it left no message")
        );
        Self::new(EVERSEEN_ERROR_PANIC, text)
    }

    /// Keeps the text for this thread, and returns the code.
    #[cold]
    pub(crate) fn noted(self) -> Code {
        // A thread that is ending has nowhere to keep it.
        let _ = LAST.try_with(|last| last.replace(self.text));
        self.code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(code_of(&error), error.to_string())
    }
}

impl<T> From<BatchError<T>> for Failure {
    fn from(failed: BatchError<T>) -> Self {
        Error::from(failed).into()
    }
}

/// Does some work, and turns a panic into a failure: C has no way to go on from one.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // What the work leaves half done is a handle, which answers nothing from then on, or nothing.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome,
        Err(payload) => Err(Failure::of_panic(&*payload)),
    }
}

/// Lets `read` see the text of the thread's last failure.
pub(crate) fn of_thread<T>(read: impl FnOnce(&str) -> T) -> Option<T> {
    LAST.try_with(|last| read(&last.borrow())).ok()
}
