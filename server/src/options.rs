//! The server's command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// When an answer is sent: what it says is then as safe as this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Once it is on the disk: power loss takes nothing that was answered
    Always,
    /// At once. All is on the disk a second later; until then a power loss takes it, a killed server does not
    Second,
    /// At once. The system writes when it likes; a killed server takes nothing, a power loss the last half minute
    No,
}

/// Serves a folder of Everseen stores to Redis clients: BF.*, CF.* and EV.* commands, each key a file.
#[derive(Clone, Debug, Parser)]
#[command(name = "everseen-server", version, after_help = EXAMPLES)]
pub struct Options {
    /// Folder of the stores; each Redis key is one of its files
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,

    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380")]
    pub listen: SocketAddr,

    /// Socket file to listen on, too
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,

    /// File of users: lines of NAME read|write|admin HASH, the SHA-256 of the password. Then all must say who they are
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,

    /// Certificate of the server; then only TLS is spoken on its address
    #[arg(long, value_name = "PEM", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of that certificate
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Certificates of which one must have signed a client's
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Address that answers GET /metrics with what the server counts (OpenMetrics)
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,

    /// What an answer means
    #[arg(long, value_enum, default_value_t = Durability::Always)]
    pub durable: Durability,

    /// Stores open at once
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_open: usize,

    /// Seconds without use after which a store is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub idle: u64,

    /// Mebibytes of memory for the write buffers of one store
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub buffer: u64,

    /// Clients connected at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_clients: usize,

    /// MiB for partly received requests, and as many for commands queued for EXEC
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub max_pending: u64,

    /// Mebibytes of one argument
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=512))]
    pub max_argument: u64,

    /// Mebibytes of one request
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub max_request: u64,
}

const EXAMPLES: &str = "\
Examples:
  everseen serve --dir filters                         # on 127.0.0.1:6380
  redis-cli -p 6380 BF.ADD visited https://example.org/
  printf '%s' 'my password' | sha256sum                # for a line of --users
  everseen check filters/visited.ever urls.txt         # the same store, from the command";
