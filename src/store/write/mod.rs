//! TODO write

pub(crate) mod claims;
pub(crate) mod commit;
pub(crate) mod count;
pub(crate) mod exempt;
pub(crate) mod fpr_sample;
pub(crate) mod freshness;
pub(crate) mod guard;
pub(crate) mod insert;
pub(crate) mod quiesce;
pub(crate) mod rotation;
pub(crate) mod shm_checks;
