//! Runs of the command, and the ways in which others start them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::support::Lab;

/// How a run is started and what happens to it meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Kill it once this many bytes are in its output.
    pub killed_at: Option<u64>,
    /// Standard input and output don't wait, as some programs leave them.
    pub nonblocking: bool,
    /// Started with these signals ignored, and sent them once bytes are in its output.
    pub ignoring: bool,
    /// The most blocks of 512 bytes that a file may have.
    pub most_blocks: Option<u64>,
}

/// What became of a run.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    pub fn well(&self) -> bool {
        self.code == Some(0)
    }

    /// A run may only end in ways that it can explain.
    pub fn check(&self, killed: bool) -> Result<(), String> {
        match (self.code, self.signal) {
            (_, Some(9)) if killed => Ok(()),
            (Some(0 | 1), _) => Ok(()),
            (Some(2 | 3), _) if self.err.starts_with("everseen: ") => Ok(()),
            other => Err(format!("ended with {other:?} and said {:?}", self.err)),
        }
    }

    /// A run that was to refuse, with a message that has one of these parts.
    pub fn refused(&self, parts: &[&str]) -> Result<(), String> {
        self.check(false)?;
        match self.code {
            Some(2) if parts.iter().any(|part| self.err.contains(part)) => Ok(()),
            code => Err(format!(
                "exit {code:?} and {:?}, where {parts:?} was to be said",
                self.err
            )),
        }
    }
}

/// A run that goes on until its input ends.
pub struct Running {
    pub child: Child,
    stdin: Option<Box<dyn Write + Send>>,
    /// Bytes that it has printed.
    printed: Arc<AtomicU64>,
    out: thread::JoinHandle<Vec<u8>>,
    err: thread::JoinHandle<String>,
}

impl Running {
    /// Writes to its standard input. It may have ended.
    pub fn feed(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes);
            let _ = stdin.flush();
        }
    }

    /// Closes its input and waits.
    pub fn end(mut self) -> Ended {
        drop(self.stdin.take());
        let status = self.child.wait().expect("it was started");
        Ended {
            code: status.code(),
            signal: status.signal(),
            out: self.out.join().expect("it is read to the end"),
            err: self.err.join().expect("it is read to the end"),
        }
    }

    /// Waits until it has printed something, or has ended.
    pub fn await_answer(&mut self) -> Result<(), String> {
        while self.printed.load(Ordering::Relaxed) == 0 {
            if self.child.try_wait().unwrap().is_some() {
                return Err("a run ended before its input".into());
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns a handle on the process that never leads to another one.
    fn handle(&self) -> OwnedFd {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .expect("it was not waited for")
    }

    pub fn kill(&self) {
        let _ = pidfd_send_signal(self.handle(), Signal::KILL);
    }
}

fn command(lab: &Lab, args: &[&str], how: &Conditions) -> Command {
    let mut script = String::new();
    if how.ignoring {
        script += "trap '' INT HUP; ";
    }
    if let Some(blocks) = how.most_blocks {
        script += &format!("ulimit -f {blocks}; ");
    }
    if script.is_empty() {
        return lab.command(args);
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", &(script + "exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_everseen"))
        .args(args)
        .current_dir(lab.path(""));
    command
}

/// Starts a run that reads what it is fed.
pub fn start(lab: &Lab, args: &[&str], how: &Conditions) -> Running {
    let mut command = command(lab, args, how);
    command.stderr(Stdio::piped());
    let (mut child, stdin, mut stdout): (Child, Box<dyn Write + Send>, Box<dyn Read + Send>) =
        if how.nonblocking {
            // Closed on exec: other rounds start processes too.
            let pipe = || pipe_with(PipeFlags::CLOEXEC).unwrap();
            let ((input, to), (from, output)) = (pipe(), pipe());
            for end in [input.as_fd(), output.as_fd()] {
                // So small that either side meets it full, or empty.
                fcntl_setpipe_size(end, 4096).unwrap();
                let flags = fcntl_getfl(end).unwrap();
                fcntl_setfl(end, flags | OFlags::NONBLOCK).unwrap();
            }
            let child = command.stdin(input).stdout(output).spawn().unwrap();
            // The command has the child's ends open as long as it lives.
            drop(command);
            (child, Box::new(File::from(to)), Box::new(File::from(from)))
        } else {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let stdin: ChildStdin = child.stdin.take().unwrap();
            let stdout = child.stdout.take().unwrap();
            (child, Box::new(stdin), Box::new(stdout))
        };
    let mut stderr = child.stderr.take().unwrap();
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    let conditions = how.clone();
    let printed = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&printed);
    let out = thread::spawn(move || {
        let (mut out, mut part) = (Vec::new(), [0; 4096]);
        let mut sent = false;
        // The ends here wait; but a pipe's flags are each end's own.
        while let Ok(count) = stdout.read(&mut part) {
            out.extend_from_slice(&part[..count]);
            let printed = out.len() as u64;
            told.store(printed, Ordering::Relaxed);
            if conditions.killed_at.is_some_and(|at| printed >= at) {
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
            if conditions.ignoring && !std::mem::replace(&mut sent, true) {
                for signal in [Signal::INT, Signal::HUP] {
                    let _ = pidfd_send_signal(&process, signal);
                }
            }
            if count == 0 {
                break;
            }
        }
        out
    });
    let err = thread::spawn(move || {
        let mut err = String::new();
        let _ = stderr.read_to_string(&mut err);
        err
    });
    Running {
        child,
        stdin: Some(stdin),
        printed,
        out,
        err,
    }
}

/// Runs the command on a list to its end, or to the moment at which it is killed. `watched` is the file that grows.
pub fn run(
    lab: &Lab,
    args: &[&str],
    list: &[u8],
    how: &Conditions,
    watched: Option<&str>,
) -> Ended {
    let mut running = start(lab, args, how);
    if let (Some(at), Some(name)) = (how.killed_at, watched) {
        let path: PathBuf = lab.path(name);
        let before = fs::metadata(&path).map_or(0, |file| file.len());
        let mut stdin = running.stdin.take().unwrap();
        let list = list.to_vec();
        // The input stays open until the run is dead, or has read it all.
        let feeder = thread::spawn(move || {
            let _ = stdin.write_all(&list);
        });
        loop {
            let length = fs::metadata(&path).map_or(0, |file| file.len());
            if length >= before + at {
                running.kill();
                break;
            }
            if running.child.try_wait().unwrap().is_some() {
                break;
            }
            thread::yield_now();
        }
        feeder.join().unwrap();
    } else {
        running.feed(list);
    }
    running.end()
}
