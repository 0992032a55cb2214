// Kinds of profiles, a row each, and for how long one is taken: the flags of the command line, what the dashboard takes
// and what errors say follow.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/rpc/messages.h"

namespace paceline::rpc {

struct ProfileKind {
  /// In messages, kept profiles and addresses; "--NAME" is its flag, with '-' for '_'.
  const char* name;
  /// For people, as help.
  const char* what;
  /// The agent names what the worker samples; otherwise the worker profiles itself, and gives it names.
  bool is_named_by_agent;
  /// It shows where threads wait: the agent sees that from outside, whatever the worker does meanwhile.
  bool shows_waits;
  /// It has a file for each rank, for ui.perfetto.dev, and no stacks.
  bool is_timeline;
};

/// Seconds for which workers are sampled.
inline constexpr int64_t kShortestProfile = 1, kLongestProfile = 60;
inline constexpr int64_t kMostProfiledSteps = 1'000'000;
/// Where nobody says for how long. Steps end when they end, within that.
constexpr int64_t default_profile_seconds(int64_t steps) {
  constexpr int64_t kUsual = 5;
  return steps > 0 ? kLongestProfile : kUsual;
}

/// The first is what is meant where nothing is said.
inline constexpr std::array kProfileKinds = {
    ProfileKind{kCpuProfile, "Where processor time goes (the default)", true, false, false},
    ProfileKind{kOffCpuProfile, "Where threads wait: for data, for other ranks, for locks, for a processor", true, true,
                false},
    ProfileKind{kMemoryProfile,
                "Who allocates memory: Python's functions by memray, where it is installed, else LibTorch's operators; "
                "with DebugConfig.heap_profile who has the whole heap now",
                false, false, false},
    ProfileKind{kTimelineProfile, "Which operators run when: for ui.perfetto.dev or chrome://tracing", false, false,
                true},
};

/// Null for a name that no kind has.
constexpr const ProfileKind* find_profile_kind(std::string_view name) {
  for (const ProfileKind& kind : kProfileKinds) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

/// Whether the agent names what a worker has sampled; of a kind that is not known too the worker says what it thinks.
constexpr bool is_named_by_agent(std::string_view kind) {
  const ProfileKind* const found = find_profile_kind(kind);
  return found != nullptr && found->is_named_by_agent;
}

constexpr bool shows_waits(std::string_view kind) {
  const ProfileKind* const found = find_profile_kind(kind);
  return found != nullptr && found->shows_waits;
}

/// "there is no kind of profile "heat"; there are: cpu, off_cpu, memory, timeline".
inline std::string no_such_profile_kind(const std::string& name) {
  std::string names;
  for (const ProfileKind& kind : kProfileKinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return "there is no kind of profile \"" + name + "\"; there are: " + names;
}

}  // namespace paceline::rpc
