//! Where stores lie: locked folders, full disks, mounts that can only be read, what a killed creator left, odd names.

use std::fs::{self, File};
use std::process::Command;

use super::model::text;
use super::round::{Round, STORE};
use super::runs::{Conditions, run};

/// What a name may have that a terminal obeys.
const ODD: [&str; 7] = [
    "\x1b[2J",
    "\x07",
    "\r",
    "\n",
    "\u{9b}31m",
    "\u{202e}",
    "\x7f",
];

impl Round {
    /// Another program holds the folder's lock, as `flock FOLDER everseen …` does, while runs go on and stores are made.
    pub fn locked_folder(&mut self) -> Result<(), String> {
        self.scenes.push("the folder is locked".into());
        let folder = File::open(self.lab.path("")).unwrap();
        // A run that was killed may still hold it for a moment.
        folder.lock().unwrap();
        self.daily()?;
        let list = self.list();
        let args = ["dedup", "--timeout", "1", "locked.ever"];
        let made = run(&self.lab, &args, &text(&list), &Conditions::default(), None);
        drop(folder);
        if !made.well() {
            return Err(format!("in a locked folder: {:?} {}", made.code, made.err));
        }
        fs::remove_file(self.lab.path("locked.ever")).unwrap();
        Ok(())
    }

    /// A creator was killed that came second, or before it was done: the next run tidies what it left.
    pub fn left_by_a_creator(&mut self) -> Result<(), String> {
        // So that the store is there.
        self.daily()?;
        let name = format!("{STORE}{}", ["-new", "-part"][self.random.usize(..2)]);
        self.scenes.push(format!("a killed creator left {name}"));
        let left = [&b""[..], b"EVERSEEN"][self.random.usize(..2)];
        fs::write(self.lab.path(&name), left).unwrap();
        // Nothing is left beside the store after a run that ends well.
        self.daily()
    }

    /// A store whose name would do something to a terminal: nothing that the command says has it as it is.
    pub fn odd_name(&mut self) -> Result<(), String> {
        let odd: String = (0..self.random.usize(1..4))
            .map(|_| ODD[self.random.usize(..ODD.len())])
            .collect();
        let name = format!("odd{odd}.ever");
        self.scenes.push(format!("a store named {name:?}"));
        let missing = format!("none{odd}");
        let copy = format!("copy{odd}");
        for args in [
            &["create", &name][..],
            &["create", &name],
            &["info", &name],
            &["verify", &name],
            &["dedup", &name, &missing],
            &["check", &missing, STORE],
            &["snapshot", &name, &copy],
            &["repair", &missing],
        ] {
            let ran = self.lab.run(args);
            if !matches!(ran.code, Some(0..=2)) {
                return Err(format!("{args:?} ended with {:?}: {}", ran.code, ran.err));
            }
            let said = [ran.out, ran.err.into_bytes()].concat();
            let said = String::from_utf8_lossy(&said);
            let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            let raw = ["odd", "none", "copy"].map(|begin| format!("{begin}{odd}"));
            if said.contains(obeyed) || raw.iter().any(|name| said.contains(name)) {
                return Err(format!("{args:?} says {said:?}"));
            }
        }
        for name in [name, copy] {
            fs::remove_file(self.lab.path(&name)).unwrap();
        }
        Ok(())
    }

    /// Runs a script of `sh` with a small disk of its own at `disk`; `list` and `new` have lines. `None` where nothing can be
    /// mounted.
    fn with_disk(&mut self, script: &str) -> Option<(Option<i32>, String)> {
        let begin = "mount -t tmpfs -o size=16m none disk || exit 77
            everseen() { \"$EVERSEEN\" \"$@\"; }\n";
        fs::create_dir_all(self.lab.path("disk")).unwrap();
        let (list, new) = (self.list(), self.list());
        self.lab.write("list", &text(&list));
        self.lab.write("new", &text(&new));
        let ran = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c"])
            .arg(begin.to_owned() + script)
            .env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"))
            .current_dir(self.lab.path(""))
            .output();
        for name in ["list", "new"] {
            fs::remove_file(self.lab.path(name)).unwrap();
        }
        fs::remove_dir(self.lab.path("disk")).unwrap();
        match ran {
            Ok(ran) if ran.status.code() != Some(77) && !ran.stderr.starts_with(b"unshare:") => {
                let said = [ran.stdout, ran.stderr].concat();
                let said = String::from_utf8_lossy(&said).into_owned();
                Some((ran.status.code(), said))
            }
            _ => {
                let scene = "skipped: no file system can be mounted here";
                self.scenes.push(scene.into());
                None
            }
        }
    }

    /// The disk is full, or has room for a part of what a run needs: the run says so and leaves the disk as it was; with
    /// room again, nothing is missing.
    pub fn full_disk(&mut self) -> Result<(), String> {
        let room = 1 << self.random.u32(8..13);
        self.scenes.push(format!("a disk with {room} KiB left"));
        let script = format!(
            "everseen dedup --capacity 8M --fpr 0.01 -q disk/s list > /dev/null || exit 10
            everseen check -v disk/s list > /dev/null && exit 11
            head -c 64M /dev/zero > disk/fill 2> /dev/null
            truncate -s -{room}K disk/fill
            seq 300000 | everseen add disk/s --buffer 1M 2> said
            code=$?
            case $code in 0) ;; 2) grep -q '^everseen: ' said || exit 12 ;; *) exit 13 ;; esac
            if test $code = 2; then for left in disk/s-shm*; do test -e $left && echo left $left && exit 14; done; fi
            rm disk/fill
            everseen dedup disk/s new > /dev/null || exit 15
            everseen check -v disk/s list new > lost && exit 16
            test -s lost && exit 17
            rm -f said lost
            exit 0"
        );
        match self.with_disk(&script) {
            None | Some((Some(0), _)) => Ok(()),
            Some((code, said)) => Err(format!("on a full disk: {code:?} {said}")),
        }
    }

    /// A mount that can only be read: what only reads answers, and what writes names the reason.
    pub fn read_only_mount(&mut self) -> Result<(), String> {
        self.scenes.push("a mount that can only be read".into());
        let script = "everseen dedup -q disk/s list > /dev/null || exit 10
            mount -o remount,ro disk || exit 77
            everseen check -v disk/s list > lost && exit 11
            test -s lost && exit 12
            rm lost
            for command in 'dedup disk/s' 'add disk/s' 'create disk/new'; do
                everseen $command < /dev/null 2>> said && exit 13
            done
            test $(grep -c 'the disk can only be read$' said) = 3 || { cat said; exit 14; }
            rm said";
        match self.with_disk(script) {
            None | Some((Some(0), _)) => Ok(()),
            Some((code, said)) => Err(format!("on a read-only mount: {code:?} {said}")),
        }
    }

    /// Names whose side files fit, and names whose side files don't.
    pub fn long_name(&mut self) -> Result<(), String> {
        let length = self.random.usize(200..=255);
        self.scenes.push(format!("a name of {length} bytes"));
        let name = "n".repeat(length);
        let list = self.list();
        let args = ["dedup", &*name];
        let ended = run(&self.lab, &args, &text(&list), &Conditions::default(), None);
        let path = self.lab.path(&name);
        match ended.well() {
            true => fs::remove_file(path).unwrap(),
            false if length <= 240 || path.exists() => {
                return Err(format!("a name of {length} bytes: {}", ended.err));
            }
            false => ended.refused(&["the name is too long"])?,
        }
        Ok(())
    }
}
