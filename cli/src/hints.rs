//! What is meant by names that other programs have for something of this one.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Names of commands that are none, and what to type instead.
const COMMANDS: [(&str, &str); 31] = [
    ("append", "everseen add STORE FILE"),
    ("backup", "everseen snapshot STORE COPY"),
    ("buffer", "everseen help buffer"),
    (
        "contains",
        "everseen check STORE FILE, or with one key: everseen check -q STORE --key KEY",
    ),
    ("delete", "everseen remove STORE FILE"),
    ("diff", "everseen difference OUT A B"),
    (
        "distinct",
        "everseen count FILE, or to print them: everseen dedup STORE FILE",
    ),
    ("exists", "everseen check -q STORE --key KEY"),
    (
        "filter",
        "everseen dedup STORE FILE, or to remember nothing: everseen check -v STORE FILE",
    ),
    ("expire", "everseen create --forget-after 30d STORE"),
    (
        "forget",
        "everseen remove STORE FILE, or for a time: everseen create --forget-after 30d STORE",
    ),
    ("get", "everseen check STORE FILE"),
    ("has", "everseen check -q STORE --key KEY"),
    ("import", "everseen add STORE FILE"),
    ("init", "everseen create STORE"),
    ("insert", "everseen add STORE FILE"),
    ("join", "everseen intersect OUT A B"),
    ("keys", "everseen help keys"),
    ("memory", "everseen help buffer"),
    ("merge", "everseen union OUT A B"),
    ("new", "everseen create STORE"),
    ("query", "everseen check STORE FILE"),
    (
        "restore",
        "nothing but to copy the snapshot back; everseen verify STORE looks at it",
    ),
    ("rm", "everseen remove STORE FILE"),
    ("stat", "everseen info STORE"),
    ("stats", "everseen info STORE"),
    ("test", "everseen check -q STORE --key KEY"),
    ("uniq", "everseen dedup STORE FILE"),
    ("urls", "everseen help urls"),
    ("wait", "everseen help wait"),
    ("windows", "everseen help windows"),
];

const FORGET_AFTER: &str = "--forget-after 30d, for a new store";

/// Names of options that are none, and those that are meant.
const OPTIONS: [(&str, &str); 33] = [
    ("--after", FORGET_AFTER),
    ("--by", "--json-key, --csv-key or --key-field"),
    ("--case-insensitive", "--ignore-case"),
    ("--column", "--csv-key COLUMN, or --key-field N"),
    ("--days", FORGET_AFTER),
    ("--duplicates", "--seen"),
    ("--expire", FORGET_AFTER),
    ("--expire-after", FORGET_AFTER),
    (
        "--fast",
        "--capacity N for a new store: one of fixed size is faster",
    ),
    (
        "--field",
        "--key-field N, --csv-key COLUMN or --json-key PATH",
    ),
    ("--fields", "--key-field N, once for each field"),
    (
        "--header",
        "nothing: the first record of CSV is a header, without --no-header",
    ),
    (
        "--input",
        "the name of the file behind the store, without an option",
    ),
    ("--key-column", "--csv-key COLUMN"),
    (
        "--line-buffered",
        "nothing: a lone line from a pipe is answered at once",
    ),
    ("--max-age", FORGET_AFTER),
    ("--max-memory", "--buffer SIZE"),
    ("--memory", "--buffer SIZE"),
    ("--now", "--at TIME"),
    ("--repeated", "--seen"),
    ("--repeats", "--seen"),
    (
        "--sep",
        "--delimiter with --csv-key, --field-separator with --key-field",
    ),
    (
        "--separator",
        "--delimiter with --csv-key, --field-separator with --key-field",
    ),
    (
        "--since",
        "--forget-after 30d for a new store, or `everseen snapshot --since`",
    ),
    ("--size", "--capacity N"),
    (
        "--store",
        "the name of the store as the first argument, without an option",
    ),
    ("--ttl", FORGET_AFTER),
    (
        "--unbuffered",
        "nothing: a lone line from a pipe is answered at once",
    ),
    ("-F", "--field-separator, with --key-field N"),
    (
        "-d",
        "--seen for repeats, --delimiter for CSV, or --field-separator for fields",
    ),
    ("-f", "--key-field N, or --files-from LIST"),
    ("-i", "--ignore-case"),
    ("-k", "--key-field N, or --key KEY"),
];

/// Returns what to type instead of what was not understood.
pub fn hint(wrong: &clap::Error) -> Option<&'static str> {
    let (kind, names) = match wrong.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, &COMMANDS[..]),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, &OPTIONS[..]),
        _ => return None,
    };
    let Some(ContextValue::String(name)) = wrong.get(kind) else {
        return None;
    };
    // An option may have its value behind it.
    let name = name.split('=').next()?;
    let found = names.iter().find(|(known, _)| *known == name);
    found.map(|(_, meant)| *meant)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;
    use crate::topics::TOPICS;

    /// A hint never stands in the way of what exists, and names what does.
    #[test]
    fn hints_are_for_what_is_missing() {
        let command = Cli::command();
        let names: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        for (name, meant) in COMMANDS {
            assert!(!names.contains(&name), "{name}");
            for meant in meant.split("everseen ").skip(1) {
                let meant = meant.split(' ').next().unwrap_or_default();
                assert!(names.contains(&meant) || meant == "help", "{name}: {meant}");
            }
        }
        // What has no command is a topic.
        for (topic, _) in TOPICS {
            assert_eq!(
                COMMANDS.iter().find(|(name, _)| *name == topic),
                Some(&(topic, &*format!("everseen help {topic}")))
            );
        }
        let dedup = command.find_subcommand("dedup").expect("it is one");
        let options: Vec<_> = dedup
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        for (name, meant) in OPTIONS {
            let long = name.strip_prefix("--").unwrap_or_default();
            assert!(!options.contains(&long), "{name}");
            for word in meant.split([' ', ',', ';']) {
                if let Some(long) = word.strip_prefix("--").filter(|_| !meant.contains('`')) {
                    assert!(options.contains(&long), "{name}: {word}");
                }
            }
        }
    }
}
