//! Sends commands on some connections, reads what comes, and takes the time; one thread waits for all of them at once.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use everseen_benches::histogram::Histogram;
use everseen_benches::keys::hash;

use super::work::Work;
use crate::sys;

/// How much of a piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Items, a whole number of rounds on all connections.
    pub count: u64,
    longest: f64,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Done {
    pub items: u64,
    /// Items that were answered by 1.
    pub ones: u64,
    pub took: Duration,
    /// From a connection's commands to their last answer.
    pub waits: Histogram,
}

impl Done {
    /// Items a second.
    pub fn rate(&self) -> f64 {
        self.items as f64 / self.took.as_secs_f64()
    }
}

impl Load {
    /// At least as many items, in whole batches of all connections.
    pub fn new(work: &Work, count: u64, longest: f64) -> Self {
        let step = work.connections as u64 * work.depth * work.items;
        Load {
            count: count.div_ceil(step).max(1) * step,
            longest,
        }
    }
}

/// One connection, and what it waits for.
struct Connection {
    stream: TcpStream,
    /// Bytes that are not sent yet are those from here on.
    sent: usize,
    request: Vec<u8>,
    /// Bytes that still have to come.
    due: usize,
    since: Instant,
}

/// Where the numbers of items come from.
struct Numbers {
    fresh: Range<u64>,
    there: u64,
    drawn: u64,
}

impl Numbers {
    fn next(&mut self, adds: bool) -> u64 {
        if adds {
            return self
                .fresh
                .next()
                .expect("there are as many as the load counts");
        }
        self.drawn += 1;
        hash(self.drawn ^ 0x5eed) % self.there
    }
}

/// Does the work. New items have numbers of the range, others are below `there`.
pub fn run(port: u16, work: &Work, load: &Load, fresh: Range<u64>, there: u64) -> Result<Done> {
    let mut numbers = Numbers {
        fresh,
        there,
        drawn: 0,
    };
    let mut connections = Vec::new();
    for _ in 0..work.connections {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        connections.push(Connection {
            stream,
            sent: 0,
            request: Vec::new(),
            due: 0,
            since: Instant::now(),
        });
    }
    let mut done = Done {
        items: 0,
        ones: 0,
        took: Duration::ZERO,
        waits: Histogram::default(),
    };
    let batch = work.depth * work.items;
    let mut left = load.count / batch;
    let mut buffer = vec![0; 1 << 16];
    let begun = Instant::now();
    for connection in &mut connections {
        left -= 1;
        connection.begin(work, &mut numbers)?;
    }
    loop {
        let waiting: Vec<_> = connections
            .iter()
            .map(|connection| (&connection.stream, connection.wants()))
            .collect();
        if !waiting.iter().any(|(_, wants)| wants.read || wants.write) {
            break;
        }
        let ready = sys::poll(&waiting)?;
        for (connection, _) in connections
            .iter_mut()
            .zip(ready)
            .filter(|(_, ready)| *ready)
        {
            connection.send()?;
            if !connection.receive(&mut buffer, &mut done)? {
                continue;
            }
            done.items += batch;
            done.waits.add(connection.since.elapsed().as_nanos() as u64);
            if left > 0 && begun.elapsed().as_secs_f64() < load.longest {
                left -= 1;
                connection.begin(work, &mut numbers)?;
            }
        }
    }
    done.took = begun.elapsed();
    Ok(done)
}

impl Connection {
    fn wants(&self) -> sys::Wants {
        sys::Wants {
            read: self.due > 0,
            write: self.sent < self.request.len(),
        }
    }

    /// Sends the next commands, as far as they go.
    fn begin(&mut self, work: &Work, numbers: &mut Numbers) -> Result<()> {
        self.request.clear();
        self.sent = 0;
        for _ in 0..work.depth {
            let items = (0..work.items).map(|_| numbers.next(work.adds));
            work.write(items, &mut self.request);
        }
        self.due = work.depth as usize * work.answer_bytes();
        self.since = Instant::now();
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        while self.sent < self.request.len() {
            match self.stream.write(&self.request[self.sent..]) {
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what there is; whether all answers are there.
    fn receive(&mut self, buffer: &mut [u8], done: &mut Done) -> Result<bool> {
        while self.due > 0 {
            let most = buffer.len().min(self.due);
            match self.stream.read(&mut buffer[..most]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(read) => {
                    let came = &buffer[..read];
                    if came.contains(&b'-') {
                        bail!(
                            "it said {:?}",
                            String::from_utf8_lossy(&came[..read.min(200)])
                        );
                    }
                    let ones = came.windows(2).filter(|pair| pair == b":1").count();
                    done.ones += ones as u64;
                    self.due -= read;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
