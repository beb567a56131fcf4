//! Starting children and ending them.

use std::io::{BufRead, BufReader, PipeReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::task::{Task, Told, VARIABLE};
use crate::support::patience::wait_until;

/// A process of this test's own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a child, and answers what it tells.
    pub fn start(task: &Task) -> (Self, Lines) {
        let (pipe, theirs) = std::io::pipe().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::child::work",
                "--ignored",
                "--nocapture",
            ])
            .env(VARIABLE, task.encode())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (Self { child }, Lines(BufReader::new(pipe)))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill.arg(format!("-{name}")).arg(self.id().to_string());
        assert!(kill.status().unwrap().success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Waits for its end: with a success, unless a signal with this number did it. Answers whether that was so.
    pub fn ended_by(&mut self, signal: i32) -> bool {
        let status = self.wait();
        let so = status.signal() == Some(signal);
        assert!(so || status.success(), "the child failed: {status}");
        so
    }

    /// Waits until it halts, or ends; answers whether it halts.
    pub fn halts(&mut self) -> bool {
        let mut halts = false;
        wait_until("the child halts or ends", || {
            halts = self.state().contains("State:\tT");
            halts || self.child.try_wait().unwrap().is_some()
        });
        halts
    }

    /// What the system says that it is doing, where there is such a place.
    pub fn state(&self) -> String {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/{}/{name}", self.id()));
            text.unwrap_or_default()
        };
        let status = read("status");
        let state = status.lines().find(|line| line.starts_with("State:"));
        format!(
            "process {} {} in {}",
            self.id(),
            state.unwrap_or(""),
            read("wchan")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a child tells, line by line, until its end.
#[derive(Debug)]
pub struct Lines(BufReader<PipeReader>);

impl Iterator for Lines {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.ends_with('\n').then(|| Told::decode(&line))
    }
}

impl Lines {
    /// Passes by what the child tells before this.
    pub fn wait_for(&mut self, what: impl Fn(&Told) -> bool) -> Told {
        self.find(|told| what(told))
            .expect("the child ended before it told that")
    }
}

/// The names in the store's folder, sorted.
pub fn names(store: &Path) -> Vec<String> {
    let folder = store.parent().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What is there when all have closed the store.
pub const CLOSED: [&str; 1] = ["store"];
