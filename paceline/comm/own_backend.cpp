#include "paceline/comm/own_backend_internal.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/comm/shared_call_internal.h"

namespace paceline::comm {

c10::intrusive_ptr<c10d::Backend> SplitGroups::split_off(const BackendSettings& settings,
                                                         const c10::intrusive_ptr<c10d::Store>& store,
                                                         const std::vector<int>& ranks,
                                                         std::chrono::milliseconds timeout) {
  const auto place = std::ranges::find(ranks, settings.rank);
  if (place == ranks.end()) return nullptr;
  BackendSettings own = settings;
  own.rank = place - ranks.begin();
  own.world_size = std::ssize(ranks);
  own.timeout = timeout;
  own.life = std::make_shared<BackendLife>();
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(lives_, [](const auto& one) { return one.expired(); });
    lives_.push_back(own.life);
    if (settings.progress != nullptr) {  // those that have these ranks are made in the same order by all of them
      const std::string name = "split_" + std::to_string(++made_[ranks]);
      own.progress = settings.progress->split(name, {ranks.begin(), ranks.end()});
    }
  }
  auto backend = shared_memory_backend().connect(store, own).handle;
  own.life->begin(backend.get());
  return backend;
}

void SplitGroups::abort() {
  std::vector<std::weak_ptr<BackendLife>> lives;
  {
    const std::lock_guard lock(mutex_);
    lives = lives_;
  }
  for (const auto& one : lives) {
    if (const auto life = one.lock()) life->abort();
  }
}

OwnBackend::OwnBackend(const BackendSettings& settings, std::shared_ptr<collective::Arena> arena)
    : Backend(static_cast<int>(settings.rank), static_cast<int>(settings.world_size)),
      settings_(settings),
      timeout_(settings.timeout),
      progress_(settings.progress),
      failures_(std::make_shared<FailureReporter>(getRank(), getSize(), settings.thrown_as)),
      arena_(std::move(arena)) {}

c10::intrusive_ptr<c10d::Backend::Options> OwnBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), timeout_);
}

c10::intrusive_ptr<c10d::Backend> OwnBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  return split_groups_.split_off(settings_, store, ranks, options->timeout);
}

at::Tensor OwnBackend::allocateTensor(long size, at::TensorOptions options) {
  return allocate_in(arena_, size, options);
}

}  // namespace paceline::comm
