//! A server that speaks Redis' Bloom commands. Each Redis key is one store of the library in one folder.
//!
//! A [`connection`] reads bytes, [`request`] cuts them into requests, [`commands`] answers each with a [`reply`], and
//! [`database`] has the stores. What an answer promises is settled between the two: see [`database::group_commit`].

mod commands;
mod connection;
mod database;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod listener;
mod memory;
mod metrics;
mod options;
mod reply;
mod request;
mod server;
mod session;
mod sys;
mod tls;
mod users;

use std::ffi::OsString;

use clap::Parser;

/// Runs the server until a signal ends it, and returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let options = match options::Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            // A closed terminal is no reason to fail otherwise.
            let _ = error.print();
            return error.exit_code().try_into().unwrap_or(2);
        }
    };
    sys::give_large_blocks_back();
    match listener::serve(&options) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("everseen-server: {error}");
            2
        }
    }
}
