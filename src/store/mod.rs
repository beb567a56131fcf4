//! The store: the only place that orders writes.

mod api;
mod backup;
mod check;
mod checkpoint;
mod config;
mod coordination;
mod engine;
mod generation;
mod merge;
mod open;
mod prefetch;
mod read;
mod storefile;
mod view;
mod write;

pub use api::counting::Removal;
pub use api::existing::OptionDifference;
pub use api::measured::Measured;
pub use api::precheck::Precheck;
pub use api::program_lock::StoreLock;
pub use api::sieve::{Sieve, Sweep};
pub use api::store::Store;
pub use backup::apply::ApplyReport;
pub use backup::delta_writer::DeltaReport;
pub use backup::progress::Progress;
pub use backup::snapshot::SnapshotReport;
pub use check::fullness::{Fullness, LayerOccupancy};
pub use check::repair::RepairReport;
pub use check::segments::SegmentDamage;
pub use check::stats::{LayerStats, Stats};
pub use check::verify::{PageState, VerifyReport};
pub use config::damage_policy::OnDamage;
pub use config::options::{
    DEFAULT_BUFFER, DEFAULT_FIRST_LAYER, DEFAULT_FPR, DEFAULT_GROWS_TO, DEFAULT_GROWTH,
    DEFAULT_TIGHTENING, DEFAULT_TIMEOUT, LEAST_BUFFER, MOST_FIRST_BUFFER, Options,
};
pub use engine::damage::Damage;
pub use engine::recovery_report::RecoveryReport;
#[cfg(fuzzing)]
pub(crate) use generation::log_summary::{LogSummary, scan};
pub use merge::{Merge, MergeReport};
pub use open::close::CloseReport;
pub use write::commit::Commit;
pub use write::exempt::ExemptReport;
pub use write::verdict::Verdict;
