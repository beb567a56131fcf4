//! Processes that run `tests/reader.py` for one store after another: to start Python takes longer than most stores do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;

/// Runs the reader's `main` for each line of arguments, and answers with exit code, output and errors, as a process of
/// its own would have them.
const SERVE: &str = r#"
import contextlib, io, sys, traceback

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import reader

for line in sys.stdin.buffer:
    sys.argv = ["reader.py"] + line.decode().rstrip("\n").split("\0")
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = reader.main()
        except SystemExit as exit:
            code = exit.code
        except BaseException:
            traceback.print_exc()
            code = 1
    out, errors = out.getvalue().encode(), errors.getvalue().encode()
    sys.stdout.buffer.write(b"%d %d %d\n" % (code, len(out), len(errors)) + out + errors)
    sys.stdout.buffer.flush()
"#;

/// Those that wait for work. They end with the tests, when their input does.
static WAITING: Mutex<Vec<ReaderProcess>> = Mutex::new(Vec::new());

pub struct ReaderProcess {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl ReaderProcess {
    fn start() -> io::Result<Self> {
        let folder = env!("CARGO_MANIFEST_DIR");
        // Standard library alone: `site` would look for packages.
        let mut child = Command::new("python3")
            .args(["-S", "-c", SERVE])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Ok(Self { child, answers })
    }

    /// What `reader.py` says with these arguments.
    fn ask(&mut self, arguments: &[&str]) -> io::Result<Output> {
        assert!(arguments.iter().all(|one| !one.contains(['\0', '\n'])));
        let line = arguments.join("\0") + "\n";
        let questions = self.child.stdin.as_mut().expect("it is a pipe");
        questions.write_all(line.as_bytes())?;
        let mut sizes = String::new();
        self.answers.read_line(&mut sizes)?;
        let sizes: Vec<usize> = sizes
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        let [code, out, errors] = sizes[..] else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let mut read = |length| {
            let mut bytes = vec![0; length];
            self.answers.read_exact(&mut bytes).map(|()| bytes)
        };
        Ok(Output {
            stdout: read(out)?,
            stderr: read(errors)?,
            status: ExitStatus::from_raw((code as i32) << 8),
        })
    }
}

/// What `reader.py` says with these arguments, from a process that waits for work, or from one more.
pub fn ask(arguments: &[&str]) -> io::Result<Output> {
    let waiting = WAITING.lock().unwrap().pop();
    let mut process = match waiting {
        Some(process) => process,
        None => ReaderProcess::start()?,
    };
    let output = process.ask(arguments)?;
    WAITING.lock().unwrap().push(process);
    Ok(output)
}
