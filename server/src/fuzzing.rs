//! What the fuzz targets call. It is in no release.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use clap::Parser as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use crate::commands::COMMANDS;
use crate::connection;
use crate::options::Options;
use crate::request::{Batch, Cutter, Limits};
use crate::server::Server;
use crate::users::Users;

/// A server without a socket.
#[derive(Debug)]
pub struct Unheard {
    runtime: Runtime,
    options: Options,
    /// Another takes its place when it was told to end.
    server: Mutex<Server>,
}

impl Unheard {
    /// # Panics
    /// If the folder or the options can't be used.
    pub fn new(folder: &Path, arguments: &[&str]) -> Self {
        let dir = folder.to_str().expect("a plain name");
        let named = ["everseen-server", "--dir", dir];
        let options = Options::try_parse_from(named.iter().chain(arguments)).expect("options");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Unheard {
            runtime: runtime.expect("a runtime"),
            server: Mutex::new(begun(&options)),
            options,
        }
    }

    /// Has one client say all this, piece by piece, and leave; returns what it was answered.
    ///
    /// # Panics
    /// If the server does, or breaks the connection.
    pub fn converse(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut server = self.server.lock().expect("an earlier panic");
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (mut reader, mut writer) = tokio::io::split(ours);
        let answers = self.runtime.block_on(async {
            let say = async {
                for piece in pieces {
                    // It may have turned the client away.
                    if writer.write_all(piece).await.is_err() {
                        break;
                    }
                }
                let _ = writer.shutdown().await;
            };
            let listen = async {
                let mut answers = Vec::new();
                reader.read_to_end(&mut answers).await.expect("memory");
                answers
            };
            tokio::join!(connection::serve(&server, 1, theirs), say, listen).2
        });
        let has_ended = self.runtime.block_on(async {
            let ended = tokio::time::timeout(Duration::ZERO, server.ended());
            ended.await.is_ok()
        });
        if has_ended {
            server.database.close().expect("stores that close");
            *server = begun(&self.options);
        }
        answers
    }
}

fn begun(options: &Options) -> Server {
    Server::new(options, &options.dir, Users::default()).expect("a folder")
}

/// The names of all commands.
pub fn commands() -> Vec<&'static str> {
    COMMANDS.iter().map(|command| command.name).collect()
}

/// The requests in some bytes, which come piece by piece, and what ends them.
pub fn requests(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = Limits {
        arguments: 1 << 10,
        argument: 1 << 12,
        request: 1 << 14,
    };
    let (mut buffer, mut cutter) = (BytesMut::new(), Cutter::default());
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let batch = match Batch::take(&mut buffer, &mut cutter, &limits, 3) {
                Ok(batch) => batch,
                Err(error) => return (found, Some(error.to_string())),
            };
            if batch.is_empty() {
                break;
            }
            let requests = (0..batch.len()).map(|number| batch.get(number));
            found.extend(requests.map(|request| request.from(0).map(<[u8]>::to_vec).collect()));
        }
    }
    (found, None)
}
