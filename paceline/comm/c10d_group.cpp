#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/c10d_collectives_internal.h"
#include "paceline/comm/checks_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/group_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

class C10dGroup final : public Group {
 public:
  /// Connects; `store` has keys of no other group. `progress`: where its collectives are counted, null for nowhere.
  C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::Store> store, std::string address,
            std::shared_ptr<GroupProgress> progress);
  /// Over a group of somebody else's.
  C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::ProcessGroup> process_group);
  /// What somebody still waits for fails: nobody else will end it.
  ~C10dGroup() override {
    if (is_owner_) abort();
  }
  C10dGroup(const C10dGroup&) = delete;
  C10dGroup& operator=(const C10dGroup&) = delete;

  int64_t rank() const override { return options_.rank; }
  int64_t size() const override { return options_.world_size; }
  const std::string& backend() const override { return options_.backend; }
  c10d::ProcessGroup* process_group() const override { return process_group_.get(); }

  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override {
    return collectives_->all_gather(tensor);
  }
  void broadcast(const torch::Tensor& tensor, int64_t root) override { collectives_->broadcast(tensor, root); }
  void broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) override {
    collectives_->broadcast_coalesced(tensors, root);
  }
  void barrier() override;

  std::shared_ptr<Work> start_all_reduce(const torch::Tensor& tensor, ReduceOp op) override {
    return collectives_->start_all_reduce(tensor, op);
  }
  std::shared_ptr<Work> start_reduce_scatter(const torch::Tensor& output, const torch::Tensor& input,
                                             ReduceOp op) override {
    return collectives_->start_reduce_scatter(output, input, op);
  }
  std::shared_ptr<Work> start_all_gather_into(const torch::Tensor& output, const torch::Tensor& input) override {
    return collectives_->start_all_gather_into(output, input);
  }
  std::shared_ptr<Work> start_all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                                         const std::vector<int64_t>& output_rows,
                                         const std::vector<int64_t>& input_rows) override {
    return collectives_->start_all_to_all(output, input, output_rows, input_rows);
  }
  std::shared_ptr<Work> start_send(const torch::Tensor& tensor, int64_t rank, int tag) override {
    return collectives_->start_send(tensor, rank, tag);
  }
  std::shared_ptr<Work> start_receive(const torch::Tensor& tensor, int64_t rank, int tag) override {
    return collectives_->start_receive(tensor, rank, tag);
  }

  torch::Tensor allocate(int64_t elements, const torch::TensorOptions& options) override {
    return collectives_->allocate(elements, options);
  }
  std::shared_ptr<Group> duplicate() override;
  std::shared_ptr<Group> split(const std::vector<int64_t>& ranks) override;
  void abort() override;

 private:
  void run(const char* operation, const std::function<void()>& body);
  std::string next_name(const std::string& name);
  std::shared_ptr<Group> connect_another(const GroupOptions& options, const std::string& name,
                                         std::shared_ptr<GroupProgress> progress);
  void wait_until_usable();

  const GroupOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string address_;
  const bool is_owner_ = true;
  const std::shared_ptr<GroupProgress> progress_;  // where it is counted, null for nowhere
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  std::vector<ConnectedBackend> backends_;  // the CPU's first
  const std::shared_ptr<FailureReporter> failures_;
  std::unique_ptr<C10dCollectives> collectives_;
  std::map<std::string, int64_t> made_;  // groups, by the names that ranks count alike
  std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> others_;    // duplicates, and groups that have split off
  c10::intrusive_ptr<c10d::Store> connecting_;  // of the one that is being made, null for none
  int64_t connecting_ranks_ = 0;
};

c10d::ProcessGroup::BackendType type_of(const Backend& backend) {
  return c10d::ProcessGroup::strToBackendType(std::string(backend.name));
}

std::string arrival_key(int64_t rank) {
  return "arrived/" + std::to_string(rank);
}

std::vector<int64_t> all_places(int64_t size) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// One more group's; null where nobody counts.
std::shared_ptr<GroupProgress> progress_of(const GroupOptions& options) {
  return options.progress == nullptr ? nullptr : options.progress->add_group();
}

// Of a backend beside the one for the CPU, whose collectives end in an order of their own.
std::shared_ptr<GroupProgress> progress_beside(const std::shared_ptr<GroupProgress>& of_cpu,
                                               const GroupOptions& options, std::string_view backend) {
  if (of_cpu == nullptr) return nullptr;
  if (auto progress = progress_of(options)) return progress;
  return of_cpu->split(backend, all_places(options.world_size));
}

constexpr const char* kStopped = "stopped";

// From another thread: whoever waits at `store` for the ranks of a group waits no more.
void stop_arrivals(c10d::Store& store, int64_t world_size) {
  const std::vector<uint8_t> said{1};
  store.set(kStopped, said);
  for (int64_t rank = 0; rank < world_size; ++rank) store.set(arrival_key(rank), said);
}

// So that a rank that never comes is named; the backends would only name a key of theirs.
void wait_for_all_ranks(c10d::Store& store, const GroupOptions& options) {
  store.set(arrival_key(options.rank), std::vector<uint8_t>{1});
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < options.world_size; ++rank) keys.push_back(arrival_key(rank));
  try {
    store.wait(keys, options.timeout);
  } catch (const std::exception& failure) {
    std::string missing;
    for (int64_t rank = 0; rank < options.world_size; ++rank) {
      if (!store.check({keys[rank]})) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (missing.empty()) throw;
    throw CollectiveError("rank " + std::to_string(options.rank) + " of " + std::to_string(options.world_size) +
                              " waited " + std::to_string(options.timeout.count()) +
                              " ms (TorchConfig.timeout_s) for the other ranks to arrive; missing ranks=" + missing +
                              " (" + cause_of(failure) + "). Their logs say what keeps them",
                          CollectiveCause::other_rank);
  }
  if (store.check({kStopped})) {
    throw CollectiveError("rank " + std::to_string(options.rank) + " of " + std::to_string(options.world_size) +
                              " connects to nobody: a rank was told to stop",
                          CollectiveCause::other_rank);
  }
}

// `backend` under c10d's own check, which TORCH_DISTRIBUTED_DEBUG=DETAIL gives to Python's groups. It talks over a
// group of Gloo's that is not counted.
ConnectedBackend checked_by_c10d(const ConnectedBackend& backend, std::string_view name,
                                 const c10::intrusive_ptr<c10d::Store>& store, BackendSettings settings) {
  settings.progress = nullptr;
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("check_" + std::string(name), store);
  const ConnectedBackend talk = gloo_backend().connect(prefixed, settings);
  return {c10::make_intrusive<c10d::ProcessGroupWrapper>(backend.handle, talk.handle), [backend, talk] {
            talk.abort();
            backend.abort();
          }};
}

std::vector<std::string> interfaces_of(const GroupOptions& options) {
  if (options.interface.empty()) return {};
  return {options.interface};
}

C10dGroup::C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::Store> store, std::string address,
                     std::shared_ptr<GroupProgress> progress)
    : options_(std::move(options)),
      store_(std::move(store)),
      address_(std::move(address)),
      progress_(std::move(progress)),
      failures_(std::make_shared<FailureReporter>(options_.rank, options_.world_size)) {
  wait_for_all_ranks(*store_, options_);
  BackendSettings settings{.rank = options_.rank,
                           .world_size = options_.world_size,
                           .timeout = options_.timeout,
                           .address = address_,
                           .interfaces = interfaces_of(options_),
                           .node = options_.node,
                           .progress = progress_};
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, static_cast<int>(options_.rank),
                                                           static_cast<int>(options_.world_size));
  const Backend& chosen = *find_backend(options_.backend);
  // What describes the work (model, counts, barriers) is on the CPU, whatever the device.
  std::map<std::string_view, ConnectedBackend> connected;
  for (const c10::DeviceType device : {torch::kCPU, options_.device.type()}) {
    const Backend& carrier = chosen.takes(device) ? chosen : default_backend(device);
    if (!connected.contains(carrier.name)) {
      if (!connected.empty()) settings.progress = progress_beside(progress_, options_, carrier.name);
      ConnectedBackend backend = carrier.connect(store_, settings);
      if (options_.check_collectives) backend = checked_by_c10d(backend, carrier.name, store_, settings);
      backends_.push_back(connected.emplace(carrier.name, backend).first->second);
    }
    process_group_->setBackend(device, type_of(carrier), connected.at(carrier.name).handle);
  }
  process_group_->setDefaultBackend(type_of(chosen));
  process_group_->setGroupName("paceline");
  collectives_ = std::make_unique<C10dCollectives>(process_group_, failures_);
}

C10dGroup::C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
    : options_(std::move(options)),
      store_(c10::make_intrusive<c10d::PrefixStore>("paceline_group", process_group->getStore())),
      address_(options_.address),
      is_owner_(false),
      process_group_(std::move(process_group)),
      failures_(std::make_shared<FailureReporter>(options_.rank, options_.world_size)),
      collectives_(std::make_unique<C10dCollectives>(process_group_, failures_)) {
  for (const c10::DeviceType device : {torch::kCPU, options_.device.type()}) {
    const auto backend = process_group_->getBackend(device);
    if (backends_.empty() || backends_.front().handle != backend) {
      backends_.push_back({backend, [backend] { backend->abort(); }});
    }
  }
}

void C10dGroup::run(const char* operation, const std::function<void()>& body) {
  failures_->throw_if_stopped(operation);
  torch::NoGradGuard no_grad;
  failures_->run(operation, body);
}

void C10dGroup::barrier() {
  run("barrier", [&] {
    // The CPU's, whatever the backend: a barrier is for the processes, not for what runs on their GPUs.
    backends_.front().handle->barrier()->wait();
  });
}

// A backend may connect with its first collective only: two groups whose first collectives come crosswise would wait
// for each other there.
void C10dGroup::wait_until_usable() {
  barrier();
  if (options_.device.is_cpu()) return;
  torch::Tensor any = torch::zeros({1}, options_.device);
  all_reduce(any, ReduceOp::sum);
  any.item();
}

std::shared_ptr<Group> C10dGroup::duplicate() {
  const std::string name = next_name("duplicate");
  std::shared_ptr<GroupProgress> progress = progress_of(options_);
  if (progress == nullptr && progress_ != nullptr) {
    progress = progress_->split(name, all_places(size()));
  }
  return connect_another(options_, name, std::move(progress));
}

std::shared_ptr<Group> C10dGroup::split(const std::vector<int64_t>& ranks) {
  check_split(ranks, size());
  const auto place = std::ranges::find(ranks, rank());
  if (place == ranks.end()) return nullptr;
  failures_->throw_if_stopped("split");
  if (ranks.size() == 1) return make_local_group();
  GroupOptions options = options_;
  options.rank = place - ranks.begin();
  options.world_size = std::ssize(ranks);
  options.progress = nullptr;  // whose groups are of all ranks
  std::string name = "split";
  for (const int64_t one : ranks) name += "_" + std::to_string(one);
  name = next_name(name);
  return connect_another(options, name, progress_ == nullptr ? nullptr : progress_->split(name, ranks));
}

// Those of whom `name` is make groups of that name in the same order, so they count alike.
std::string C10dGroup::next_name(const std::string& name) {
  return name + "_" + std::to_string(++made_[name]);
}

// `progress`: where it is counted, null for nowhere.
std::shared_ptr<Group> C10dGroup::connect_another(const GroupOptions& options, const std::string& name,
                                                  std::shared_ptr<GroupProgress> progress) {
  std::shared_ptr<C10dGroup> made;
  run("connecting", [&] {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    {
      const std::lock_guard lock(mutex_);
      connecting_ = store;
      connecting_ranks_ = options.world_size;
    }
    failures_->throw_if_stopped("connecting");
    try {
      // The ranks' way to a new group is the first barrier in it: who waits there alone is seen to wait.
      const CollectiveScope meeting(progress, {Collective::barrier});
      made = std::make_shared<C10dGroup>(options, store, address_, std::move(progress));
    } catch (const CollectiveError&) {
      failures_->throw_if_stopped("connecting");
      throw;
    }
  });
  {
    const std::lock_guard lock(mutex_);
    connecting_.reset();
    std::erase_if(others_, [](const auto& other) { return other.expired(); });
    others_.push_back(made);
  }
  failures_->throw_if_stopped("connecting");  // abort() may have come before the group was in the list
  made->wait_until_usable();
  return made;
}

void C10dGroup::abort() {
  if (!failures_->stop()) return;
  for (const auto& backend : backends_) backend.abort();
  const std::lock_guard lock(mutex_);
  if (connecting_ != nullptr) {
    // What waits may hold the store's own lock. Where nobody can be reached any more, nobody is.
    try {
      stop_arrivals(*connecting_->clone(), connecting_ranks_);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }
  for (const auto& other : others_) {
    if (const auto alive = other.lock()) alive->abort();
  }
}

}  // namespace

std::shared_ptr<Group> Group::over(const c10::intrusive_ptr<c10d::ProcessGroup>& group, GroupOptions options) {
  options.rank = group->getRank();
  options.world_size = group->getSize();
  options.progress = nullptr;
  return std::make_shared<C10dGroup>(checked(std::move(options)), group);
}

std::shared_ptr<Group> make_c10d_group(const GroupOptions& options, c10::intrusive_ptr<c10d::Store> store,
                                       const std::string& address) {
  std::shared_ptr<Group> group;
  FailureReporter(options.rank, options.world_size).run("connecting", [&] {
    if (options.progress != nullptr) options.progress->forget_groups();
    group = std::make_shared<C10dGroup>(options, std::move(store), address, progress_of(options));
  });
  return group;
}

}  // namespace paceline::comm
