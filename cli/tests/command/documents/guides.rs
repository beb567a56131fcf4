//! The commands of the README and of the guides, run as they stand there.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Lab;

/// What the commands find: lists, a store to merge with, and the programs at both ends of a pipe.
const SETTING: &str = r#"
PATH=$(dirname "$EVERSEEN"):$PATH
crawler() { cat links.txt; }
fetcher() { cat; }
"#;

/// Blocks of these kinds hold commands.
const SCRIPT: &str = "```sh";
const SESSION: &str = "```console";
const PYTHON: &str = "```python";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A page of the repository.
pub fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join(name)).expect("it is in the repository")
}

/// A folder with the files that the commands name.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.write(
        "monday.txt",
        b"https://example.org/a\nhttps://example.org/a\nhttps://example.org/b\n",
    );
    lab.write(
        "tuesday.txt",
        b"https://example.org/b\nhttps://example.org/c\n",
    );
    lab.write("urls.txt", b"https://example.org/a\n");
    lab.write(
        "links.txt",
        b"https://example.org/a/../b#top\nhttp://example.org/\n",
    );
    lab.write(
        "pages.jsonl",
        b"{\"id\":1,\"url\":\"https://example.org/a\",\"meta\":{\"host\":\"example.org\"}}\n",
    );
    lab.write("pages.csv", b"id,url\n1,https://example.org/a\n");
    lab.write("access.log", b"::1 - - [1 +0] GET /a 200\n");
    lab.write("blocked.txt", b"https://example.org/x\n");
    lab.write("gone.txt", b"");
    lab.write("2026-05.txt.gz", include_bytes!("../../data/lines.gz"));
    lab
}

fn run(lab: &Lab, script: &str) -> Output {
    // Coprocesses are bash's.
    let program = if script.contains("coproc") {
        "bash"
    } else {
        "sh"
    };
    let mut shell = Command::new(program);
    shell.args(["-e", "-c"]).arg(format!("{SETTING}{script}"));
    shell.env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"));
    // What is installed for the user stays in here.
    shell.env("HOME", lab.path("home"));
    shell
        .current_dir(lab.path(""))
        .output()
        .expect("there is a shell")
}

/// The blocks of a kind, each as its lines.
fn blocks(text: &str, kind: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == kind) {
        let block = lines.by_ref().take_while(|line| *line != "```");
        found.push(block.map(str::to_owned).collect());
    }
    found
}

/// Runs all scripts of a page in one folder, in their order, and answers how many commands of ours there were.
fn run_scripts(page: &str) -> usize {
    let text = self::page(page);
    let lab = lab();
    if page != "README.md" {
        // What a reader of a guide has by then.
        lab.run(&["dedup", "visited.ever", "monday.txt"]).expect(0);
    }
    let mut commands = 0;
    for block in blocks(&text, SCRIPT) {
        // What builds or installs is run by .ci/run.
        if block
            .iter()
            .any(|line| line.contains("cargo") || line.starts_with("pip install"))
        {
            continue;
        }
        commands += block
            .iter()
            .filter(|line| line.contains("everseen "))
            .count();
        let output = run(&lab, &block.join("\n"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {block:?}: {said}");
    }
    commands
}

#[test]
fn scripts_of_the_pages_run() {
    assert!(run_scripts("README.md") >= 10);
    assert!(run_scripts("docs/guide/dedup.md") >= 1);
    assert!(run_scripts("docs/guide/records.md") >= 4);
    assert!(run_scripts("docs/guide/forgetting.md") >= 1);
    assert!(run_scripts("docs/guide/copies.md") >= 3);
    assert!(run_scripts("docs/guide/rate.md") >= 5);
    assert!(run_scripts("docs/guide/kinds.md") >= 6);
    assert!(run_scripts("docs/guide/processes.md") >= 2);
    assert!(run_scripts("docs/guide/memory.md") >= 2);
    assert!(run_scripts("docs/guide/monitoring.md") >= 3);
    assert!(run_scripts("docs/json.md") >= 2);
    assert!(run_scripts("docs/upgrading.md") >= 1);
}

/// A session shows commands after `$ `, their further lines after `> `, and what they print.
#[test]
fn the_session_of_the_readme_is_what_it_prints() {
    let text = page("README.md");
    let sessions = blocks(&text, SESSION);
    assert_eq!(sessions.len(), 1);
    expect_session(&lab(), &sessions[0]);
}

/// Runs the commands of a session, and compares what they print.
fn expect_session(lab: &Lab, session: &[String]) {
    let text = session.join("\n");
    let commands = text.strip_prefix("$ ").expect("begins with a command");
    for part in commands.split("\n$ ") {
        let mut lines = part.lines().peekable();
        let mut command = lines.next().unwrap_or_default().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
            command = command + "\n" + &more[2..];
        }
        let output = run(lab, &command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        let printed = String::from_utf8(output.stdout).expect("text");
        assert!(printed.lines().eq(lines), "{command} printed {printed}");
    }
}

/// The sessions go on from each other.
#[test]
fn the_guide_of_forgetting_prints_what_it_says() {
    let text = page("docs/guide/forgetting.md");
    let sessions = blocks(&text, SESSION);
    assert!(sessions.len() >= 5, "{}", sessions.len());
    let lab = lab();
    for session in sessions {
        expect_session(&lab, &session);
    }
    assert!(text.len() <= 8 << 10, "{} bytes", text.len());
}

/// Each recipe stands alone: a reader begins with any of them.
#[test]
fn recipes_print_what_they_say() {
    let text = page("docs/recipes.md");
    let sessions = blocks(&text, SESSION);
    let headings = text.lines().filter(|line| line.starts_with("## "));
    // The tests of the Python package run the others.
    let others = blocks(&text, PYTHON).len();
    assert_eq!(sessions.len() + others, headings.count());
    assert!(sessions.len() >= 8, "{}", sessions.len());
    for session in sessions {
        expect_session(&lab(), &session);
    }
    assert!(!text.contains(SCRIPT), "a block that nothing runs");
}
