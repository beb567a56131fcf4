//! Signs of text from another system: a byte-order mark, carriage returns. Where they are part of a key, two lines that look
//! alike are two.

use everseen_keys::rule::{Part, Rule};

use crate::input::record_blocks::Block;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Maximum number of inputs that are reported for each sign.
const TOLD_INPUTS: u64 = 5;

/// Notices each sign once an input.
pub struct ForeignText {
    mark: Sign,
    carriage_return: Sign,
}

/// What is known of one sign.
struct Sign {
    /// Whether it can be part of a key. What `--trim` and `--crlf` leave out isn't in it.
    counts: bool,
    /// Whether the current input may still show it.
    is_due: bool,
    /// How many inputs have shown it.
    inputs: u64,
}

impl ForeignText {
    pub fn of(rule: &Rule, separator: u8) -> Self {
        // JSON, CSV and URLs leave both out.
        let is_text = matches!(rule.part, Part::Whole | Part::Fields(_)) && rule.url.is_none();
        let ends_lines = separator == b'\n';
        let sign = |counts| Sign {
            counts,
            is_due: false,
            inputs: 0,
        };
        ForeignText {
            mark: sign(is_text),
            carriage_return: sign(is_text && ends_lines),
        }
    }

    /// Notes that the next item is the first one of an input.
    pub fn begin_input(&mut self) {
        for sign in [&mut self.mark, &mut self.carriage_return] {
            sign.is_due = sign.counts;
        }
    }

    /// Looks at the items of a block that are their own keys.
    pub fn look_at_block(&mut self, block: &Block, name: &str, notices: &mut Vec<String>) {
        if let Some(first) = block.items().next() {
            self.look((name, block.place(0).line), (first, first), notices);
        }
        if !self.carriage_return.is_due {
            return;
        }
        let found = block.items().position(|item| item.ends_with(b"\r"));
        if let Some(at) = found {
            notices.extend(self.note_return((name, block.place(at).line)));
        }
    }

    /// Looks at the item at this place, and at the key of it.
    pub fn look(
        &mut self,
        place: (&str, u64),
        (item, key): (&[u8], &[u8]),
        notices: &mut Vec<String>,
    ) {
        if std::mem::take(&mut self.mark.is_due) && place.1 == 1 && has_mark(item, key) {
            notices.extend(self.note_mark(place.0));
        }
        // Several values have a comma behind each.
        let is_at_end = || key.ends_with(b"\r") || key.ends_with(b"\r,");
        if self.carriage_return.is_due && is_at_end() {
            notices.extend(self.note_return(place));
        }
    }

    fn note_mark(&mut self, name: &str) -> Option<String> {
        self.mark.note(|| {
            format!(
                "{name}: begins with a byte-order mark, which is compared as part of the first line; --trim from the first \
                 run on leaves it out, and so does: tail -c +4"
            )
        })
    }

    fn note_return(&mut self, (name, line): (&str, u64)) -> Option<String> {
        self.carriage_return.note(|| {
            format!(
                "{name}:{line}: ends with a carriage return, as text of Windows does (CRLF), which is compared as part of the \
                 line; --crlf from the first run on leaves it out, and so does: tr -d '\\r'"
            )
        })
    }
}

/// Returns whether the mark before an item is in its key, perhaps behind the length of a value.
fn has_mark(item: &[u8], key: &[u8]) -> bool {
    let mut parts = key.windows(BYTE_ORDER_MARK.len());
    item.starts_with(BYTE_ORDER_MARK) && parts.any(|part| part == BYTE_ORDER_MARK)
}

impl Sign {
    /// Notes that the input shows the sign. Returns what is reported of that.
    fn note(&mut self, notice: impl FnOnce() -> String) -> Option<String> {
        self.is_due = false;
        self.inputs += 1;
        match self.inputs {
            ..=TOLD_INPUTS => Some(notice()),
            _ if self.inputs == TOLD_INPUTS + 1 => {
                Some("more files like that follow, which are not reported".to_owned())
            }
            _ => None,
        }
    }
}
