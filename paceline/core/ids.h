// The identities that every message, store prefix and report carries.
//
// A worker's id is not its rank: the id names a process for its whole life, while rank and world size arrive in
// messages and may change (a new generation). The types are strong: a Rank cannot be passed where a WorkerId is wanted.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

namespace paceline {

template <class Tag>
struct Id {
  int64_t value = 0;

  auto operator<=>(const Id&) const = default;
  Id next() const { return Id{value + 1}; }

  friend void to_json(nlohmann::json& json, const Id& id) { json = id.value; }
  friend void from_json(const nlohmann::json& json, Id& id) { json.get_to(id.value); }
  friend std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.value; }
};

/// A process of a run, unique within the run over all attempts; 0 names none.
using WorkerId = Id<struct WorkerTag>;
/// The life of one worker group, from 1; a failure ends it.
using Attempt = Id<struct AttemptTag>;
/// A membership within one attempt, from 0; in-place recovery makes the next.
using Generation = Id<struct GenerationTag>;
/// The controller that speaks, from 1; one more each time a controller takes the run over. Older epochs are ignored.
using ControllerEpoch = Id<struct ControllerEpochTag>;
/// A worker's place in the worker group, 0 ≤ rank < world size.
using Rank = Id<struct RankTag>;

/// Who a message is from or for.
struct Identity {
  ControllerEpoch epoch;
  Attempt attempt;
  Generation generation;
  WorkerId worker;

  auto operator<=>(const Identity&) const = default;
};

}  // namespace paceline

template <class Tag>
struct std::hash<paceline::Id<Tag>> {
  size_t operator()(const paceline::Id<Tag>& id) const { return std::hash<int64_t>{}(id.value); }
};
