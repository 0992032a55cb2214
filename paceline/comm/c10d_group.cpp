#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/group_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

constexpr size_t kBroadcastBytes = size_t{250} << 20;

// Bytes are sent alike by every backend, whatever the dtype; not every backend knows every dtype.
torch::Tensor as_bytes(const torch::Tensor& contiguous) {
  return contiguous.view({-1}).view(torch::kUInt8);
}

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
    default:
      return c10d::ReduceOp::SUM;  // a mean is the sum, divided afterwards
  }
}

class C10dGroup final : public Group {
 public:
  /// Connects; `store` has keys of no other group. `progress`: where its collectives are counted, null for nowhere.
  C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::Store> store, std::string address,
            std::shared_ptr<GroupProgress> progress);
  /// What somebody still waits for fails: nobody else will end it.
  ~C10dGroup() override { abort(); }
  C10dGroup(const C10dGroup&) = delete;
  C10dGroup& operator=(const C10dGroup&) = delete;

  int64_t rank() const override { return options_.rank; }
  int64_t size() const override { return options_.world_size; }
  const std::string& backend() const override { return options_.backend; }
  c10d::ProcessGroup* process_group() const override { return process_group_.get(); }

  void all_reduce(torch::Tensor& tensor, ReduceOp op) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override;
  void broadcast(torch::Tensor& tensor, int64_t root) override;
  void broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) override;
  void barrier() override;
  std::shared_ptr<Group> duplicate() override;
  void abort() override;

 private:
  void run(const char* operation, const std::function<void()>& body);
  void reduce_contiguous(torch::Tensor values, ReduceOp op);
  void wait_until_usable();

  const GroupOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string address_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  std::vector<ConnectedBackend> backends_;  // the CPU's first
  FailureReporter failures_;
  int64_t duplicates_made_ = 0;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> duplicates_;
  c10::intrusive_ptr<c10d::Store> connecting_;  // of the duplicate that is being made, null for none
};

c10d::ProcessGroup::BackendType type_of(const Backend& backend) {
  return c10d::ProcessGroup::strToBackendType(std::string(backend.name));
}

std::string arrival_key(int64_t rank) {
  return "arrived/" + std::to_string(rank);
}

// One more group's; null where nobody counts.
std::shared_ptr<GroupProgress> progress_of(const GroupOptions& options) {
  return options.progress == nullptr ? nullptr : options.progress->add_group();
}

// The ranks' way to a new group is the first barrier in it: who waits there alone is seen to wait.
class Meeting {
 public:
  explicit Meeting(std::shared_ptr<GroupProgress> progress) : progress_(std::move(progress)) {
    if (progress_ != nullptr) progress_->begin_collective(Collective::barrier);
  }
  ~Meeting() {
    if (progress_ != nullptr) progress_->end_collective();
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

 private:
  const std::shared_ptr<GroupProgress> progress_;
};

constexpr const char* kStopped = "stopped";

// From another thread: whoever waits at `store` for the ranks of a group waits no more.
void stop_arrivals(c10d::Store& store, const GroupOptions& options) {
  const std::vector<uint8_t> said{1};
  store.set(kStopped, said);
  for (int64_t rank = 0; rank < options.world_size; ++rank) store.set(arrival_key(rank), said);
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

C10dGroup::C10dGroup(GroupOptions options, c10::intrusive_ptr<c10d::Store> store, std::string address,
                     std::shared_ptr<GroupProgress> progress)
    : options_(std::move(options)),
      store_(std::move(store)),
      address_(std::move(address)),
      failures_(options_.rank, options_.world_size) {
  wait_for_all_ranks(*store_, options_);
  const BackendSettings settings{.rank = options_.rank,
                                 .world_size = options_.world_size,
                                 .timeout = options_.timeout,
                                 .address = address_,
                                 .interfaces = {},
                                 .progress = std::move(progress)};
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, static_cast<int>(options_.rank),
                                                           static_cast<int>(options_.world_size));
  const Backend& chosen = *find_backend(options_.backend);
  // What describes the work (model, counts, barriers) is on the CPU, whatever the device.
  std::map<std::string_view, ConnectedBackend> connected;
  for (const c10::DeviceType device : {torch::kCPU, options_.device.type()}) {
    const Backend& carrier = chosen.takes(device) ? chosen : default_backend(device);
    if (!connected.contains(carrier.name)) {
      ConnectedBackend backend = carrier.connect(store_, settings);
      if (options_.check_collectives) backend = checked_by_c10d(backend, carrier.name, store_, settings);
      backends_.push_back(connected.emplace(carrier.name, backend).first->second);
    }
    process_group_->setBackend(device, type_of(carrier), connected.at(carrier.name).handle);
  }
  process_group_->setDefaultBackend(type_of(chosen));
  process_group_->setGroupName("paceline");
}

void C10dGroup::run(const char* operation, const std::function<void()>& body) {
  failures_.throw_if_stopped(operation);
  torch::NoGradGuard no_grad;
  failures_.run(operation, body);
}

void C10dGroup::reduce_contiguous(torch::Tensor values, ReduceOp op) {
  if (values.is_complex()) values = torch::view_as_real(values);
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  std::vector<torch::Tensor> tensors{values};
  process_group_->allreduce(tensors, options)->wait();
  if (op == ReduceOp::mean) values.div_(size());
}

void C10dGroup::all_reduce(torch::Tensor& tensor, ReduceOp op) {
  check_reducible(tensor, op);
  if (tensor.numel() == 0) return;
  run("all_reduce", [&] {
    torch::Tensor target = tensor.detach();
    if (tensor.scalar_type() == torch::kBool) {
      // The sum of truth values is "any", their product "all"; counted as bytes, 256 ranks would make zero.
      torch::Tensor bytes = target.to(torch::kUInt8).contiguous();
      const bool any = op == ReduceOp::sum || op == ReduceOp::max;
      reduce_contiguous(bytes, any ? ReduceOp::max : ReduceOp::min);
      target.copy_(bytes);
      return;
    }
    torch::Tensor values = target.contiguous();
    reduce_contiguous(values, op);
    if (!values.is_same(target)) target.copy_(values);
  });
}

std::vector<torch::Tensor> C10dGroup::all_gather(const torch::Tensor& tensor) {
  std::vector<torch::Tensor> gathered;
  run("all_gather", [&] {
    torch::Tensor own = tensor.detach().contiguous();
    std::vector<torch::Tensor> bytes;
    for (int64_t i = 0; i < size(); ++i) {
      gathered.push_back(torch::empty_like(own, torch::MemoryFormat::Contiguous));
      bytes.push_back(as_bytes(gathered.back()));
    }
    if (own.numel() == 0) return;
    std::vector<std::vector<torch::Tensor>> outputs{bytes};
    std::vector<torch::Tensor> inputs{as_bytes(own)};
    process_group_->allgather(outputs, inputs)->wait();
  });
  return gathered;
}

void C10dGroup::broadcast(torch::Tensor& tensor, int64_t root) {
  check_root(root, size());
  if (tensor.numel() == 0) return;
  run("broadcast", [&] {
    torch::Tensor target = tensor.detach();
    torch::Tensor values = target.contiguous();
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<torch::Tensor> tensors{as_bytes(values)};
    process_group_->broadcast(tensors, options)->wait();
    if (!values.is_same(target)) target.copy_(values);
  });
}

void C10dGroup::broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) {
  check_root(root, size());
  run("broadcast_coalesced", [&] {
    // As bytes too, so that tensors of all dtypes share messages; what is not contiguous travels as a copy.
    std::vector<torch::Tensor> targets, copies, bytes;
    for (const auto& tensor : tensors) {
      if (tensor.numel() == 0) continue;
      targets.push_back(tensor.detach());
      copies.push_back(targets.back().contiguous());
      bytes.push_back(as_bytes(copies.back()));
    }
    if (bytes.empty()) return;
    c10d::broadcast_coalesced(process_group_, bytes, kBroadcastBytes, static_cast<int>(root));
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!copies[i].is_same(targets[i])) targets[i].copy_(copies[i]);
    }
  });
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
  std::shared_ptr<C10dGroup> made;
  run("connecting", [&] {
    // Ranks duplicate in the same order, so they count alike.
    const std::string prefix = "duplicate_" + std::to_string(++duplicates_made_);
    const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, store_);
    {
      const std::lock_guard lock(mutex_);
      connecting_ = store;
    }
    failures_.throw_if_stopped("connecting");
    try {
      const std::shared_ptr<GroupProgress> progress = progress_of(options_);
      const Meeting meeting(progress);
      made = std::make_shared<C10dGroup>(options_, store, address_, progress);
    } catch (const CollectiveError&) {
      failures_.throw_if_stopped("connecting");
      throw;
    }
  });
  {
    const std::lock_guard lock(mutex_);
    connecting_.reset();
    std::erase_if(duplicates_, [](const auto& duplicate) { return duplicate.expired(); });
    duplicates_.push_back(made);
  }
  failures_.throw_if_stopped("connecting");  // abort() may have come before the group was in the list
  made->wait_until_usable();
  return made;
}

void C10dGroup::abort() {
  if (!failures_.stop()) return;
  for (const auto& backend : backends_) backend.abort();
  const std::lock_guard lock(mutex_);
  if (connecting_ != nullptr) {
    // What waits may hold the store's own lock. Where nobody can be reached any more, nobody is.
    try {
      stop_arrivals(*connecting_->clone(), options_);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }
  for (const auto& duplicate : duplicates_) {
    if (const auto alive = duplicate.lock()) alive->abort();
  }
}

}  // namespace

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
