// TryLimit: how often somebody may be wrong about a secret before having to wait.
//
// An address may be wrong kTries times at once, and once more each kPause after that. Who is right need not wait: many
// users may have one address, and secrets are too long to be guessed. IPv6 addresses count by their /64, of which one
// machine may have all. Bounded: of very many addresses the one that was wrong least lately is forgotten. Pure but for
// the clock's time, which is given; not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace paceline::dashboard {

/// What an address counts as: the /64 of one of IPv6, another text as it is.
std::string counted_as(const std::string& address);

class TryLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kTries = 10;
  static constexpr std::chrono::seconds kPause{6};
  static constexpr size_t kMostAddresses = 4096;

  /// How long the address has to wait; nothing when it may try now.
  std::optional<std::chrono::seconds> wait_of(const std::string& address, Time now) const;
  /// It was wrong.
  void note_wrong(const std::string& address, Time now);

 private:
  // Each wrong try moves it by kPause, from now at least; kTries of them may be open.
  std::map<std::string, Time> until_;
};

}  // namespace paceline::dashboard
