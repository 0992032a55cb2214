#include "paceline/views/shown_numbers.h"

#include <simdjson.h>

#include <algorithm>

#include "paceline/core/json.h"
#include "paceline/core/metric_values.h"
#include "paceline/track/metrics_history.h"
#include "paceline/track/run_record.h"

namespace paceline::views {
namespace {

using simdjson::dom::element;

// A line's members but for its metrics; those that are null are absent (core/record.h).
struct Row {
  int64_t report = 0;
  int64_t attempt = 0;
  int64_t rank = 0;
  double time = 0;
  bool later = false;
  int64_t highest = 0;
  int64_t settled = 0;
  std::string_view checkpoint;
  std::optional<element> metrics;
  std::optional<element> reduced;
};

// Whether the object that has this member may stand for another value (core/json.h).
bool is_wrapping(std::string_view name) {
  return name.starts_with('$') && name != kKeysMember;
}

// Whether the member has the type that it must have.
bool set_member(Row& row, std::string_view name, const element& value) {
  if (value.is_null()) return true;
  const auto set = [&value](auto& member) { return value.get(member) == simdjson::SUCCESS; };
  if (name == "report") return set(row.report);
  if (name == "attempt") return set(row.attempt);
  if (name == "rank") return set(row.rank);
  if (name == "time") return set(row.time);
  if (name == "later") return set(row.later);
  if (name == "highest") return set(row.highest);
  if (name == "settled") return set(row.settled);
  if (name == "checkpoint") return set(row.checkpoint);
  if (name == "metrics") row.metrics = value;
  if (name == "reduced") row.reduced = value;
  return !is_wrapping(name);
}

}  // namespace

// simdjson's, with memory that lines share.
class ShownNumbers::Parser {
 public:
  Parser() { is_ready_ = parser_.allocate(kFirstCapacity, kDeepestJson) == simdjson::SUCCESS; }

  std::optional<simdjson::dom::object> parse(std::string_view line) {
    simdjson::dom::object object;
    if (!is_ready_ || parser_.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS) return std::nullopt;
    return object;
  }

  // Calls `visit` with each member in the order of names, until it returns false. False too when a name comes twice.
  template <class Visit>
  bool visit(const simdjson::dom::object& object, const Visit& visit) {
    const size_t begin = members_.size();
    bool is_sorted = true;
    for (const auto& [name, value] : object) {
      is_sorted &= members_.size() == begin || members_.back().name < name;
      members_.push_back({name, value});
    }
    const bool is_visited = (is_sorted || sort(begin)) && visit_from(begin, visit);
    members_.resize(begin);
    return is_visited;
  }

  // The names that enclose the metric which is visited, and its own.
  std::string& path() { return path_; }

 private:
  static constexpr size_t kFirstCapacity = size_t{64} << 10;

  struct Member {
    std::string_view name;
    element value;
  };

  bool sort(size_t begin) {
    const std::span names = std::span(members_).subspan(begin);
    std::ranges::sort(names, {}, &Member::name);
    return std::ranges::adjacent_find(names, {}, &Member::name) == names.end();
  }

  // By number: members of members are put behind these, for a while.
  template <class Visit>
  bool visit_from(size_t begin, const Visit& visit) {
    const size_t end = members_.size();
    for (size_t i = begin; i < end; ++i) {
      const Member member = members_[i];
      if (!visit(member.name, member.value)) return false;
    }
    return true;
  }

  simdjson::dom::parser parser_;
  bool is_ready_ = false;
  std::vector<Member> members_;
  std::string path_;
};

ShownNumbers::ShownNumbers() : parser_(std::make_unique<Parser>()) {}
ShownNumbers::~ShownNumbers() = default;

bool ShownNumbers::take(std::string_view line) {
  if (!track::may_be_shown(line)) return false;
  const std::optional<bool> is_shown = take_plain(line);
  return is_shown ? *is_shown : take_any(line);
}

// Nothing for a line that take_any() must decide.
std::optional<bool> ShownNumbers::take_plain(std::string_view line) {
  count_ = 0;
  if (line.find('\\') != std::string_view::npos) return std::nullopt;
  const auto object = parser_->parse(line);
  Row row;
  if (!object || !parser_->visit(*object, [&row](std::string_view name, const element& value) {
        return set_member(row, name, value);
      })) {
    return std::nullopt;
  }
  if (row.highest != 0 || (row.rank != 0 && row.rank != track::kWholeGroup)) return false;
  if (!row.reduced && (row.rank != 0 || row.later)) return false;
  report_ = row.report;
  time_ = row.time;
  const std::optional<element>& metrics = row.reduced ? row.reduced : row.metrics;
  if (!metrics || !metrics->is_object()) return true;
  std::string& path = parser_->path();
  path.clear();
  const auto add_all = [&](const auto& again, const element& values) -> bool {
    return parser_->visit(simdjson::dom::object(values), [&](std::string_view name, const element& value) {
      if (is_wrapping(name)) return false;
      const size_t enclosing = path.size();
      path += name;
      bool is_plain = true;
      if (double number = 0; value.is_object()) {
        path += '/';
        is_plain = again(again, value);
      } else if (value.get(number) == simdjson::SUCCESS && !path.ends_with(kKeysMember)) {
        add(path, number);
      }
      path.resize(enclosing);
      return is_plain;
    });
  };
  if (!add_all(add_all, *metrics)) return std::nullopt;
  return true;
}

bool ShownNumbers::take_any(std::string_view line) {
  count_ = 0;
  const auto row = track::decode_history_line(line);
  const Json* metrics = row && row->highest == 0 ? track::shown_metrics(*row) : nullptr;
  if (metrics == nullptr) return false;
  report_ = row->report;
  time_ = row->time;
  track::visit_metrics(*metrics, [this](const std::string& name, const Json& value) {
    if (value.is_number()) add(name, value.get<double>());
  });
  return true;
}

void ShownNumbers::add(std::string_view name, double value) {
  if (count_ == numbers_.size()) numbers_.emplace_back();
  numbers_[count_].name = name;
  numbers_[count_++].value = value;
}

}  // namespace paceline::views
