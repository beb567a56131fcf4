//! Finds values in a record, and skips all others.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::value::RawValue;

use super::error::JsonError;
use super::pointer::{Pointer, PointerError};

/// A place on the way to values that are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// The number of the value here, if this is one of them. Then there are no places behind it.
    value: Option<usize>,
    children: Vec<Child>,
}

#[derive(Debug, Clone)]
struct Child {
    name: String,
    /// The name as the number of an item.
    index: Option<usize>,
    node: Node,
}

impl Node {
    pub(super) fn of_pointers(pointers: &[Pointer]) -> Result<Self, PointerError> {
        if pointers.is_empty() {
            return Err(PointerError::Empty);
        }
        let mut root = Node::default();
        for (number, pointer) in pointers.iter().enumerate() {
            let mut node = &mut root;
            for name in pointer.names() {
                if let Some(other) = node.value {
                    return Err(PointerError::Within {
                        path: pointer.text(),
                        other: pointers[other].text(),
                    });
                }
                node = node.child_named(name);
            }
            if node.value.replace(number).is_some() {
                let path = pointer.text();
                return Err(PointerError::Twice { path });
            }
            if let Some(deeper) = node.children.first().and_then(|child| child.node.any()) {
                return Err(PointerError::Within {
                    path: pointers[deeper].text(),
                    other: pointer.text(),
                });
            }
        }
        Ok(root)
    }

    /// Returns the number of the value here.
    pub(super) fn value(&self) -> Option<usize> {
        self.value
    }

    pub(super) fn child(&self, number: usize) -> &Node {
        &self.children[number].node
    }

    fn child_named(&mut self, name: &str) -> &mut Node {
        let known = self.children.iter().position(|child| child.name == name);
        let at = known.unwrap_or(self.children.len());
        if known.is_none() {
            let number = name.parse().ok();
            self.children.push(Child {
                name: name.to_owned(),
                // `01` and `+1` are names alone.
                index: number.filter(|number: &usize| number.to_string() == name),
                node: Node::default(),
            });
        }
        &mut self.children[at].node
    }

    /// Returns the number of a value here or behind.
    fn any(&self) -> Option<usize> {
        let behind = || self.children.first()?.node.any();
        self.value.or_else(behind)
    }

    /// Forgets the values here and behind, because a later member of the same name counts.
    pub(super) fn forget(&self, values: &mut [Option<Range<usize>>]) {
        if let Some(value) = self.value {
            values[value] = None;
        }
        for child in &self.children {
            child.node.forget(values);
        }
    }
}

/// Finds the values of a record, and answers where each lies in it.
pub(super) fn find(
    root: &Node,
    record: &[u8],
    values: &mut [Option<Range<usize>>],
) -> Result<(), JsonError> {
    let walk = Walk {
        node: root,
        start: record.as_ptr() as usize,
        values,
    };
    // Known to be text, its strings are not checked one by one.
    match str::from_utf8(record) {
        Ok(text) => walk.through(serde_json::Deserializer::from_str(text)),
        Err(_) => walk.through(serde_json::Deserializer::from_slice(record)),
    }
}

struct Walk<'a> {
    node: &'a Node,
    /// The address of the record.
    start: usize,
    values: &'a mut [Option<Range<usize>>],
}

impl Walk<'_> {
    fn through<'de, R: Read<'de>>(
        self,
        mut parser: serde_json::Deserializer<R>,
    ) -> Result<(), JsonError> {
        self.deserialize(&mut parser)?;
        Ok(parser.end()?)
    }

    /// Notes the place of a value, which lies in the record.
    fn note(&mut self, number: usize, value: &RawValue) {
        let text = value.get();
        let start = text.as_ptr() as usize - self.start;
        self.values[number] = Some(start..start + text.len());
    }

    fn behind<'b>(&'b mut self, node: &'b Node) -> Walk<'b> {
        Walk {
            node,
            start: self.start,
            values: self.values,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let node = self.node;
        while let Some(known) = map.next_key_seed(Known(node))? {
            let Some(child) = known.map(|child| node.child(child)) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            match child.value {
                Some(number) => self.note(number, map.next_value()?),
                None => {
                    child.forget(self.values);
                    map.next_value_seed(self.behind(child))?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let node = self.node;
        for at in 0.. {
            let known = node.children.iter().find(|child| child.index == Some(at));
            let more = match known.map(|child| &child.node) {
                None => items.next_element::<IgnoredAny>()?.is_some(),
                Some(Node {
                    value: Some(number),
                    ..
                }) => {
                    let value = items.next_element::<&RawValue>()?;
                    value.map(|value| self.note(*number, value)).is_some()
                }
                Some(behind) => items.next_element_seed(self.behind(behind))?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // Nothing lies behind the others.

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Finds the number of the child with the name of a member.
pub(super) struct Known<'a>(pub(super) &'a Node);

impl<'de> DeserializeSeed<'de> for Known<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Known<'_> {
    type Value = Option<usize>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let mut children = self.0.children.iter();
        Ok(children.position(|child| child.name == name))
    }
}
