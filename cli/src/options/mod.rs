//! Arguments that several subcommands share, and the units that users type.

pub(crate) mod forgetting;
pub(crate) mod memory;
pub(crate) mod named_file;
pub(crate) mod new_store;
pub(crate) mod on_damage;
pub(crate) mod summary;
pub(crate) mod timeout;
pub(crate) mod units;
pub(crate) mod window;
