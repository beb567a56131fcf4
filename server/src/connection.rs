//! One connection: reads requests, runs all that have come, makes their answers true, and writes them.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::commands::{Answers, run_batch};
use crate::reply::Reply;
use crate::request::{Batch, Cutter};
use crate::server::Server;
use crate::session::Session;

/// Requests that are run before their answers are written.
const MOST_REQUESTS: usize = 4096;
/// Bytes that are kept for a connection between requests.
const KEPT: usize = 64 << 10;
/// How long a client may leave its answers unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves one client until it leaves, or the server ends.
pub async fn serve(server: &Server, id: u64, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut session = Session::new(id);
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
    let mut buffer = BytesMut::new();
    let mut out = BytesMut::new();
    let mut cutter = Cutter::default();
    while !session.ends {
        let batch = match Batch::take(&mut buffer, &mut cutter, &server.limits, MOST_REQUESTS) {
            Ok(batch) => batch,
            Err(error) => {
                Reply::Error(format!("ERR {error}").into()).encode(session.protocol, &mut out);
                return write(stream, &mut out).await;
            }
        };
        if batch.is_empty() {
            if buffer.is_empty() && buffer.capacity() > KEPT {
                buffer = BytesMut::new();
            }
            buffer.reserve(4 << 10);
            tokio::select! {
                read = stream.read_buf(&mut buffer) => if read? == 0 { return Ok(()) },
                () = server.ended() => return Ok(()),
            }
            continue;
        }
        let mut answers = run_batch(server, session, &batch);
        drop(batch);
        settle(&mut answers).await;
        for (reply, protocol) in answers.replies {
            reply.encode(protocol, &mut out);
        }
        write(stream, &mut out).await?;
        if out.capacity() > KEPT {
            out = BytesMut::new();
        }
    }
    stream.shutdown().await
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
    let written = tokio::time::timeout(WRITE_TIMEOUT, async {
        stream.write_all(out).await?;
        stream.flush().await
    });
    written
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    out.clear();
    Ok(())
}
