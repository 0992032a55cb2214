#include "paceline/comm/torch_distributed.h"

#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/comm/backend_internal.h"

namespace paceline::comm {
namespace {

// A weak c10 pointer would keep a backend from ending.
std::mutex made_mutex;
std::vector<std::weak_ptr<BackendLife>> made;

// Where it is counted from the beginning; null for nowhere.
std::shared_ptr<GroupProgress> progress_of(const BackendOptions& options) {
  if (options.progress == nullptr || options.is_named_later) return nullptr;
  if (!options.ranks.empty()) return options.progress->add_group(options.name, options.ranks);
  options.progress->forget_groups();
  return options.progress->add_group();
}

c10::intrusive_ptr<c10d::Backend> make(const Backend& backend, const c10::intrusive_ptr<c10d::Store>& store,
                                       const BackendOptions& options) {
  const auto life = std::make_shared<BackendLife>();
  const ConnectedBackend connected =
      backend.connect(store, {.rank = options.rank,
                              .world_size = options.world_size,
                              .timeout = options.timeout,
                              .address = options.address,
                              .interfaces = named_interfaces(),
                              .node = options.node,
                              .progress = progress_of(options),
                              .later_progress = options.is_named_later ? options.progress : nullptr,
                              .thrown_as = ThrownAs::torch_error,
                              .life = life});
  life->begin(connected.handle.get());
  const std::lock_guard lock(made_mutex);
  std::erase_if(made, [](const auto& one) { return one.expired(); });
  made.push_back(life);
  return connected.handle;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options) {
  return c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupGloo>(make(gloo_backend(), store, options));
}

c10::intrusive_ptr<c10d::Backend> make_shared_memory(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options) {
  return make(shared_memory_backend(), store, options);
}

void abort_backends() {
  const std::lock_guard lock(made_mutex);
  for (const auto& one : made) {
    if (const auto life = one.lock()) life->abort();
  }
}

}  // namespace paceline::comm
