// ShownNumbers: the numbers that a line of a run's history shows users, without values made of all that is in it.
//
// Gives what track::decode_history_line(), shown_metrics() and visit_metrics() give, in the same order, in a sixth of
// the time: simdjson reads lines as runs write them. Where another reading of the line is thinkable (escaped texts,
// numbers that are not finite, a name given twice, damage) those three decide. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::views {

class ShownNumbers {
 public:
  struct Number {
    std::string name;  // nested ones as in "eval/accuracy"
    double value = 0;
  };

  ShownNumbers();
  ~ShownNumbers();

  /// Takes a line, without its newline. False when its report has no metrics that users are shown; otherwise the rest
  /// tells of it until the next one is taken.
  bool take(std::string_view line);

  int64_t report() const { return report_; }
  /// In seconds since the Unix epoch.
  double time() const { return time_; }
  std::span<const Number> numbers() const { return {numbers_.data(), count_}; }

 private:
  class Parser;

  std::optional<bool> take_plain(std::string_view line);
  bool take_any(std::string_view line);
  void add(std::string_view name, double value);

  int64_t report_ = 0;
  double time_ = 0;
  std::vector<Number> numbers_;  // the first count_; the others are memory for the next line
  size_t count_ = 0;
  std::unique_ptr<Parser> parser_;
};

}  // namespace paceline::views
