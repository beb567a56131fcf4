//! Arguments that were mistaken, limits, and empty files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::model::text;
use super::round::{Round, STORE};
use super::runs::{Conditions, run};

impl Round {
    /// All files with their content, except for what `run_on` writes.
    fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.lab.path("")).unwrap();
        let files = files
            .map(|one| one.unwrap())
            .filter(|one| one.path().is_file());
        let named = files.map(|one| {
            let name = one.file_name().to_string_lossy().into_owned();
            (name, fs::read(one.path()).unwrap())
        });
        named.filter(|(name, _)| name != "standard-input").collect()
    }

    /// Everseen's own files where lists and outputs belong: refused, and nothing is changed or made.
    pub fn swapped(&mut self) -> Result<(), String> {
        self.daily()?;
        let list = self.list();
        self.lab.write("list.txt", &text(&list));
        let ran = self
            .lab
            .run_on(&["dedup", "second.ever"], b"of another list\n");
        if ran.code != Some(0) {
            return Err(format!("a second store: {}", ran.err));
        }
        let cases: [&[&str]; 16] = [
            &["dedup", "today.txt", STORE],
            &["dedup", "list.txt", STORE],
            &["dedup", "-o", STORE, "fresh.ever", "list.txt"],
            &["dedup", "-o", "second.ever", STORE, "list.txt"],
            &["add", STORE, "second.ever"],
            &["add", "new.ever", "new.ever"],
            &["dedup", "list.txt2", "list.txt2"],
            &["check", STORE, "second.ever"],
            &["exempt", STORE, "second.ever"],
            &["report", STORE, "-o", "second.ever"],
            &["dedup", "--no-such-option", STORE],
            &["no-such-command", STORE],
            &["create", "tiny.ever", "--fpr", "1e-300"],
            &["create", "tiny.ever", "--capacity", "-1"],
            &["info", "none.ever", "--commit-every"],
            &["dedup", "-o", "/dev/stdout", STORE, "list.txt"],
        ];
        let args = cases[self.random.usize(..cases.len())];
        self.scenes.push(format!("mistaken: {}", args.join(" ")));
        let before = self.everything();
        let ran = self.lab.run(args);
        if ran.code != Some(2) || !ran.err.starts_with("everseen: ") {
            return Err(format!("not refused: {:?} {}", ran.code, ran.err));
        }
        if ran.err.contains("error:") || ran.err.contains("leads nowhere") {
            return Err(format!("not said well: {}", ran.err));
        }
        let after = self.everything();
        if before != after {
            let names = |all: &BTreeMap<String, Vec<u8>>| Vec::from_iter(all.keys().cloned());
            return Err(format!(
                "a refused command changed something: {:?} to {:?}",
                names(&before),
                names(&after)
            ));
        }
        for name in ["list.txt", "second.ever"] {
            fs::remove_file(self.lab.path(name)).unwrap();
        }
        self.check()
    }

    /// A limit of file sizes: the run says what it could not do, and leaves nothing behind.
    pub fn limited(&mut self) -> Result<(), String> {
        let list = self.list();
        let how = Conditions {
            most_blocks: Some(1 << self.random.u32(0..18)),
            ..Conditions::default()
        };
        let ended = self.run(&list, &how, &[])?;
        if let Some(signal) = ended.signal {
            return Err(format!("a limit of file sizes killed it by {signal}"));
        }
        if self.lab.path("s.ever-new").exists() {
            return Err("s.ever-new was left".into());
        }
        Ok(())
    }

    /// An empty file becomes a store, and stays the file that it was.
    pub fn empty_file(&mut self) -> Result<(), String> {
        let path = self.lab.path("empty.ever");
        fs::write(&path, b"").unwrap();
        let mode = [0o600, 0o640, 0o644][self.random.usize(..3)];
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let list = self.list();
        self.scenes
            .push(format!("a store in an empty file of mode {mode:o}"));
        let args = ["dedup", "empty.ever"];
        if self.random.bool() {
            let how = Conditions {
                killed_at: Some(self.random.u64(0..2000)),
                ..Conditions::default()
            };
            run(&self.lab, &args, &text(&list), &how, None).check(true)?;
        }
        let ended = run(&self.lab, &args, &text(&list), &Conditions::default(), None);
        if !ended.well() {
            return Err(format!("an empty file: {:?} {}", ended.code, ended.err));
        }
        let seen = self
            .lab
            .run_on(&["check", "-v", "empty.ever"], &text(&list));
        if seen.code != Some(1) {
            return Err(format!(
                "an empty file forgot lines: {:?} {}",
                seen.code, seen.err
            ));
        }
        let now = fs::metadata(&path).unwrap().mode() & 0o777;
        if now != mode {
            return Err(format!("the mode {mode:o} became {now:o}"));
        }
        fs::remove_file(path).unwrap();
        Ok(())
    }
}
