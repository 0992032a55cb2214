// agents_1000: what 1,000 agents over TLS on loopback, each with a rank that reports once a second, cost the driver, in
// cores: all of its process, of a whole run. The agents are simulated by another process, which also tells how long it
// takes from the first agent to the last rank's place, and from a rank's failure to all ranks' places in the next
// group.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "benchmarks/simulated_ranks.h"
#include "paceline/agent/guardian.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/agents.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/transport/connector.h"
#include "paceline/transport/trust_file.h"

using namespace paceline;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kAgents = 1000;
constexpr int64_t kTicks = 100;  // of a second
constexpr auto kTick = std::chrono::milliseconds(1000) / kTicks;
constexpr int64_t kWarmUp = 2;  // seconds

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// All agents, in a process of their own; writes how long start and restart took. Returns when the run is over.
void be_agents(const std::string& text, int64_t seconds, const std::string& file) {
  const auto begin = Clock::now();
  const auto trust = transport::decode_trust_file(text).ValueOrDie();
  std::mutex mutex;
  std::condition_variable changed;
  int64_t ranks = 0;
  const auto threads = std::make_shared<transport::SharedThreads>();
  std::vector<std::unique_ptr<benchmarks::SimulatedAgent>> agents;
  for (int64_t agent = 0; agent < kAgents; ++agent) {
    const std::string name = "node" + std::to_string(agent);
    auto channel = transport::connect({.addresses = trust.addresses,
                                       .run = trust.run,
                                       .name = name,
                                       .credentials = trust.credentials,
                                       .lease = std::chrono::seconds(60),
                                       .threads = threads})
                       .ValueOrDie();
    agents.push_back(std::make_unique<benchmarks::SimulatedAgent>(std::move(channel), name, 1, [&] {
      const std::lock_guard lock(mutex);
      ++ranks;
      changed.notify_all();
    }));
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ranks == kAgents; });
  const double start_s = seconds_since(begin);
  lock.unlock();
  auto next = Clock::now();
  for (int64_t second = 1; second <= kWarmUp + seconds; ++second) {
    for (int64_t tick = 0; tick < kTicks; ++tick) {
      for (int64_t agent = tick; agent < kAgents; agent += kTicks)
        agents[static_cast<size_t>(agent)]->report(0, second);
      std::this_thread::sleep_until(next += kTick);
    }
  }
  const auto failure = Clock::now();
  agents.front()->fail(0);
  lock.lock();
  changed.wait(lock, [&] { return ranks == 2 * kAgents; });
  std::ofstream(file) << start_s << " " << seconds_since(failure);
  lock.unlock();
  for (const auto& agent : agents) agent->finish(kWarmUp + seconds);
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

controller::RunRequest request_in(const std::string& folder) {
  auto request = benchmarks::simulated_request(folder + "/run", folder + "/runs.sqlite", kAgents);
  request.run_config.failure_config.node_timeout_s = 60;
  request.run_config.failure_config.max_failures = 1;
  request.scaling_config.placement_strategy = "SPREAD";
  return request;
}

// Hands the listener's secret to the process of the agents, and measures while they report.
class Measured final : public controller::Launcher {
 public:
  Measured(int agents, int64_t seconds)
      : agents_(agents), seconds_(seconds), launcher_({.listen = "127.0.0.1:0", .nodes = kAgents, .lease_s = 60}) {}
  ~Measured() override {
    if (thread_.joinable()) thread_.join();
  }

  arrow::Result<controller::Launch> launch(controller::LaunchEvents events) override {
    events.on_agent = [this, on_agent = events.on_agent](std::unique_ptr<rpc::Channel> agent) {
      if (++come_ == kAgents) thread_ = std::thread([this] { measure(); });
      on_agent(std::move(agent));
    };
    const int64_t before = resident_bytes();
    ARROW_ASSIGN_OR_RAISE(const controller::Launch launch, launcher_.launch(std::move(events)));
    idle_bytes_ = before;
    const std::string& text = launcher_.trust_text();
    if (::write(agents_, text.data(), text.size()) != std::ssize(text)) throw std::runtime_error("no agents");
    ::close(agents_);
    return launch;
  }
  void close() override { launcher_.close(); }

  const std::vector<double>& samples() const { return samples_; }
  double kilobytes_each() const { return static_cast<double>(bytes_ - idle_bytes_) / 1e3 / kAgents; }

 private:
  void measure() {
    std::this_thread::sleep_for(std::chrono::seconds(kWarmUp + 1));
    for (int64_t second = 0; second < seconds_ - 1; ++second) {
      const double before = benchmarks::seconds_of(CLOCK_PROCESS_CPUTIME_ID);
      const auto begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
      samples_.push_back((benchmarks::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before) / passed);
    }
    bytes_ = resident_bytes();
  }

  const int agents_;  // a pipe
  const int64_t seconds_;
  int64_t come_ = 0, idle_bytes_ = 0, bytes_ = 0;
  std::vector<double> samples_;
  std::thread thread_;
  controller::AgentsLauncher launcher_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string scratch, data;
  int64_t iterations = 10, round = 0;
  CLI::App app("What 1,000 agents cost the driver, in cores");
  app.add_option("--scratch", scratch)->required();
  app.add_option("--iterations", iterations);
  app.add_option("--round", round);
  app.add_option("--data", data);
  CLI11_PARSE(app, argc, argv);
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t agents = ::fork();  // before there are threads
  if (agents == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t size; (size = ::read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(size));
    be_agents(text, iterations, scratch + "/times");
    ::_exit(0);
  }
  ::close(ends[0]);
  const controller::RunRequest request = request_in(scratch);
  std::filesystem::create_directories(request.run_folder);
  const auto lock = storage::RunLock::acquire(request.run_folder).ValueOrDie();
  SystemClock clock;
  controller::StopSignal stop;
  Measured measured(ends[1], iterations);
  const auto outcome = controller::run_to_end(request, measured, clock, stop).ValueOrDie();
  if (outcome.state != FinalState::finished) throw std::runtime_error(outcome.error);
  ::waitpid(agents, nullptr, 0);
  double start_s = 0, restart_s = 0;
  std::ifstream(scratch + "/times") >> start_s >> restart_s;
  std::cout << encode_json({{"samples", measured.samples()},
                            {"also",
                             {{"Paceline, kB of memory for each agent", measured.kilobytes_each()},
                              {"Paceline, s from the first agent to the last rank's place", start_s},
                              {"Paceline, s from a failure to all ranks' places", restart_s}}}})
            << std::endl;
}
