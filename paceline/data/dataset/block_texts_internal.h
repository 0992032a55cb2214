// Blocks as the text and the bytes of files that Arrow does not write.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

namespace paceline::data {

/// A line of JSON for each row. Numbers that JSON has not (NaN) are null; times, dates and decimals are texts. Invalid
/// for bytes that are no UTF-8.
arrow::Result<std::string> json_lines(const arrow::RecordBatch& block);

/// The beginning of a .npy file with the values of a column: numbers or truth values, or fixed-size lists of them,
/// nested or not. Invalid for others, and for nulls.
arrow::Result<std::string> numpy_header(const arrow::Array& column);
/// What stands behind it.
arrow::Result<std::shared_ptr<arrow::Buffer>> numpy_numbers(const arrow::Array& column);

}  // namespace paceline::data
