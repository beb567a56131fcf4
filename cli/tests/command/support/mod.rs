//! A folder to work in, and the binary to run in it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
#[cfg(unix)]
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the binary left behind.
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    /// Standard output of a run that must have exited with this status; a failure shows what it complained about.
    #[track_caller]
    pub fn expect(self, code: i32) -> Vec<u8> {
        assert_eq!(self.code, Some(code), "standard error: {}", self.err);
        self.out
    }

    /// Standard error of a run that must have failed: one line that names the program and contains `part`.
    #[track_caller]
    pub fn expect_error(&self, part: &str) {
        assert_eq!(self.code, Some(2), "standard error: {}", self.err);
        assert!(self.err.starts_with("everseen: "), "{}", self.err);
        assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
    }
}

pub struct Lab {
    folder: TempDir,
    watchdog: Watchdog,
}

/// Ends the tests, with the name of this one, where it has started nothing for longer than anything takes: a line that never
/// comes, of a run that never ends, hangs nobody.
struct Watchdog {
    started: Sender<()>,
}

impl Watchdog {
    const PATIENCE: Duration = Duration::from_secs(600);

    fn start() -> Self {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let (started, runs) = channel();
        thread::spawn(move || {
            loop {
                match runs.recv_timeout(Self::PATIENCE) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            eprintln!("{test} hangs");
            std::process::abort();
        });
        Self { started }
    }
}

/// Keeps the processes that the tests start from ignoring Ctrl-C and hangups. `nohup` and a shell's `&` make the tests ignore
/// them, and a child inherits that. A handler is not inherited: `exec` resets its signal to the default.
#[cfg(unix)]
fn reset_ignored_signals_for_children() {
    use rustix::process::Signal;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.map_or(0, |mask| {
            u64::from_str_radix(mask.trim(), 16).expect("a mask in hexadecimal")
        });
        for signal in [Signal::HUP, Signal::INT].map(Signal::as_raw) {
            if ignored >> (signal - 1) & 1 == 1 {
                // Nothing reads the flag: the tests go on ignoring the signal.
                let registered = signal_hook::flag::register(signal, Arc::default());
                registered.expect("a handler");
            }
        }
    });
}

impl Lab {
    pub fn new() -> Self {
        #[cfg(unix)]
        reset_ignored_signals_for_children();
        Lab {
            folder: tempfile::tempdir().expect("a temporary folder"),
            watchdog: Watchdog::start(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file to read from");
    }

    /// A store without a label, as the library creates it and earlier builds of the command did.
    pub fn bare_store(&self, name: &str, options: &everseen::testing::Options) {
        let store = options.create(self.path(name)).expect("a store");
        store.close().expect("a store on the disk");
    }

    /// The binary with arguments, in the folder.
    pub fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        // It listens for as long as this lab is there.
        self.watchdog.started.send(()).expect("a watchdog");
        let mut command = Command::new(env!("CARGO_BIN_EXE_everseen"));
        command
            .current_dir(self.folder.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args))
    }

    /// Runs the binary to its end, with a file as standard input.
    pub fn run_on(&self, args: &[&str], input: &[u8]) -> Ran {
        self.write("standard-input", input);
        let file = File::open(self.path("standard-input")).expect("the file just written");
        finish(self.command(args).stdin(file))
    }

    /// Starts the binary with all standard streams on pipes.
    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }
}

fn finish(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    Ran {
        code: output.status.code(),
        out: output.stdout,
        err: String::from_utf8(output.stderr).expect("messages are text"),
    }
}

/// The exit status of a process and what it said, when its standard output is in other hands.
pub fn wait(mut child: Child) -> (ExitStatus, String) {
    let mut err = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        std::io::Read::read_to_string(&mut stderr, &mut err).expect("messages are text");
    }
    (child.wait().expect("the binary was started"), err)
}

/// Writes to a process from a thread, which gives the pipe back, still open. Should the process end first, so be it.
pub fn feed(child: &mut Child, bytes: Vec<u8>) -> JoinHandle<std::process::ChildStdin> {
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
        stdin
    })
}

/// The first occurrence of each item, with a separator after it: what `awk '!seen[$0]++'` does, the slow and obvious way.
pub fn first_occurrences(separator: u8, input: &[u8]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let mut output = Vec::new();
    for item in items(separator, input) {
        if seen.insert(item) {
            output.extend_from_slice(item);
            output.push(separator);
        }
    }
    output
}

/// The items of an input whose last separator may be missing.
pub fn items(separator: u8, input: &[u8]) -> Vec<&[u8]> {
    let mut items: Vec<_> = input.split(|byte| *byte == separator).collect();
    if items.last().is_some_and(|last| last.is_empty()) {
        items.pop();
    }
    items
}

/// Many lines that repeat, of any bytes but NUL and line ends, some of them empty, some with CR at the end.
pub fn repetitive_lines(random: &mut fastrand::Rng, count: usize) -> Vec<u8> {
    let known: Vec<Vec<u8>> = (0..count / 2)
        .map(|_| {
            let length = random.usize(0..60);
            let mut line: Vec<u8> = (0..length).map(|_| random.u8(11..)).collect();
            line.extend(random.bool().then_some(b'\r'));
            line
        })
        .collect();
    let draw = |_| [&known[random.usize(..known.len())][..], b"\n"].concat();
    (0..count).flat_map(draw).collect()
}

/// `count` lines, all different.
pub fn distinct_lines(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| format!("https://example.org/page/{number}\n").into_bytes())
        .collect()
}

/// A value from text that must be JSON.
#[track_caller]
pub fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("valid JSON")
}

/// Fails unless the object has each of these fields, whatever is in them.
#[track_caller]
pub fn assert_fields(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "no `{field}` in {value}");
    }
}
