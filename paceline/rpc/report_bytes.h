// What a report takes of the memory of those who hold it, and how many bytes of them a worker may be ahead.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/core/json.h"

namespace paceline::rpc {

/// Beside kReportsAhead, which is for small ones: with so many bytes on their way a worker makes no further report. It
/// may be ahead by these and one report. The controller answers each kReportBytesBetweenAnswers.
inline constexpr int64_t kReportBytesAhead = int64_t{16} << 20;
inline constexpr int64_t kReportBytesBetweenAnswers = kReportBytesAhead / 4;

/// In memory, approximately; alike before a message is sent and after it has come.
inline int64_t bytes_of(const Json& value) {
  auto bytes = static_cast<int64_t>(sizeof(Json));
  if (const auto* const text = value.get_ptr<const Json::string_t*>()) bytes += std::ssize(*text);
  if (const auto* const array = value.get_ptr<const Json::array_t*>()) {
    for (const Json& part : *array) bytes += bytes_of(part);
  }
  if (const auto* const object = value.get_ptr<const Json::object_t*>()) {
    for (const auto& [key, part] : *object) bytes += std::ssize(key) + bytes_of(part);
  }
  return bytes;
}

}  // namespace paceline::rpc
