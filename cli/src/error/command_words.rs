//! The library's messages in the words of the command: what it calls a function or an option is typed otherwise here.

use crate::input::STDIN;

/// What the library says, and the command.
const WORDS: [(&str, &str); 10] = [
    ("the option `buffer`", "`--buffer`"),
    ("the option `fpr`", "`--fpr`"),
    ("the option `like`", "`create --like`"),
    ("the option `timeout`", "`--timeout`"),
    ("`apply`", "`everseen apply`"),
    ("`checkpoint`", "`everseen checkpoint`"),
    ("`repair`", "`everseen repair`"),
    ("`snapshot_since`", "`everseen snapshot --since`"),
    ("`snapshot`", "`everseen snapshot`"),
    ("`verify`", "`everseen verify`"),
];

/// Returns how a suggested command names an input: standard input has no name of its own.
pub fn as_argument(name: &str) -> &str {
    if name == STDIN { "NAME" } else { name }
}

/// Returns a message of the library as the command says it.
pub fn in_command_words(error: &everseen::Error) -> String {
    let mut text = error.to_string();
    for (library, command) in WORDS {
        text = text.replace(library, command);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_typed() {
        let path = "a.ever".into();
        let keys = everseen::Error::KeysInLog { path, keys: 2 };
        let text = in_command_words(&keys);
        assert!(text.contains("run `everseen checkpoint` where"), "{text}");
    }
}
