//! A server that this program starts, asks, kills and starts again.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::machine::number;
use everseen_benches::raw::drop_from_cache;
use redis::{Client, Connection, FromRedisValue};

use super::args::{Args, Durability};

/// How long a server may take to read its data.
const LOADING: Duration = Duration::from_secs(1800);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Everseen,
    Redis,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Everseen => "everseen",
            Kind::Redis => "redis",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Kind::Everseen => "Everseen",
            Kind::Redis => "Redis",
        }
    }

    /// Why it can't be started here.
    pub fn missing(self, args: &Args) -> Option<String> {
        let program = match self {
            Kind::Everseen => everseen(args),
            Kind::Redis if args.memory.is_some() => {
                return Some("with --memory it would not live".to_owned());
            }
            Kind::Redis => match &args.module {
                None => return Some("--module names no RedisBloom".to_owned()),
                Some(module) if !module.exists() => {
                    return Some(format!("{} is missing", module.display()));
                }
                Some(_) => args.redis.clone(),
            },
        };
        [program, "taskset".into(), "setpriv".into()]
            .iter()
            .find(|program| !starts(program))
            .map(|program| {
                format!(
                    "{} doesn't start; Everseen's is built by `cargo build --release -p everseen-server`",
                    program.display()
                )
            })
    }
}

fn everseen(args: &Args) -> PathBuf {
    let beside = || {
        let program = std::env::current_exe().unwrap_or_default();
        program.with_file_name("everseen-server")
    };
    args.server.clone().unwrap_or_else(beside)
}

fn starts(program: &Path) -> bool {
    let status = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A running server. It is killed when this is dropped.
pub struct Server {
    kind: Kind,
    folder: PathBuf,
    child: Child,
    port: u16,
    durability: Durability,
    /// What it runs in from its next start on.
    group: Option<MemoryGroup>,
}

impl Server {
    pub fn start(kind: Kind, args: &Args, folder: &Path, durability: Durability) -> Result<Self> {
        let (child, port) = spawn(kind, args, folder, durability)?;
        let server = Server {
            kind,
            folder: folder.to_owned(),
            child,
            port,
            durability,
            group: None,
        };
        server.wait()?;
        Ok(server)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn connect(&self) -> Result<Connection> {
        Ok(Client::open(("127.0.0.1", self.port))?.get_connection()?)
    }

    /// One command.
    pub fn ask<T: FromRedisValue>(&self, name: &str, words: &[&str]) -> Result<T> {
        let answer = redis::cmd(name).arg(words).query(&mut self.connect()?);
        answer.with_context(|| format!("{}: {name}", self.kind.title()))
    }

    /// Waits until it has read its data.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.ask::<String>("PING", &[]) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > LOADING => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Promises something else from now on.
    pub fn be(&mut self, args: &Args, durability: Durability) -> Result<()> {
        let (ours, theirs) = durability.names();
        match self.kind {
            Kind::Everseen if self.durability.names().0 == ours => {}
            Kind::Everseen => self.restart(args, durability)?,
            Kind::Redis if durability == Durability::Off => {
                self.ask::<()>("CONFIG", &["SET", "appendonly", "no"])?;
            }
            Kind::Redis => {
                self.ask::<()>("CONFIG", &["SET", "appendfsync", theirs])?;
                if self.durability == Durability::Off {
                    self.ask::<()>("CONFIG", &["SET", "appendonly", "yes"])?;
                    self.log_is_whole()?;
                }
            }
        }
        self.durability = durability;
        Ok(())
    }

    /// Ends it in good order, and starts it on the same data.
    pub fn restart(&mut self, args: &Args, durability: Durability) -> Result<()> {
        self.end()?;
        self.start_again(args, durability)
    }

    /// Has it start again with so much memory at most, page cache included, and nothing of its files there.
    pub fn limit(&mut self, args: &Args, bytes: u64) -> Result<()> {
        self.group = Some(MemoryGroup::create(bytes).map_err(anyhow::Error::msg)?);
        self.end()?;
        for file in files(&self.folder)? {
            drop_from_cache(&file)?;
        }
        self.start_again(args, self.durability)
    }

    fn end(&mut self) -> Result<()> {
        let process = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &process]).status()?;
        if !status.success() || !self.child.wait()?.success() {
            bail!("{} didn't end in good order", self.kind.title());
        }
        Ok(())
    }

    pub fn start_again(&mut self, args: &Args, durability: Durability) -> Result<()> {
        (self.child, self.port) = spawn(self.kind, args, &self.folder, durability)?;
        self.durability = durability;
        if let Some(group) = &self.group {
            group.add(self.child.id())?;
        }
        self.wait()
    }

    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Makes Redis' log as short as its data, as it does by itself once the log has doubled.
    pub fn rewrite_log(&self) -> Result<()> {
        self.ask::<String>("BGREWRITEAOF", &[])?;
        self.log_is_whole()
    }

    fn log_is_whole(&self) -> Result<()> {
        loop {
            let told: String = self.ask("INFO", &["persistence"])?;
            let is = |name: &str| told.contains(&format!("{name}:1"));
            if !is("aof_rewrite_in_progress") && !is("aof_rewrite_scheduled") {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Bytes of memory that are its own, and with those of files that it has mapped.
    pub fn memory(&self) -> Result<[u64; 2]> {
        let status = format!("/proc/{}/status", self.child.id());
        let kib = |name| number(&status, name).context("the system doesn't tell of memory");
        let own = kib("RssAnon")? + kib("RssShmem")?;
        Ok([own << 10, kib("VmRSS")? << 10])
    }

    /// Bytes on disk of all its files.
    pub fn disk(&self) -> Result<u64> {
        let mut sum = 0;
        for file in files(&self.folder)? {
            sum += std::fs::metadata(file)?.blocks() * 512;
        }
        Ok(sum)
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.append(&mut files(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a core, so that it ends with this process, however that ends.
fn spawn(kind: Kind, args: &Args, folder: &Path, durability: Durability) -> Result<(Child, u16)> {
    let [core, _] = args.cores()?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "-c", &core.to_string()]);
    command.stdin(Stdio::null());
    let (ours, theirs) = durability.names();
    match kind {
        Kind::Everseen => {
            command.arg(everseen(args)).arg("--dir").arg(folder);
            command.args(["--listen", "127.0.0.1:0", "--durable", ours]);
            command.args(&args.with);
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let mut line = String::new();
            let out = child.stdout.take().context("its output is a pipe")?;
            BufReader::new(out).read_line(&mut line)?;
            let port = line
                .trim()
                .rsplit(':')
                .next()
                .and_then(|port| port.parse().ok());
            match (line.starts_with("ready: "), port) {
                (true, Some(port)) => Ok((child, port)),
                _ => bail!("Everseen's server said {line:?}"),
            }
        }
        Kind::Redis => {
            // Nobody else asks for a port in between.
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let module = args.module.as_ref().context("--module names none")?;
            command.arg(&args.redis).args(["--bind", "127.0.0.1"]);
            command.arg("--port").arg(port.to_string());
            command
                .arg("--dir")
                .arg(folder)
                .arg("--loadmodule")
                .arg(module);
            let log = if durability == Durability::Off {
                "no"
            } else {
                "yes"
            };
            let sync = if theirs == "off" { "no" } else { theirs };
            command.args(["--appendonly", log, "--appendfsync", sync]);
            command.args(["--save", "", "--daemonize", "no"]);
            Ok((command.stdout(Stdio::null()).spawn()?, port))
        }
    }
}
