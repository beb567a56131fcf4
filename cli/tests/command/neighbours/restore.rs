//! Copies of the store that are put back later.

use std::collections::BTreeSet;
use std::fs;

use super::model::{Model, Output, parse, text};
use super::round::{OUT, Round, STORE};
use super::runs::{Conditions, start};

/// A copy, and what was known when it was made.
struct Copy {
    bytes: Vec<u8>,
    model: Model,
}

impl Round {
    /// Copies the store at rest, or while a run writes to it; works on; and puts the copy back.
    pub fn restored(&mut self) -> Result<(), String> {
        // What a killed run left must be settled: a copy of the file alone is no copy then.
        self.daily()?;
        let copy = match self.random.bool() {
            true => self.copy_at_rest(),
            false => self.copy_beside_a_run()?,
        };
        for _ in 0..self.random.u32(0..3) {
            self.daily()?;
        }
        self.put_back(&copy);
        self.go_on_after_a_restore()
    }

    fn copy_at_rest(&mut self) -> Copy {
        self.scenes.push("copied at rest".into());
        Copy {
            bytes: fs::read(self.lab.path(STORE)).unwrap(),
            model: self.model.clone(),
        }
    }

    /// Takes a snapshot while `dedup` waits for more lines.
    fn copy_beside_a_run(&mut self) -> Result<Copy, String> {
        let list = self.list();
        let half = list.len() / 2;
        let args = self.dedup(&[]);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        self.scenes.push(format!(
            "snapshot beside {} of {} lines",
            args.join(" "),
            list.len()
        ));
        let mut run = start(&self.lab, &args, &Conditions::default());
        run.feed(&text(&list[..half]));
        let ran = self.lab.run(&["snapshot", STORE, "copy.ever"]);
        run.feed(&text(&list[half..]));
        let ended = run.end();
        if ran.code != Some(0) {
            return Err(format!("snapshot: {:?} {}", ran.code, ran.err));
        }
        let mut model = self.model.clone();
        model.interrupt(&list);
        model.cut_off = false;
        ended.check(false)?;
        self.judge(&list, &ended)?;
        let bytes = fs::read(self.lab.path("copy.ever")).unwrap();
        fs::remove_file(self.lab.path("copy.ever")).unwrap();
        Ok(Copy { bytes, model })
    }

    fn put_back(&mut self, copy: &Copy) {
        self.scenes.push("the copy is put back".into());
        // As `cp` does it, or as `mv` does.
        if self.random.bool() {
            fs::write(self.lab.path("restored"), &copy.bytes).unwrap();
            fs::rename(self.lab.path("restored"), self.lab.path(STORE)).unwrap();
        } else {
            fs::write(self.lab.path(STORE), &copy.bytes).unwrap();
        }
        self.model = copy.model.clone();
    }

    /// The first run after a restore. With `-o`, it refuses to cut what another run ended with, and takes nothing for
    /// granted; the user then chooses.
    fn go_on_after_a_restore(&mut self) -> Result<(), String> {
        let list = self.list();
        let Some(output) = self.output.clone() else {
            self.run(&list, &Conditions::default(), &[])?;
            return Ok(());
        };
        let before = self.out();
        // What the copy has forgotten and the file holds may come again.
        let written: BTreeSet<_> = parse(&output.content)?.0.into_iter().collect();
        let forgotten = written.difference(&self.model.known).copied();
        let twice: BTreeSet<_> = self.twice.union(&forgotten.collect()).copied().collect();
        let kept_twice = std::mem::replace(&mut self.twice, twice);
        let ended = self.run(&list, &Conditions::default(), &[])?;
        if ended.well() {
            return Ok(());
        }
        ended.refused(&["--output-longer"])?;
        if self.out() != before {
            return Err("a run that refused the output changed it".into());
        }
        // A run that refuses has done nothing.
        self.model.cut_off = false;
        match self.random.bool() {
            true => {
                let ended =
                    self.run(&list, &Conditions::default(), &["--output-longer", "keep"])?;
                ended
                    .well()
                    .then_some(())
                    .ok_or("keep was to end well".into())
            }
            false => {
                self.twice = kept_twice;
                self.cut(&list, &before)
            }
        }
    }

    /// Cuts the file to what the store knows, and goes on.
    fn cut(&mut self, list: &[u32], before: &[u8]) -> Result<(), String> {
        if let Some(output) = &mut self.output {
            // How much is left only the store knows: its lines were known then.
            output.content.clear();
        }
        let elsewhere = self.output.iter().flat_map(|output| &output.elsewhere);
        let elsewhere: BTreeSet<_> = elsewhere.copied().collect();
        let known: Vec<_> = self.model.known.difference(&elsewhere).copied().collect();
        let ended = self.run(list, &Conditions::default(), &["--output-longer", "cut"])?;
        if !ended.well() {
            return Err("cut was to end well".into());
        }
        let now = self.out();
        let common = now.iter().zip(before).take_while(|(a, b)| a == b).count();
        let held: BTreeSet<_> = parse(&now)?.0.into_iter().collect();
        match known.iter().find(|number| !held.contains(number)) {
            Some(lost) => Err(format!(
                "{lost} is known and was cut away; {common} bytes were left of {}",
                before.len()
            )),
            None => Ok(()),
        }
    }

    /// Puts an older copy beside the log of a killed run. Every command tells the same: all that was committed, or an error.
    pub fn restored_beside_a_log(&mut self) -> Result<(), String> {
        self.daily()?;
        let copy = self.copy_at_rest();
        if self.random.bool() {
            self.daily()?;
        }
        let before = self.model.clone();
        let list = self.list();
        let how = Conditions {
            killed_at: Some(self.random.u64(0..1 << 14)),
            ..Conditions::default()
        };
        let ended = self.run(&list, &how, &[])?;
        let logs = self.logs();
        if ended.well() || logs.is_empty() {
            return Ok(());
        }
        let killed = self.model.clone();
        fs::write(self.lab.path(STORE), &copy.bytes).unwrap();
        self.scenes
            .push(format!("an older copy is put beside {logs:?}"));
        let is_same = before.known == copy.model.known;
        let list: Vec<_> = killed.known.iter().copied().collect();
        for command in [&["check", "-v", STORE][..], &["dedup", STORE]] {
            let ran = self.lab.run_on(command, &text(&list));
            let missing = parse(&ran.out)?.0.len();
            if missing > 0 && !is_same {
                return Err(format!("{command:?} silently lacks {missing} lines"));
            }
            if ran.code == Some(2) && !ran.err.contains("log") {
                return Err(format!("{command:?} does not name the log: {}", ran.err));
            }
        }
        if self.logs().is_empty() {
            // The log fitted, and was taken up.
            self.model = killed;
            self.model.cut_off = false;
            return Ok(());
        }
        self.scenes.push("the logs are moved away".into());
        for name in self.side_files() {
            fs::remove_file(self.lab.path(&name)).unwrap();
        }
        self.model = copy.model;
        let out = self.lab.path(OUT);
        if self.output.is_some() && out.exists() {
            // The user begins a new file.
            fs::remove_file(out).unwrap();
            self.output = Some(Output {
                elsewhere: self.model.known.clone(),
                ..Output::default()
            });
            self.twice = self.model.known.clone();
        }
        Ok(())
    }

    fn side_files(&self) -> Vec<String> {
        let names = fs::read_dir(self.lab.path("")).unwrap();
        let names = names.map(|one| one.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("s.ever-")).collect()
    }

    fn logs(&self) -> Vec<String> {
        let mut names = self.side_files();
        names.retain(|name| name.contains("-log"));
        names
    }
}
