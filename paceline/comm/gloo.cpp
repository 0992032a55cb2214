#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/watched_gloo.h"

namespace paceline::comm {
namespace {

// The work of a collective, with failures that say which rank and operation. Without it an error inside backward, where
// c10d::Reducer waits and no code of ours stands between it and the user, would be one bare line of gloo's.
class ReportedWork final : public c10d::Work {
 public:
  ReportedWork(c10::intrusive_ptr<c10d::Work> work, std::string operation, int rank, int world_size)
      : Work(rank, work->retrieveOpType()),
        work_(std::move(work)),
        operation_(std::move(operation)),
        world_size_(world_size) {}
  ~ReportedWork() override { end(); }
  ReportedWork(const ReportedWork&) = delete;
  ReportedWork& operator=(const ReportedWork&) = delete;

  /// Work without a future: the collective ends when somebody has waited for it.
  void end_when_awaited(Progress* progress) { progress_ = progress; }

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  void synchronize() override { work_->synchronize(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  void abort() override { work_->abort(); }

  bool wait(std::chrono::milliseconds timeout) override {
    bool done = false;
    report_failures(operation_, rank_, world_size_, [&] { done = work_->wait(timeout); });
    end();
    return done;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = work_->getFuture();
    return future->then(
        [operation = operation_, rank = rank_, world_size = world_size_](c10::ivalue::Future& finished) {
          if (finished.hasError()) {
            report_failures(operation, rank, world_size, [&] { std::rethrow_exception(finished.exception_ptr()); });
          }
          return finished.value();
        },
        future->elementType());
  }

 private:
  void end() {
    if (Progress* const progress = progress_.exchange(nullptr)) progress->end_collective();
  }

  const c10::intrusive_ptr<c10d::Work> work_;
  const std::string operation_;
  const int world_size_;
  std::atomic<Progress*> progress_{nullptr};
};

// Gloo whose waiting collectives can be made to fail from another thread, and which counts all of them. c10d offers the
// former for NCCL only: a rank that is told to stop would wait for its peers until the timeout.
class WatchedGloo final : public c10d::ProcessGroupGloo {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  WatchedGloo(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t world_size,
              c10::intrusive_ptr<Options> options, Progress* progress)
      : ProcessGroupGloo(store, static_cast<int>(rank), static_cast<int>(world_size), std::move(options)),
        progress_(progress) {}

  // The two collectives that c10d::Reducer starts by itself.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return reported("all_reduce",
                    counted(Collective::all_reduce, [&] { return ProcessGroupGloo::allreduce(tensors, options); }));
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return reported("broadcast",
                    counted(Collective::broadcast, [&] { return ProcessGroupGloo::broadcast(tensors, options); }));
  }
  // Those that others are made of; send and receive concern two ranks only.
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return counted(Collective::all_gather, [&] { return ProcessGroupGloo::allgather(outputs, inputs, options); });
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return counted(Collective::all_gather, [&] { return ProcessGroupGloo::_allgather_base(output, input, options); });
  }
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return counted(Collective::reduce, [&] { return ProcessGroupGloo::reduce(tensors, options); });
  }
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return counted(Collective::gather, [&] { return ProcessGroupGloo::gather(outputs, inputs, options); });
  }
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override {
    return counted(Collective::scatter, [&] { return ProcessGroupGloo::scatter(outputs, inputs, options); });
  }
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    return counted_until_awaited([&] { return ProcessGroupGloo::reduce_scatter(outputs, inputs, options); });
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    return counted_until_awaited([&] { return ProcessGroupGloo::_reduce_scatter_base(output, input, options); });
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                            std::vector<int64_t>& input_counts, const c10d::AllToAllOptions& options) override {
    return counted(Collective::all_to_all, [&] {
      return ProcessGroupGloo::alltoall_base(output, input, output_counts, input_counts, options);
    });
  }
  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return counted(Collective::barrier, [&] { return ProcessGroupGloo::barrier(options); });
  }

  void close_connections() {
    std::call_once(closed_, [this] {
      for (const auto& context : contexts_) {
        for (int peer = 0; peer < getSize(); ++peer) {
          // Every device here is gloo's TCP device, so every pair is a tcp::Pair.
          auto* pair = static_cast<gloo::transport::tcp::Pair*>(context->getPair(peer).get());
          if (pair != nullptr) pair->signalExceptionExternal(kToldToStop);
        }
      }
    });
  }

 private:
  c10::intrusive_ptr<ReportedWork> reported(const char* operation, WorkPointer work) {
    return c10::make_intrusive<ReportedWork>(std::move(work), operation, getRank(), getSize());
  }

  // The work of Gloo's reduce_scatter is made of others and has no future.
  template <class Start>
  WorkPointer counted_until_awaited(const Start& start) {
    if (progress_ != nullptr) progress_->begin_collective(Collective::reduce_scatter);
    try {
      auto work = reported("reduce_scatter", start());
      work->end_when_awaited(progress_);
      return work;
    } catch (...) {
      if (progress_ != nullptr) progress_->end_collective();
      throw;
    }
  }

  template <class Start>
  WorkPointer counted(Collective collective, const Start& start) {
    if (progress_ == nullptr) return start();
    progress_->begin_collective(collective);
    try {
      WorkPointer work = start();
      // Not in wait(): c10d::Reducer waits for the future.
      work->getFuture()->addCallback([progress = progress_](c10::ivalue::Future&) { progress->end_collective(); });
      return work;
    } catch (...) {
      progress_->end_collective();
      throw;
    }
  }

  Progress* const progress_;
  std::once_flag closed_;
};

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options_for(std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 2;  // as PyTorch: two collectives of a group can be under way
  return options;
}

// Those that make_watched_gloo() has made.
std::mutex groups_mutex;
std::vector<c10::weak_intrusive_ptr<WatchedGloo>> groups;

}  // namespace

Backend make_gloo(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) {
  auto options = options_for(settings.timeout);
  options->devices.push_back(settings.loopback ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                               : c10d::ProcessGroupGloo::createDefaultDevice());
  auto gloo = c10::make_intrusive<WatchedGloo>(store, settings.rank, settings.world_size, options, settings.progress);
  return {gloo, [gloo] { gloo->close_connections(); }};
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_watched_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const WatchedGlooOptions& settings) {
  auto options = options_for(settings.timeout);
  for (const std::string& interface : settings.interfaces) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  }
  if (options->devices.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  }
  if (settings.progress != nullptr) settings.progress->forget_collectives();
  auto gloo = c10::make_intrusive<WatchedGloo>(store, settings.rank, settings.world_size, options, settings.progress);
  const std::lock_guard lock(groups_mutex);
  groups.emplace_back(gloo);
  return gloo;
}

void abort_watched_gloo() {
  const std::lock_guard lock(groups_mutex);
  for (const auto& group : groups) {
    if (const auto alive = group.lock()) alive->close_connections();
  }
}

bool is_collective_failure(const std::string& text) {
  return tells_last_failure(text);
}

}  // namespace paceline::comm
