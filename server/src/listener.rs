//! Listening, and the server's end.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::connection;
use crate::metrics;
use crate::options::{Durability, Options};
use crate::reply::{self, Refusal};
use crate::server::Server;
use crate::tls::{self, TlsError};
use crate::users::{Users, UsersError};

/// How long connections have to end when the server does.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait to be accepted. A client that finds no place waits for a second.
const BACKLOG: u32 = 4096;
/// Of Linux and the BSDs: a file would become longer than may be.
const SIGXFSZ: i32 = 25;
/// How long a client has to speak TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A client that is silent for a minute is asked whether it is there.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(20));

/// Why the server could not begin, or not end in order.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("{path}: {source}", path = path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("listening on {at}: {source}")]
    Listen { at: String, source: io::Error },
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{0}")]
    Users(#[from] UsersError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "{0} can be reached from other machines: give --users, so that all must say who they are, or --tls-client-ca, or listen on 127.0.0.1"
    )]
    OpenToAll(SocketAddr),
    #[error("{}", .0.text())]
    Close(Refusal),
}

/// Serves until a signal or SHUTDOWN ends it. Then it commits and closes all stores.
pub fn serve(options: &Options) -> Result<(), ServeError> {
    let folder = |source| ServeError::Folder {
        path: options.dir.clone(),
        source,
    };
    let users = match &options.users {
        Some(path) => Users::read(path)?,
        None => Users::default(),
    };
    let is_guarded = users.are_asked() || options.tls_client_ca.is_some();
    if !options.listen.ip().is_loopback() && !is_guarded {
        return Err(ServeError::OpenToAll(options.listen));
    }
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            let clients = options.tls_client_ca.as_deref();
            Some(tls::acceptor(certificate, key, clients)?)
        }
        _ => None,
    };
    fs::create_dir_all(&options.dir).map_err(folder)?;
    let stores = fs::canonicalize(&options.dir).map_err(folder)?;
    reply::FOLDER.get_or_init(|| stores.clone());
    let server = Arc::new(Server::new(options, &stores, users).map_err(folder)?);
    // Each waits for the disk now and then, and what a waiting one has taken no other serves.
    let threads =
        std::thread::available_parallelism().map_or(4, |threads| threads.get().max(2) * 2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("server")
        .enable_all()
        .build()?;
    runtime.block_on(run(options, tls.as_ref(), &server))?;
    runtime.shutdown_timeout(PATIENCE);
    server.database.close().map_err(ServeError::Close)
}

async fn run(
    options: &Options,
    tls: Option<&TlsAcceptor>,
    server: &Arc<Server>,
) -> Result<(), ServeError> {
    let tcp = bind_tcp(options.listen).map_err(|source| ServeError::Listen {
        at: options.listen.to_string(),
        source,
    })?;
    let unix = options.unix.as_ref().map(bind_unix).transpose()?;
    let counted = match options.metrics {
        None => None,
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            Some(listener.map_err(|source| ServeError::Listen {
                at: address.to_string(),
                source,
            })?)
        }
    };
    println!("ready: {}", tcp.local_addr()?);
    if let Some(path) = &options.unix {
        println!("ready: unix:{}", path.display());
    }
    if let Some(listener) = counted {
        println!("ready: metrics:{}", listener.local_addr()?);
        tokio::spawn(metrics::serve(listener, Arc::clone(server)));
    }
    // Tells the service manager, where there is one.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);

    // With a handler, a write beyond the limit on the size of files is an error, and no end of the server.
    let _limits = signal(SignalKind::from_raw(SIGXFSZ))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut clients = JoinSet::new();
    let mut tending = None;
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            accepted = tcp.accept() => match accepted {
                Ok((stream, _)) => {
                    // An answer waits for nothing.
                    let _ = stream.set_nodelay(true);
                    // A client whose machine is gone would keep its claims.
                    let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
                    match tls {
                        Some(tls) => admit_secret(&mut clients, server, tls, stream),
                        None => admit(&mut clients, server, stream),
                    }
                }
                Err(error) => pause(&error).await,
            },
            accepted = accept_unix(unix.as_ref()) => match accepted {
                Ok(stream) => admit(&mut clients, server, stream),
                Err(error) => pause(&error).await,
            },
            // Not while the work of the second before goes on.
            _ = each_second.tick() => if tending.as_ref().is_none_or(JoinHandle::is_finished) {
                tending = Some(tend(server));
            },
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = server.ended() => break,
        }
    }
    server.end();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let all = async { while clients.join_next().await.is_some() {} };
    // A client that doesn't read its answers is left behind.
    let _ = tokio::time::timeout(PATIENCE, all).await;
    if let Some(path) = &options.unix {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that starts again takes the address of the one that ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind_unix(path: &PathBuf) -> Result<UnixListener, ServeError> {
    // One that a killed server left.
    let is_left = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path).is_err();
    if is_left {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path).map_err(|source| ServeError::Listen {
        at: path.display().to_string(),
        source,
    })
}

async fn accept_unix(listener: Option<&UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Waits until there may be room for a connection again: for an open file, usually.
async fn pause(error: &io::Error) {
    // A closed standard error is no reason to end.
    let _ = writeln!(
        io::stderr(),
        "everseen-server: accepting a connection: {error}"
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn admit<S>(clients: &mut JoinSet<()>, server: &Arc<Server>, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(id) = server.admit() else {
        clients.spawn(async move {
            let _ = stream
                .write_all(b"-ERR max number of clients reached\r\n")
                .await;
        });
        return;
    };
    let server = Arc::clone(server);
    clients.spawn(async move {
        let _client = Client(&server);
        connection::serve(&server, id, stream).await;
    });
}

/// A client that counts as connected until this is dropped, even by a panic.
struct Client<'s>(&'s Server);

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Admits a client that speaks TLS, if it does so soon.
fn admit_secret(
    clients: &mut JoinSet<()>,
    server: &Arc<Server>,
    tls: &TlsAcceptor,
    stream: TcpStream,
) {
    // A refusal would have to be said in TLS, and the handshake is what there is no room for.
    let Some(id) = server.admit() else {
        return;
    };
    let server = Arc::clone(server);
    let handshake = tls.accept(stream);
    clients.spawn(async move {
        let _client = Client(&server);
        if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, handshake).await {
            connection::serve(&server, id, stream).await;
        }
    });
}

/// Does what is due each second: removes what has expired, closes what is out of use, and commits if that is asked.
fn tend(server: &Arc<Server>) -> JoinHandle<()> {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || {
        // What comes after it may wait for a command that takes long.
        if server.durability == Durability::Second {
            for store in server.database.open_stores() {
                if store.is_dirty()
                    && let Err(refusal) = store.commit()
                {
                    eprintln!("everseen-server: committing: {}", refusal.text());
                }
            }
        }
        if server.database.has_expired() {
            // No command may be under way in what goes. Others come in between.
            let removed = server.database.remove_expired(|| server.alone());
            if let Err(refusal) = removed {
                eprintln!(
                    "everseen-server: removing what has expired: {}",
                    refusal.text()
                );
            }
        }
        server.database.close_unused(None);
    })
}
