#include "paceline/comm/torch_distributed.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/torch_distributed_internal.h"

namespace paceline::comm {
namespace {

// A weak c10 pointer would keep a backend from ending.
std::mutex made_mutex;
std::vector<std::weak_ptr<BackendLife>> made;

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// Who is in a group of some ranks, and a name that no other has: each says before it connects what all read afterwards,
// when nobody is waited for any more. Where the store is gone by then, its ranks are not known. One key where the store
// can append, so that a group of n ranks costs it n values, else one for each.
class Roll {
 public:
  Roll(const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_roll", store)), size_(options.world_size) {
    std::string line = std::to_string(options.rank) + " " + std::to_string(options.rank_in_run);
    if (options.rank == 0) {
      line += " " + std::to_string(std::random_device()()) + "_" + std::to_string(std::random_device()());
    }
    line += "\n";
    if (store_->hasExtendedApi()) {
      store_->append(kAll, bytes_of(line));
    } else {
      store_->set(std::to_string(options.rank), bytes_of(line));
    }
  }
  void tell(GroupProgress& progress) const {
    try {
      read(store_->hasExtendedApi() ? text_of(store_->get(kAll)) : lines_of_keys(), progress);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }

 private:
  static constexpr const char* kAll = "all";

  // "" where not all have said it: who is not counted says nothing.
  std::string lines_of_keys() const {
    std::vector<std::string> keys;
    for (int64_t rank = 0; rank < size_; ++rank) keys.push_back(std::to_string(rank));
    if (!store_->check(keys)) return "";
    std::string lines;
    for (const std::string& key : keys) lines += text_of(store_->get(key));
    return lines;
  }

  void read(const std::string& lines, GroupProgress& progress) const {
    std::vector<int64_t> ranks(static_cast<size_t>(size_), -1);
    std::string name;
    std::istringstream text(lines);
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line);
      int64_t rank = -1, rank_in_run = -1;
      if (!(words >> rank >> rank_in_run) || rank < 0 || rank >= size_) return;
      ranks[static_cast<size_t>(rank)] = rank_in_run;
      if (rank == 0) words >> name;
    }
    if (!name.empty() && std::ranges::find(ranks, -1) == ranks.end()) progress.name(name, std::move(ranks));
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const int64_t size_;
};

// A group of all ranks that is made anew counts from 1. torch makes its backends, one for each kind of device, with
// prefixes of one store, and ends them together. A weak c10 pointer would keep the store, and its port.
void forget_groups_of_others(Progress& progress, const c10::intrusive_ptr<c10d::Store>& store,
                             const std::shared_ptr<BackendLife>& life) {
  static std::weak_ptr<BackendLife> last;
  static const c10d::Store* store_of_last = nullptr;
  const auto prefixed = c10::dynamic_intrusive_pointer_cast<c10d::PrefixStore>(store);
  const auto whole = prefixed ? prefixed->getUnderlyingStore() : store;
  const std::lock_guard lock(made_mutex);
  if (last.expired() || store_of_last != whole.get()) progress.forget_groups();
  last = life;
  store_of_last = whole.get();
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_counted(const Backend& backend, const c10::intrusive_ptr<c10d::Store>& given,
                                               const BackendOptions& options,
                                               const c10::intrusive_ptr<c10d::Backend::Options>& of_backend) {
  c10::intrusive_ptr<c10d::Store> store;
  FailureReporter(options.rank, options.world_size, ThrownAs::torch_error).run("meeting", [&] {
    store = agree_on_keys(given, options.rank, options.world_size, options.timeout);
  });
  const auto life = std::make_shared<BackendLife>();
  std::shared_ptr<GroupProgress> progress;
  std::optional<Roll> roll;
  if (options.progress != nullptr && options.is_of_all) {
    forget_groups_of_others(*options.progress, given, life);
    progress = options.progress->add_group();
  } else if (options.progress != nullptr) {
    progress = options.progress->add_group_of_some();
    roll.emplace(store, options);
  }
  const ConnectedBackend connected = backend.connect(store, {.rank = options.rank,
                                                             .world_size = options.world_size,
                                                             .timeout = options.timeout,
                                                             .address = options.address,
                                                             .interfaces = named_interfaces(),
                                                             .node = options.node,
                                                             .progress = progress,
                                                             .thrown_as = ThrownAs::torch_error,
                                                             .options = of_backend,
                                                             .life = life});
  if (roll) roll->tell(*progress);
  life->begin(connected.handle.get());
  const std::lock_guard lock(made_mutex);
  std::erase_if(made, [](const auto& one) { return one.expired(); });
  made.push_back(life);
  return connected.handle;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options) {
  return c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupGloo>(make_counted(gloo_backend(), store, options));
}

c10::intrusive_ptr<c10d::Backend> make_shared_memory(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options) {
  return make_counted(shared_memory_backend(), store, options);
}

void abort_backends() {
  const std::lock_guard lock(made_mutex);
  for (const auto& one : made) {
    if (const auto life = one.lock()) life->abort();
  }
}

}  // namespace paceline::comm
