//! What stands between the values of records, known from earlier ones.
//!
//! # How does it work?
//!
//! Records of one source mostly have the same members in the same order, so what stands between two values was in an
//! earlier record, byte for byte:
//!
//! ```text
//! {"id": 7, "url": "https://example.org/a", "status": 200}
//! ~~~~~~~ ~~~~~~~~~                       ~~~~~~~~~~~~   ~   gaps
//!        7         "https://example.org/a"            200    values
//! ```
//!
//! The parser reads an object as a gap, a value, a gap, and so on. What it makes of a gap, and which name it finds there,
//! depends on the bytes of the gap and on whether a value comes before it, not on what the values are: a gap begins with
//! white space, `{`, `,` or `}`, of which none continues a value. So a gap that the parser has accepted once need only be
//! compared, and the parser reads the values alone. That takes half as long as having it read names and punctuation.
//!
//! Starting the parser takes longer than reading most values, so plain ones are read without it: strings without `\u`,
//! and numbers without a sign or an exponent.
//!
//! Nothing is refused here. A record with an unknown gap, or a value that the parser refuses, is read as a whole by
//! [`walk`](super::walk), which says what is wrong with it, and its gaps are known from then on.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use memchr::memchr2;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::walk::{Known, Node};

/// The most gaps that are kept, and the longest. A source with more has names that are data.
const MOST_GAPS: usize = 256;
const LONGEST_GAP: usize = 256;

/// The longest value that is kept with its gap, as times, codes and types repeat from record to record; and after how many
/// others it isn't kept longer.
const LONGEST_USUAL: usize = 64;
const MOST_OTHERS: u8 = 100;

/// How many more records may be tried in vain than not, until no more are.
const CREDIT: u32 = 32;

/// After how many records they are tried again, as the source may have changed.
const PAUSE: u32 = 1 << 12;

/// The shapes that records had.
#[derive(Debug, Clone)]
pub(super) struct Shapes {
    root: Shape,
    /// How many more gaps are kept.
    room: usize,
    credit: u32,
    /// How many records are still not tried.
    pause: u32,
}

/// The gaps of an object.
#[derive(Debug, Clone, Default)]
struct Shape {
    gaps: Vec<Gap>,
    /// Which one came last at the start of an object.
    start: usize,
}

/// What stands before a value, its name included, or at the end of an object.
#[derive(Debug, Clone)]
struct Gap {
    text: Box<[u8]>,
    /// Whether no value is before it. Behind one, it would be wrong.
    is_start: bool,
    then: Then,
    /// Which gap came behind the value last.
    next: usize,
    usual: Option<Usual>,
}

/// A value that is skipped, and the gap behind it, as they were when the parser read them.
#[derive(Debug, Clone)]
struct Usual {
    text: Box<[u8]>,
    /// Which gap is behind the value.
    next: usize,
    /// How many others came since it was last there.
    others: u8,
}

/// What comes behind a gap.
#[derive(Debug, Clone)]
enum Then {
    /// A value that isn't asked for.
    Skip,
    /// The value with this number.
    Value(usize),
    /// An object with values that are asked for, which is this child of the node.
    Object(usize, Shape),
    End,
}

/// Where values are noted.
struct Notes<'a> {
    /// The length of the record, from which the place follows of what is left of it.
    length: usize,
    values: &'a mut [Option<Range<usize>>],
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes {
            root: Shape::default(),
            room: MOST_GAPS,
            credit: CREDIT,
            pause: 0,
        }
    }
}

impl Shapes {
    /// Finds the values of a record if all gaps are known, as [`walk`](super::walk) would. Returns whether they are;
    /// otherwise some values may be noted in vain.
    pub(super) fn find(
        &mut self,
        root: &Node,
        record: &[u8],
        values: &mut [Option<Range<usize>>],
    ) -> bool {
        if let Some(left) = self.pause.checked_sub(1) {
            self.pause = left;
            return false;
        }
        let length = record.len();
        let rest = self.root.read(root, record, &mut Notes { length, values });
        let is_found = rest.is_some_and(|rest| {
            rest.is_empty() || serde_json::Deserializer::from_slice(rest).end().is_ok()
        });
        if is_found {
            self.credit = CREDIT.min(self.credit + 1);
        } else if self.credit > 0 {
            self.credit -= 1;
        } else {
            *self = Shapes {
                pause: PAUSE,
                ..Shapes::default()
            };
        }
        is_found
    }

    /// Learns the gaps of a record that the parser has accepted, after it could not be found here.
    pub(super) fn learn(&mut self, root: &Node, record: &[u8]) {
        if self.pause == 0 && self.room > 0 {
            self.root
                .learn(root, record.trim_ascii_end(), &mut self.room);
        }
    }
}

impl Shape {
    /// Reads an object, and returns what is behind it; `None` if there is an unknown gap or the parser refuses a value.
    fn read<'a>(
        &mut self,
        node: &Node,
        mut rest: &'a [u8],
        notes: &mut Notes<'_>,
    ) -> Option<&'a [u8]> {
        let mut at;
        (at, rest) = self.known(self.start, true, rest)?;
        self.start = at;
        loop {
            let gap = &mut self.gaps[at];
            match &mut gap.then {
                Then::End => return Some(rest),
                Then::Skip => {
                    if let Some(usual) = &mut gap.usual {
                        if let Some(behind) = rest.strip_prefix(&*usual.text) {
                            usual.others = 0;
                            (at, rest) = (usual.next, behind);
                            continue;
                        }
                        usual.others += 1;
                        if usual.others == MOST_OTHERS {
                            gap.usual = None;
                        }
                    }
                    rest = &rest[value_length(rest)?..];
                }
                Then::Value(number) => {
                    let (value, behind) = rest.split_at(value_length(rest)?);
                    let value = value.trim_ascii_start();
                    // What is asked for must be text, as all else need not be.
                    if str::from_utf8(value).is_err() {
                        return None;
                    }
                    let end = notes.length - behind.len();
                    notes.values[*number] = Some(end - value.len()..end);
                    rest = behind;
                }
                Then::Object(child, shape) => {
                    let child = node.child(*child);
                    child.forget(notes.values);
                    rest = shape.read(child, rest, notes)?;
                }
            }
            let (before, expected) = (at, gap.next);
            (at, rest) = self.known(expected, false, rest)?;
            self.gaps[before].next = at;
        }
    }

    /// Returns the gap with which a text begins, and what is behind it.
    fn known<'a>(
        &self,
        expected: usize,
        is_start: bool,
        text: &'a [u8],
    ) -> Option<(usize, &'a [u8])> {
        let behind = |gap: &Gap| match gap.is_start == is_start {
            true => text.strip_prefix(&*gap.text),
            false => None,
        };
        if let Some(rest) = self.gaps.get(expected).and_then(behind) {
            return Some((expected, rest));
        }
        let mut gaps = self.gaps.iter().enumerate();
        gaps.find_map(|(at, gap)| Some((at, behind(gap)?)))
    }

    /// Adds the gaps of a valid object, as long as there is room.
    fn learn(&mut self, node: &Node, object: &[u8], room: &mut usize) {
        let mut members = Vec::new();
        let lesson = Lesson {
            node,
            start: object.as_ptr() as usize,
            members: &mut members,
        };
        let mut parser = serde_json::Deserializer::from_slice(object);
        // It is no object, has bytes in it that are no text, or too many members.
        if parser.deserialize_map(lesson).is_err() || members.is_empty() {
            return;
        }
        let mut before: Option<(usize, Range<usize>)> = None;
        let end = object.len()..object.len();
        for (then, value) in members.into_iter().chain([(Then::End, end)]) {
            let start = before.as_ref().map_or(0, |(_, value)| value.end);
            let text = &object[start..value.start];
            let Some(at) = self.add(text, before.is_none(), then, room) else {
                return;
            };
            match before {
                None => self.start = at,
                Some((before, skipped)) => {
                    let gap = &mut self.gaps[before];
                    gap.next = at;
                    if matches!(gap.then, Then::Skip) && skipped.len() <= LONGEST_USUAL {
                        gap.usual = Some(Usual {
                            text: object[skipped.start..value.start].into(),
                            next: at,
                            others: 0,
                        });
                    }
                }
            }
            if let Then::Object(child, shape) = &mut self.gaps[at].then {
                shape.learn(node.child(*child), &object[value.clone()], room);
            }
            before = Some((at, value));
        }
    }

    /// Returns the gap with this text, which is added if it isn't there.
    fn add(&mut self, text: &[u8], is_start: bool, then: Then, room: &mut usize) -> Option<usize> {
        let is_it = |gap: &Gap| *gap.text == *text;
        let there = self.gaps.iter().position(is_it);
        if there.is_some() || text.len() > LONGEST_GAP {
            return there;
        }
        *room = room.checked_sub(1)?;
        self.gaps.push(Gap {
            text: text.into(),
            is_start,
            then,
            next: 0,
            usual: None,
        });
        Some(self.gaps.len() - 1)
    }
}

/// Returns the length of the value with which a text begins, and of white space before it.
fn value_length(text: &[u8]) -> Option<usize> {
    plain_length(text).or_else(|| parsed_length(text))
}

/// Returns the length of a value that needs no parser; `None` of any other.
fn plain_length(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_length(text),
        b'0'..=b'9' => number_length(text),
        _ => None,
    }
}

/// Returns the length of a string that is written without `\u`.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut end = 1;
    loop {
        end += memchr2(b'"', b'\\', &text[end..])?;
        match text[end] {
            b'"' => break,
            _ if b"\"\\/bfnrt".contains(text.get(end + 1)?) => end += 2,
            // Which characters may be named by number is the parser's to say.
            _ => return None,
        }
    }
    // Not up to the first one only: a loop without an end in the middle reads many bytes at once.
    let inner = text[1..end].iter();
    let has_control = inner.fold(false, |has, byte| has | (*byte < b' '));
    (!has_control).then_some(end + 1)
}

/// Returns the length of a number without a sign or an exponent. Whether it ends there, the gap behind it says.
fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = match text.first()? {
        // No gap begins with a digit, so none may be behind it.
        b'0' => 1,
        _ => digits(text),
    };
    if *text.get(length)? == b'.' {
        let fraction = digits(&text[length + 1..]);
        if fraction == 0 {
            return None;
        }
        length += 1 + fraction;
    }
    (!matches!(text.get(length)?, b'e' | b'E')).then_some(length)
}

/// Returns the length of the value with which a text begins, by the parser, and of white space before it.
fn parsed_length(text: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Finds the values of all members of an object, and what each is to the node.
struct Lesson<'a> {
    node: &'a Node,
    /// The address of the object.
    start: usize,
    members: &'a mut Vec<(Then, Range<usize>)>,
}

impl<'de> Visitor<'de> for Lesson<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(known) = map.next_key_seed(Known(self.node))? {
            let then = match known {
                None => Then::Skip,
                Some(child) => match self.node.child(child).value() {
                    Some(number) => Then::Value(number),
                    None => Then::Object(child, Shape::default()),
                },
            };
            let value: &RawValue = map.next_value()?;
            if self.members.len() == MOST_GAPS {
                return Err(A::Error::custom("more members than gaps are kept"));
            }
            let start = value.get().as_ptr() as usize - self.start;
            self.members.push((then, start..start + value.get().len()));
        }
        Ok(())
    }
}
