//! *Have I ever seen this key?* For sets too large to keep in memory.
//!
//! A [`Store`] is one file on disk. It answers "never seen" with certainty, and "seen" with an error rate chosen when
//! the store is created. It survives restarts, kills and power cuts, and it needs no more memory than it is granted,
//! whatever its size.
//!
//! # How does it work?
//!
//! A [keyed hash](enum@Hash) turns a key into 64 bits. The high bits choose one page of 4096 bytes in the store file,
//! and a generator seeded with all 64 bits chooses `k` bits in that page: one Bloom filter per page. A key therefore
//! costs at most one read, and sorting keys by hash sorts them by page. That is so in a store with a capacity. One
//! without, which grows, has in each page a sorted list of numbers instead: the high bits of the hashes
//! ([`Kind::Fingerprint`]).
//!
//! New keys go to a write buffer in memory and to an append log on disk. When the buffer is full, a checkpoint walks
//! the file in page order, adds the keys, and removes the log. That is a log-structured merge store reduced to what a
//! filter needs, and the reason why inserts into a filter larger than memory cost sequential writes instead of random
//! ones.
//!
//! # An example
//!
//! ```
//! # fn main() -> everseen::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("visited.ever");
//! use everseen::{CreateOptions, OpenOptions};
//!
//! // A crawler's visited set, which goes back to the last commit when the crawler dies.
//! let options = CreateOptions::new().fpr(1e-6).transactional(true);
//! let visited = options.open_or_create(&path)?;
//!
//! let urls = ["https://example.org/", "https://example.org/a", "https://example.org/"];
//! let first_time = visited.insert_batch(&urls)?;
//! assert_eq!(first_time, [true, true, false]);
//!
//! // The crawler's own position, kept with everything inserted so far, or not at all.
//! visited.commit_with(b"frontier at 2")?;
//! visited.insert("https://example.org/b")?;
//! drop(visited); // dies without a commit
//!
//! let visited = OpenOptions::new().open(&path)?;
//! assert_eq!(visited.last_commit("default")?.unwrap().tag, b"frontier at 2");
//! assert!(visited.contains("https://example.org/a")?);
//! assert!(!visited.contains("https://example.org/b")?);
//! # visited.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - Once `insert` has returned, `contains` is true, in every thread and process, until the end of time: there are no
//!   false negatives.
//! - Of all inserts of one key, in all processes, one returns `true`.
//! - An operation that has returned outlives the process (in a transactional store: once it is committed); a commit
//!   outlives power loss.
//! - Nothing read from disk is used before its checksum and its range have been checked. Bad bytes cause a typed
//!   [`Error`], never a panic.
//!
//! # What it doesn't
//!
//! - It can't list keys, and only stores of [`Kind::Counting`] and [`Kind::Fingerprint`] can remove a key once it is
//!   inserted.
//! - It trusts no network file system with its locks and maps; see [`OpenOptions::exclusive`].
//! - It can't survive another program shortening or overwriting its file: see [`Store`].
//! - It changes no signal's handling. Where the size of files is limited (`RLIMIT_FSIZE`, `ulimit -f`), a process that
//!   doesn't ignore `SIGXFSZ` is killed by a write that would exceed the limit, at which nothing acknowledged is lost; one
//!   that does gets an [`Error::Io`]. The command and Python ignore it.
//! - Where the address space is limited (`RLIMIT_AS`, `ulimit -v`), it takes less of it, and what does not fit is an
//!   [`Error::OutOfMemory`]. But small allocations can't fail: a process that has nothing left is ended by its allocator.
//!
//! `FORMAT.md` describes the bytes, `docs/design.md` gives the reasons.
#![deny(missing_docs)]
// On docs.rs, an item that needs a feature says so.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(unreachable_pub)]
#![warn(clippy::must_use_candidate, clippy::return_self_not_must_use)]

mod api;
mod bloom;
mod codec;
mod config;
mod engine;
mod error;
mod escaped;
mod file;
mod filter;
mod fingerprint;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod generation;
pub mod hash;
mod memtable;
mod page;
mod page_io;
mod prefetch;
mod shm;
pub mod sizing;
#[cfg(feature = "stages")]
#[doc(hidden)]
pub mod stages;
mod storefile;
mod sys;
#[doc(hidden)]
pub mod testing;
mod wal;

pub use api::backup::apply_delta;
pub use api::batch::BatchError;
pub use api::claim::{ClaimOptions, Uncommitted};
pub use api::entry::repair;
pub use api::exemptions::Exemptions;
pub use api::key::Key;
pub use api::precheck::Precheck;
pub use api::program_lock::StoreLock;
pub use api::remove::Removal;
pub use api::sieve::{Sieve, Sweep};
pub use api::store::Store;
pub use bloom::occupancy::LayerOccupancy;
pub use config::create_options::CreateOptions;
pub use config::damage_policy::OnDamage;
pub use config::forget_by::ForgetBy;
pub use config::open_options::OpenOptions;
pub use engine::backup::apply::ApplyReport;
pub use engine::backup::delta_writer::DeltaReport;
pub use engine::backup::snapshot::SnapshotReport;
pub use engine::check::fullness::Fullness;
pub use engine::check::keys_by_age::{KeysByAge, KeysOfStep};
pub use engine::check::measured::Measured;
pub use engine::check::repair::RepairReport;
pub use engine::check::stats::{Forgetting, LayerStats, RunStats, Stats};
pub use engine::check::verify::VerifyReport;
pub use engine::merge::{Merge, MergeReport};
pub use engine::open::close::CloseReport;
pub use engine::recovery_report::RecoveryReport;
pub use engine::write::commit::Commit;
pub use engine::write::exempt::ExemptReport;
pub use engine::write::verdict::Verdict;
pub use error::{Error, Result};
pub use escaped::Escaped;
pub use file::{DeltaError, FileKind, FormatError, SuperblockFault, is_side_file};
pub use filter::differences::OptionDifference;
pub use fingerprint::segment::plan::FingerprintPlan;
pub use fingerprint::verify::SegmentDamage;
pub use hash::Hash;
pub use page::Damage;
pub use page::{Kind, PageState, UnknownKind};
pub use storefile::progress::Progress;
pub use wal::LogError;

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
