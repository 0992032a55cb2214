// What a request is for: its path in segments, and its query, with percent signs decoded. Pure; for input of any kind.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::dashboard {

/// The names and values of a query, in their order.
class Query {
 public:
  void add(std::string name, std::string value) { values_.emplace_back(std::move(name), std::move(value)); }
  /// The value of that name, the last of several; "" where there is none.
  std::string text(std::string_view name) const;
  /// The same as a whole number. Invalid for what is none, or not within the bounds.
  arrow::Result<int64_t> number(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const;
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

  bool operator==(const Query&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

struct Target {
  /// "/api/v1/runs/a%2Fb" is {"api", "v1", "runs", "a/b"}; "/" is {}.
  std::vector<std::string> path;
  Query query;

  bool operator==(const Target&) const = default;
};

/// Invalid: it does not begin with '/', has an incomplete escape, a NUL, a backslash, or a segment that is "." or ".."
/// or empty but for the last.
arrow::Result<Target> parse_target(std::string_view text);

/// The text with every byte escaped that has a meaning in a path or a query.
std::string escaped(std::string_view text);

}  // namespace paceline::dashboard
