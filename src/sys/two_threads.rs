//! Work on two threads.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use crate::sys::lock;

/// Does two pieces of work: the second on a thread of its own, unless the system has none or the first is done before
/// that thread begins. After an error of the first, the second may not be done.
///
/// # Errors
/// Those of the pieces, the first one's first.
pub(crate) fn do_both<T: Send, E: Send>(
    first: impl FnOnce() -> Result<T, E>,
    second: impl FnOnce() -> Result<T, E> + Send,
) -> Result<(T, T), E> {
    let left = Mutex::new(Some(second));
    // The first thread that reaches it takes it.
    let take_second = || {
        let second = lock(&left).take();
        second.map(|second| second())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, take_second);
        let own = first();
        let late = if own.is_ok() { take_second() } else { None };
        let other = match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(other)) => other,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => None,
        };
        let own = own?;
        let other = late.or(other).expect("one of two threads took it");
        Ok((own, other?))
    })
}

/// Returns the same values so that several threads may set them.
pub(crate) fn shared_bools(values: &mut [bool]) -> &[AtomicBool] {
    // SAFETY: an `AtomicBool` has the size, the alignment and the values of a `bool`. The borrow of the result is that of the
    // only borrow of the values, so all access goes through atomics until it ends.
    unsafe { std::slice::from_raw_parts(values.as_mut_ptr().cast(), values.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_and_the_first_error_counts() {
        let fails = |name| Err::<u8, &str>(name);
        assert_eq!(do_both(|| Ok::<_, &str>(1), || Ok(2)), Ok((1, 2)));
        assert_eq!(do_both(|| fails("one"), || Ok(2)), Err("one"));
        assert_eq!(do_both(|| Ok(1), || fails("two")), Err("two"));
        assert_eq!(do_both(|| fails("one"), || fails("two")), Err("one"));
    }

    /// Neither waits for the other to begin.
    #[test]
    fn they_run_at_the_same_time_if_they_can() {
        let (send, receive) = std::sync::mpsc::channel();
        let first = || {
            let waited = receive.recv_timeout(std::time::Duration::from_secs(60));
            Ok::<_, ()>(waited.is_ok())
        };
        let second = move || Ok(send.send(()).is_ok());
        assert_eq!(do_both(first, second), Ok((true, true)));
    }
}
