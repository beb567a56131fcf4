//! Readers beside others: stores that are replaced, copied up, written to.

use std::fs;
use std::process::{Command, Stdio};

use super::model::{line, parse, text};
use super::round::{Round, STORE};
use super::runs::{Conditions, Running, start};

impl Round {
    /// A `check` that is at work while another store takes this one's name: it says so.
    pub fn replaced_under_a_reader(&mut self) -> Result<(), String> {
        self.daily()?;
        self.scenes.push("replaced under a reader".into());
        let known: Vec<_> = self.model.known.iter().copied().collect();
        let mut check = start(&self.lab, &["check", STORE], &Conditions::default());
        // It has opened the store when it has answered; every line of these is known.
        check.feed(&text(&known));
        let before = fs::read(self.lab.path(STORE)).unwrap();
        check.await_answer()?;
        let other = match self.random.bool() {
            true => before.clone(),
            false => {
                let ran = self
                    .lab
                    .run_on(&["dedup", "other.ever"], b"of another store\n");
                if ran.code != Some(0) {
                    return Err(format!("another store: {}", ran.err));
                }
                let bytes = fs::read(self.lab.path("other.ever")).unwrap();
                fs::remove_file(self.lab.path("other.ever")).unwrap();
                bytes
            }
        };
        fs::rename(self.lab.path(STORE), self.lab.path("kept")).unwrap();
        fs::write(self.lab.path("other"), other).unwrap();
        fs::rename(self.lab.path("other"), self.lab.path(STORE)).unwrap();
        check.feed(line(self.drawn + 1).as_bytes());
        let ended = check.end();
        fs::rename(self.lab.path("kept"), self.lab.path(STORE)).unwrap();
        ended.refused(&["replaced"])?;
        if ended.err.contains("repair") || ended.err.contains("damage") {
            return Err(format!("a replaced store is called damaged: {}", ended.err));
        }
        Ok(())
    }

    /// Waits until a process has a file open, for writing too if it `writes`: before, it may look at the file in passing.
    pub fn await_open(&self, run: &mut Running, name: &str, writes: bool) -> Result<(), String> {
        let process = format!("/proc/{}", run.child.id());
        let folder = fs::canonicalize(self.lab.path("")).unwrap();
        let file = folder.join(name);
        loop {
            if run.child.try_wait().unwrap().is_some() {
                return Err("a run ended before its input".into());
            }
            let open = fs::read_dir(format!("{process}/fd")).into_iter().flatten();
            let mut open = open.filter_map(|one| {
                let one = one.ok()?;
                let target = fs::read_link(one.path()).ok()?;
                let number = one.file_name().into_string().ok()?;
                let facts = fs::read_to_string(format!("{process}/fdinfo/{number}")).ok()?;
                let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"))?;
                Some((target, flags.trim().ends_with(['1', '2'])))
            });
            if open.any(|(target, may_write)| target == file && (may_write || !writes)) {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// A `check` that began on a closed store, while runs come and go: it goes on, and sees what they add.
    pub fn read_beside_writers(&mut self) -> Result<(), String> {
        self.daily()?;
        self.scenes.push("a reader beside writers".into());
        let mut check = start(&self.lab, &["check", STORE], &Conditions::default());
        self.await_open(&mut check, STORE, false)?;
        let mut asked = Vec::new();
        for _ in 0..self.random.u32(1..4) {
            let half: Vec<_> = self.model.known.iter().copied().take(500).collect();
            check.feed(&text(&half));
            asked.extend(half);
            self.daily()?;
            // What a run before it has added is there now.
            let known: Vec<_> = self.model.known.iter().rev().copied().take(500).collect();
            check.feed(&text(&known));
            asked.extend(known);
        }
        let ended = check.end();
        if !ended.well() {
            return Err(format!(
                "a reader ended with {:?}: {}",
                ended.code, ended.err
            ));
        }
        match parse(&ended.out)?.0 == asked {
            true => Ok(()),
            false => Err("a reader missed what later runs have added".into()),
        }
    }

    /// Two runs at once on lists that overlap: each line is printed once.
    pub fn several_writers(&mut self) -> Result<(), String> {
        if !self.transactional || self.output.is_some() {
            return Ok(());
        }
        let (one, other) = (self.list(), self.list());
        self.scenes.push(format!(
            "two runs at once, of {} and {} lines",
            one.len(),
            other.len()
        ));
        let args = ["dedup", "--commit-every", "50", STORE];
        let mut first = start(&self.lab, &args, &Conditions::default());
        let mut second = start(&self.lab, &args, &Conditions::default());
        first.feed(&text(&one));
        second.feed(&text(&other));
        let (first, second) = (first.end(), second.end());
        for ended in [&first, &second] {
            if !ended.well() {
                return Err(format!("one of two runs: {:?} {}", ended.code, ended.err));
            }
        }
        let mut all = parse(&first.out)?.0;
        all.extend(parse(&second.out)?.0);
        // In which order they came only the store knows.
        let list = [one, other].concat();
        let order: std::collections::HashMap<_, _> =
            list.iter().rev().zip((0..list.len()).rev()).collect();
        all.sort_by_key(|number| order.get(number).copied());
        self.model.printed(&list, &text(&all))
    }

    /// A store in the lower layer of an overlay: the first writer copies it up, under a reader.
    pub fn copied_up(&mut self) -> Result<(), String> {
        self.daily()?;
        self.scenes.push("copied up under a reader".into());
        for folder in ["lower", "upper", "work", "merged"] {
            fs::create_dir_all(self.lab.path(folder)).unwrap();
        }
        fs::copy(self.lab.path(STORE), self.lab.path("lower").join(STORE)).unwrap();
        // The reader answers before and after the writer's run. A named pipe tells when to ask again.
        let script = "
            mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77
            everseen() { \"$EVERSEEN\" \"$@\"; }
            { cat known; everseen dedup merged/s.ever new >/dev/null 2>copied.err || echo failed >&2; cat new; } |
                everseen check merged/s.ever > answers 2> reader.err
            echo $? > code";
        let known: Vec<_> = self.model.known.iter().copied().collect();
        self.lab.write("known", &text(&known));
        let new: Vec<_> = (self.drawn + 1..self.drawn + 50).collect();
        self.lab.write("new", &text(&new));
        let output = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", script])
            .env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"))
            .current_dir(self.lab.path(""))
            .stdin(Stdio::null())
            .output();
        let read = |name: &str| fs::read_to_string(self.lab.path(name)).unwrap_or_default();
        let result = match output {
            Ok(output) if output.status.success() => {
                let (code, said) = (read("code"), read("reader.err"));
                match (code.trim(), said.contains("replaced")) {
                    // All is known in the copy, to a reader that went on there or was opened after it.
                    ("0", _) if read("answers") == read("known") + &read("new") => Ok(()),
                    ("2", true) if !said.contains("repair") => Ok(()),
                    _ => Err(format!("a reader under a copy-up: {code} {said}")),
                }
            }
            _ => {
                self.scenes
                    .push("skipped: no overlay can be mounted here".into());
                Ok(())
            }
        };
        for folder in ["lower", "upper", "work", "merged"] {
            let _ = fs::remove_dir_all(self.lab.path(folder));
        }
        result
    }
}
