// decide(): events a second over the life of a worker group: every worker is started, joins, finishes and exits. With
// `told`, what the journal says of each decision is made too.
#include <benchmark/benchmark.h>

#include "paceline/policy/consequences.h"
#include "paceline/policy/decide.h"

namespace paceline::policy {
namespace {

void decide_life_of_group(benchmark::State& state, bool told) {
  const int64_t workers = state.range(0);
  int64_t events = 0;
  for (auto _ : state) {
    RunState run;
    const auto feed = [&](const Event& event) {
      ++events;
      const Actions actions = decide(run, event, Time{std::chrono::seconds(events)});
      if (told) benchmark::DoNotOptimize(encode_consequences(consequences_of(event, run, actions)));
      return actions;
    };
    RunOptions options;
    options.num_workers = workers;
    feed(RunOpened{.epoch = {1}, .name = "run", .options = options});
    std::vector<WorkerId> ids;
    for (const Action& action : feed(NodeJoined{.node = {.name = "node", .host = "node", .cores = workers}})) {
      if (const auto* start = std::get_if<StartWorker>(&action)) ids.push_back(start->worker);
    }
    if (static_cast<int64_t>(ids.size()) != workers) return state.SkipWithError("not every worker was started");
    for (const WorkerId id : ids) feed(WorkerStarted{.worker = id, .pid = id.value});
    for (const WorkerId id : ids) feed(WorkerJoined{.worker = id, .pid = id.value});
    for (const WorkerId id : ids) feed(WorkerFinished{.worker = id});
    for (const WorkerId id : ids) feed(WorkerExited{.worker = id});
    if (run.state != State::finished) return state.SkipWithError("the run did not finish");
  }
  state.SetItemsProcessed(events);
}
BENCHMARK_CAPTURE(decide_life_of_group, alone, false)->Arg(2)->Arg(100)->Arg(10'000);
BENCHMARK_CAPTURE(decide_life_of_group, told, true)->Arg(2)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace paceline::policy
