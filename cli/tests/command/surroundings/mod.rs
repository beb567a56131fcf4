//! What a run meets that it did not choose: streams, signals and limits, names, mounts.

mod address_space;
mod newer;
mod odd_names;
mod places;
mod streams;
