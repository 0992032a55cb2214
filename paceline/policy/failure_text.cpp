#include "paceline/policy/failure_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>

#include "paceline/core/progress.h"
#include "paceline/policy/exit_cause.h"

namespace paceline::policy {
namespace {

constexpr size_t kTextLimit = 2000;
constexpr size_t kLineLimit = 300;
constexpr size_t kFrames = 20;
constexpr size_t kGroups = 5;

// Failures that read the same, of several ranks.
struct FailureGroup {
  const Failure* first = nullptr;
  std::vector<int64_t> ranks;
  std::set<std::string> nodes;
};

std::string where(const Failure& failure) {
  if (failure.rank < 0) return " before it had joined";
  if (failure.end.phase == Phase::starting) return " before it had entered its train loop";
  if (failure.end.phase == Phase::unknown || failure.end.phase == Phase::program) return "";
  if (failure.end.step == 0) return " in the phase " + to_string(failure.end.phase);  // it has no steps, or none yet
  return " in step " + std::to_string(failure.end.step) + " (" + to_string(failure.end.phase) + ")";
}

// What to do about it, as a line; "" where nothing is known.
std::string advice_line(const Failure& failure) {
  const std::string advice =
      failure.kind == FailureKind::exit ? decode_exit(failure.end).advice : advice_on(failure.exception + failure.text);
  return advice.empty() ? "" : "\nWhat to do: " + advice + ".";
}

std::string what(const Failure& failure) {
  switch (failure.kind) {
    case FailureKind::exception:
      return failure.exception.empty() ? "failed: " + failure.text
                                       : "failed with " + failure.exception + ": " + failure.text;
    case FailureKind::exit: {
      const ExitStatus& status = failure.end.status;
      const ExitCause cause = decode_exit(failure.end);
      if (failure.rank < 0 && status.signal == 0) {
        return cause.what + where(failure) + cause.detail +
               "; look at what its program does before paceline::init() in main(), in Python at its imports";
      }
      const bool mid_loop = status.signal == 0 && failure.rank >= 0 && failure.end.phase != Phase::starting &&
                            failure.end.phase != Phase::program;
      return cause.what + where(failure) + (mid_loop ? ", before its train loop had returned" : "") + cause.detail;
    }
    case FailureKind::hang:
      return "The run hangs: " + failure.text;
    case FailureKind::silence:
      return failure.text + where(failure);
    case FailureKind::start:
      return "could not be started: " + failure.text;
    case FailureKind::preemption:
      if (failure.worker.value > 0) return "was lost with its node, which was taken away";
      return failure.node.empty() ? failure.text : "node " + failure.node + " was taken away: " + failure.text;
    case FailureKind::node:
      return failure.node.empty() ? failure.text : "node " + failure.node + " is lost: " + failure.text;
    default:
      return failure.text;
  }
}

std::string who(const FailureGroup& group, int64_t world_size) {
  const Failure& failure = *group.first;
  if (failure.worker.value == 0) return "";
  std::string text;
  if (group.ranks.empty()) {
    text = "worker " + std::to_string(failure.worker.value);
  } else {
    text = ranks_text(group.ranks) + " of " + std::to_string(world_size);
  }
  if (group.nodes.size() == 1) return text + " on node " + *group.nodes.begin() + " ";
  return text + " on " + std::to_string(group.nodes.size()) + " nodes ";
}

std::vector<FailureGroup> grouped(const std::vector<Failure>& failures, bool collateral) {
  std::vector<FailureGroup> groups;
  std::map<std::string, size_t> by_key;
  for (const Failure& failure : failures) {
    if (failure.collateral != collateral) continue;
    std::string key = Json(failure.kind).get<std::string>() + (failure.worker.value == 0 ? "-" : "+") +
                      without_numbers(what(failure));
    // Numbers in texts vary from rank to rank; those of an exit are what happened.
    if (failure.kind == FailureKind::exit) key += describe(failure.end.status);
    const auto [found, is_new] = by_key.try_emplace(key, groups.size());
    if (is_new) groups.push_back({.first = &failure});
    FailureGroup& group = groups[found->second];
    if (failure.rank >= 0) group.ranks.push_back(failure.rank);
    group.nodes.insert(failure.node);
  }
  for (FailureGroup& group : groups) std::ranges::sort(group.ranks);
  return groups;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string headline(const FailureGroup& group, int64_t world_size, size_t limit) {
  std::string text = what(*group.first);
  if (group.ranks.size() > 1 && text.starts_with("was ")) text.replace(0, 3, "were");
  return who(group, world_size) + shortened(text, limit);
}

std::string details(const FailureGroup& group) {
  const Failure& failure = *group.first;
  std::string text;
  const bool crashed = failure.kind == FailureKind::exit && failure.end.crash.has_value();
  const Lines& frames = failure.frames.empty() && crashed ? failure.end.crash->frames : failure.frames;
  for (size_t i = 0; i < std::min(frames.size(), kFrames); ++i) text += "\n  at " + frames[i];
  text += advice_line(failure);
  const std::string whose = group.ranks.size() > 1 ? "rank " + std::to_string(failure.rank) : "it";
  if (!failure.end.last_lines.empty()) {
    text += "\nLast lines that " + whose + " wrote:";
    for (const std::string& line : failure.end.last_lines) text += "\n  | " + shortened(line, kLineLimit);
  }
  if (!failure.end.log_file.empty()) text += "\nAll that " + whose + " wrote: " + failure.end.log_file;
  return text;
}

std::string in_full(const std::vector<Failure>& failures, int64_t world_size) {
  std::vector<FailureGroup> causes = grouped(failures, /*collateral=*/false);
  std::vector<FailureGroup> consequences = grouped(failures, /*collateral=*/true);
  if (causes.empty()) causes.swap(consequences);
  std::string text;
  for (size_t i = 0; i < std::min(causes.size(), kGroups); ++i) {
    if (i > 0) text += "\n";
    text += capitalized(headline(causes[i], world_size, kTextLimit)) + details(causes[i]);
  }
  if (causes.size() > kGroups) {
    text.append("\n").append(std::to_string(causes.size() - kGroups));
    text += " more errors, which read differently, are in the logs.";
  }
  std::string follow;
  for (size_t i = 0; i < std::min(consequences.size(), kGroups); ++i) {
    std::string line = headline(consequences[i], world_size, kLineLimit);
    std::ranges::replace(line, '\n', ' ');
    follow += (i == 0 ? "" : "; ") + line;
  }
  if (!follow.empty()) text += "\nAs a consequence " + follow;
  return text;
}

}  // namespace

std::string error_text(const std::vector<Failure>& failures, int64_t world_size) {
  return in_full(failures, world_size);
}

std::string cause_line(const std::vector<Failure>& failures, int64_t world_size) {
  std::vector<FailureGroup> causes = grouped(failures, /*collateral=*/false);
  if (causes.empty()) causes = grouped(failures, /*collateral=*/true);
  if (causes.empty()) return "nothing failed";
  std::string line = headline(causes.front(), world_size, kLineLimit);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

std::string beyond_cause_line(const std::string& error) {
  const size_t end = std::min(error.find('\n'), error.size());
  if (end > kLineLimit) return error;
  return error.substr(std::min(end + 1, error.size()));
}

std::optional<FailureKind> cause_kind(const std::vector<Failure>& failures) {
  if (failures.empty()) return std::nullopt;
  const auto cause = std::ranges::find(failures, false, &Failure::collateral);
  return cause == failures.end() ? failures.front().kind : cause->kind;
}

RankErrors errors_by_rank(const std::vector<Failure>& failures, int64_t world_size) {
  const auto is_cause = [](const Failure& failure) { return failure.rank >= 0 && !failure.collateral; };
  const bool has_cause = std::ranges::any_of(failures, is_cause);
  RankErrors errors;
  for (const Failure& failure : failures) {
    if (has_cause && failure.collateral) continue;
    FailureGroup alone{.first = &failure, .nodes = {failure.node}};
    if (failure.rank >= 0) alone.ranks = {failure.rank};
    errors.try_emplace(failure.rank, capitalized(headline(alone, world_size, kTextLimit)) + details(alone));
  }
  return errors;
}

// "shape [64, 10] at 0x7f12" and "shape [32, 10] at 0x7f99" are one error.
std::string without_numbers(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool hex = text[i] == '0' && i + 1 < text.size() && text[i + 1] == 'x';
    if (!hex && !std::isdigit(static_cast<unsigned char>(text[i]))) {
      result += text[i++];
      continue;
    }
    if (hex) i += 2;
    while (i < text.size() && (hex ? std::isxdigit(static_cast<unsigned char>(text[i]))
                                   : std::isdigit(static_cast<unsigned char>(text[i])))) {
      ++i;
    }
    result += '#';
  }
  return result;
}

std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (numbers[last] > numbers[i]) text.append("-").append(std::to_string(numbers[last]));
    i = last + 1;
  }
  return text;
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + shortened(ranges_text(ranks), kLineLimit);
}

std::string seconds_text(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g s", seconds);
  return text;
}

std::string shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  const auto continues = [text](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  size_t head = limit / 2;
  while (head > 0 && continues(head)) --head;
  size_t tail = text.size() - limit / 2;
  while (tail < text.size() && continues(tail)) ++tail;
  return std::string(text.substr(0, head)) + " … (" + std::to_string(tail - head) + " characters left out) … " +
         std::string(text.substr(tail));
}

}  // namespace paceline::policy
