// The header of a .npy file: numpy.lib.format, versions 1 to 3.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace paceline::data {

/// What a .npy file says of its array.
struct NumpyHeader {
  std::shared_ptr<arrow::DataType> type;  ///< of one number
  int64_t value_bytes = 0;                ///< of one number in the file: of a boolean, 1
  std::vector<int64_t> shape;
};

/// The bytes at the beginning of a file that say how long its header is: at least this many are there in all.
inline constexpr int64_t kNumpyPrefixBytes = 12;
/// Where the array's numbers begin. `prefix`: kNumpyPrefixBytes, or the whole file if it is shorter.
arrow::Result<int64_t> numpy_data_begin(std::string_view prefix);
/// `header`: the file until its numbers begin. Invalid for what is not read, saying what to do.
arrow::Result<NumpyHeader> parse_numpy_header(std::string_view header);

}  // namespace paceline::data
