//! Memory in large pages: what is accessed at random then takes fewer of the entries that a processor keeps of its tables.

/// The least memory that gains by it, in bytes.
#[cfg(not(everseen_portable))]
const LEAST_HUGE: usize = 64 << 20;

/// Asks the system to back the room of a vector by large pages. It does so as the room is first used, so this is worthwhile
/// for memory that was just allocated.
pub(crate) fn prefer_huge_pages<T>(values: &mut Vec<T>) {
    #[cfg(not(everseen_portable))]
    {
        const PAGE: usize = 4096;
        let room = values.spare_capacity_mut();
        let bytes = size_of_val(room);
        if bytes < LEAST_HUGE {
            return;
        }
        let start = room.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        let whole = bytes.saturating_sub(skipped) / PAGE * PAGE;
        if whole == 0 {
            return;
        }
        // SAFETY: `skipped` and `whole` lie in the room of the vector, which the borrow keeps. The advice changes no byte.
        let _ = unsafe {
            let advice = rustix::mm::Advice::LinuxHugepage;
            rustix::mm::madvise(start.add(skipped).cast(), whole, advice)
        };
    }
    #[cfg(everseen_portable)]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_vector_holds_stays_and_its_room_may_be_used() {
        for keys in [0, 1, 1000, 20 << 20] {
            let mut values = Vec::with_capacity(keys);
            values.extend(0..keys as u32 / 2);
            prefer_huge_pages(&mut values);
            values.extend(keys as u32 / 2..keys as u32);
            assert!(values.iter().copied().eq(0..keys as u32));
        }
    }
}
