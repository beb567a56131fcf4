//! One chunk of a column.

use std::ffi::c_void;
use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::abi::ArrowArray;

/// How the values of a column lie in its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Offsets of 32 bits, and the bytes.
    Small,
    /// Offsets of 64 bits, and the bytes.
    Large,
    /// Views of 16 bytes, and buffers that they refer to.
    View,
    /// Integers of 64 bits.
    Integer,
    /// Nothing but nulls.
    Null,
}

impl Layout {
    pub(super) fn of(format: &str) -> PyResult<Self> {
        match format {
            "u" | "z" => Ok(Self::Small),
            "U" | "Z" => Ok(Self::Large),
            "vu" | "vz" => Ok(Self::View),
            "l" | "L" => Ok(Self::Integer),
            "n" => Ok(Self::Null),
            "+s" => Err(PyTypeError::new_err(
                "a table, or a column of structs; give one of its columns",
            )),
            _ => Err(PyTypeError::new_err(format!(
                "an Arrow column of format {format:?}; keys are strings or binary, hashes are 64-bit integers (cast it)"
            ))),
        }
    }

    /// Returns how many buffers a column has at least.
    fn buffers(self) -> i64 {
        match self {
            Self::Small | Self::Large => 3,
            // The lengths of the buffers that views refer to are a buffer too.
            Self::View => 3,
            Self::Integer => 2,
            Self::Null => 0,
        }
    }
}

/// A column whose content contradicts itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadColumn {
    what: &'static str,
}

impl BadColumn {
    pub(crate) fn raise(self, _py: Python<'_>) -> PyErr {
        PyValueError::new_err(format!("the Arrow column is damaged: {}", self.what))
    }
}

const fn bad(what: &'static str) -> BadColumn {
    BadColumn { what }
}

/// A chunk of a column, as its producer has laid it out.
pub(crate) struct Column {
    array: ArrowArray,
    layout: Layout,
    pub(super) rows: usize,
    /// The place of the first row in the buffers.
    first: usize,
}

impl Column {
    pub(super) fn of(array: ArrowArray, layout: Layout) -> Result<Self, BadColumn> {
        if !array.dictionary.is_null() {
            return Err(bad("it has a dictionary that its type doesn't have"));
        }
        let rows = usize::try_from(array.length).map_err(|_| bad("its length is negative"))?;
        let first = usize::try_from(array.offset).map_err(|_| bad("its offset is negative"))?;
        // Every place in it, and the offset behind the last one, can be counted in bytes.
        let end = first.checked_add(rows).and_then(|end| end.checked_add(1));
        if end
            .and_then(|end| end.checked_mul(16))
            .is_none_or(|end| end > isize::MAX as usize)
        {
            return Err(bad("it is longer than memory"));
        }
        if rows > 0 && (array.n_buffers < layout.buffers() || array.buffers.is_null()) {
            return Err(bad("buffers are missing"));
        }
        let column = Self {
            array,
            layout,
            rows,
            first,
        };
        if rows > 0 && layout != Layout::Null && column.buffer(1).is_null() {
            return Err(bad("its values are missing"));
        }
        Ok(column)
    }

    /// Returns a buffer of those that `of` has counted.
    fn buffer(&self, index: usize) -> *const u8 {
        debug_assert!((index as i64) < self.array.n_buffers);
        // SAFETY: the array isn't released, and has more buffers than `index`, which the callers see to.
        unsafe { (*self.array.buffers.add(index)).cast() }
    }

    /// Reads a number of a buffer that has as many as the caller says.
    fn number<T: Copy>(buffer: *const u8, place: usize) -> T {
        // SAFETY: the callers read at places that the column's length or offsets promise; the types are integers, for
        // which all bytes are valid. Nothing is said of alignment.
        unsafe { buffer.cast::<T>().add(place).read_unaligned() }
    }

    fn is_null(&self, row: usize) -> bool {
        if self.layout == Layout::Null {
            return true;
        }
        let valid = self.buffer(0);
        if valid.is_null() || self.array.null_count == 0 {
            return false;
        }
        let place = self.first + row;
        // The validity of each place is a bit.
        let byte: u8 = Self::number(valid, place / 8);
        (byte >> (place % 8)) & 1 == 0
    }

    /// Returns the first row of these that has no value.
    pub(crate) fn first_null(&self, mut rows: Range<usize>) -> Option<usize> {
        let none = self.layout != Layout::Null
            && self.rows > 0
            && (self.array.null_count == 0 || self.buffer(0).is_null());
        (!none)
            .then(|| rows.find(|row| self.is_null(*row)))
            .flatten()
    }

    /// Appends the values of these rows, and returns which of the rows they are, if some have none.
    pub(crate) fn keys<'a>(
        &'a self,
        rows: Range<usize>,
        keys: &mut Vec<&'a [u8]>,
    ) -> Result<Option<Vec<u32>>, BadColumn> {
        debug_assert!(rows.end <= self.rows);
        let places = self.places(rows.clone());
        match &places {
            None => {
                for row in rows {
                    keys.push(self.value(row)?);
                }
            }
            Some(places) => {
                for place in places {
                    keys.push(self.value(rows.start + *place as usize)?);
                }
            }
        }
        Ok(places)
    }

    /// Appends the integers of these rows, as [`keys`](Self::keys) does.
    pub(crate) fn integers(&self, rows: Range<usize>, hashes: &mut Vec<u64>) -> Option<Vec<u32>> {
        debug_assert!(rows.end <= self.rows);
        let places = self.places(rows.clone());
        if self.layout == Layout::Integer {
            let integer = |row| Self::number::<u64>(self.buffer(1), self.first + row);
            match &places {
                None => hashes.extend(rows.map(integer)),
                Some(places) => {
                    let rows = places.iter().map(|place| rows.start + *place as usize);
                    hashes.extend(rows.map(integer));
                }
            }
        }
        places
    }

    /// Returns the places among these rows that have values; `None` if all have.
    fn places(&self, rows: Range<usize>) -> Option<Vec<u32>> {
        self.first_null(rows.clone())?;
        let valid = rows.clone().filter(|row| !self.is_null(*row));
        Some(valid.map(|row| (row - rows.start) as u32).collect())
    }

    fn value(&self, row: usize) -> Result<&[u8], BadColumn> {
        match self.layout {
            Layout::Small => self.offset_value(
                |place| i64::from(Self::number::<i32>(self.buffer(1), place)),
                row,
            ),
            Layout::Large => {
                self.offset_value(|place| Self::number::<i64>(self.buffer(1), place), row)
            }
            Layout::View => self.view_value(row),
            Layout::Integer | Layout::Null => Err(bad("it has no bytes")),
        }
    }

    /// The offset behind the last row is the length of the bytes, as far as anything says it.
    #[inline]
    fn offset_value(&self, offset: impl Fn(usize) -> i64, row: usize) -> Result<&[u8], BadColumn> {
        let place = self.first + row;
        let (start, end) = (offset(place), offset(place + 1));
        let last = offset(self.first + self.rows);
        if start < 0 || end < start || last < end {
            return Err(bad("its offsets go backwards"));
        }
        self.bytes(self.buffer(2), start as usize, (end - start) as usize)
    }

    fn view_value(&self, row: usize) -> Result<&[u8], BadColumn> {
        let view = self.buffer(1).wrapping_add(16 * (self.first + row));
        let word = |index| Self::number::<i32>(view, index);
        let length = usize::try_from(word(0)).map_err(|_| bad("a view's length is negative"))?;
        if length <= 12 {
            return self.bytes(view, 4, length);
        }
        let (index, start) = (word(2), word(3));
        // Behind validity and views, the buffers; the last one has their lengths.
        let buffers = self.array.n_buffers - 3;
        if index < 0 || i64::from(index) >= buffers || start < 0 {
            return Err(bad("a view refers to a buffer that isn't there"));
        }
        let (index, start) = (index as usize, start as usize);
        let lengths = self.buffer(2 + buffers as usize);
        if lengths.is_null() {
            return Err(bad("the lengths of its buffers are missing"));
        }
        let there = usize::try_from(Self::number::<i64>(lengths, index)).unwrap_or(0);
        if start.checked_add(length).is_none_or(|end| end > there) {
            return Err(bad("a view ends behind its buffer"));
        }
        self.bytes(self.buffer(2 + index), start, length)
    }

    /// Returns bytes of a buffer that has been checked to have them.
    fn bytes(&self, buffer: *const u8, start: usize, length: usize) -> Result<&[u8], BadColumn> {
        if length == 0 {
            return Ok(&[]);
        }
        if buffer.cast::<c_void>().is_null() {
            return Err(bad("its bytes are missing"));
        }
        // SAFETY: the offsets or the view promise these bytes, the array that has them lives as long as `self`, and
        // nothing changes them: the content of an array is immutable.
        Ok(unsafe { std::slice::from_raw_parts(buffer.add(start), length) })
    }
}
