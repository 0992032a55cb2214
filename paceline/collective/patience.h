// Patience: how long one waits for an operation before one looks whether who is missing can come at all.
//
// Five times the slow tail of what operations of its kind have taken, and ten seconds at least. The tail is the longest
// time, of which each later operation forgets a hundredth: some hundred operations after a slow one it does not count
// any more. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

#include "paceline/collective/board.h"

namespace paceline::collective {

class Patience {
 public:
  using Duration = std::chrono::duration<double>;

  explicit Patience(Duration least = std::chrono::seconds(10)) : least_(least) {}

  Duration least() const { return least_; }
  /// An operation has ended well, so long after its call.
  void note(Kind kind, Duration took) { tail(kind) = std::max(took, 0.99 * tail(kind)); }
  Duration with(Kind kind) const { return std::max(least_, 5 * tails_[static_cast<size_t>(kind)]); }

 private:
  Duration& tail(Kind kind) { return tails_[static_cast<size_t>(kind)]; }

  Duration least_;
  std::array<Duration, kKinds> tails_{};
};

}  // namespace paceline::collective
