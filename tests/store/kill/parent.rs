//! Starting a child and killing it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock};

use super::survivor::Ledger;
use super::task::{TOLD_BYTES, Task, Told, VARIABLE};

/// Read while this process has a store open, written while it starts a child: between fork and exec a child has all
/// open files, so a store's lock would seem held after it was closed.
static STORES_OPEN: RwLock<()> = RwLock::new(());

/// Runs with stores that no child inherits.
pub fn with_stores<T>(run: impl FnOnce() -> T) -> T {
    // Another test's failure is no reason to fail here.
    let _open = STORES_OPEN.read().unwrap_or_else(PoisonError::into_inner);
    run()
}

/// When to kill.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    /// After the child told so many things, and so many turns of a loop.
    After { told: u64, turns: u64 },
    /// When it says that it has come to where it was to stop.
    Stopped,
}

/// Runs a child, kills it, and notes what it told. Answers whether it was killed; else it came to its end.
pub fn run(task: &Task, moment: Moment, ledger: &mut Ledger) -> bool {
    let (mut pipe, theirs) = std::io::pipe().unwrap();
    let mut child = {
        let _none_open = STORES_OPEN.write().unwrap_or_else(PoisonError::into_inner);
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child::work", "--ignored", "--nocapture"])
            .env(VARIABLE, task.encode())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut count = 0;
    let mut killed = false;
    let mut bytes = [0; TOLD_BYTES];
    loop {
        if let Moment::After { told, turns } = moment
            && !killed
            && count >= told
        {
            for _ in 0..turns {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
            killed = true;
        }
        // What it told before it died is in the pipe still, to the last word.
        if pipe.read_exact(&mut bytes).is_err() {
            break;
        }
        count += 1;
        let told = Told::decode(bytes);
        if told == Told::Stopped && !killed {
            child.kill().unwrap();
            killed = true;
        }
        ledger.note(told, task.transactional);
    }
    let status = child.wait().unwrap();
    if killed {
        assert_eq!(
            status.signal(),
            Some(9),
            "the child failed before it was killed: {status}"
        );
    } else {
        assert!(status.success(), "the child failed: {status}");
    }
    killed
}
