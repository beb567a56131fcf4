//! Text for people that holds foreign bytes, such as the name of a file.
//!
//! A name may have any character. On a terminal, some of them move the cursor, change colours or the title, ring the bell,
//! or type on their own (an answer to a query); in a log, a line end begins a line that nobody wrote.

use std::fmt::{self, Display, Write};

/// Displays something with all characters escaped that do more than stand in a line: control characters, ends of lines, and
/// those that have others shown in another order. Names of files may have any of them, and a terminal obeys them.
///
/// All errors of this crate show names in this way.
///
/// ```
/// let name = std::path::Path::new("a\x1b[2Jb\n");
/// assert_eq!(everseen::Escaped(name.display()).to_string(), "a\\x1b[2Jb\\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|char| match char {
            '\n' => self.0.write_str("\\n"),
            '\r' => self.0.write_str("\\r"),
            '\t' => self.0.write_str("\\t"),
            '\0'..='\x7f' if char.is_control() => write!(self.0, "\\x{:02x}", char as u32),
            char if is_active(char) => {
                write!(self.0, "\\u{{{:x}}}", char as u32)
            }
            char => self.0.write_char(char),
        })
    }
}

/// Returns whether a character does more than stand in a line: a control character, the end of a line, or one that has
/// others shown in another order.
fn is_active(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_more_than_stand_in_a_line_is_escaped() {
        for (text, expected) in [
            ("a b\\c é 漢 🦀", "a b\\c é 漢 🦀"),
            ("a\x1b[31mb", "a\\x1b[31mb"),
            ("\r\n\t\x07\x7f", "\\r\\n\\t\\x07\\x7f"),
            // One character that begins a sequence.
            ("\u{9b}31m", "\\u{9b}31m"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
        ] {
            assert_eq!(Escaped(text).to_string(), expected);
        }
    }
}
