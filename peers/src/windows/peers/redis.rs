//! Redis: a key for each key, with an empty value, that expires. Its time is the system's.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo, Pipeline};
use tempfile::TempDir;

use super::{Peer, Setup};

/// How long a server may take to read its log.
const LOADING: Duration = Duration::from_secs(300);

/// A server that listens at a socket in a folder of its own, and is killed when this is dropped.
pub struct Server {
    child: Child,
    folder: TempDir,
}

impl Server {
    /// Why no server can be started here.
    pub fn missing() -> Option<String> {
        let programs = ["redis-server", "setpriv"];
        let lacks = |program: &&str| {
            let mut asked = Command::new(program);
            let status = asked.arg("--version").stdout(Stdio::null()).status();
            !status.is_ok_and(|status| status.success())
        };
        let missing = programs.into_iter().find(lacks)?;
        Some(format!("{missing} is not installed"))
    }

    /// Starts it on the data in a folder, and waits until it answers.
    pub fn start(data: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // The server ends with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "redis-server", "--port", "0"]);
        command.arg("--unixsocket").arg(socket(&folder));
        command.arg("--dir").arg(data);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
        command.args(["--save", "", "--daemonize", "no"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let server = Self { child, folder };
        let begun = Instant::now();
        while let Err(error) = answers(&server.socket()) {
            if begun.elapsed() > LOADING {
                return Err(error).context("the Redis server doesn't answer");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

fn connect(socket: &Path) -> Result<Connection> {
    let address = ConnectionAddr::Unix(socket.to_owned());
    Ok(Client::open(address.into_connection_info()?)?.get_connection()?)
}

/// Whether a server has read its data and answers.
fn answers(socket: &Path) -> Result<()> {
    Ok(redis::cmd("PING").exec(&mut connect(socket)?)?)
}

struct Redis {
    connection: Connection,
    window: Duration,
}

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    let Some(socket) = &setup.socket else {
        bail!("a child was told of no server");
    };
    Ok(Box::new(Redis {
        connection: connect(socket)?,
        window: setup.window,
    }))
}

impl Peer for Redis {
    fn insert(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        let window = self.window.as_millis() as u64;
        for key in keys {
            let set = pipeline.cmd("SET").arg(*key).arg("");
            set.arg("NX").arg("PX").arg(window);
        }
        // It says OK, or nothing if the key is there.
        let said: Vec<Option<String>> = pipeline.query(&mut self.connection)?;
        Ok(said.iter().map(Option::is_some).collect())
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in keys {
            pipeline.cmd("EXISTS").arg(*key);
        }
        Ok(pipeline.query(&mut self.connection)?)
    }
}
