//! Where the lines are: under the name that was given, on whatever file system, and in no pipe.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{await_length, read};
use crate::support::{Lab, wait};

const GONE: &str = "was removed, renamed or replaced while this run wrote to it; put it back, and run this again on the \
                    same input";

/// A run that has committed a line and printed another.
fn running(lab: &Lab) -> (Child, std::process::ChildStdin) {
    let mut run = lab.start(&["dedup", "-o", "out", "--commit-every", "1", "store"]);
    let mut stdin = run.stdin.take().expect("standard input is a pipe");
    for (line, length) in [(b"a\n", 2), (b"b\n", 4)] {
        stdin.write_all(line).expect("it reads");
        await_length(lab, "out", length);
    }
    (run, stdin)
}

#[test]
fn a_file_that_is_no_longer_under_its_name_is_told() {
    for (replaced, more) in [(true, &b"c\n"[..]), (false, b"c\n"), (true, b"")] {
        let lab = Lab::new();
        let (run, mut stdin) = running(&lab);
        fs::rename(lab.path("out"), lab.path("old")).expect("it is there");
        if replaced {
            lab.write("out", b"x\n");
        }
        stdin.write_all(more).expect("it reads");
        drop(stdin);
        let (status, said) = wait(run);
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains(GONE), "{said}");
        // Put back, and run again, it has each line once.
        fs::rename(lab.path("old"), lab.path("out")).expect("put back");
        lab.write("input", b"a\nb\nc\n");
        lab.run(&["dedup", "-o", "out", "store", "input"]).expect(0);
        assert_eq!(read(&lab, "out"), b"a\nb\nc\n");
    }
    let lab = Lab::new();
    let (run, stdin) = running(&lab);
    fs::remove_file(lab.path("out")).expect("it is there");
    drop(stdin);
    let (status, said) = wait(run);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains(GONE), "{said}");
}

#[test]
fn a_pipe_is_called_a_pipe() {
    let lab = Lab::new();
    lab.write("input", b"a\n");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let run = lab.start(&["dedup", "-o", name, "store", "input"]);
        let ran = run.wait_with_output().expect("it ran");
        assert_eq!(
            String::from_utf8_lossy(&ran.stderr),
            format!(
                "everseen: {name}: is not a regular file but a pipe, and only a regular file with a name can be cut back \
                 to what was committed; leave out -o and print to standard output\n"
            )
        );
        assert_eq!(ran.status.code(), Some(2));
    }
    assert!(!lab.path("store").exists(), "nothing was made");
    // A file behind the link is a file, as long as it has a name.
    let dedup = ["dedup", "-o", "/dev/stdout", "store", "input"];
    let file = File::create(lab.path("out")).expect("a new file");
    let ran = lab.command(&dedup).stdout(file).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(read(&lab, "out"), b"a\n");
    let file = tempfile::tempfile().expect("a file without a name");
    let ran = lab.command(&dedup).stdout(file).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("is a file without a name"), "{said}");
}

/// A folder on a file system without attributes, mounted for a process that holds it.
struct Bare<'a> {
    lab: &'a Lab,
    holder: Child,
}

impl<'a> Bare<'a> {
    /// Returns `None` where the system lets nobody mount one.
    fn mount(lab: &'a Lab) -> Option<Self> {
        fs::create_dir(lab.path("bare")).expect("a folder");
        let script = "mount -t ramfs none bare && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .current_dir(lab.path("."))
            .args(["-Urm", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut said = [0; 6];
        let ready = holder
            .stdout
            .as_mut()
            .is_some_and(|out| out.read_exact(&mut said).is_ok());
        let mut bare = Bare { lab, holder };
        let ran = ready.then(|| bare.command(&["--version"]).output());
        match ran {
            Some(Ok(ran)) if ran.status.success() => Some(bare),
            _ => {
                println!("not tested: nothing can be mounted here");
                let _ = bare.holder.kill();
                None
            }
        }
    }

    /// Runs the binary in the folder.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.lab.command(&[] as &[&str]);
        let program = command.get_program().to_owned();
        command = Command::new("nsenter");
        let pid = self.holder.id().to_string();
        command
            .args(["-t", &pid, "-U", "-m", "--preserve-credentials", "sh", "-c"])
            .args([
                "cd \"$0\" && exec \"$@\"".as_ref(),
                self.lab.path("bare").as_os_str(),
            ])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        let lab = self.lab.path("bare");
        let inside = lab.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id()))
            .join(inside)
            .join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it was written")
    }

    fn run(&self, store: &str, input: &[u8]) -> (Option<i32>, String) {
        self.run_by(&["dedup", "-o", "out", store], input)
    }

    fn run_by(&self, args: &[&str], input: &[u8]) -> (Option<i32>, String) {
        let mut run = self.command(args);
        let mut run = run.spawn().expect("it starts");
        let mut stdin = run.stdin.take().expect("a pipe");
        // Should it end before, it says why.
        let _ = stdin.write_all(input);
        drop(stdin);
        let (status, said) = wait(run);
        (status.code(), said)
    }

    /// A run that commits a line, prints another, and is killed.
    fn cut_off(&self, store: &str) {
        let args = ["dedup", "-o", "out", "--commit-every", "1", store];
        let mut run = self.command(&args).spawn().expect("it starts");
        let mut stdin = run.stdin.take().expect("a pipe");
        let before = fs::metadata(self.path("out")).map_or(0, |file| file.len());
        for (line, length) in [(b"a\n", 2), (b"b\n", 4)] {
            stdin.write_all(line).expect("it reads");
            while fs::metadata(self.path("out")).map_or(0, |file| file.len()) < before + length {
                std::thread::yield_now();
            }
        }
        run.kill().expect("it was started");
        wait(run);
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".everseen"))
            .collect();
        names.sort();
        names
    }
}

impl Drop for Bare<'_> {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn without_attributes_lines_of_another_store_are_not_cut_off() {
    let lab = Lab::new();
    let Some(bare) = Bare::mount(&lab) else {
        return;
    };
    // The rest of a killed run is, without a question.
    bare.cut_off("store");
    assert_eq!(bare.names().len(), 1);
    assert_eq!(bare.run("store", b"a\n"), (Some(0), String::new()));
    assert_eq!(bare.read("out"), b"a\n");
    assert_eq!(bare.names(), [""; 0]);

    let whole = b"a\na\nb\nof another\n";
    bare.cut_off("second");
    let meant = [
        "dedup",
        "-q",
        "-o",
        "out",
        "--output-longer",
        "keep",
        "other",
    ];
    assert_eq!(
        bare.run_by(&meant, b"of another\n"),
        (Some(0), String::new())
    );
    assert_eq!(bare.read("out"), whole);
    let (code, said) = bare.run("second", b"more\n");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("or another one wrote to the file since"),
        "{said}"
    );
    assert_eq!(bare.read("out"), whole);
    // The other store was killed, too: it alone knows the rest.
    bare.cut_off("third");
    let (code, said) = bare.run("second", b"more\n");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("another store, or another copy of it, wrote to it"),
        "{said}"
    );
    assert_eq!(bare.run("third", b"a\nc\n"), (Some(0), String::new()));
    assert_eq!(bare.read("out"), [&whole[..], b"a\nc\n"].concat());
}

/// A note that can't be read says nothing, and nothing is cut off.
#[test]
fn a_note_that_is_no_note_is_not_believed() {
    let lab = Lab::new();
    super::cut_off(&lab, b"a\n", b"b\n");
    let attribute = "user.everseen.writer";
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(lab.path("out"), attribute, b"2 running", flags).is_err() {
        eprintln!("not tested: the file system keeps no attributes");
        return;
    }
    lab.write("input", b"c\n");
    lab.run(&["dedup", "-o", "out", "store", "input"])
        .expect_error("the file does not say that its last run was cut off");
    assert_eq!(read(&lab, "out"), b"a\nb\n");
}

/// A store whose name is misspelt is made, and would print everything again.
#[test]
fn another_store_that_never_wrote_to_it_is_refused() {
    let lab = Lab::new();
    lab.write("input", b"a\nb\n");
    lab.run(&["dedup", "-o", "out", "store", "input"]).expect(0);
    lab.run(&["dedup", "-o", "out", "sotre", "input"])
        .expect_error("is it the store that is meant?");
    assert_eq!(read(&lab, "out"), b"a\nb\n");
    lab.run(&["dedup", "-o", "out", "store", "input"]).expect(0);
    assert_eq!(read(&lab, "out"), b"a\nb\n");
    // Told so once, it goes on.
    let told = [
        "dedup",
        "--output-longer",
        "keep",
        "-o",
        "out",
        "second",
        "input",
    ];
    lab.run(&told).expect(0);
    lab.write("more", b"c\n");
    lab.run(&["dedup", "-o", "out", "second", "more"]).expect(0);
    lab.run(&["dedup", "-o", "out", "store", "more"]).expect(0);
    assert_eq!(read(&lab, "out"), b"a\nb\na\nb\nc\nc\n");
}

/// A run in a folder that has committed a line, printed another, and was killed.
fn killed_in(lab: &Lab, folder: &str) {
    let (out, store) = (format!("{folder}/out"), format!("{folder}/store"));
    let mut run = lab.start(&["dedup", "-o", &out, "--commit-every", "1", &store]);
    let mut stdin = run.stdin.take().expect("standard input is a pipe");
    let before = fs::metadata(lab.path(&out)).map_or(0, |file| file.len() as usize);
    for (number, length) in [(1, 2), (2, 4)] {
        let line = format!("{}\n", char::from(b'a' + (before + 2 * number) as u8 / 2));
        stdin.write_all(line.as_bytes()).expect("it reads");
        await_length(lab, &out, before + length);
    }
    run.kill().expect("it was started");
    wait(run);
}

#[test]
fn a_folder_that_is_renamed_between_two_runs_is_gone_on_with() {
    let lab = Lab::new();
    let folder = |name: &str| lab.path(name);
    fs::create_dir(folder("p")).expect("a new folder");
    for (from, to) in [("p", "q"), ("q", "p"), ("p", "r")] {
        killed_in(&lab, from);
        let killed = read(&lab, &format!("{from}/out"));
        fs::rename(folder(from), folder(to)).expect("it is there");
        let (out, store) = (format!("{to}/out"), format!("{to}/store"));
        lab.write("input", &[&killed[..], b"z\n"].concat());
        let run = || lab.run(&["dedup", "-o", &out, &store, "input"]);
        run().expect(0);
        // What was not committed came again, and nothing twice.
        let expected = [&killed[..], if to == "q" { &b"z\n"[..] } else { b"" }].concat();
        assert_eq!(read(&lab, &out), expected, "{from} {to}");
        run().expect(0);
        assert_eq!(read(&lab, &out), expected, "{from} {to}");
    }
}

#[test]
fn a_folder_that_is_copied_after_a_kill_is_gone_on_with_when_told_so() {
    let lab = Lab::new();
    fs::create_dir(lab.path("p")).expect("a new folder");
    killed_in(&lab, "p");
    fs::create_dir(lab.path("q")).expect("a new folder");
    lab.run(&["checkpoint", "p/store"]).expect(0);
    for name in ["out", "store"] {
        fs::copy(
            lab.path(&format!("p/{name}")),
            lab.path(&format!("q/{name}")),
        )
        .expect("a copy");
    }
    lab.write("input", &read(&lab, "p/out"));
    let run = ["dedup", "-o", "q/out", "q/store", "input"];
    lab.run(&run).expect_error("--output-longer");
    let told = [&run[..], &["--output-longer", "cut"]].concat();
    lab.run(&told).expect(0);
    assert_eq!(read(&lab, "q/out"), read(&lab, "p/out"));
    lab.run(&run).expect(0);
    assert_eq!(read(&lab, "q/out"), read(&lab, "p/out"));
}
