//! What the server counts, as OpenMetrics over HTTP.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;

use crate::commands::COMMANDS;
use crate::server::Server;

/// What is counted while commands run.
#[derive(Debug)]
pub struct Counts {
    /// Of batches: from when one was read until its answers may be sent.
    pub latency: Histogram,
    pub denied: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        // From 16 microseconds to half a minute.
        let bounds = (0..21).map(|power| 16e-6 * f64::from(1_u32 << power));
        Counts {
            latency: Histogram::new(bounds),
            denied: AtomicU64::new(0),
        }
    }
}

impl Counts {
    /// Returns how many commands ran.
    pub fn commands() -> u64 {
        let counts = COMMANDS.iter().map(|command| &command.runs);
        counts.map(|runs| runs.load(Ordering::Relaxed)).sum()
    }
}

/// Answers GET /metrics on an address until the server ends.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.ended() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Of files that may be open there is none left, perhaps for a while.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &server);
                async { Ok::<_, Infallible>(answer) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .keep_alive(false);
            // The one that asked may have left.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(request: &Request<Incoming>, server: &Arc<Server>) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        let mut response = Response::new(Full::from("the metrics are at /metrics\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let mut registry = Registry::with_prefix("everseen");
    registry.register_collector(Box::new(Reading(Arc::clone(server))));
    let mut body = String::new();
    let mut response = match text::encode(&mut body, &registry) {
        Ok(()) => Response::new(Full::from(body)),
        Err(fmt::Error) => {
            let mut response = Response::new(Full::from("the metrics can't be written\n"));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return response;
        }
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response
        .headers_mut()
        .insert("content-type", kind.parse().expect("a plain header"));
    response
}

/// The counts at one moment.
#[derive(Debug)]
struct Reading(Arc<Server>);

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_server(&mut encoder)?;
        self.encode_commands(&mut encoder)?;
        self.encode_stores(&mut encoder)
    }
}

impl Reading {
    fn encode_server(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let server = &self.0;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let clients = i64::try_from(server.clients.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let open = server.database.open_stores().len();
        for (name, help, value) in [
            ("clients", "Clients connected", clients),
            (
                "stores_open",
                "Stores open",
                i64::try_from(open).unwrap_or(i64::MAX),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(encoder)?;
        }
        for (name, help, value) in [
            (
                "connections",
                "Connections accepted",
                load(&server.connections),
            ),
            (
                "connections_refused",
                "Connections refused, as there were too many",
                load(&server.refused_connections),
            ),
            (
                "authentications_denied",
                "Wrong passwords",
                load(&server.counts.denied),
            ),
            (
                "commits",
                "Commits of all stores",
                load(&server.database.commits.done),
            ),
            (
                "commit_failures",
                "Commits that failed",
                load(&server.database.commits.failed),
            ),
        ] {
            let counter = ConstCounter::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(encoder)?;
        }
        let latency = &server.counts.latency;
        let encoder = encoder.encode_descriptor(
            "batch_latency",
            "From a batch of commands to its answers, commits included",
            Some(&Unit::Seconds),
            latency.metric_type(),
        )?;
        latency.encode(encoder)
    }

    fn encode_commands(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = ConstCounter::new(0_u64).metric_type();
        let mut family = encoder.encode_descriptor("commands", "Commands run", None, kind)?;
        for command in &COMMANDS {
            let count = command.runs.load(Ordering::Relaxed);
            if count > 0 {
                let labels = [("command", command.name)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Of the stores that are open: the others are not opened for this.
    fn encode_stores(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stores: Vec<_> = self
            .0
            .database
            .open_names()
            .into_iter()
            .map(|(name, store)| {
                let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
                (name, store.store.stats())
            })
            .collect();
        type Read = fn(&everseen::Stats) -> f64;
        let gauges: [(&str, &str, Read); 4] = [
            ("store_keys", "Keys in an open store", |stats| {
                stats.keys as f64
            }),
            (
                "store_fpr",
                "False-positive rate of an open store now",
                |stats| stats.fpr_now,
            ),
            ("store_bytes", "Bytes of an open store's file", |stats| {
                stats.bytes as f64
            }),
            (
                "store_log_bytes",
                "Bytes in an open store's logs",
                |stats| stats.log_bytes as f64,
            ),
        ];
        let kind = ConstGauge::new(0.0).metric_type();
        for (name, help, read) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (store, stats) in &stores {
                if let Ok(stats) = stats {
                    let labels = [("store", store.as_str())];
                    ConstGauge::new(read(stats)).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let mut family = encoder.encode_descriptor(
            "store_failed",
            "1 if an open store can't be used: damaged, or a write failed",
            None,
            kind,
        )?;
        for (store, stats) in &stores {
            let labels = [("store", store.as_str())];
            let failed = if stats.is_err() { 1.0 } else { 0.0 };
            ConstGauge::new(failed).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
