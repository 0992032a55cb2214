// A driver for the tests to kill: starts processes through an agent, prints the ids of all, and waits.
//
// Arguments: the folder of a run, of which `link`, `socket` and `whole` shall not remain; then optionally "forked":
// also fork a process that holds copies of all descriptors.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "paceline/agent/agent.h"
#include "paceline/agent/fake_controller.h"
#include "paceline/rpc/memory_channel.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const auto guardian = agent::Guardian::fork_now().ValueOrDie();
  auto [controller_end, agent_end] = rpc::make_memory_channels();
  const auto agent = agent::start_agent(std::move(agent_end), guardian).ValueOrDie();
  agent::FakeController controller(std::move(controller_end));
  const std::string folder = argv[1];
  controller.send(0, rpc::Leftovers{folder, {folder + "/link", folder + "/socket"}, {folder + "/whole"}});
  for (int64_t worker = 1; worker <= 3; ++worker) controller.start(worker, {"daemon", "1"});
  for (int64_t worker = 1; worker <= 3; ++worker) {
    const auto daemon = controller.wait_for_line(worker, "ready").at(0);
    std::printf("%ld\n%s\n", static_cast<long>(controller.wait_for<rpc::ProcessStarted>(worker).pid), daemon.c_str());
  }
  if (argc > 2 && ::fork() == 0) {
    while (true) ::pause();
  }
  std::printf("ready\n");
  std::fflush(stdout);
  while (true) ::pause();
}
