//! What batches cost through C, beside the library's own: on stores of the same content, in turns.
//!
//! `cargo bench -p everseen-capi` prints medians, in nanoseconds a key of the calling thread's processor time, and their
//! ratios; docs/c.md has the figures.

use std::ffi::{CString, c_char, c_void};
use std::ops::Range;
use std::path::Path;
use std::ptr;

use everseen::{CreateOptions, Store};
// For its functions, which C's declarations below name.
use everseen_c as _;
use rustix::time::{ClockId, clock_gettime};

// SAFETY: as everseen.h declares them.
unsafe extern "C" {
    fn everseen_open_or_create(
        path: *const c_char,
        options: *mut c_void,
        store: *mut *mut c_void,
    ) -> i32;
    fn everseen_insert_batch(
        store: *mut c_void,
        keys: *const *const c_void,
        lengths: *const usize,
        count: usize,
        answers: *mut u8,
        done: *mut usize,
    ) -> i32;
    fn everseen_contains_batch(
        store: *mut c_void,
        keys: *const *const c_void,
        lengths: *const usize,
        count: usize,
        found: *mut u8,
    ) -> i32;
    fn everseen_insert_offsets64(
        store: *mut c_void,
        bytes: *const c_void,
        length: usize,
        offsets: *const i64,
        count: usize,
        answers: *mut u8,
        done: *mut usize,
    ) -> i32;
    fn everseen_contains_offsets64(
        store: *mut c_void,
        bytes: *const c_void,
        length: usize,
        offsets: *const i64,
        count: usize,
        found: *mut u8,
    ) -> i32;
    fn everseen_free(store: *mut c_void);
}

/// Keys as each of the three callers has them at hand.
struct Keys<'b> {
    bytes: &'b [u8],
    slices: Vec<&'b [u8]>,
    pointers: Vec<*const c_void>,
    lengths: Vec<usize>,
    offsets: Vec<i64>,
}

impl<'b> Keys<'b> {
    /// Returns the keys of some bytes, 20 for each.
    fn of(bytes: &'b [u8]) -> Self {
        let slices: Vec<_> = bytes.chunks(20).collect();
        Self {
            bytes,
            pointers: slices.iter().map(|key| key.as_ptr().cast()).collect(),
            lengths: slices.iter().map(|key| key.len()).collect(),
            offsets: (0..=bytes.len() as i64).step_by(20).collect(),
            slices,
        }
    }
}

/// Returns the names of some numbers, 20 bytes each.
fn names(numbers: Range<u64>) -> Vec<u8> {
    let name = |number: u64| format!("{:020}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    numbers
        .flat_map(|number| name(number).into_bytes())
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Library,
    Arrays,
    Offsets,
}

const CALLERS: [Caller; 3] = [Caller::Library, Caller::Arrays, Caller::Offsets];

/// The stores of the three callers.
struct Stores {
    library: Store,
    arrays: *mut c_void,
    offsets: *mut c_void,
}

impl Stores {
    fn in_folder(folder: &Path) -> Self {
        let path = |name: &str| folder.join(name);
        let new = || CreateOptions::new().capacity(20_000_000).fpr(1e-6);
        let through_c = |name: &str| {
            new().create(path(name)).unwrap().close().unwrap();
            let path = CString::new(path(name).to_str().unwrap()).unwrap();
            let (mut store, none) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: a path with a zero at its end, no options, and a place for a handle.
            let code = unsafe { everseen_open_or_create(path.as_ptr(), none, &raw mut store) };
            assert_eq!(code, 0);
            store
        };
        Self {
            library: new().create(path("library.ever")).unwrap(),
            arrays: through_c("arrays.ever"),
            offsets: through_c("offsets.ever"),
        }
    }

    /// Runs a batch as a caller does, and returns the nanoseconds that it takes.
    fn time(&self, caller: Caller, inserts: bool, keys: &Keys, answers: &mut [u8]) -> u64 {
        let count = keys.lengths.len();
        let (pointers, lengths) = (keys.pointers.as_ptr(), keys.lengths.as_ptr());
        let (bytes, length) = (keys.bytes.as_ptr().cast(), keys.bytes.len());
        let (offsets, found, done) = (keys.offsets.as_ptr(), answers.as_mut_ptr(), ptr::null_mut());
        assert!(count <= answers.len());
        let begun = processor_time();
        // SAFETY: open stores, `count` keys in each layout, and room for as many answers.
        let code = unsafe {
            match (caller, inserts) {
                (Caller::Library, true) => {
                    drop(self.library.insert_batch(&keys.slices).unwrap());
                    0
                }
                (Caller::Library, false) => {
                    drop(self.library.contains_batch(&keys.slices).unwrap());
                    0
                }
                (Caller::Arrays, true) => {
                    everseen_insert_batch(self.arrays, pointers, lengths, count, found, done)
                }
                (Caller::Arrays, false) => {
                    everseen_contains_batch(self.arrays, pointers, lengths, count, found)
                }
                (Caller::Offsets, true) => everseen_insert_offsets64(
                    self.offsets,
                    bytes,
                    length,
                    offsets,
                    count,
                    found,
                    done,
                ),
                (Caller::Offsets, false) => {
                    everseen_contains_offsets64(self.offsets, bytes, length, offsets, count, found)
                }
            }
        };
        let taken = processor_time() - begun;
        assert_eq!(code, 0);
        taken
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        for store in [self.arrays, self.offsets] {
            // SAFETY: open, and not used any more.
            unsafe { everseen_free(store) };
        }
    }
}

/// The nanoseconds that this thread has run: not those in which others did.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64
}

/// Prints what a batch costs each caller. Round by round it has the next `count` keys from `first` on.
fn compare(stores: &Stores, name: &str, inserts: bool, rounds: u64, (first, count): (u64, u64)) {
    let mut times = [const { Vec::new() }; 3];
    let mut answers = vec![0; count as usize];
    for round in 0..rounds {
        let begin = first + round * count;
        let names = names(begin..begin + count);
        let keys = Keys::of(&names);
        for turn in 0..3 {
            // The callers take turns at going first: the first one finds less in the caches.
            let which = ((round + turn) % 3) as usize;
            times[which].push(stores.time(CALLERS[which], inserts, &keys, &mut answers));
        }
    }
    let [library, arrays, offsets] = times.map(|times| median(times) / count as f64);
    println!(
        "{name:<22} {count:>7} {library:>8.1} {arrays:>8.1} {:>6.3} {offsets:>8.1} {:>6.3}",
        arrays / library,
        offsets / library
    );
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::in_folder(folder.path());
    // Cargo says so when it measures. Otherwise this shows that the bench works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    println!("nanoseconds a key        batch  library   arrays  ratio  offsets  ratio");
    let mut next = 0;
    for (count, rounds) in [(1000, 1500), (10_000, 300), (100_000, 90)] {
        let rounds = if measures { rounds } else { 3 };
        compare(&stores, "insert, new", true, rounds, (next, count));
        compare(&stores, "insert, seen", true, rounds, (next, count));
        compare(&stores, "contains, present", false, rounds, (next, count));
        compare(&stores, "contains, absent", false, rounds, (1 << 40, count));
        next += count * rounds;
    }
}
