//! The rows of a dictionary that the rows of a column name.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{AnyDictionaryArray, Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

use super::column::{BadColumn, bad};

/// Integers of any width. The buffers are the producer's own.
enum Numbers {
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
}

/// For each row of a column, a row of a dictionary.
pub(super) struct Names {
    numbers: Numbers,
    /// How many rows the dictionary has.
    rows: usize,
}

impl Names {
    pub(super) fn of(dictionary: &dyn AnyDictionaryArray) -> Result<Self, BadColumn> {
        let keys = dictionary.keys();
        let numbers = match keys.data_type() {
            DataType::Int8 => Numbers::I8(keys.as_primitive::<Int8Type>().values().clone()),
            DataType::Int16 => Numbers::I16(keys.as_primitive::<Int16Type>().values().clone()),
            DataType::Int32 => Numbers::I32(keys.as_primitive::<Int32Type>().values().clone()),
            DataType::Int64 => Numbers::I64(keys.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt8 => Numbers::U8(keys.as_primitive::<UInt8Type>().values().clone()),
            DataType::UInt16 => Numbers::U16(keys.as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Numbers::U32(keys.as_primitive::<UInt32Type>().values().clone()),
            DataType::UInt64 => Numbers::U64(keys.as_primitive::<UInt64Type>().values().clone()),
            _ => return Err(bad("its dictionary has no integers for keys")),
        };
        Ok(Self {
            numbers,
            rows: dictionary.values().len(),
        })
    }

    /// Returns the row of the dictionary that a row names.
    #[inline]
    pub(super) fn row(&self, row: usize) -> Result<usize, BadColumn> {
        let number = match &self.numbers {
            Numbers::I8(numbers) => usize::try_from(numbers[row]).ok(),
            Numbers::I16(numbers) => usize::try_from(numbers[row]).ok(),
            Numbers::I32(numbers) => usize::try_from(numbers[row]).ok(),
            Numbers::I64(numbers) => usize::try_from(numbers[row]).ok(),
            Numbers::U8(numbers) => Some(numbers[row].into()),
            Numbers::U16(numbers) => Some(numbers[row].into()),
            Numbers::U32(numbers) => usize::try_from(numbers[row]).ok(),
            Numbers::U64(numbers) => usize::try_from(numbers[row]).ok(),
        };
        number
            .filter(|number| *number < self.rows)
            .ok_or(bad("a row names a value that its dictionary hasn't"))
    }
}
