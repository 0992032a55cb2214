// Ranks are lost in the middle of training, and the others go on in the same processes with the same reducer.
#include <gmock/gmock.h>

#include <cstdlib>
#include <stdexcept>

#include "paceline/comm/reducer.h"
#include "paceline/core/peer_lost.h"
#include "paceline/testing/rank_processes.h"

namespace paceline::comm {
namespace {

using testing::RankEnd;
using testing::RankProcess;

constexpr int64_t kWorld = 3, kFatalStep = 3, kSteps = 6;
constexpr int64_t kWidth = 150;  // its square is more than what ranks publish in slots

enum class When {
  in_backward,      // one of its buckets is under way already
  between_steps,    // all ranks come from the same step
  others_are_ahead  // another one waits in the next step's backward already, and the third comes later
};

struct Scenario {
  const char* name;
  When when = When::in_backward;
  int64_t victim = 2;
  std::vector<std::string> nodes = {"", "", ""};
  ReducerOptions options = {};
  const char* backend = "";
  bool is_named = true;  // to the others, which Gloo does not
};

ReducerOptions with(bool view, Compression compression) {
  ReducerOptions options;
  options.gradient_as_bucket_view = view;
  options.compression = compression;
  return options;
}

std::vector<Scenario> scenarios() {
  return {
      {.name = "InBackward"},
      {.name = "TheFirstInBackward", .victim = 0},
      {.name = "BetweenSteps", .when = When::between_steps, .victim = 1},
      {.name = "OthersAreAhead", .when = When::others_are_ahead},
      {.name = "TheFirstWhenOthersAreAhead", .when = When::others_are_ahead, .victim = 0},
      {.name = "GradientsAreViews", .options = with(true, Compression::none)},
      {.name = "Compressed", .victim = 1, .options = with(false, Compression::bf16)},
      {.name = "OnTwoNodes", .victim = 1, .nodes = {"a", "a", "b"}},
      {.name = "AWholeNode", .nodes = {"a", "a", "b"}},
      {.name = "ALeaderOnTwoNodes", .victim = 0, .nodes = {"a", "a", "b"}},
      {.name = "BetweenStepsOnTwoNodes", .when = When::between_steps, .victim = 1, .nodes = {"a", "b", "b"}},
      {.name = "OverGloo", .backend = "gloo", .is_named = false},
      {.name = "OthersAreAheadOverGloo",
       .when = When::others_are_ahead,
       .victim = 0,
       .backend = "gloo",
       .is_named = false},
  };
}

// Two layers; what they learn depends on step, rank and world size.
struct Learner {
  explicit Learner(std::shared_ptr<Group> with, ReducerOptions options) : group(std::move(with)) {
    torch::manual_seed(1);
    for (const auto& shape : {std::vector<int64_t>{kWidth, kWidth}, {kWidth}}) {
      parameters.push_back((torch::randn(shape) * 0.1).requires_grad_());
    }
    options.first_bucket_bytes = options.bucket_bytes = 1;  // a bucket for each
    reducer = GradientReducer::create(group, parameters, {"hidden", "output"}, {false, false}, options);
  }

  void backward(int64_t step) {
    torch::manual_seed(static_cast<uint64_t>(100 * step + group->rank()));
    const torch::Tensor inputs = torch::randn({8, kWidth});
    reducer->begin_backward();
    (torch::tanh(inputs.matmul(parameters[0])).matmul(parameters[1]) - 1).square().mean().backward();
    reducer->adopt_order();
  }
  void make_step(int64_t step) {
    backward(step);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters) {
      parameter -= parameter.grad() * 0.1;
      parameter.mutable_grad().reset();
    }
  }

  std::shared_ptr<Group> group;
  std::vector<torch::Tensor> parameters;
  std::unique_ptr<GradientReducer> reducer;
};

GroupOptions options_of(const Scenario& scenario, int64_t number) {
  GroupOptions options;
  options.backend = scenario.backend;
  options.node = scenario.nodes.at(static_cast<size_t>(number));
  return options;
}

// The step in which the victim is lost, as each process comes to it.
void make_fatal_step(const Scenario& scenario, RankProcess& self, Learner& learner) {
  const bool is_victim = self.number() == scenario.victim;
  const bool is_ahead = !is_victim && self.number() == (scenario.victim == 0 ? 1 : 0);
  switch (scenario.when) {
    case When::in_backward:
      if (is_victim) learner.parameters[0].register_hook([&self](const torch::Tensor&) { self.die(); });
      break;
    case When::between_steps:
      if (is_victim) self.die();
      break;
    case When::others_are_ahead:
      if (is_ahead) learner.parameters[0].register_hook([&self](const torch::Tensor&) { self.say("ahead"); });
      if (!is_ahead) self.wait_for("ahead");
      if (is_victim) self.die();
      if (!is_ahead) self.wait_for_end_of(scenario.victim);
  }
  learner.make_step(kFatalStep);
}

// What a survivor was told.
Json lost_in_fatal_step(const Scenario& scenario, RankProcess& self, Learner& learner) {
  try {
    make_fatal_step(scenario, self, learner);
  } catch (const PeerLost& lost) {
    return {{"ranks", lost.ranks()}, {"text", lost.what()}, {"after", self.milliseconds_since_death()}};
  } catch (const CollectiveError& error) {
    return {{"text", error.what()}, {"after", self.milliseconds_since_death()}};
  }
  throw std::runtime_error("nobody is missed");
}

Json survive(const Scenario& scenario, RankProcess& self) {
  Learner learner(self.meet("before", self.number(), kWorld, options_of(scenario, self.number())), scenario.options);
  for (int64_t step = 0; step < kFatalStep; ++step) learner.make_step(step);
  Json gave;
  gave["before"] = testing::numbers_of(learner.parameters);
  gave["lost"] = lost_in_fatal_step(scenario, self, learner);
  learner.group->abort();  // over Gloo another one may wait for this one, which it is not connected to
  const int64_t rank = self.number() - (self.number() > scenario.victim ? 1 : 0);
  learner.group = self.meet("after", rank, kWorld - 1, options_of(scenario, self.number()));
  learner.reducer->rebuild(learner.group);
  for (int64_t step = kFatalStep; step < kSteps; ++step) learner.make_step(step);
  gave["after"] = testing::numbers_of(learner.parameters);
  return gave;
}

// What two ranks make of the same state that have never been three.
Json go_on_from(const Json& state, const Scenario& scenario, RankProcess& self) {
  const int64_t place = self.number() + (self.number() >= scenario.victim ? 1 : 0);
  Learner learner(self.meet("fresh", self.number(), kWorld - 1, options_of(scenario, place)), scenario.options);
  testing::set_numbers(state, learner.parameters);
  for (int64_t step = kFatalStep; step < kSteps; ++step) learner.make_step(step);
  return testing::numbers_of(learner.parameters);
}

class Recovery : public ::testing::TestWithParam<Scenario> {};
INSTANTIATE_TEST_SUITE_P(Reducer, Recovery, ::testing::ValuesIn(scenarios()),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

TEST_P(Recovery, WhoIsLeftEndsWhereAFreshRunWould) {
  ::setenv("DDP_DISABLE_COMM_MEM", "0", 1);
  const Scenario& scenario = GetParam();
  const auto ends = testing::run_rank_processes(kWorld, [&](RankProcess& self) { return survive(scenario, self); });
  std::vector<Json> gave;
  for (int64_t number = 0; number < kWorld; ++number) {
    const RankEnd& end = ends[static_cast<size_t>(number)];
    ASSERT_EQ(end.is_killed, number == scenario.victim);
    if (end.is_killed) continue;
    ASSERT_TRUE(end.gave.is_object());
    const Json& lost = end.gave["lost"];
    EXPECT_THAT(lost["text"].get<std::string>(), ::testing::HasSubstr(" failed on rank "));
    EXPECT_EQ(lost.value("ranks", Json()), scenario.is_named ? Json::array({scenario.victim}) : Json()) << lost;
    EXPECT_LT(lost["after"].get<int64_t>(), 20'000) << "milliseconds: it was the deadline that ended the wait";
    RecordProperty("milliseconds_" + std::to_string(number), std::to_string(lost["after"].get<int64_t>()));
    gave.push_back(end.gave);
  }
  // Too many numbers to be printed.
  EXPECT_TRUE(gave[0]["before"] == gave[1]["before"]);
  EXPECT_TRUE(gave[0]["after"] == gave[1]["after"]);
  const auto fresh = testing::run_rank_processes(
      kWorld - 1, [&](RankProcess& self) { return go_on_from(gave[0]["before"], scenario, self); });
  EXPECT_TRUE(fresh[0].gave == gave[0]["after"]);
  EXPECT_TRUE(fresh[1].gave == gave[1]["after"]);
}

}  // namespace
}  // namespace paceline::comm
