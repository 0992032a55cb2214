// Python's pickle format, as far as plain data need it: a writer, and a reader of what the writer has written.
//
// Protocol 2: dict, list, str, int, float, bool and None. Python loads what is written here; the reader takes those
// instructions only, and never calls anything, as a pickle from elsewhere could ask Python to.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "paceline/core/json.h"

namespace paceline {

/// Writes one value, part by part. A dict's values follow their keys. Texts that come again take two bytes or five.
class PickleWriter {
 public:
  PickleWriter();
  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void text(std::string_view text);
  void integer(int64_t number);
  void real(double number);
  void truth(bool value);
  void none();
  /// The bytes; nothing can be written after that.
  std::string finish();

 private:
  void add_number(uint64_t number, size_t bytes);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> texts_;
};

/// The value that a PickleWriter wrote. Invalid for everything else, and where texts that come again make more than
/// 64 MiB: a small pickle never becomes a huge value.
arrow::Result<Json> decode_pickle(std::string_view bytes);

}  // namespace paceline
