//! One chunk of a column.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Int64Type, LargeBinaryType,
    LargeUtf8Type, StringViewType, UInt64Type, Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::names::Names;

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

pub(super) const fn bad(what: &'static str) -> BadColumn {
    BadColumn { what }
}

/// What a row refers to. The buffers are the producer's own.
enum Values {
    /// Offsets of 32 bits, and the bytes.
    Small(OffsetBuffer<i32>, Buffer),
    /// Offsets of 64 bits, and the bytes.
    Large(OffsetBuffer<i64>, Buffer),
    /// Views of 16 bytes, and the buffers that they refer to.
    Views(ScalarBuffer<u128>, Arc<[Buffer]>),
    /// Integers of 64 bits, signed or not.
    Integers(ScalarBuffer<u64>),
    /// Rows that name rows of other values: of a dictionary, or of categories.
    Named(Names, Box<Values>),
    /// Nothing but nulls.
    Nothing,
}

impl Values {
    fn of(array: &dyn Array) -> Result<Self, BadColumn> {
        match array.data_type() {
            DataType::Utf8 => Self::small(array.as_bytes::<Utf8Type>()),
            DataType::Binary => Self::small(array.as_bytes::<BinaryType>()),
            DataType::LargeUtf8 => Self::large(array.as_bytes::<LargeUtf8Type>()),
            DataType::LargeBinary => Self::large(array.as_bytes::<LargeBinaryType>()),
            DataType::Utf8View => Self::views(array.as_byte_view::<StringViewType>()),
            DataType::BinaryView => Self::views(array.as_byte_view::<BinaryViewType>()),
            DataType::Int64 => Ok(Self::integers(
                array.as_primitive::<Int64Type>().values().inner(),
            )),
            DataType::UInt64 => Ok(Self::integers(
                array.as_primitive::<UInt64Type>().values().inner(),
            )),
            DataType::Null => Ok(Self::Nothing),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = Self::of(dictionary.values())?;
                Ok(Self::Named(Names::of(dictionary)?, Box::new(values)))
            }
            _ => Err(bad("a chunk is of another type than the column")),
        }
    }

    fn small<T: ByteArrayType<Offset = i32>>(
        array: &GenericByteArray<T>,
    ) -> Result<Self, BadColumn> {
        let bytes = sized(array.values())?;
        Ok(Self::Small(array.offsets().clone(), bytes))
    }

    fn large<T: ByteArrayType<Offset = i64>>(
        array: &GenericByteArray<T>,
    ) -> Result<Self, BadColumn> {
        let bytes = sized(array.values())?;
        Ok(Self::Large(array.offsets().clone(), bytes))
    }

    fn views<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> Result<Self, BadColumn> {
        let buffers: Result<_, _> = array.data_buffers().iter().map(sized).collect();
        Ok(Self::Views(array.views().clone(), buffers?))
    }

    fn integers(buffer: &Buffer) -> Self {
        Self::Integers(buffer.clone().into())
    }

    /// Returns the bytes of a row.
    fn bytes(&self, row: usize) -> Result<&[u8], BadColumn> {
        match self {
            Self::Small(offsets, bytes) => between(offsets, bytes, row),
            Self::Large(offsets, bytes) => between(offsets, bytes, row),
            Self::Views(views, buffers) => viewed(views, buffers, row),
            Self::Named(names, values) => values.bytes(names.row(row)?),
            Self::Integers(_) | Self::Nothing => Err(bad("it has no bytes")),
        }
    }

    /// Returns the integer of a row.
    fn integer(&self, row: usize) -> Result<u64, BadColumn> {
        match self {
            Self::Integers(integers) => Ok(integers[row]),
            Self::Named(names, values) => values.integer(names.row(row)?),
            _ => Err(bad("it has no integers")),
        }
    }
}

/// Returns a buffer whose length is one. A negative offset behind the last row, or a negative length of a view's
/// buffer, has become a very large one.
fn sized(buffer: &Buffer) -> Result<Buffer, BadColumn> {
    if buffer.len() > isize::MAX as usize {
        return Err(bad("its bytes have a negative length"));
    }
    Ok(buffer.clone())
}

/// Refuses an array whose number of rows is none: a negative one has become a very large one.
pub(super) fn expect_rows(array: &ArrayRef) -> Result<(), BadColumn> {
    match array.len() > isize::MAX as usize / size_of::<u128>() {
        true => Err(bad("it is longer than memory")),
        false => Ok(()),
    }
}

/// A chunk of a column, as its producer has laid it out.
pub(crate) struct Column {
    pub(super) rows: usize,
    nulls: Option<NullBuffer>,
    values: Values,
}

impl Column {
    pub(super) fn of(array: &ArrayRef) -> Result<Self, BadColumn> {
        expect_rows(array)?;
        Ok(Self {
            rows: array.len(),
            nulls: array.logical_nulls(),
            values: Values::of(array)?,
        })
    }

    /// Returns which of these rows have values; `None` if all have.
    fn valid(&self, rows: &Range<usize>) -> Option<NullBuffer> {
        let valid = self.nulls.as_ref()?.slice(rows.start, rows.len());
        (valid.null_count() > 0).then_some(valid)
    }

    /// Returns the first row of these that has no value.
    pub(crate) fn first_null(&self, rows: Range<usize>) -> Option<usize> {
        let valid = self.valid(&rows)?;
        let place = valid.iter().position(|valid| !valid)?;
        Some(rows.start + place)
    }

    /// Returns the places among these rows that have values; `None` if all have.
    fn places(&self, rows: &Range<usize>) -> Option<Vec<u32>> {
        let valid = self.valid(rows)?;
        Some(valid.valid_indices().map(|place| place as u32).collect())
    }

    /// Appends the values of these rows, and returns which of the rows they are, if some have none.
    pub(crate) fn keys<'a>(
        &'a self,
        rows: Range<usize>,
        keys: &mut Vec<&'a [u8]>,
    ) -> Result<Option<Vec<u32>>, BadColumn> {
        let places = self.places(&rows);
        let some = places.as_deref();
        match &self.values {
            Values::Small(offsets, bytes) => {
                let (offsets, bytes) = (&offsets[..], bytes.as_slice());
                gather(rows, some, keys, |row| between(offsets, bytes, row))?;
            }
            Values::Large(offsets, bytes) => {
                let (offsets, bytes) = (&offsets[..], bytes.as_slice());
                gather(rows, some, keys, |row| between(offsets, bytes, row))?;
            }
            Values::Views(views, buffers) => {
                gather(rows, some, keys, |row| viewed(views, buffers, row))?;
            }
            values @ Values::Named(..) => gather(rows, some, keys, |row| values.bytes(row))?,
            Values::Nothing => {}
            Values::Integers(_) => return Err(bad("it has no bytes")),
        }
        Ok(places)
    }

    /// Appends the integers of these rows, as [`keys`](Self::keys) does.
    pub(crate) fn integers(
        &self,
        rows: Range<usize>,
        hashes: &mut Vec<u64>,
    ) -> Result<Option<Vec<u32>>, BadColumn> {
        let places = self.places(&rows);
        let some = places.as_deref();
        match &self.values {
            Values::Integers(integers) => gather(rows, some, hashes, |row| Ok(integers[row]))?,
            values @ Values::Named(..) => gather(rows, some, hashes, |row| values.integer(row))?,
            _ => {}
        }
        Ok(places)
    }
}

/// Appends the values of all these rows, or of those at some places among them.
fn gather<T>(
    rows: Range<usize>,
    places: Option<&[u32]>,
    values: &mut Vec<T>,
    value: impl Fn(usize) -> Result<T, BadColumn>,
) -> Result<(), BadColumn> {
    match places {
        None => {
            for row in rows {
                values.push(value(row)?);
            }
        }
        Some(places) => {
            for place in places {
                values.push(value(rows.start + *place as usize)?);
            }
        }
    }
    Ok(())
}

/// Returns the bytes between two offsets. The offset behind the last row is the length of the bytes, as far as anything
/// says it. A negative offset, as an unsigned number, is behind all of them.
#[inline]
fn between<'a, O: OffsetSizeTrait>(
    offsets: &[O],
    bytes: &'a [u8],
    row: usize,
) -> Result<&'a [u8], BadColumn> {
    let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
    bytes.get(start..end).ok_or(bad("its offsets go backwards"))
}

/// Returns the bytes of a view: those in it, or those that it refers to.
#[inline]
fn viewed<'a>(
    views: &'a ScalarBuffer<u128>,
    buffers: &'a [Buffer],
    row: usize,
) -> Result<&'a [u8], BadColumn> {
    let view = ByteView::from(views[row]);
    let length = view.length as usize;
    if view.length <= MAX_INLINE_VIEW_LEN {
        // Behind the length.
        let start = size_of::<u128>() * row + size_of::<u32>();
        return views
            .inner()
            .get(start..start + length)
            .ok_or(bad("a view is missing"));
    }
    let buffer = buffers
        .get(view.buffer_index as usize)
        .ok_or(bad("a view refers to a buffer that isn't there"))?;
    let start = view.offset as usize;
    buffer
        .get(start..start + length)
        .ok_or(bad("a view ends behind its buffer"))
}
