#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/collective_call_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/broken_pipe.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/network_interface.h"

namespace paceline::comm {
namespace {

// The work of a collective, with failures that say which rank and operation. Without it an error inside backward, where
// c10d::Reducer waits and no code of ours stands between it and the user, would be one bare line of gloo's.
class ReportedWork final : public c10d::Work {
 public:
  ReportedWork(c10::intrusive_ptr<c10d::Work> work, int rank, Collective collective,
               std::shared_ptr<const FailureReporter> failures)
      : Work(rank, work->retrieveOpType()),
        work_(std::move(work)),
        operation_(to_string(collective)),
        failures_(std::move(failures)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  void synchronize() override { work_->synchronize(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  void abort() override { work_->abort(); }

  bool wait(std::chrono::milliseconds timeout) override {
    bool done = false;
    failures_->run(operation_, [&] { done = work_->wait(timeout); });
    return done;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = work_->getFuture();
    return future->then(
        [operation = operation_, failures = failures_](c10::ivalue::Future& finished) {
          if (finished.hasError()) failures->run(operation, [&] { std::rethrow_exception(finished.exception_ptr()); });
          return finished.value();
        },
        future->elementType());
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const std::string operation_;
  const std::shared_ptr<const FailureReporter> failures_;
};

// What this thread calls all_reduce for: Gloo's reduce_scatter is made of them, and its own work, which has no future,
// would end when somebody waits for it only.
thread_local Collective made_of_all_reduces = Collective::none;

// Gloo whose waiting collectives can be made to fail from another thread, and which counts all of them. c10d offers the
// former for NCCL only: a rank that is told to stop would wait for its peers until the timeout.
class WatchedGloo final : public c10d::ProcessGroupGloo {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  WatchedGloo(const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<Options> options,
              const BackendSettings& settings)
      : ProcessGroupGloo(store, static_cast<int>(settings.rank), static_cast<int>(settings.world_size),
                         std::move(options)),
        progress_(settings.progress),
        failures_(std::make_shared<FailureReporter>(settings.rank, settings.world_size, settings.thrown_as)),
        life_(settings.life) {}
  ~WatchedGloo() override {
    if (life_) life_->end();
  }

  // The collectives that others are made of; send and receive concern two ranks only.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const bool is_part = made_of_all_reduces != Collective::none;
    return counted(call_of(is_part ? made_of_all_reduces : Collective::all_reduce, tensors),
                   [&] { return ProcessGroupGloo::allreduce(tensors, options); });
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return counted(call_of(Collective::broadcast, tensors),
                   [&] { return ProcessGroupGloo::broadcast(tensors, options); });
  }
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return counted(call_of(Collective::all_gather, inputs, getSize()),
                   [&] { return ProcessGroupGloo::allgather(outputs, inputs, options); });
  }
  // _allgather_base() is an allgather() in Gloo, which is counted.
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return counted(call_of(Collective::reduce, tensors), [&] { return ProcessGroupGloo::reduce(tensors, options); });
  }
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return counted(call_of(Collective::gather, inputs, getSize()),
                   [&] { return ProcessGroupGloo::gather(outputs, inputs, options); });
  }
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override {
    return counted(call_of(Collective::scatter, outputs, getSize()),
                   [&] { return ProcessGroupGloo::scatter(outputs, inputs, options); });
  }
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    return reported_whole([&] { return ProcessGroupGloo::reduce_scatter(outputs, inputs, options); });
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    return reported_whole([&] { return ProcessGroupGloo::_reduce_scatter_base(output, input, options); });
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                            std::vector<int64_t>& input_counts, const c10d::AllToAllOptions& options) override {
    return counted(call_of(Collective::all_to_all, {input}), [&] {
      return ProcessGroupGloo::alltoall_base(output, input, output_counts, input_counts, options);
    });
  }
  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return counted({Collective::barrier}, [&] { return ProcessGroupGloo::barrier(options); });
  }

  void abort() override {
    if (!failures_->stop()) return;
    for (const auto& context : contexts_) {
      for (int peer = 0; peer < getSize(); ++peer) {
        // Every device here is gloo's TCP device, so every pair is a tcp::Pair.
        auto* pair = static_cast<gloo::transport::tcp::Pair*>(context->getPair(peer).get());
        if (pair != nullptr) pair->signalExceptionExternal("this rank was told to stop");
      }
    }
  }

 private:
  c10::intrusive_ptr<ReportedWork> reported(Collective collective, WorkPointer work) {
    return c10::make_intrusive<ReportedWork>(std::move(work), getRank(), collective, failures_);
  }

  // A reduce_scatter, whose parts are counted.
  template <class Start>
  WorkPointer reported_whole(const Start& start) {
    made_of_all_reduces = Collective::reduce_scatter;
    try {
      WorkPointer work = start();
      made_of_all_reduces = Collective::none;
      return reported(Collective::reduce_scatter, std::move(work));
    } catch (...) {
      made_of_all_reduces = Collective::none;
      throw;
    }
  }

  template <class Start>
  WorkPointer counted(const CollectiveCall& call, const Start& start) {
    failures_->throw_if_stopped(to_string(call.collective));  // it would wait for ranks that are still there
    if (progress_ == nullptr) return reported(call.collective, start());
    const CollectiveHandle handle = progress_->begin_collective(call);
    try {
      WorkPointer work = start();
      // Not in wait(): c10d::Reducer waits for the future.
      work->getFuture()->addCallback([progress = progress_, handle](c10::ivalue::Future& finished) {
        progress->end_collective(handle, finished.hasError());
      });
      return reported(call.collective, std::move(work));
    } catch (...) {
      progress_->end_collective(handle, true);
      throw;
    }
  }

  const std::shared_ptr<GroupProgress> progress_;  // null: not counted
  const std::shared_ptr<FailureReporter> failures_;
  const std::shared_ptr<BackendLife> life_;  // null: nobody asks
};

// Between machines the user may name them.
std::vector<std::string> interfaces_for(const BackendSettings& settings) {
  if (!settings.interfaces.empty() || settings.address == kLoopback) return settings.interfaces;
  return named_interfaces();
}

std::vector<std::shared_ptr<::gloo::transport::Device>> devices_for(const BackendSettings& settings) {
  std::vector<std::shared_ptr<::gloo::transport::Device>> devices;
  for (const std::string& interface : interfaces_for(settings)) {
    devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  }
  if (devices.empty()) {
    devices.push_back(settings.address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                               : c10d::ProcessGroupGloo::createDeviceForHostname(settings.address));
  }
  return devices;
}

ConnectedBackend connect_gloo(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) {
  survive_broken_pipes();  // the end of a peer is an error of the calls to it, not this rank's end
  auto options = c10d::ProcessGroupGloo::Options::create(settings.timeout);
  options->threads = 2;  // as PyTorch: two collectives of a group can be under way
  options->devices = devices_for(settings);
  auto gloo = c10::make_intrusive<WatchedGloo>(store, options, settings);
  return {gloo, [gloo] { gloo->abort(); }};
}

}  // namespace

std::vector<std::string> named_interfaces() {
  const char* const named = std::getenv("GLOO_SOCKET_IFNAME");
  std::istringstream list(named == nullptr ? "" : named);
  std::vector<std::string> interfaces;
  for (std::string interface; std::getline(list, interface, ',');) {
    if (!interface.empty()) interfaces.push_back(interface);
  }
  return interfaces;
}

// The interface's, or that of the name by which the others know this machine, or of its own name; loopback for want of
// these.
std::string listening_address(const BackendSettings& settings) {
  for (const std::string& interface : interfaces_for(settings)) {
    const std::vector<std::string> addresses = own_addresses(interface);
    if (addresses.empty()) throw ConfigError("the network interface \"" + interface + "\" has no address, or is down");
    return addresses.front();
  }
  const auto named = addresses_of(settings.address.empty() ? host_name() : settings.address);
  const std::vector<std::string> own = own_addresses();
  for (const std::string& address : named.ValueOr({})) {
    if (std::ranges::find(own, address) != own.end()) return address;
  }
  return settings.address.empty() ? kLoopback : settings.address;
}

Backend gloo_backend() {
  return {.name = "gloo", .devices = {c10::kCPU, c10::kCUDA}, .missing = "", .connect = &connect_gloo};
}

}  // namespace paceline::comm
