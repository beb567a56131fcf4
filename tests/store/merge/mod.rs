//! Merging: unions and folds against stores that got all keys one by one (the slow obvious twin), while others insert,
//! on failing disks, and with inputs that don't fit.

mod faults;
mod fold;
mod growing;
mod halfway;
mod like;
mod live;
pub(crate) mod pages;
mod refused;
mod union;
