//! One connection: reads requests, runs all that have come, makes their answers true, and writes them.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::commands::{Answers, run_batch};
use crate::memory::Reserved;
use crate::reply::Reply;
use crate::request::{Batch, Cutter, Limits};
use crate::server::Server;
use crate::session::Session;

/// Requests that are run before their answers are written.
const MOST_REQUESTS: usize = 4096;
/// Bytes that are kept for a connection between requests.
const KEPT: usize = 64 << 10;
/// How long a client may leave its answers unread before it reads some.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client has to say who it is, where all must.
const STRANGERS_TIME: Duration = Duration::from_secs(10);
/// How long the answer to a wrong password takes.
const DENIAL: Duration = Duration::from_millis(500);

/// Serves one client until it leaves, or the server ends.
pub async fn serve(server: &Server, id: u64, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut session = Session::new(id, server.users.of_strangers());
    // A client that is gone is no fault of the server.
    let _ = converse(server, &mut session, &mut stream).await;
    let claimants = session.take_claimants();
    if !claimants.is_empty() {
        // What it claimed and didn't commit is given back.
        let _ = tokio::task::spawn_blocking(move || drop(claimants)).await;
    }
}

async fn converse(
    server: &Server,
    session: &mut Session,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<()> {
    // Since when it has to say who it is.
    let mut stranger_since = Instant::now();
    let mut input = Input::default();
    let mut out = BytesMut::new();
    while !session.ends {
        let limits = match session.rights {
            Some(_) => &server.limits,
            None => &Limits::STRANGER,
        };
        let batch = match Batch::take(&mut input.buffer, &mut input.cutter, limits, MOST_REQUESTS) {
            Ok(batch) => batch,
            Err(error) => {
                Reply::Error(format!("ERR {error}").into()).encode(session.protocol, &mut out);
                return write(stream, &mut out).await;
            }
        };
        if session.rights.is_some() {
            stranger_since = Instant::now();
        }
        if batch.is_empty() {
            let most = match session.rights {
                Some(_) => None,
                None => Some(STRANGERS_TIME.saturating_sub(stranger_since.elapsed())),
            };
            match input.read(server, stream, most).await? {
                Read::Some => {}
                Read::End => return Ok(()),
                Read::TooMuch => {
                    let text =
                        "OOM the requests that have come in part take as much memory as they may";
                    Reply::Error(text.into()).encode(session.protocol, &mut out);
                    return write(stream, &mut out).await;
                }
            }
            continue;
        }
        answer(server, session, stream, &batch, &mut out).await?;
    }
    stream.shutdown().await
}

/// Runs a batch, and sends its answers.
async fn answer(
    server: &Server,
    session: &mut Session,
    stream: &mut (impl AsyncWrite + Unpin),
    batch: &Batch,
    out: &mut BytesMut,
) -> io::Result<()> {
    let mut next = 0;
    while next < batch.len() && !session.ends {
        let started = Instant::now();
        let (mut answers, ran) = run_batch(server, session, batch, next);
        next += ran;
        settle(&mut answers).await;
        let took = started.elapsed().as_secs_f64();
        server.counts.latency.observe(took);
        if std::mem::take(&mut session.denials) > 0 {
            tokio::time::sleep(DENIAL).await;
        }
        for (reply, protocol) in answers.replies {
            reply.encode(protocol, out);
        }
        write(stream, out).await?;
        if out.capacity() > KEPT {
            *out = BytesMut::new();
        }
    }
    Ok(())
}

/// What a client has sent, as far as it isn't answered.
#[derive(Default)]
struct Input {
    buffer: BytesMut,
    cutter: Cutter,
    /// Of a large request of which only a part has come, the memory.
    reserved: Reserved,
}

/// What reading brought.
enum Read {
    Some,
    End,
    /// There is no memory for the rest of the request.
    TooMuch,
}

impl Input {
    /// Reads more, for as long as a client may take.
    async fn read(
        &mut self,
        server: &Server,
        stream: &mut (impl AsyncRead + Unpin),
        most: Option<Duration>,
    ) -> io::Result<Read> {
        if self.buffer.is_empty() {
            self.reserved = Reserved::default();
            if self.buffer.capacity() > KEPT {
                self.buffer = BytesMut::new();
            }
        }
        let unreserved = self.buffer.len().saturating_sub(self.reserved.bytes());
        if unreserved > KEPT && !server.pending.reserve(&mut self.reserved, unreserved) {
            return Ok(Read::TooMuch);
        }
        self.buffer.reserve(4 << 10);
        let bytes = tokio::select! {
            read = stream.read_buf(&mut self.buffer) => read?,
            () = server.ended() => 0,
            () = tokio::time::sleep(most.unwrap_or_default()), if most.is_some() => 0,
        };
        Ok(if bytes == 0 { Read::End } else { Read::Some })
    }
}

/// Waits until the disk has what the answers say. An answer whose commit fails becomes that error.
async fn settle(answers: &mut Answers) {
    for (store, places) in std::mem::take(&mut answers.unsettled) {
        if let Err(refusal) = store.settle().await {
            for place in places {
                answers.replies[place].0 = refusal.clone().into();
            }
        }
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), out: &mut BytesMut) -> io::Result<()> {
    while !out.is_empty() {
        let written = in_time(stream.write_buf(out)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    in_time(stream.flush()).await
}

/// Waits for a part of the answers to be taken.
async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(WRITE_TIMEOUT, work).await;
    done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
