//! What the fuzz targets share: small good stores, changes to their bytes that get past the checksums if they are told
//! to, and a disk with an end.

pub mod disk;
pub mod forge;
pub mod stores;
pub mod wire;
