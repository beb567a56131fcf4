//! Starting children, listening to them and ending them.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use super::task::{Task, Told, VARIABLE, now};

/// A user without privileges.
pub const NOBODY: u32 = 65_534;

/// A process of this test's own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

/// What a child tells; nothing once it has closed its pipe.
#[derive(Debug)]
pub struct Event {
    pub run: usize,
    pub told: Option<Told>,
}

impl Process {
    pub fn start(task: &Task, run: usize, unprivileged: bool, events: &Sender<Event>) -> Self {
        let (pipe, theirs) = std::io::pipe().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "neighbours::child::work",
                "--ignored",
                "--nocapture",
            ])
            .env(VARIABLE, task.encode())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null());
        if unprivileged {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command.spawn().unwrap();
        drop(command);
        let events = events.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(pipe);
            let mut line = String::new();
            // A line that a kill cut short has no end, and is not believed.
            while lines.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let told = Some(Told::decode(&line));
                let _ = events.send(Event { run, told });
                line.clear();
            }
            let _ = events.send(Event { run, told: None });
        });
        Self { child }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// How it ended, and by when.
    pub fn ended(&mut self) -> (ExitStatus, u64) {
        let status = self.child.wait().unwrap();
        (status, now())
    }

    /// What the system says that it is doing.
    pub fn state(&self) -> String {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id()));
            text.unwrap_or_default()
        };
        let status = read("status");
        let state = status.lines().find(|line| line.starts_with("State:"));
        format!("{} in {}", state.unwrap_or(""), read("wchan"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// By which signal it ended, if any; a failure of its own is an error.
pub fn signal_of(status: ExitStatus) -> Result<Option<i32>, String> {
    match status.signal() {
        None if !status.success() => Err(format!("a child failed: {status}")),
        signal => Ok(signal),
    }
}
