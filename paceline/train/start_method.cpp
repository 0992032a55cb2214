#include "paceline/train/start_method.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "paceline/agent/fork/forkable.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/error.h"

namespace paceline::train {
namespace {

// LibTorch seeds the generator at random when it is made. Made here, before main(), its seed tells later whether the
// program has set another.
uint64_t seed_at_start = 0;
[[gnu::constructor]] void note_seed() {
  seed_at_start = at::detail::getDefaultCPUGenerator().current_seed();
}

std::string executed_because(const std::string& why) {
  return "workers start by executing the program again, not as forks of it: " + why;
}

}  // namespace

StartMethod start_method_at_init() {
  StartMethod method{.environment = controller::worker_environment({})};
  const char* variable = std::getenv(kStartVariable);
  const std::string wanted = variable == nullptr || *variable == '\0' ? "fork" : variable;
  if (wanted != "fork" && wanted != "exec") {
    throw UsageError(std::string("the environment variable ") + kStartVariable + " is \"" + wanted +
                     "\"; allowed: fork (the default), exec");
  }
  if (wanted == "exec") return method;
  const std::string why = agent::why_not_forkable();
  method.forks = why.empty();
  if (!why.empty()) method.note = executed_because("when it called paceline::init(), " + why);
  return method;
}

StartMethod for_environment(StartMethod method, const rpc::StringMap& environment) {
  if (!method.forks) return method;
  const rpc::StringMap before = controller::read_when_loaded(method.environment);
  const rpc::StringMap now = controller::read_when_loaded(environment);
  if (before == now) return method;
  std::set<std::string> names;
  for (const auto& [name, value] : before) {
    if (const auto found = now.find(name); found == now.end() || found->second != value) names.insert(name);
  }
  for (const auto& [name, value] : now) {
    if (before.count(name) == 0) names.insert(name);
  }
  method.forks = false;
  method.note = executed_because("libraries read " + *names.begin() +
                                 " while they load, and it is not as it was when the program called paceline::init()");
  return method;
}

void reseed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  if (generator.current_seed() == seed_at_start) generator.seed();
}

}  // namespace paceline::train
