// collectives: how long collectives of two ranks take over shared memory and, in turns with it, over Gloo. The first
// argument names the row. Ranks are two processes of one thread.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "measurement.h"
#include "paceline/comm/group.h"
#include "paceline/core/json.h"

using namespace paceline;
using namespace paceline::benchmarks;

namespace {

constexpr int64_t kRanks = 2;
constexpr int64_t kLarge = int64_t{64} << 18;  // float32 numbers: 64 MiB
constexpr int64_t kSmall = 2048;               // 8 kB
constexpr const char* kCopying = "copying as much on both ranks at once";

// One collective of a group, ready to be called again and again.
using Call = std::function<void()>;
using Groups = std::map<std::string, std::shared_ptr<comm::Group>>;

c10d::Backend& backend_of(const comm::Group& group) {
  return *group.process_group()->getBackend(torch::kCPU);
}

// Memory that the backend shares where it can.
torch::Tensor shared(const comm::Group& group, int64_t size) {
  c10d::Backend& backend = backend_of(group);
  torch::Tensor tensor =
      backend.supportsTensorAlloc(0) ? backend.allocateTensor(size, torch::kFloat) : torch::empty({size});
  return tensor.fill_(1);
}

Call all_reduce(comm::Group& group, const torch::Tensor& tensor) {
  return [&group, tensor] {
    std::vector<torch::Tensor> tensors{tensor};
    group.process_group()->allreduce(tensors)->wait();
  };
}

Call call_of(const std::string& row, comm::Group& group) {
  if (row == "all_reduce_in_place") return all_reduce(group, shared(group, kLarge));
  if (row == "all_reduce_private") return all_reduce(group, torch::ones({kLarge}));
  if (row == "all_reduce_small") return all_reduce(group, torch::ones({kSmall}));
  torch::Tensor all = shared(group, kLarge), part = shared(group, kLarge / kRanks);
  if (row == "reduce_scatter") {
    return [&group, all, part]() mutable { group.process_group()->reduce_scatter_single(part, all)->wait(); };
  }
  if (row == "all_gather") {
    return [&group, all, part]() mutable { group.process_group()->all_gather_single(all, part)->wait(); };
  }
  throw std::invalid_argument("there is no row " + row);
}

// How long copying as much takes while all ranks copy: what the memory of the machine gives.
Call copy_loop(int64_t size) {
  const torch::Tensor from = torch::ones({size}), to = torch::ones({size});
  return [from, to] { to.copy_(from); };
}

// Calls each in turns; what one of them takes, by name.
std::map<std::string, std::vector<double>> time_in_turns(const std::map<std::string, Call>& calls, comm::Group& group,
                                                         int64_t iterations, int64_t calls_each, double unit) {
  std::map<std::string, std::vector<double>> times;
  for (int64_t i = -2; i < iterations; ++i) {
    for (const auto& [name, call] : calls) {
      group.barrier();
      const int64_t start_ns = now_ns();
      for (int64_t time = 0; time < calls_each; ++time) call();
      const double each = static_cast<double>(now_ns() - start_ns) / unit / static_cast<double>(calls_each);
      if (i >= 0) times[name].push_back(each);
    }
  }
  return times;
}

// With a memory bandwidth B that P ranks share, a rank that is copying moves B / 2P bytes in a second, since each is
// read and written; an all-reduce in place should come near that.
Json measure_bandwidth_share(comm::Group& group, int64_t iterations) {
  std::vector<double> least;
  Json also = Json::object();
  for (const int64_t mebibytes : {4, 16, 64}) {
    const int64_t size = mebibytes << 18, calls_each = 64 / mebibytes;
    const auto times = time_in_turns({{"copy", copy_loop(size)}, {"reduce", all_reduce(group, shared(group, size))}},
                                     group, iterations, calls_each, 1e6);
    std::vector<double> shares;
    for (size_t i = 0; i < times.at("copy").size(); ++i) shares.push_back(times.at("copy")[i] / times.at("reduce")[i]);
    std::vector<double> sorted = shares;
    std::ranges::sort(sorted);
    const double median = sorted[sorted.size() / 2];
    also["Paceline, " + std::to_string(mebibytes) + " MiB"] = median;
    std::vector<double> former = least;
    std::ranges::sort(former);
    if (former.empty() || median < former[former.size() / 2]) least = shares;
  }
  return {{"samples", least}, {"also", also}};
}

// Over both backends, and beside copying, in turns.
Json measure(const std::string& row, const Groups& groups, int64_t iterations) {
  comm::Group& ours = *groups.at("paceline");
  if (row == "bandwidth_share") return measure_bandwidth_share(ours, iterations);
  const bool is_small = row == "all_reduce_small";
  std::map<std::string, Call> calls;
  for (const auto& [backend, group] : groups) calls[backend] = call_of(row, *group);
  if (!is_small) calls[kCopying] = copy_loop(kLarge);
  auto times = time_in_turns(calls, ours, iterations, is_small ? 1000 : 1, is_small ? 1e3 : 1e6);  // µs or ms
  Json peers = {{"Gloo", times["gloo"]}};
  if (!is_small) peers[kCopying] = times[kCopying];
  return {{"samples", times["paceline"]}, {"peers", peers}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string row, scratch, data;
  int64_t iterations = 10, round = 0;
  CLI::App app("What collectives of two ranks take");
  app.add_option("row", row)->required();
  app.add_option("--scratch", scratch);
  app.add_option("--iterations", iterations);
  app.add_option("--round", round);
  app.add_option("--data", data);
  CLI11_PARSE(app, argc, argv);

  int port[2];
  if (::pipe(port) != 0) return 1;
  const pid_t child = ::fork();  // before there are threads
  const bool is_first = child != 0;
  if (!is_first) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  torch::set_num_threads(1);
  c10d::TCPStoreOptions server_options{.port = 0, .isServer = true, .waitWorkers = false};
  c10::intrusive_ptr<c10d::TCPStore> server;
  uint16_t number = 0;
  if (is_first) {
    server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", server_options);
    number = server->getPort();
    if (::write(port[1], &number, sizeof number) != sizeof number) return 1;
  } else if (::read(port[0], &number, sizeof number) != sizeof number) {
    return 1;
  }
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(number).c_str(), 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  ::setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  ::setenv("RANK", is_first ? "0" : "1", 1);

  Groups groups;
  for (const char* backend : {"paceline", "gloo"}) {
    comm::GroupOptions options;
    options.backend = backend;
    groups[backend] = comm::Group::from_torchrun_environment(options);
  }
  const Json found = measure(row, groups, iterations);
  groups.clear();
  if (!is_first) ::_exit(0);
  std::cout << found << std::endl;
  ::waitpid(child, nullptr, 0);
}
