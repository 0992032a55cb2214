#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "paceline/collective/group.h"
#include "paceline/comm/backend_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/nodes/hierarchical_internal.h"
#include "paceline/comm/own_backend_internal.h"
#include "paceline/comm/shared_call_internal.h"
#include "paceline/comm/shared_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using collective::Kind;
using collective::Request;
using collective::SharedGroup;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

class SharedMemoryBackend final : public OwnBackend {
 public:
  /// `sparse`: connects to what takes sparse tensors; collective.
  SharedMemoryBackend(std::shared_ptr<SharedGroup> group, const BackendSettings& settings,
                      std::function<ConnectedBackend()> sparse)
      : OwnBackend(settings, group->arena()), group_(std::move(group)), connect_sparse_(std::move(sparse)) {}
  ~SharedMemoryBackend() override {
    if (settings_.life) settings_.life->end();
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK_VALUE(tensors.size() == 1, "all_reduce: wanted one tensor, got ", tensors.size());
    return reduce_all(c10d::OpType::ALLREDUCE, tensors, options);
  }
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return reduce_all(c10d::OpType::ALLREDUCE_COALESCED, tensors, options);
  }

  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    at::Tensor& tensor = only("reduce", tensors, options.rootTensor);
    settle(tensors);
    SharedCall call;
    Request request = reducing_request_of("reduce", Kind::reduce, tensor, options.reduceOp, patience(options.timeout));
    request.root = checked_rank("reduce", options.rootRank, getSize());
    const at::Tensor values = call.updated(tensor, getRank() == request.root);
    request.input = values.const_data_ptr();
    if (getRank() == request.root) request.outputs = {values.mutable_data_ptr()};
    return begin(c10d::OpType::REDUCE, Collective::reduce, std::move(call), {std::move(request)}, tensors);
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    at::Tensor& tensor = only("broadcast", tensors, options.rootTensor);
    settle(tensors);
    SharedCall call;
    Request request = request_of(Kind::broadcast, tensor, patience(options.timeout));
    request.root = checked_rank("broadcast", options.rootRank, getSize());
    if (getRank() == request.root) {
      request.input = call.given(tensor).const_data_ptr();
    } else {
      request.outputs = {call.filled(tensor).mutable_data_ptr()};
    }
    return begin(c10d::OpType::BROADCAST, Collective::broadcast, std::move(call), {std::move(request)}, tensors);
  }

  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    at::Tensor& input = only("all_gather", inputs);
    if (has_sizes_of_their_own(outputs)) return gather_parts(outputs.front(), input, options);
    return gather_lists(c10d::OpType::ALLGATHER, Kind::all_gather, outputs, input, -1, options.timeout);
  }
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    at::Tensor& input = only("gather", inputs);
    const int root = checked_rank("gather", options.rootRank, getSize());
    check_empty_elsewhere("gather", outputs, getRank(), root);
    return gather_lists(c10d::OpType::GATHER, Kind::gather, outputs, input, root, options.timeout);
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    Tensors outputs{output}, inputs{input};
    return gather_into(c10d::OpType::_ALLGATHER_BASE, outputs, inputs, options);
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override {
    return gather_into(c10d::OpType::COALESCED, outputs, inputs, options);
  }
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override {
    check_gathered(outputs, inputs, getSize());
    settle(inputs);
    SharedCall call;
    std::vector<Request> requests;
    Tensors results;
    for (size_t i = 0; i < inputs.size(); ++i) {
      requests.push_back(request_of(Kind::all_gather, inputs[i], patience(options.timeout)));
      requests.back().input = call.given(inputs[i]).const_data_ptr();
      for (Tensors& list : outputs) {
        requests.back().outputs.push_back(call.filled(list[i]).mutable_data_ptr());
        results.push_back(list[i]);
      }
    }
    return begin(c10d::OpType::ALLGATHER_COALESCED, Collective::all_gather, std::move(call), std::move(requests),
                 results);
  }

  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override {
    at::Tensor& output = only("scatter", outputs);
    if (!inputs.empty()) settle(inputs.front(), /*is_copied=*/true);
    SharedCall call;
    Request request = request_of(Kind::scatter, output, patience(options.timeout));
    request.root = checked_rank("scatter", options.rootRank, getSize());
    check_empty_elsewhere("scatter", inputs, getRank(), request.root);
    if (getRank() == request.root)
      request.input = call.joined(list_of("scatter", inputs, output, getSize())).const_data_ptr();
    request.outputs = {call.filled(output).mutable_data_ptr()};
    return begin(c10d::OpType::SCATTER, Collective::scatter, std::move(call), {std::move(request)}, outputs);
  }

  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    at::Tensor& output = only("reduce_scatter", outputs);
    if (has_sizes_of_their_own(inputs)) return reduce_parts(outputs, inputs.front(), options);
    settle(list_of("reduce_scatter", inputs, output, getSize()), /*is_copied=*/true);
    SharedCall call;
    Request request = reducing_request_of("reduce_scatter", Kind::reduce_scatter, output, options.reduceOp,
                                          patience(options.timeout));
    request.input = call.joined(list_of("reduce_scatter", inputs, output, getSize())).const_data_ptr();
    request.outputs = {call.filled(output).mutable_data_ptr()};
    return begin(c10d::OpType::REDUCE_SCATTER, Collective::reduce_scatter, std::move(call), {std::move(request)},
                 outputs);
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    Tensors outputs{output}, inputs{input};
    return reduce_scatter_tensors(c10d::OpType::_REDUCE_SCATTER_BASE, outputs, inputs, options);
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    return reduce_scatter_tensors(c10d::OpType::COALESCED, outputs, inputs, options);
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                            std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) override {
    check_tensor("all_to_all", output);
    check_tensor("all_to_all", input);
    settle({input});
    SharedCall call;
    Request request = all_to_all_request(input, options.timeout);
    request.sends = bytes_of_rows(input, input_rows, getSize());
    request.receives = bytes_of_rows(output, output_rows, getSize());
    request.input = call.given(input).const_data_ptr();
    auto* to = static_cast<std::byte*>(call.filled(output).mutable_data_ptr());
    for (const uint64_t bytes : request.receives) {
      request.outputs.push_back(to);
      to += bytes;
    }
    return begin(c10d::OpType::ALLTOALL_BASE, Collective::all_to_all, std::move(call), {std::move(request)}, {output});
  }
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    const auto ranks = static_cast<size_t>(getSize());
    TORCH_CHECK_VALUE(outputs.size() == ranks && inputs.size() == ranks, "all_to_all: wanted a tensor for each of ",
                      getSize(), " ranks, got ", inputs.size(), " and ", outputs.size());
    Request request = all_to_all_request(inputs.front(), options.timeout);
    for (const at::Tensor& input : inputs) {
      check_tensor("all_to_all", input);
      request.sends.push_back(input.nbytes());
    }
    settle(inputs, /*is_copied=*/true);
    SharedCall call;
    request.input = call.joined(inputs).const_data_ptr();
    for (at::Tensor& output : outputs) {
      check_tensor("all_to_all", output);
      request.receives.push_back(output.nbytes());
      request.outputs.push_back(call.filled(output).mutable_data_ptr());
    }
    return begin(c10d::OpType::ALLTOALL, Collective::all_to_all, std::move(call), {std::move(request)}, outputs);
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    at::Tensor& tensor = only("send", tensors);
    SharedCall call;
    const at::Tensor values = call.given(tensor);
    return post(c10d::OpType::SEND, "send", std::move(call), values, checked_rank("send", to, getSize()), tag, tensors);
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    at::Tensor& tensor = only("recv", tensors);
    SharedCall call;
    const at::Tensor values = call.filled(tensor);
    return post(c10d::OpType::RECV, "recv", std::move(call), values, checked_rank("recv", from, getSize()), tag,
                tensors);
  }
  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    at::Tensor& tensor = only("recv", tensors);
    SharedCall call;
    const at::Tensor values = call.filled(tensor);
    return post(c10d::OpType::RECVANYSOURCE, "recv", std::move(call), values, -1, tag, tensors);
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return begin(c10d::OpType::BARRIER, Collective::barrier, {},
                 {{.kind = Kind::barrier, .timeout = patience(options.timeout)}}, {});
  }

  // What was called comes to its end first, as with Gloo: others may wait for it.
  void shutdown() override {
    if (home_.is_here()) group_->leave();
  }
  void abort() override {
    if (!home_.is_here() || !failures_->stop()) return;
    group_->abort();
    split_groups_.abort();
    const std::lock_guard lock(sparse_mutex_);
    if (sparse_) sparse_->abort();
  }

 private:
  // A broadcast by each rank.
  WorkPointer gather_parts(const Tensors& parts, const at::Tensor& input, const c10d::AllgatherOptions& options) {
    check_parts_of_ranks("all_gather", parts, input, getRank(), getSize());
    settle({input});
    SharedCall call;
    std::vector<Request> requests;
    for (int rank = 0; rank < getSize(); ++rank) {
      at::Tensor part = parts[static_cast<size_t>(rank)];
      Request request = request_of(Kind::broadcast, part, patience(options.timeout));
      request.root = rank;
      if (rank == getRank()) {
        const at::Tensor values = call.given(input);
        call.results(part.detach(), values.view(part.sizes()));
        request.input = values.const_data_ptr();
      } else {
        request.outputs = {call.filled(part).mutable_data_ptr()};
      }
      requests.push_back(std::move(request));
    }
    return begin(c10d::OpType::ALLGATHER, Collective::all_gather, std::move(call), std::move(requests), parts);
  }

  // A reduction to each rank.
  WorkPointer reduce_parts(Tensors& outputs, const Tensors& parts, const c10d::ReduceScatterOptions& options) {
    at::Tensor& output = outputs.front();
    check_parts_of_ranks("reduce_scatter", parts, output, getRank(), getSize());
    settle(parts);
    SharedCall call;
    std::vector<Request> requests;
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor& part = parts[static_cast<size_t>(rank)];
      Request request =
          reducing_request_of("reduce_scatter", Kind::reduce, part, options.reduceOp, patience(options.timeout));
      request.root = rank;
      request.input = call.given(part).const_data_ptr();
      if (rank == getRank()) request.outputs = {call.filled(output).mutable_data_ptr()};
      requests.push_back(std::move(request));
    }
    return begin(c10d::OpType::REDUCE_SCATTER, Collective::reduce_scatter, std::move(call), std::move(requests),
                 outputs);
  }

  // A call that reads these. What reads memory where it is comes after what writes there, as the group keeps the order;
  // but what is copied, now (`is_copied`, or of strides that the group does not take) or to where the results of an
  // earlier call belong, is not of that order.
  void settle(const Tensors& read, bool is_copied = false) {
    const auto has_strides = [](const at::Tensor& tensor) { return !tensor.is_contiguous(); };
    const bool has_none = copied_back_->is_empty();
    is_copied = is_copied || std::ranges::any_of(read, has_strides);
    if (has_none && !is_copied) return;
    const std::vector<MemoryRange> ranges = ranges_of(read);
    if (!has_none && copied_back_->has_any_of(ranges)) {
      group_->settle();
    } else if (is_copied) {
      for (const auto& [begin, end] : ranges) group_->settle(begin, static_cast<uint64_t>(end - begin));
    }
  }

  WorkPointer begin(c10d::OpType type, Collective collective, SharedCall call, std::vector<Request> requests,
                    Tensors results) {
    failures_->throw_if_stopped(to_string(collective));
    if (requests.empty()) requests.push_back({.kind = Kind::barrier, .timeout = timeout_});
    const auto kept = std::make_shared<SharedCall>(std::move(call));
    std::function<void()> after;
    if (kept->has_copies()) {
      kept->hold(copied_back_->note(kept->destinations()));
      after = [kept] {
        kept->copy_back();
        kept->release();
      };
    }
    return start_work({getRank(), type, collective, to_string(collective), std::move(results), failures_, ++called_},
                      group_, std::move(requests), kept, after, progress_);
  }

  // A message of two ranks; it is no progress of the group.
  WorkPointer post(c10d::OpType type, const char* operation, SharedCall call, const at::Tensor& values, int rank,
                   int tag, Tensors results) {
    failures_->throw_if_stopped(operation);
    const auto kept = std::make_shared<SharedCall>(std::move(call));
    const auto letter = std::make_shared<collective::Letter>();
    *letter = {.rank = rank,
               .tag = tag,
               .memory = static_cast<std::byte*>(values.mutable_data_ptr()),
               .bytes = values.nbytes(),
               .deadline = std::chrono::steady_clock::now() + timeout_,
               .keeps = kept};
    const ToldWork mail = make_told_work({getRank(), type, Collective::none, operation, std::move(results), failures_});
    letter->on_end = [end = mail.end, kept, rank = &letter->rank, failures = failures_,
                      operation](std::exception_ptr failure) {
      if (!failure) failure = failures->failure_of([&] { kept->copy_back(); }, operation);
      end(failure, *rank);
    };
    if (type == c10d::OpType::SEND) {
      group_->mail().send(letter);
    } else {
      group_->mail().receive(letter);
    }
    return mail.work;
  }

  // Gradients of embeddings. What they become on a rank is known once the others' places are: Gloo's algorithm.
  WorkPointer reduce_all_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
    failures_->throw_if_stopped("all_reduce");
    const auto announced = announce_sparse(tensors, options);
    if (!sparse_) {
      failures_->run("all_reduce", [&] { group_->wait(announced); });
      ConnectedBackend connected = connect_sparse_();
      const std::lock_guard lock(sparse_mutex_);
      sparse_ = std::move(connected);
    }
    failures_->throw_if_stopped("all_reduce");  // meanwhile
    return sparse_->handle->allreduce(tensors, options);
  }

  // Among the calls of the group, so that another that meets it is refused.
  std::shared_ptr<collective::Operation> announce_sparse(const Tensors& tensors,
                                                         const c10d::AllreduceOptions& options) {
    Request request{.kind = Kind::barrier, .number = ++called_, .timeout = patience(options.timeout)};
    request.whole = of_its_own(fingerprint_of(Kind::all_reduce, tensors));
    request.on_end = [sparse = sparse_](const std::exception_ptr& failure) -> std::function<void()> {
      if (failure && sparse) sparse->abort();  // which would wait for who has called another
      return {};
    };
    auto announced = group_->start(std::move(request));
    group_->push(announced);
    return announced;
  }

  WorkPointer reduce_all(c10d::OpType type, Tensors& tensors, const c10d::AllreduceOptions& options) {
    if (tensors.size() == 1 && tensors.front().is_sparse()) return reduce_all_sparse(tensors, options);
    for (const at::Tensor& tensor : tensors) check_tensor("all_reduce", tensor);
    settle(tensors);
    SharedCall call;
    std::vector<Request> requests;
    for (at::Tensor& tensor : without_repeats(tensors)) {
      requests.push_back(
          reducing_request_of("all_reduce", Kind::all_reduce, tensor, options.reduceOp, patience(options.timeout)));
      const at::Tensor values = call.updated(tensor, true);
      requests.back().input = values.const_data_ptr();
      requests.back().outputs = {values.mutable_data_ptr()};
    }
    return begin(type, Collective::all_reduce, std::move(call), std::move(requests), tensors);
  }

  WorkPointer gather_lists(c10d::OpType type, Kind kind, TensorLists& outputs, at::Tensor& input, int root,
                           std::chrono::milliseconds timeout) {
    const char* const operation = to_string(kind);
    settle({input});
    SharedCall call;
    Request request = request_of(kind, input, patience(timeout));
    request.root = root;
    request.input = call.given(input).const_data_ptr();
    Tensors results;
    if (root < 0 || root == getRank()) {
      results = list_of(operation, outputs, input, getSize());
      for (at::Tensor& output : outputs.front()) request.outputs.push_back(call.filled(output).mutable_data_ptr());
    }
    const Collective collective = kind == Kind::gather ? Collective::gather : Collective::all_gather;
    return begin(type, collective, std::move(call), {std::move(request)}, std::move(results));
  }

  WorkPointer gather_into(c10d::OpType type, Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
    check_gathered(outputs, inputs, getSize());
    settle(inputs);
    SharedCall call;
    std::vector<Request> requests;
    for (size_t i = 0; i < inputs.size(); ++i) {
      requests.push_back(request_of(Kind::all_gather, inputs[i], patience(options.timeout)));
      requests.back().input = call.given(inputs[i]).const_data_ptr();
      auto* to = static_cast<std::byte*>(call.filled(outputs[i]).mutable_data_ptr());
      for (int rank = 0; rank < getSize(); ++rank, to += inputs[i].nbytes()) requests.back().outputs.push_back(to);
    }
    return begin(type, Collective::all_gather, std::move(call), std::move(requests), outputs);
  }

  WorkPointer reduce_scatter_tensors(c10d::OpType type, Tensors& outputs, Tensors& inputs,
                                     const c10d::ReduceScatterOptions& options) {
    check_scattered(outputs, inputs, getSize());
    settle(inputs);
    SharedCall call;
    std::vector<Request> requests;
    for (size_t i = 0; i < inputs.size(); ++i) {
      requests.push_back(reducing_request_of("reduce_scatter", Kind::reduce_scatter, outputs[i], options.reduceOp,
                                             patience(options.timeout)));
      requests.back().input = call.given(inputs[i]).const_data_ptr();
      requests.back().outputs = {call.filled(outputs[i]).mutable_data_ptr()};
    }
    return begin(type, Collective::reduce_scatter, std::move(call), std::move(requests), outputs);
  }

  Request all_to_all_request(const at::Tensor& tensor, std::chrono::milliseconds timeout) const {
    Request request = request_of(Kind::all_to_all, tensor, patience(timeout));
    request.elements = 0;  // ranks may send as many as they like
    return request;
  }

  const HomeProcess home_;
  const std::shared_ptr<SharedGroup> group_;
  // Where results are copied to when calls that are under way have ended.
  const std::shared_ptr<MemoryInUse> copied_back_ = std::make_shared<MemoryInUse>();
  const std::function<ConnectedBackend()> connect_sparse_;
  std::mutex sparse_mutex_;  // only abort() comes from another thread
  std::optional<ConnectedBackend> sparse_;
};

ConnectedBackend connect_shared_memory(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) {
  collective::RanksByNode found = meet_ranks(store, "shared_memory", settings);
  if (!found.missing.empty()) {
    if (settings.rank == 0) {
      std::fprintf(stderr, "paceline: the ranks share no memory and are connected by Gloo, which is slower: %s\n",
                   found.missing.c_str());
    }
    return gloo_backend().connect(store, settings);
  }
  if (found.nodes.size() > 1) return connect_hierarchical(store, settings, std::move(found));
  const auto connect_sparse = [store = c10::make_intrusive<c10d::PrefixStore>("sparse", store), settings] {
    BackendSettings here = settings;
    here.address = kLoopback;
    here.life = nullptr;
    return gloo_backend().connect(store, here);
  };
  auto backend = c10::make_intrusive<SharedMemoryBackend>(std::move(found.node), settings, connect_sparse);
  return {backend, [backend] { backend->abort(); }};
}

}  // namespace

collective::Bulletin bulletin_in(const c10::intrusive_ptr<c10d::Store>& store) {
  return {.set = [store](const std::string& key, const std::string& value) { store->set(key, value); },
          .get =
              [store](const std::string& key, std::chrono::steady_clock::time_point deadline) {
                const auto left =
                    std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
                store->wait({key}, std::max(left, std::chrono::milliseconds(1)));
                const std::vector<uint8_t> value = store->get(key);
                return std::string(value.begin(), value.end());
              }};
}

collective::RanksByNode meet_ranks(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                   const BackendSettings& settings) {
  const collective::Bulletin bulletin = bulletin_in(c10::make_intrusive<c10d::PrefixStore>(name, store));
  return SharedGroup::meet(bulletin, static_cast<int>(settings.rank), static_cast<int>(settings.world_size),
                           settings.timeout, settings.node);
}

Backend shared_memory_backend() {
  return {.name = "paceline", .devices = {c10::kCPU}, .missing = "", .connect = &connect_shared_memory};
}

}  // namespace paceline::comm
