//! Shared memory of another version, which has the store open.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use everseen::Error;
use everseen::testing::Options;

use crate::support::files::{beside, keys, place, small};

fn options() -> Options {
    // More than a dying process takes to let go of its locks, and less than anybody should wait.
    small().capacity(1000).timeout(Duration::from_secs(20))
}

#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn another_layout_of_shared_memory_is_said_to_be_that() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..10)).unwrap();
    let shared = beside(&path, "-shm");
    let file = File::options().write(true).open(&shared).unwrap();
    let refused = |got: &str| {
        for outcome in [options().open(&path), options().open_read_only(&path)] {
            match outcome {
                Err(Error::OtherLayout {
                    path,
                    expected,
                    got: found,
                }) => {
                    assert_eq!(path, shared);
                    assert_eq!(expected, "`EVERSHM8` of 16384 bytes");
                    assert_eq!(found, got);
                }
                other => panic!("{other:?}"),
            }
        }
    };
    // The earlier ones have another writer lock, or buffers of one size.
    for other in ["EVERSHM3", "EVERSHM4", "EVERSHM9"] {
        file.write_all_at(other.as_bytes(), 0).unwrap();
        refused(&format!("`{other}` of 16384 bytes"));
    }
    file.write_all_at(b"EVERSHM8", 0).unwrap();
    file.set_len(32_768).unwrap();
    refused("`EVERSHM8` of 32768 bytes");
    file.set_len(16_384).unwrap();
    // It was none of the handle's doing.
    let other = options().open(&path).unwrap();
    assert!(other.contains(&keys(0..1)[0]).unwrap());
}
