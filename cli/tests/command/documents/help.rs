//! `-h`, `--help`, the topics of `help`, and manual pages.

use std::fs;

use crate::documents::completions::SUBCOMMANDS;
use crate::support::Lab;

const TOPICS: [&str; 5] = ["buffer", "keys", "urls", "wait", "windows"];

fn text(lab: &Lab, args: &[&str]) -> String {
    // As on a terminal that is wide enough.
    let output = lab.command(args).env("COLUMNS", "100").output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn short_help_has_one_line_for_each_option() {
    let lab = Lab::new();
    for command in SUBCOMMANDS {
        let short = text(&lab, &[command, "-h"]);
        let long = text(&lab, &[command, "--help"]);
        let (options, examples) = short.split_once("Examples:").expect("examples");
        let mut count = 0;
        for line in options.lines().chain(examples.lines()) {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
        for line in options.lines().filter(|line| line.starts_with("  ")) {
            let name = line.trim_start();
            let is_first = name.starts_with(['-', '<', '[']);
            assert!(
                is_first && line.len() - name.len() <= 6,
                "{command}: {line}"
            );
            count += 1;
            // All that is short is in the long one, too.
            let name = name.split("  ").next().unwrap_or_default();
            assert!(long.contains(name), "{command}: {name}");
        }
        assert!(count > 1, "{command}");
        assert!(!options.contains("[possible values"), "{command}");
    }
    assert!(text(&lab, &["dedup", "--help"]).contains("possible values: auto, always, never"));
}

#[test]
fn topics_say_once_what_commands_share() {
    let lab = Lab::new();
    let overview = text(&lab, &["--help"]);
    let line = format!("Topics: everseen help {}", TOPICS.join(", "));
    assert!(overview.contains(&line), "{overview}");
    let mut named = Vec::new();
    for command in SUBCOMMANDS {
        let long = text(&lab, &[command, "--help"]);
        named.extend(TOPICS.map(|topic| long.contains(&format!("`everseen help {topic}`"))));
    }
    for (number, topic) in TOPICS.into_iter().enumerate() {
        assert!(
            named
                .iter()
                .skip(number)
                .step_by(TOPICS.len())
                .any(|is| *is),
            "{topic}"
        );
        let said = text(&lab, &["help", topic]);
        assert!(said.lines().count() > 5, "{said}");
        assert!(said.lines().all(|line| line.len() <= 100), "{said}");
        // No subcommand stands behind it.
        assert!(!SUBCOMMANDS.contains(&topic));
        assert!(lab.run(&["help", topic, "more"]).code == Some(2));
    }
    // The paragraph that was in each command's help.
    let moved = "what the kernel lets lie unwritten";
    assert!(
        text(&lab, &["help", "buffer"])
            .replace('\n', " ")
            .contains(moved)
    );
    assert!(
        !text(&lab, &["dedup", "--help"])
            .replace('\n', " ")
            .contains(moved)
    );
    assert_eq!(lab.run(&["help", "nothing"]).code, Some(2));
}

#[test]
fn manual_pages_have_examples_as_they_stand_and_the_exit_status() {
    let lab = Lab::new();
    lab.run(&["man", "pages"]).expect(0);
    for command in SUBCOMMANDS {
        let page = fs::read_to_string(lab.path(&format!("pages/everseen-{command}.1")));
        let page = page.expect("a page");
        let (_, examples) = page.split_once(".SH \"EXAMPLES\"\n.nf\n").expect(command);
        let (examples, status) = examples
            .split_once(".fi\n.SH \"EXIT STATUS\"\n")
            .expect(command);
        let long = text(&lab, &[command, "--help"]);
        for line in examples.lines() {
            let shown = line
                .replace("\\-", "-")
                .replace("\\(aq", "'")
                .replace("\\(ga", "`");
            let shown = shown.replace("\\e", "\\");
            assert!(long.contains(&shown), "{command}: {line}");
        }
        assert!(status.starts_with("0 "), "{command}: {status}");
        assert!(!page.contains(".SH EXTRA"), "{command}");
    }
    let whole = fs::read_to_string(lab.path("pages/everseen.1")).expect("a page");
    for topic in TOPICS {
        assert!(
            whole.contains(&format!(".SH \"{}\"", topic.to_uppercase())),
            "{topic}"
        );
    }
    assert!(
        whole.contains(".SH \"EXIT STATUS\"\n0 done, 1 \"no\""),
        "{whole}"
    );
    // No line is taken for a request of roff that is none.
    for line in whole.lines().filter(|line| line.starts_with('.')) {
        let request = line.split(' ').next().unwrap_or_default();
        let known = [
            ".SH", ".PP", ".nf", ".fi", ".TH", ".TP", ".br", ".ie", ".el",
        ];
        assert!(known.contains(&request), "{line}");
    }
}
