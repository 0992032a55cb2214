// Worlds of groups for tests, each of all ranks in this process, whatever the groups are made of.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "paceline/core/error.h"
#include "paceline/testing/ranks.h"

namespace paceline::testing {

/// How an implementation makes the groups of all ranks of a world in this process, and the worlds to try.
struct Worlds {
  std::vector<std::shared_ptr<comm::Group>> (*make_groups)(int64_t world_size);
  std::vector<int64_t> sizes;

  friend void PrintTo(const Worlds& worlds, std::ostream* text) { *text << ::testing::PrintToString(worlds.sizes); }
};

class GroupConformance : public ::testing::TestWithParam<Worlds> {
 protected:
  /// body(group) on every rank of every world.
  template <class Body>
  void on_all_ranks(Body body) {
    for (const int64_t size : GetParam().sizes) {
      SCOPED_TRACE("world size " + std::to_string(size));
      world_ = size;
      run_ranks(GetParam().make_groups(size), body);
    }
  }
  int64_t world() const { return world_; }

 private:
  int64_t world_ = 0;
};

/// The CollectiveError that body() throws; fails the test when it throws none.
template <class Body>
CollectiveError failure_of(Body body) {
  try {
    body();
  } catch (const CollectiveError& error) {
    return error;
  }
  ADD_FAILURE() << "no CollectiveError was thrown";
  return CollectiveError("");
}

inline constexpr std::array kReducibleTypes = {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16,
                                               torch::kInt8,    torch::kUInt8,   torch::kInt32,   torch::kInt64};

}  // namespace paceline::testing
