//! What the mode is told.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args as Arguments;

use super::child::Task;
use super::peers::{ALL, Setup, Variant};
use super::stream::{STEPS, Stream};
use super::survivors::Killed;
use crate::args::count;

/// What `--quick` takes.
const QUICK_LIVE: u64 = 60_000;
const QUICK_WINDOWS: u64 = 4;
/// Keys a second that a server surely takes, so that no step of the system's clock is too short.
const SURELY: u64 = 100_000;
/// The shortest window by the system's clock.
const SHORTEST: Duration = Duration::from_secs(3);

/// A stream of keys with their times, into what forgets keys after a window
#[derive(Arguments)]
pub struct Args {
    /// New keys within a window
    #[arg(long, default_value = "2M", value_parser = count)]
    pub live: u64,

    /// Windows that the stream is long, four at least
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(4..1000))]
    pub windows: u64,

    /// The false-positive rate that filters are made for
    #[arg(long, default_value_t = 1e-6)]
    pub fpr: f64,

    /// The window of a server, whose time is the system's; else long enough for 100,000 keys a second
    #[arg(long, value_name = "SECONDS")]
    pub real_window: Option<f64>,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Only these variants (`--list-variants` names them all)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = variant)]
    pub only: Vec<&'static Variant>,

    /// Few keys: only to see that it works
    #[arg(long)]
    pub quick: bool,

    /// Name the variants, and what each is
    #[arg(long)]
    pub list_variants: bool,

    /// What a child is to do: the variant's name
    #[arg(long, hide = true, value_parser = variant, requires_all = ["folder", "real_window"])]
    work: Option<&'static Variant>,

    /// A child's folder
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,

    /// Where a child's server listens
    #[arg(long, hide = true)]
    socket: Option<PathBuf>,

    /// The number of that server's process
    #[arg(long, hide = true)]
    server: Option<u32>,

    /// When the child before was killed: the begin of its stream, its step, its portions
    #[arg(long, hide = true, value_delimiter = ',')]
    killed: Vec<u64>,
}

impl Args {
    pub fn live(&self) -> u64 {
        if self.quick { QUICK_LIVE } else { self.live }
    }

    /// Steps that are measured.
    pub fn steps(&self) -> u64 {
        STEPS
            * if self.quick {
                QUICK_WINDOWS
            } else {
                self.windows
            }
    }

    /// The window by the system's clock.
    pub fn window(&self, stream: &Stream) -> Result<Duration> {
        if let Some(seconds) = self.real_window {
            return Ok(Duration::try_from_secs_f64(seconds)?.max(SHORTEST));
        }
        let asked = (stream.asked() + stream.absent()) * STEPS;
        Ok(Duration::from_secs(asked / SURELY).max(SHORTEST))
    }

    /// The variants to run, in their order.
    pub fn variants(&self) -> Vec<&'static Variant> {
        let chosen = |variant: &&Variant| {
            self.only.is_empty() || self.only.iter().any(|only| only.name == variant.name)
        };
        ALL.iter().filter(chosen).collect()
    }

    /// What this process is to do as a child, and whether it comes after a kill.
    pub fn task(&self) -> Result<Option<(Task, Option<Killed>)>> {
        let (Some(variant), Some(folder)) = (self.work, &self.folder) else {
            return Ok(None);
        };
        let stream = Stream::new(self.live())?;
        let killed = match *self.killed {
            [] => None,
            [begun, step, portions] => Some(Killed {
                begun,
                step,
                portions,
            }),
            _ => bail!("a child was told {:?}", self.killed),
        };
        let task = Task {
            variant,
            stream,
            steps: self.steps(),
            server: self.server,
            refused: folder.with_extension("refused"),
            begins: folder.with_extension("begins"),
            setup: Setup {
                live: stream.accepted(),
                fpr: self.fpr,
                now: killed.map_or(0, |_| self.steps() - 1),
                window: self.window(&stream)?,
                socket: self.socket.clone(),
                folder: folder.clone(),
            },
        };
        Ok(Some((task, killed)))
    }
}

fn variant(name: &str) -> Result<&'static Variant, String> {
    let found = ALL.iter().find(|variant| variant.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|variant| variant.name).collect();
        format!("one of {}", names.join(", "))
    })
}
