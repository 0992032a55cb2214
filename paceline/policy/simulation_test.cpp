// Thousands of random schedules, and groups of 10,000 workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <type_traits>

#include "paceline/policy/simulator.h"

namespace paceline::policy {
namespace {

using ::testing::IsEmpty;

void check_budget(int64_t limit, int64_t failures, State end, const char* name) {
  if (limit < 0) return;
  EXPECT_LE(failures, limit + 1) << name;
  if (failures == limit + 1) {
    EXPECT_EQ(end, State::errored) << name;
  }
}

TEST(Simulation, RandomSchedulesKeepEveryPromise) {
  std::set<std::pair<State, State>> seen;
  std::map<State, int> ends;
  std::map<CheckpointStatus, int64_t> validations;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const RunOptions options = random_options(random);
    Simulator simulator(seed, options, random_faults(random), /*fold=*/seed % 4 == 0);
    simulator.play();
    const RunState& state = simulator.state();
    ASSERT_THAT(simulator.violations(), IsEmpty());
    ASSERT_TRUE(is_terminal(state.state)) << to_string(state.state);
    ++ends[state.state];
    for (const auto status :
         {CheckpointStatus::validated, CheckpointStatus::validation_failed, CheckpointStatus::validation_timeout}) {
      validations[status] += simulator.validations(status);
    }
    seen.insert(simulator.transitions().begin(), simulator.transitions().end());
    check_budget(options.max_failures, state.worker_failures, state.state, "worker");
    check_budget(options.controller_failure_limit, state.start_failures, state.state, "start");
    check_budget(options.max_preemption_failures, state.preemption_failures, state.state, "preemption");
    // Each failure that counts is one retry, but the one that ended the run.
    const int64_t retries = simulator.entered(State::restarting) + simulator.entered(State::rescheduling);
    const int64_t failures = state.worker_failures + state.start_failures + state.preemption_failures;
    EXPECT_LE(failures - retries, state.state == State::errored ? 1 : 0);
    EXPECT_GE(failures - retries, 0);
    if (state.state == State::errored) {
      EXPECT_NE(state.error, "");
    }
    if (state.state == State::finished) {
      EXPECT_EQ(state.return_value, 0);
    }
  }
  for (const State end : {State::finished, State::errored, State::aborted}) EXPECT_GT(ends[end], 100) << to_string(end);
  for (const auto& [status, count] : validations) EXPECT_GT(count, 50) << Json(status);
  // Every transition of the table has happened.
  for (int from = 0; from <= static_cast<int>(State::aborted); ++from) {
    for (int to = 1; to <= static_cast<int>(State::aborted); ++to) {
      const std::pair pair{static_cast<State>(from), static_cast<State>(to)};
      EXPECT_EQ(seen.contains(pair), is_legal(pair.first, pair.second))
          << to_string(pair.first) << " → " << to_string(pair.second);
    }
  }
}

// docs/architecture/run_states.md draws exactly the transitions that decide() may make.
TEST(RunStates, TheDocumentDrawsTheTable) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../docs/architecture/run_states.md";
  std::ifstream document(path);
  ASSERT_TRUE(document) << path;
  std::set<std::string> drawn;
  for (std::string from, arrow, to, line; std::getline(document, line);) {
    if (std::istringstream(line) >> from >> arrow >> to && arrow == "-->" && from != "[*]" && to != "[*]") {
      drawn.insert(from + " --> " + to);
    }
  }
  std::set<std::string> table;
  for (int from = 0; from <= static_cast<int>(State::aborted); ++from) {
    for (int to = 1; to <= static_cast<int>(State::aborted); ++to) {
      if (!is_legal(static_cast<State>(from), static_cast<State>(to))) continue;
      table.insert(to_string(static_cast<State>(from)) + " --> " + to_string(static_cast<State>(to)));
    }
  }
  EXPECT_EQ(drawn, table);
}

// … and says what each event does.
TEST(RunStates, TheDocumentHasEveryEvent) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../docs/architecture/run_states.md";
  std::ifstream document(path);
  ASSERT_TRUE(document) << path;
  const std::string text{std::istreambuf_iterator<char>(document), {}};
  const auto expect = [&text]<class... Events>(std::type_identity<std::variant<Events...>>) {
    for (const std::string name : {Events::kType...}) EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  };
  expect(std::type_identity<Event>{});
}

TEST(RunStates, FinalOnesHaveTheTextsOfFinalState) {
  for (int number = 0; number <= static_cast<int>(State::aborted); ++number) {
    const auto state = static_cast<State>(number);
    EXPECT_EQ(final_state_of(state), paceline::final_state_of(to_string(state))) << to_string(state);
    EXPECT_EQ(state_of(final_state_of(state).value_or(FinalState::aborted)),
              is_terminal(state) ? state : State::aborted);
  }
}

TEST(Simulation, InfiniteBudgetsEndWellWhenFaultsEnd) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RunOptions options{.num_workers = 3, .max_failures = -1};
    Simulator simulator(seed, options, {.exit_in_launch = 0.1, .exit_in_loop = 0.1, .silence = 0.02, .publish = 0.1},
                        /*fold=*/false);
    simulator.play();
    ASSERT_THAT(simulator.violations(), IsEmpty());
    EXPECT_EQ(simulator.state().state, State::finished);
    EXPECT_FALSE(simulator.state().checkpoints.empty());
  }
}

// Another controller takes over at any event: no checkpoint is lost, no number is used twice.
TEST(Simulation, AnotherControllerTakesOverAnywhere) {
  int taken_over = 0, finished = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const RunOptions options = random_options(random);
    Simulator simulator(seed, options, random_faults(random), /*fold=*/true);
    simulator.take_over_after(1 + static_cast<int64_t>(random() % 80));
    simulator.play();
    ASSERT_THAT(simulator.violations(), IsEmpty());
    ASSERT_TRUE(is_terminal(simulator.state().state)) << to_string(simulator.state().state);
    taken_over += simulator.state().epoch.value == 2 ? 1 : 0;
    finished += simulator.state().state == State::finished ? 1 : 0;
  }
  EXPECT_GT(taken_over, 300);
  EXPECT_GT(finished, 100);
}

TEST(Simulation, TenThousandWorkersJoinReportFailAndFinish) {
  const RunOptions options{.num_workers = 10'000, .nodes = 100, .max_failures = -1};
  Simulator simulator(1, options, {.exit_before_join = 3e-5, .exit_in_loop = 3e-5, .tries = 5}, /*fold=*/false);
  simulator.play();
  EXPECT_THAT(simulator.violations(), IsEmpty());
  EXPECT_EQ(simulator.state().state, State::finished);
  EXPECT_GT(simulator.entered(State::restarting), 0);
  EXPECT_GT(simulator.events(), 50'000);
}

TEST(Simulation, TenThousandWorkersThrowAtOnce) {
  const RunOptions options{.num_workers = 10'000, .nodes = 100, .max_failures = 2};
  Simulator simulator(1, options, {.exception = 1.0}, /*fold=*/false);
  simulator.play();
  EXPECT_THAT(simulator.violations(), IsEmpty());
  EXPECT_EQ(simulator.state().state, State::errored);
  EXPECT_EQ(simulator.entered(State::restarting), 2);
  EXPECT_LT(simulator.state().error.size(), 3000u);
}

}  // namespace
}  // namespace paceline::policy
