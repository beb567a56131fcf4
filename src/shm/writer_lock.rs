//! The writer lock: a word of shared memory that holds its owner's slot.
//!
//! Taking a free lock is one compare-and-swap, and releasing it another; neither calls the system. A handle that finds
//! the lock taken tries for a while, then marks the word and sleeps until the owner wakes it.
//!
//! Nothing depends on the word alone:
//!
//! - **A dead owner** never releases the lock. So nobody sleeps for longer than a slice; if the same owner is there
//!   after it, the caller asks the owner's liveness lock, which the system frees when the owner dies. If the owner is
//!   dead, the lock is stolen, and the caller repairs what was left half done.
//! - **An owner that was taken for dead** must not lose the lock to a decision about an earlier one. So the word
//!   counts acquisitions, and only exactly the word that was judged can be stolen.
//! - **A wake-up may get lost** with the process that was woken and then killed, or with the owner, killed between
//!   releasing and waking. Then the others sleep to the end of their slice.
//! - **The word may be damaged.** An owner that can't be one is an error. So is a word that names the caller's own
//!   slot, and one that is not the owner's own when it releases the lock.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use crate::memtable::ShmCorruption;
use crate::sys::futex;
use crate::sys::sync::{AtomicU64, Ordering, yield_now};

/// The owner's slot, counted from 1; 0 while the lock is free.
pub(super) const OWNER: u64 = 0xFF;
/// Somebody may be asleep.
const CONTENDED: u64 = 1 << 8;
/// The rest of the word counts the acquisitions. At a billion a second, it repeats after a year of nothing else.
const ACQUISITION: u64 = 1 << 9;

/// Slots beyond these can't own the lock.
pub(crate) const MOST_SLOTS: u64 = 128;

const _: () = assert!(MOST_SLOTS <= OWNER && OWNER < CONTENDED && CONTENDED < ACQUISITION);
const _: () = assert!(ACQUISITION & (OWNER | CONTENDED) == 0);

/// How often to look at a lock that is taken before letting others run, and how often to do that before sleeping. (The
/// model checker tries both with the word itself.) Neither more looks nor longer pauses between them were faster, with two
/// processes or four.
const LOOKS: u32 = if cfg!(all(test, loom)) { 1 } else { 100 };
const TURNS: u32 = if cfg!(all(test, loom)) { 1 } else { 20 };

/// The longest sleep: after it, the owner's life is asked for.
const SLICE: Duration = Duration::from_millis(10);

/// Where those sleep that wait for the lock.
pub(crate) trait Parking {
    /// Sleeps until [`wake_one`](Self::wake_one), for at most `slice`; returns at once if the word is not `seen`.
    fn sleep(&self, word: &AtomicU64, seen: u64, slice: Duration);

    /// Wakes one sleeper, if there is any.
    fn wake_one(&self, word: &AtomicU64);
}

/// Sleeps on the word itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnTheWord;

impl Parking for OnTheWord {
    fn sleep(&self, word: &AtomicU64, seen: u64, slice: Duration) {
        futex::wait(word, seen, slice);
    }

    fn wake_one(&self, word: &AtomicU64) {
        futex::wake_one(word);
    }
}

/// The lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterLock<'a, P = OnTheWord> {
    word: &'a AtomicU64,
    parking: P,
}

/// What the owner keeps to release the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ownership {
    /// The word as the owner left it. Others may only mark it.
    word: u64,
    /// The word before that.
    before: u64,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum Refusal<E> {
    /// Another kept it for too long: the one in this slot, if it was not just changing hands.
    Busy(Option<usize>),
    /// The word can't be right.
    ShmCorruption(ShmCorruption),
    /// The caller could not find out whether the owner lives.
    Unknown(E),
}

impl<'a> WriterLock<'a> {
    pub(crate) fn new(word: &'a AtomicU64) -> Self {
        let parking = OnTheWord;
        Self { word, parking }
    }
}

impl<'a, P: Parking> WriterLock<'a, P> {
    /// Returns the lock for handles that sleep elsewhere than on the word.
    #[cfg(all(test, loom))]
    pub(super) fn with(word: &'a AtomicU64, parking: P) -> Self {
        Self { word, parking }
    }

    /// Returns whether the word names the slot as the owner's.
    pub(crate) fn names(&self, slot: usize) -> bool {
        self.word.load(Ordering::Relaxed) & OWNER == slot as u64 + 1
    }

    /// Takes the lock for a slot if it is free.
    #[inline]
    pub(crate) fn try_take(&self, slot: usize) -> Option<Ownership> {
        let seen = self.word.load(Ordering::Relaxed);
        if seen & OWNER != 0 {
            return None;
        }
        self.take_from(seen, slot, 0)
    }

    /// Takes the lock for a slot, waiting for it until `patience` is over. If one owner keeps it for long,
    /// `asks_life` says whether the one in that slot lives; it is asked at least once.
    pub(crate) fn take<E>(
        &self,
        slot: usize,
        patience: Duration,
        mut asks_life: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<Ownership, Refusal<E>> {
        let begun = Instant::now();
        let (mut mark, mut slept_on) = (0, None);
        loop {
            if let Some(taken) = self.try_often(slot, mark) {
                return Ok(taken);
            }
            let left = patience.saturating_sub(begun.elapsed());
            let is_over = left.is_zero();
            let found = self.word.load(Ordering::Relaxed);
            let owner = owner_of(found, slot).map_err(Refusal::ShmCorruption)?;
            let marked = owner.and_then(|owner| Some((owner, self.mark(found)?)));
            let Some((owner, seen)) = marked else {
                // It has just changed hands.
                if is_over {
                    return Err(Refusal::Busy(owner));
                }
                yield_now();
                continue;
            };
            if is_over || slept_on == Some(seen) {
                let lives = asks_life(owner).map_err(Refusal::Unknown)?;
                let stolen = if lives {
                    None
                } else {
                    self.take_from(seen, slot, CONTENDED)
                };
                match stolen {
                    Some(stolen) => return Ok(stolen),
                    None if is_over => return Err(Refusal::Busy(Some(owner))),
                    None => {}
                }
            }
            self.parking.sleep(self.word, seen, left.min(SLICE));
            // Others may be asleep still: this handle's release wakes the next.
            (mark, slept_on) = (CONTENDED, Some(seen));
        }
    }

    /// Tries for as long as a short use of the lock takes.
    fn try_often(&self, slot: usize, mark: u64) -> Option<Ownership> {
        for turn in 0..TURNS {
            for _ in 0..LOOKS {
                let seen = self.word.load(Ordering::Relaxed);
                if seen & OWNER != 0 {
                    spin_loop();
                    continue;
                }
                if let Some(taken) = self.take_from(seen, slot, mark) {
                    return Some(taken);
                }
            }
            if turn + 1 < TURNS {
                yield_now();
            }
        }
        None
    }

    /// Takes the lock if the word is still `seen`.
    fn take_from(&self, seen: u64, slot: usize, mark: u64) -> Option<Ownership> {
        debug_assert!((slot as u64) < MOST_SLOTS, "slot {slot}");
        let count = (seen & !(OWNER | CONTENDED)).wrapping_add(ACQUISITION);
        let word = count | mark | (slot as u64 + 1);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self.word.compare_exchange(seen, word, acquire, relaxed);
        taken.ok().map(|before| Ownership { word, before })
    }

    /// Has the owner wake somebody when it releases the lock; returns `None` if it is no longer the owner.
    fn mark(&self, found: u64) -> Option<u64> {
        let marked = found | CONTENDED;
        if found == marked {
            return Some(marked);
        }
        let relaxed = Ordering::Relaxed;
        let stored = self.word.compare_exchange(found, marked, relaxed, relaxed);
        stored.ok().map(|_| marked)
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// The word is not what the owner left: it is left alone.
    #[inline]
    pub(crate) fn release(&self, owned: Ownership) -> Result<(), ShmCorruption> {
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        let free = owned.after();
        match self
            .word
            .compare_exchange(owned.word, free, release, relaxed)
        {
            Ok(_) if owned.word & CONTENDED == 0 => Ok(()),
            Ok(_) => {
                self.parking.wake_one(self.word);
                Ok(())
            }
            Err(found) => self.release_marked(owned, found),
        }
    }

    #[cold]
    fn release_marked(&self, owned: Ownership, found: u64) -> Result<(), ShmCorruption> {
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        let marked = owned.word | CONTENDED;
        let freed = self
            .word
            .compare_exchange(marked, owned.after(), release, relaxed);
        match freed {
            Ok(_) if found == marked => {
                self.parking.wake_one(self.word);
                Ok(())
            }
            Ok(found) | Err(found) => Err(not(owned.word, found)),
        }
    }

    /// Checks that the owner still has the lock.
    #[inline]
    pub(crate) fn check(&self, owned: Ownership) -> Result<(), ShmCorruption> {
        let found = self.word.load(Ordering::Relaxed);
        if found & !CONTENDED == owned.word & !CONTENDED {
            return Ok(());
        }
        Err(not(owned.word, found))
    }
}

impl Ownership {
    /// Returns the word once the lock is released.
    #[inline]
    pub(crate) fn after(self) -> u64 {
        self.word & !(OWNER | CONTENDED)
    }

    /// Returns the word before the lock was taken: that [after](Self::after) the ownership before it, or that of a
    /// dead owner.
    #[inline]
    pub(crate) fn before(self) -> u64 {
        self.before
    }
}

/// Returns the slot of the lock's owner, as a handle in another slot finds it.
fn owner_of(word: u64, own: usize) -> Result<Option<usize>, ShmCorruption> {
    let wrong = |expected: String| ShmCorruption {
        word: "writer lock",
        expected,
        got: word,
    };
    match word & OWNER {
        0 => Ok(None),
        slot if slot > MOST_SLOTS => Err(wrong(format!("slot 1 to {MOST_SLOTS}, or 0"))),
        slot if slot == own as u64 + 1 => Err(wrong(format!("a slot other than {slot}"))),
        slot => Ok(Some(slot as usize - 1)),
    }
}

#[cold]
fn not(expected: u64, got: u64) -> ShmCorruption {
    ShmCorruption {
        word: "writer lock",
        expected: expected.to_string(),
        got,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicU64 as Counter;

    use super::*;

    const ONE: usize = 3;
    const OTHER: usize = 7;

    fn always<T>(answer: T) -> impl FnMut(usize) -> Result<T, Infallible>
    where
        T: Copy,
    {
        move |_| Ok(answer)
    }

    fn is_wrong<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, Refusal<E>>) -> bool {
        matches!(
            outcome,
            Err(Refusal::ShmCorruption(ShmCorruption {
                word: "writer lock",
                ..
            }))
        )
    }

    #[test]
    fn a_lock_has_one_owner_and_tells_who() {
        let word = Counter::new(0);
        let lock = WriterLock::new(&word);
        let owned = lock.try_take(ONE).unwrap();
        assert!(lock.names(ONE) && !lock.names(OTHER));
        assert_eq!(lock.check(owned), Ok(()));
        assert!(lock.try_take(OTHER).is_none());
        let refused = lock.take(OTHER, Duration::ZERO, always(true));
        assert!(matches!(refused, Err(Refusal::Busy(Some(ONE)))));
        // The other has marked the word.
        assert_eq!(lock.check(owned), Ok(()));
        assert_eq!(lock.release(owned), Ok(()));
        let next = lock.try_take(OTHER).unwrap();
        assert_eq!(next.before(), owned.after());
        assert_eq!(lock.release(next), Ok(()));
    }

    #[test]
    fn a_dead_owner_loses_the_lock_at_once_if_there_is_no_time() {
        let word = Counter::new(0);
        let lock = WriterLock::new(&word);
        let dead = lock.try_take(ONE).unwrap();
        let taken = lock.take(OTHER, Duration::ZERO, always(false)).unwrap();
        assert!(lock.names(OTHER));
        // Not dead after all.
        assert_eq!(lock.release(dead).unwrap_err().word, "writer lock");
        assert_eq!(lock.check(dead).unwrap_err().word, "writer lock");
        assert_eq!(lock.check(taken), Ok(()));
        assert_eq!(lock.release(taken), Ok(()));
    }

    #[test]
    fn an_owner_that_lives_is_waited_for_and_asked_only_when_a_slice_is_over() {
        let word = Counter::new(0);
        let lock = WriterLock::new(&word);
        let owned = lock.try_take(ONE).unwrap();
        let mut asked = 0;
        let taken = lock.take(OTHER, Duration::MAX, |slot| {
            asked += 1;
            assert_eq!(slot, ONE);
            // It goes on.
            if asked == 3 {
                lock.release(owned).unwrap();
            }
            Ok::<_, Infallible>(true)
        });
        assert_eq!(lock.release(taken.unwrap()), Ok(()));
        assert_eq!(asked, 3);
    }

    /// Meanwhile another has stolen it, and a new handle has the slot and the lock.
    #[test]
    fn the_lock_of_a_later_owner_in_the_same_slot_is_not_stolen() {
        let word = Counter::new(0);
        let lock = WriterLock::new(&word);
        lock.try_take(ONE).unwrap();
        let seen = lock.mark(word.load(Ordering::Relaxed)).unwrap();
        let stolen = lock.take(9, Duration::ZERO, always(false)).unwrap();
        lock.release(stolen).unwrap();
        let later = lock.try_take(ONE).unwrap();
        lock.mark(word.load(Ordering::Relaxed)).unwrap();
        assert!(lock.take_from(seen, OTHER, CONTENDED).is_none());
        assert_eq!(lock.release(later), Ok(()));
    }

    #[test]
    fn an_owner_that_can_not_be_one_is_an_error() {
        for owner in [MOST_SLOTS + 1, OWNER, OTHER as u64 + 1] {
            let word = Counter::new(owner | (5 * ACQUISITION));
            let lock = WriterLock::new(&word);
            assert!(lock.try_take(OTHER).is_none());
            assert!(
                is_wrong(lock.take(OTHER, Duration::MAX, always(true))),
                "{owner}"
            );
        }
    }

    #[test]
    fn a_word_that_is_not_the_owners_is_an_error_and_left_alone() {
        let other: [fn(u64) -> u64; 4] = [
            |_| 0,
            |_| u64::MAX,
            |word| word + 1,
            |word| word ^ ACQUISITION << 40,
        ];
        for other in other {
            let word = Counter::new(0);
            let lock = WriterLock::new(&word);
            let owned = lock.try_take(ONE).unwrap();
            let damaged = other(word.load(Ordering::Relaxed));
            word.store(damaged, Ordering::Relaxed);
            assert_eq!(lock.check(owned).unwrap_err().got, damaged);
            assert_eq!(lock.release(owned).unwrap_err().got, damaged);
            assert_eq!(word.load(Ordering::Relaxed), damaged);
        }
    }

    /// Without a wake-up they would sleep for a slice each time.
    #[test]
    fn threads_that_sleep_are_woken() {
        const EACH: u64 = 20_000;
        let (word, steps) = (Counter::new(0), Counter::new(0));
        let lock = WriterLock::new(&word);
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let steps = &steps;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let owned = lock.take(slot, Duration::MAX, always(true)).unwrap();
                        let step = steps.load(Ordering::Relaxed);
                        steps.store(step + 1, Ordering::Relaxed);
                        lock.release(owned).unwrap();
                    }
                });
            }
        });
        assert_eq!(steps.load(Ordering::Relaxed), 4 * EACH);
    }
}
