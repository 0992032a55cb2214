// Ranks as threads of a test: runs one body per group and gives the first failure.
//
// CPU autograd runs each thread's backward in that thread, so a whole training step works this way.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline::testing {

/// body(group) for every group at once; waits for all, then throws what the lowest failing rank threw.
template <class Body>
void run_ranks(const std::vector<std::shared_ptr<comm::Group>>& groups, Body body) {
  std::vector<std::exception_ptr> failures(groups.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(groups[rank]);
      } catch (...) {
        failures[rank] = std::current_exception();
        groups[rank]->abort();  // the others shall not wait for this rank
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// The message of what body() throws as an E; fails the test when it throws nothing.
template <class E, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace paceline::testing
