//! The command as its users run it: one binary for all tests, since each takes seconds to build.

mod support;

mod check;
mod commands;
mod damage;
mod dedup;
mod documents;
mod exempt;
mod fullness;
mod hints;
mod input;
mod interrupted;
mod kinds;
mod long_lines;
mod measured;
mod merge;
mod messages;
mod neighbours;
mod new_store;
mod own_files;
mod pending;
mod plain;
mod plan;
mod records;
mod serve;
mod side_files;
mod sieve;
mod sink;
mod small_disk;
mod snapshot;
mod surroundings;
mod terminal;
mod together;
mod urls;
