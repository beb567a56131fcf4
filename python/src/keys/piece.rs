//! A piece of a batch, which can be worked on without Python.

use std::ops::Range;
use std::sync::Arc;

use super::Key;
use crate::arrow::{BadColumn, Column};

/// Some consecutive keys of a batch.
pub(crate) struct Piece {
    /// How many rows it has, nulls included.
    pub(crate) rows: usize,
    /// The places of the keys among the rows, if some are null.
    pub(crate) places: Option<Vec<u32>>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// Objects of Python's, kept alive.
    Objects(Vec<Key>),
    /// Keys of one width, padded with zeros.
    Packed { bytes: Vec<u8>, width: usize },
    /// Rows of a column, which is read where it lies.
    Column(Arc<Column>, Range<usize>),
    /// Keys that were put together, and where each ends.
    Joined { bytes: Vec<u8>, ends: Vec<usize> },
}

/// The keys of a piece.
pub(crate) struct Gathered<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    places: Option<Vec<u32>>,
    rows: usize,
}

impl Piece {
    /// Calls `each` with those of some rows that have keys: with the row, counted from the first one, and the key.
    pub(crate) fn each<'a>(
        &'a self,
        rows: Range<usize>,
        mut each: impl FnMut(usize, &'a [u8]),
    ) -> Result<(), BadColumn> {
        let mut keys = Vec::with_capacity(rows.len());
        if let Content::Column(column, all) = &self.content {
            let some = all.start + rows.start..all.start + rows.end;
            let places = column.keys(some, &mut keys)?;
            for (number, key) in keys.into_iter().enumerate() {
                let place = places.as_ref().map_or(number, |all| all[number] as usize);
                each(place, key);
            }
            return Ok(());
        }
        // Which of the keys lie in these rows.
        let number = |row: usize| match &self.places {
            None => row,
            Some(places) => places.partition_point(|place| (*place as usize) < row),
        };
        let range = number(rows.start)..number(rows.end);
        self.append(range.clone(), &mut keys);
        for (number, key) in range.zip(keys) {
            let place = self
                .places
                .as_ref()
                .map_or(number, |all| all[number] as usize);
            each(place - rows.start, key);
        }
        Ok(())
    }

    /// Appends some of the keys, which don't lie in a column.
    fn append<'a>(&'a self, range: Range<usize>, keys: &mut Vec<&'a [u8]>) {
        match &self.content {
            Content::Objects(objects) => keys.extend(objects[range].iter().map(AsRef::as_ref)),
            Content::Packed { bytes, width: 0 } => {
                keys.extend(range.map(|_| bytes.as_slice()));
            }
            Content::Packed { bytes, width } => {
                let bytes = &bytes[range.start * width..range.end * width];
                keys.extend(bytes.chunks_exact(*width).map(unpadded));
            }
            Content::Joined { bytes, ends } => {
                let start = |number: usize| number.checked_sub(1).map_or(0, |before| ends[before]);
                keys.extend(range.map(|number| &bytes[start(number)..ends[number]]));
            }
            Content::Column(..) => {}
        }
    }

    /// Returns how many keys there are that don't lie in a column.
    fn count(&self) -> usize {
        self.places.as_ref().map_or(self.rows, Vec::len)
    }

    pub(crate) fn gather(&self) -> Result<Gathered<'_>, BadColumn> {
        let mut keys = Vec::with_capacity(self.rows);
        let mut places = self.places.clone();
        match &self.content {
            Content::Column(column, rows) => places = column.keys(rows.clone(), &mut keys)?,
            _ => self.append(0..self.count(), &mut keys),
        }
        Ok(Gathered {
            keys,
            places,
            rows: self.rows,
        })
    }
}

/// Returns a key without the zeros behind it, as numpy has it.
fn unpadded(item: &[u8]) -> &[u8] {
    let end = item.iter().rposition(|byte| *byte != 0);
    &item[..end.map_or(0, |last| last + 1)]
}

impl Gathered<'_> {
    /// Of hashes, which lie elsewhere.
    pub(crate) fn of_hashes(places: Option<Vec<u32>>, rows: usize) -> Self {
        Self {
            keys: Vec::new(),
            places,
            rows,
        }
    }

    /// Appends the answers to the keys, in their places among the rows. There are fewer answers than keys where the
    /// work has ended early; the rows from there on have none.
    pub(crate) fn spread(&self, answers: &[u8], rows: &mut Vec<u8>) {
        let Some(places) = &self.places else {
            rows.extend_from_slice(answers);
            return;
        };
        let first = rows.len();
        for (place, answer) in places.iter().zip(answers) {
            rows.resize(first + *place as usize, 0);
            rows.push(*answer);
        }
        if answers.len() == places.len() {
            rows.resize(first + self.rows, 0);
        }
    }
}
