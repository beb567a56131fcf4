//! Columns of integers as text, where they are a part of a key.

use std::fmt::Display;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, LargeStringArray};
use arrow_schema::DataType;

/// Returns an array of integers, or of categories that are some, as text in decimal; any other array as it is.
pub(super) fn as_text(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Int8 => text::<Int8Type>(array),
        DataType::Int16 => text::<Int16Type>(array),
        DataType::Int32 => text::<Int32Type>(array),
        DataType::Int64 => text::<Int64Type>(array),
        DataType::UInt8 => text::<UInt8Type>(array),
        DataType::UInt16 => text::<UInt16Type>(array),
        DataType::UInt32 => text::<UInt32Type>(array),
        DataType::UInt64 => text::<UInt64Type>(array),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(as_text(dictionary.values()))
        }
        _ => Arc::clone(array),
    }
}

fn text<T: ArrowPrimitiveType<Native: Display>>(array: &ArrayRef) -> ArrayRef {
    let integers = array.as_primitive::<T>().iter();
    let text = integers.map(|integer| integer.map(|integer| integer.to_string()));
    // Its digits may be more than 2^31 bytes.
    Arc::new(text.collect::<LargeStringArray>())
}
