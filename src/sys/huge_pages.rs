//! Memory in large pages: what is accessed at random then takes fewer of the entries that a processor keeps of its tables.

/// The least memory that gains by it, in bytes.
#[cfg(not(everseen_portable))]
const LEAST_HUGE: usize = 64 << 20;

/// Returns a vector of so many equal values, in large pages.
pub(crate) fn filled<T: Copy>(value: T, count: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    prefer_huge_pages(&mut values);
    values.resize(count, value);
    values
}

/// Asks the system to back a vector by large pages. It does so where the vector is first used, so this is worthwhile for
/// memory that was just allocated.
pub(crate) fn prefer_huge_pages<T>(values: &mut Vec<T>) {
    #[cfg(not(everseen_portable))]
    {
        const PAGE: usize = 4096;
        let bytes = values.capacity().saturating_mul(size_of::<T>());
        if bytes < LEAST_HUGE {
            return;
        }
        // Whole pages, with what else is in the first and the last one. The system can't move memory of which a part was
        // advised otherwise: a vector that grows would be copied.
        let start = values.as_mut_ptr().cast::<u8>();
        let before = start.addr() % PAGE;
        let whole = (before + bytes).next_multiple_of(PAGE);
        // SAFETY: each of the pages holds a byte of the vector, so all of them are mapped. The advice changes no byte.
        let _ = unsafe {
            let advice = rustix::mm::Advice::LinuxHugepage;
            rustix::mm::madvise(start.wrapping_sub(before).cast(), whole, advice)
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
            assert_eq!(filled(7_u8, keys), vec![7; keys]);
        }
    }

    /// Or the system could not move it when it grows.
    #[cfg(not(everseen_portable))]
    #[test]
    fn all_of_a_vector_is_in_one_mapping() {
        let mut values: Vec<u64> = Vec::with_capacity(LEAST_HUGE / 8);
        prefer_huge_pages(&mut values);
        let start = values.as_ptr().addr();
        let end = start + LEAST_HUGE;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let holds_all = maps.lines().any(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (first, behind) = range.split_once('-').unwrap();
            let [first, behind] = [first, behind].map(|at| usize::from_str_radix(at, 16).unwrap());
            first <= start && end <= behind
        });
        assert!(holds_all, "{start:x}..{end:x} in\n{maps}");
    }
}
