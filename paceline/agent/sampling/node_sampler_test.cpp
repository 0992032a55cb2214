#include "paceline/agent/sampling/node_sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "paceline/agent/sampling/sampling_thread.h"
#include "paceline/core/json.h"

namespace paceline::agent {
namespace {

class OneGpu final : public Gpus {
 public:
  std::vector<GpuSample> sample() override { return {{.uuid = "GPU-a", .name = "H100", .utilization_ratio = 0.5}}; }
  std::map<pid_t, double> memory_of_processes() override { return {{::getpid(), 4096.0}}; }
  std::string problem() const override { return ""; }
};

TEST(NodeSampler, TellsOfThisMachine) {
  ManualClock clock(from_seconds(1000));
  NodeSampler sampler(std::make_unique<NoGpus>("no driver"), clock);
  const NodeSample first = sampler.sample();
  EXPECT_EQ(first.time, 1000);
  EXPECT_GT(first.memory_total_bytes.value(), first.memory_used_bytes.value());
  EXPECT_GE(first.cores.value(), 1);
  EXPECT_GT(first.disk_size_bytes.value(), 0);
  EXPECT_EQ(first.no_gpus_because, "no driver");
  EXPECT_TRUE(first.gpus.empty());
  // There is no rate of a moment.
  EXPECT_FALSE(first.cpu_ratio);
  EXPECT_FALSE(first.network_sent_bytes_per_s);
}

TEST(NodeSampler, TellsOfProcessesUntilTheyAreForgotten) {
  ManualClock clock(from_seconds(1000));
  NodeSampler sampler(std::make_unique<OneGpu>(), clock);
  sampler.watch({.worker = 7, .role = "worker", .pid = ::getpid()});
  EXPECT_FALSE(sampler.sample().processes.at(0).cpu_cores);
  const auto start = std::chrono::steady_clock::now();
  for (volatile int64_t work = 0; std::chrono::steady_clock::now() - start < std::chrono::milliseconds(30);)
    work = work + 1;
  clock.advance(std::chrono::seconds(1));
  const ProcessSample process = sampler.sample().processes.at(0);
  EXPECT_EQ(process.worker, 7);
  EXPECT_EQ(process.role, "worker");
  EXPECT_EQ(process.pid, ::getpid());
  EXPECT_GT(process.cpu_cores.value(), 0);
  EXPECT_GT(process.rss_bytes.value(), 1 << 20);
  EXPECT_GE(process.threads.value(), 1);
  EXPECT_GE(process.descriptors.value(), 3);
  EXPECT_EQ(process.gpu_memory_bytes, 4096);
  sampler.forget(7);
  EXPECT_TRUE(sampler.sample().processes.empty());
}

TEST(NodeSampler, AWorkersStepsHaveTheTimeThatItNotes) {
  ManualClock clock(from_seconds(1000));
  NodeSampler sampler(std::make_unique<NoGpus>(""), clock);
  Progress progress = Progress::create(clock).ValueOrDie();
  auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
  sampler.watch({.worker = 7, .role = "worker", .pid = ::getpid()});
  sampler.watch_progress(7, std::make_shared<const ProgressReader>(std::move(reader)));
  sampler.watch_progress(8, nullptr);  // of one that is not sampled
  progress.set_step(1);
  EXPECT_FALSE(sampler.sample().processes.at(0).step_s) << "no step was timed";
  for (const int64_t step : {2, 3}) {
    clock.advance(std::chrono::milliseconds(250));
    progress.set_step(step);
  }
  EXPECT_DOUBLE_EQ(sampler.sample().processes.at(0).step_s.value(), 0.25);
}

TEST(NodeSampler, AProcessThatHasEndedIsLeftOut) {
  ManualClock clock(from_seconds(1000));
  NodeSampler sampler(std::make_unique<NoGpus>(""), clock);
  sampler.watch({.worker = 1, .role = "worker", .pid = std::numeric_limits<pid_t>::max()});
  EXPECT_TRUE(sampler.sample().processes.empty());
}

TEST(SamplingThread, GivesLinesThatAreSamples) {
  std::promise<std::string> line;
  bool is_given = false;
  {
    const SamplingThread thread(
        std::chrono::milliseconds(1), [] { return std::make_unique<OneGpu>(); },
        [&](std::string text) {
          if (!std::exchange(is_given, true)) line.set_value(std::move(text));
        });
    const std::string text = line.get_future().get();
    EXPECT_EQ(text.back(), '\n');
    const auto sample = Json::parse(text).get<NodeSample>();
    EXPECT_EQ(sample.gpus.at(0).uuid, "GPU-a");
    EXPECT_GT(sample.time, 0);
    EXPECT_EQ(text.find("null"), std::string::npos);
  }
}

}  // namespace
}  // namespace paceline::agent
