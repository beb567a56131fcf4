//! The line on the terminal that shows the progress of a long job.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::output::format::{per_second, thousands};
use crate::output::tell;

/// The time between two redraws.
const REDRAW: Duration = Duration::from_millis(100);

/// The bar takes the width that the rest leaves free.
const BAR: &str = "{wide_bar} {percent} %, {counts}, {eta} left";
const SPINNER: &str = "{spinner} {counts}";
/// For a job whose bytes are the store's own.
const BYTES: &str = "{wide_bar} {percent} %, {bytes} of {total_bytes}, {eta} left";

/// The work done so far.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub items: u64,
    /// Items that the command looks for: new ones, or those to print.
    pub kept: u64,
    pub bytes: u64,
    /// Items without a key.
    pub keyless: u64,
    /// Items that should be URLs but are not, and how many of both were dropped.
    pub strays: u64,
    pub dropped: u64,
    /// Items that were too long and skipped.
    pub long: u64,
}

/// A bar if the end is known, otherwise a spinner; nothing if no terminal shows it.
pub struct Progress {
    shown: Option<Shown>,
    is_quiet: bool,
}

/// What the line counts beside the bar.
#[derive(Clone, Copy)]
enum Said {
    /// Lines, and how many of them are of the named kind.
    Lines(&'static str),
    Pages,
}

struct Shown {
    bar: ProgressBar,
    counts: Arc<Counts>,
    drawn: Instant,
}

/// What the bar's style shows besides the bar's own numbers.
#[derive(Default)]
struct Counts {
    items: AtomicU64,
    kept: AtomicU64,
}

impl Progress {
    /// Creates a progress line. `prints` says that items go to standard output, which a bar must not mix with.
    pub fn new(total: Option<u64>, label: &'static str, prints: bool) -> Self {
        let visible = io::stderr().is_terminal() && !(prints && io::stdout().is_terminal());
        Progress {
            shown: visible.then(|| Shown::new(total, Said::Lines(label))),
            is_quiet: false,
        }
    }

    /// Creates one that shows nothing and drops messages.
    pub fn quiet() -> Self {
        Progress {
            shown: None,
            is_quiet: true,
        }
    }

    /// Creates a bar for `total` bytes of pages.
    pub fn of_pages(total: u64) -> Self {
        let visible = io::stderr().is_terminal();
        Progress {
            shown: visible.then(|| Shown::new(Some(total), Said::Pages)),
            is_quiet: false,
        }
    }

    /// Prints a message on standard error, above the bar.
    pub fn tell(&self, message: &str) {
        let tell = || tell(format_args!("everseen: {message}"));
        if self.is_quiet {
            return;
        }
        match &self.shown {
            Some(shown) => shown.bar.suspend(tell),
            None => tell(),
        }
    }

    /// Creates a bar of bytes, whose total becomes known on the way.
    pub fn of_bytes() -> Self {
        let visible = io::stderr().is_terminal();
        let progress = Progress {
            shown: visible.then(|| Shown::new(Some(0), Said::Pages)),
            is_quiet: false,
        };
        if let (Some(shown), Ok(style)) = (&progress.shown, ProgressStyle::with_template(BYTES)) {
            shown.bar.set_style(style);
        }
        progress
    }

    /// Shows how many of all bytes are done, unless the line has just been drawn.
    pub fn update_bytes(&mut self, done: u64, total: u64) {
        if let Some(shown) = &mut self.shown {
            shown.bar.set_length(total);
            shown.update(Tally {
                bytes: done,
                ..Tally::default()
            });
        }
    }

    /// Shows the progress, unless the line has just been drawn.
    pub fn update(&mut self, tally: Tally) {
        if let Some(shown) = &mut self.shown {
            shown.update(tally);
        }
    }
}

impl Shown {
    fn new(total: Option<u64>, said: Said) -> Self {
        let counts = Arc::new(Counts::default());
        let (bar, template) = match total {
            Some(bytes) => (ProgressBar::new(bytes), BAR),
            None => (ProgressBar::new_spinner(), SPINNER),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let counts = Arc::clone(&counts);
            let write = move |state: &ProgressState, out: &mut dyn Write| {
                let items = counts.items.load(Ordering::Relaxed);
                let (kept, speed) = (
                    counts.kept.load(Ordering::Relaxed),
                    per_second(items, state.elapsed()),
                );
                let [items, kept, speed] = [items, kept, speed].map(thousands);
                // Drawing may fail without consequences.
                let _ = match said {
                    Said::Lines(label) => {
                        write!(out, "{items} lines, {kept} {label}, {speed}/s")
                    }
                    Said::Pages => write!(out, "{items} pages, {speed}/s"),
                };
            };
            bar.set_style(style.with_key("counts", write));
        }
        Shown {
            bar,
            counts,
            drawn: Instant::now(),
        }
    }

    fn update(&mut self, tally: Tally) {
        if self.drawn.elapsed() < REDRAW {
            return;
        }
        self.drawn = Instant::now();
        self.counts.items.store(tally.items, Ordering::Relaxed);
        self.counts.kept.store(tally.kept, Ordering::Relaxed);
        // Only this call draws.
        self.bar.set_position(tally.bytes);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
