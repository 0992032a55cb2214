#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/collective_call_internal.h"
#include "paceline/comm/torch_distributed_internal.h"
#include "paceline/comm/watched_nccl.h"

namespace paceline::comm {
namespace {

using Nccl = c10d::ProcessGroupNCCL;

// What c10d shows to nobody: between these events of its stream the GPU carries the work out. The first is null unless
// the group times its works.
struct WorkEvents : Nccl::WorkNCCL {
  static std::shared_ptr<at::cuda::CUDAEvent> start_of(const WorkNCCL& work) {
    return work.*(&WorkEvents::ncclStartEvent_);
  }
  static std::shared_ptr<at::cuda::CUDAEvent> end_of(const WorkNCCL& work) {
    return work.*(&WorkEvents::ncclEndEvent_);
  }
};

// Collectives that NCCL carries out as one. They end with the future that c10d's watchdog completes, within 100 ms of
// the GPU, or, as failed ones, with what holds this.
class Launched {
 public:
  Launched(std::shared_ptr<GroupProgress> progress, const std::vector<CollectiveCall>& calls,
           const Nccl::WorkNCCL& work)
      : progress_(std::move(progress)), start_(WorkEvents::start_of(work)), end_(WorkEvents::end_of(work)) {
    for (const CollectiveCall& call : calls) handles_.push_back(progress_->launch_collective(call));
  }
  ~Launched() { end(std::nullopt, true); }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  void end(const c10::IValue& result) {
    const bool has_failed = !result.isInt() || result.toInt() != static_cast<int64_t>(c10d::WorkResult::SUCCESS);
    end(has_failed ? std::nullopt : time_on_gpu(), has_failed);
  }

 private:
  void end(std::optional<Duration> time, bool has_failed) {
    for (const CollectiveHandle& handle : std::exchange(handles_, {})) {
      progress_->end_launched(handle, time, has_failed);
    }
  }

  std::optional<Duration> time_on_gpu() const {
    if (start_ == nullptr) return std::nullopt;
    try {
      const std::chrono::duration<float, std::milli> time(start_->elapsed_time(*end_));
      return std::chrono::duration_cast<Duration>(time);
    } catch (const std::exception&) {  // CUDA has been shut down meanwhile
      return std::nullopt;
    }
  }

  const std::shared_ptr<GroupProgress> progress_;
  const std::shared_ptr<at::cuda::CUDAEvent> start_, end_;
  std::vector<CollectiveHandle> handles_;
};

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

// none for messages between two ranks. `title`: c10d's name of the work, "nccl:all_reduce".
Collective collective_of(c10d::OpType type, std::string_view title) {
  using c10d::OpType;
  switch (type) {
    case OpType::BROADCAST:
      return Collective::broadcast;
    case OpType::ALLREDUCE:
      return title == "nccl:all_reduce_barrier" ? Collective::barrier : Collective::all_reduce;
    case OpType::BARRIER:
      return Collective::barrier;
    case OpType::ALLREDUCE_COALESCED:
    case OpType::_ALLREDUCE_SPARSE:
      return Collective::all_reduce;
    case OpType::REDUCE:
      return Collective::reduce;
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
    case OpType::ALLGATHER_COALESCED:
      return Collective::all_gather;
    case OpType::GATHER:
      return Collective::gather;
    case OpType::SCATTER:
      return Collective::scatter;
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      return Collective::reduce_scatter;
    case OpType::ALLTOALL_BASE:
    case OpType::ALLTOALL:
      return Collective::all_to_all;
    case OpType::COALESCED:
      if (title.find("all_gather") != title.npos) return Collective::all_gather;
      if (title.find("reduce_scatter") != title.npos) return Collective::reduce_scatter;
      if (title.find("allreduce") != title.npos) return Collective::all_reduce;
      return Collective::none;
    default:
      return Collective::none;
  }
}

// As the ledger has it: alike on all `ranks`.
CollectiveCall whole(Collective collective, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs, int ranks) {
  switch (collective) {
    case Collective::barrier:
      return {Collective::barrier};
    case Collective::all_gather:
    case Collective::gather:
      return call_of(collective, inputs, ranks);
    case Collective::reduce_scatter:
    case Collective::scatter:
      return call_of(collective, outputs, ranks);
    default:
      return call_of(collective, inputs);
  }
}

ConnectedBackend connect_nccl(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) {
  // NCCL would listen on a network interface of its choice; only a variable tells it otherwise.
  if (settings.address == kLoopback) ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  auto options = c10::dynamic_intrusive_pointer_cast<Nccl::Options>(settings.options);
  if (!options) {
    options = Nccl::Options::create();
    options->timeout = settings.timeout;
  }
  auto nccl = c10::make_intrusive<WatchedNccl>(store, settings, options);
  return {nccl, [nccl] { nccl->abort(); }};
}

}  // namespace

WatchedNccl::WatchedNccl(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
                         c10::intrusive_ptr<Options> options)
    : ProcessGroupNCCL(store, static_cast<int>(settings.rank), static_cast<int>(settings.world_size),
                       std::move(options)),
      progress_(c10d::getCvarBool(c10d::TORCH_NCCL_BLOCKING_WAIT, false) ? nullptr : settings.progress),
      life_(settings.life) {
  if (progress_ != nullptr && c10d::getCvarBool(c10d::TORCH_NCCL_ENABLE_TIMING, true)) enableCollectivesTiming();
}

WatchedNccl::~WatchedNccl() {
  if (life_) life_->end();
}

c10::intrusive_ptr<WatchedNccl::WorkNCCL> WatchedNccl::initWork(at::Device& device, int rank, c10d::OpType type,
                                                                bool is_message, const char* title,
                                                                const std::vector<at::Tensor>& inputs,
                                                                const std::vector<at::Tensor>& outputs, bool record) {
  auto work = ProcessGroupNCCL::initWork(device, rank, type, is_message, title, inputs, outputs, record);
  if (progress_ == nullptr || is_message || is_capturing()) return work;
  const std::string_view name = title == nullptr ? "" : title;
  std::vector<CollectiveCall> calls;
  if (record) calls = std::exchange(parts_, {});
  if (name != "nccl:coalesced") calls.clear();  // likewise, where nothing is coalesced after it
  if (const Collective collective = collective_of(type, name); collective != Collective::none) {
    calls.push_back(whole(collective, inputs, outputs, getSize()));
  }
  if (calls.empty()) return work;
  if (record) {
    work->getFutureResult()->addCallback(
        [launched = std::make_shared<Launched>(progress_, calls, *work)](c10::ivalue::Future& finished) {
          launched->end(finished.hasError() ? c10::IValue() : finished.value());
        });
  } else {
    parts_.insert(parts_.end(), calls.begin(), calls.end());
  }
  return work;
}

c10::intrusive_ptr<WatchedNccl> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::ProcessGroupNCCL::Options>& nccl,
                                          const BackendOptions& options) {
  return c10::dynamic_intrusive_pointer_cast<WatchedNccl>(make_counted(nccl_backend(), store, options, nccl));
}

Backend nccl_backend() {
  return {.name = "nccl", .devices = {c10::kCUDA}, .shares_devices = false, .missing = "", .connect = &connect_nccl};
}

}  // namespace paceline::comm
