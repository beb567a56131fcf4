//! The free room of a checkpoint that two threads write to.

use std::ops::Range;
use std::sync::Mutex;

use crate::fingerprint::segment::free_room::FreeRoom;
use crate::sys::lock;

/// A thread's share of the free room. It takes the pages of many segments at once, so that its segments lie together, as
/// large writes and a file without holes want them.
pub(crate) struct RoomShare<'a> {
    room: &'a Mutex<FreeRoom>,
    at_once: u64,
    /// What it has taken and not handed out.
    run: Range<u64>,
}

impl<'a> RoomShare<'a> {
    /// Takes about `at_once` pages at a time from here on; with 0, no more than are asked for.
    pub(crate) fn new(room: &'a Mutex<FreeRoom>, at_once: u64) -> Self {
        Self {
            room,
            at_once,
            run: 0..0,
        }
    }

    /// Takes this many pages that lie together. Returns the first, or `None` if no file has as many pages.
    pub(crate) fn take(&mut self, pages: u64) -> Option<u64> {
        if self.run.end - self.run.start < pages {
            let mut room = lock(self.room);
            room.give_back(std::mem::take(&mut self.run));
            self.run = room.take_run(pages, self.at_once)?;
        }
        assert!((1..=self.run.end - self.run.start).contains(&pages));
        let first = self.run.start;
        self.run.start += pages;
        Some(first)
    }
}

impl Drop for RoomShare<'_> {
    fn drop(&mut self) {
        lock(self.room).give_back(self.run.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::layout::FIRST_PAGE;

    #[test]
    fn what_is_left_of_a_share_is_free_again() {
        let room = Mutex::new(FreeRoom::around([]));
        let (mut one, mut other) = (RoomShare::new(&room, 10), RoomShare::new(&room, 0));
        assert_eq!(one.take(4), Some(FIRST_PAGE));
        assert_eq!(other.take(7), Some(FIRST_PAGE + 10));
        assert_eq!(one.take(6), Some(FIRST_PAGE + 4));
        assert_eq!(one.take(3), Some(FIRST_PAGE + 17));
        // Too much for what is left, which the next run begins with.
        assert_eq!(one.take(8), Some(FIRST_PAGE + 20));
        assert_eq!(other.take(1), Some(FIRST_PAGE + 30));
        drop((one, other));
        let room = lock(&room);
        let left = FIRST_PAGE + 28..FIRST_PAGE + 30;
        assert_eq!(room.runs().collect::<Vec<_>>(), [left]);
        assert_eq!(room.end(), FIRST_PAGE + 31);
    }
}
