#include <ATen/ops/empty.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/collective_call_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/hierarchical_internal.h"
#include "paceline/comm/reducing_internal.h"
#include "paceline/comm/relay_internal.h"
#include "paceline/comm/shared_call_internal.h"
#include "paceline/comm/shared_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using collective::Kind;
using collective::Request;
using std::chrono::milliseconds;
using Steps = std::vector<RelayStep>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// What goes between the leaders at a time: so much that its latency does not count.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

at::Tensor byte_view(const at::Tensor& contiguous) {
  return contiguous.as_strided({contiguous.numel()}, {1}).view(at::kByte);
}

Tensors pieces_of(const at::Tensor& flat) {
  return flat.split(std::max<int64_t>(1, kPieceBytes / static_cast<int64_t>(flat.element_size())));
}

// Who is where.
struct Nodes {
  std::vector<std::vector<int>> ranks;
  std::vector<int> node_of;   // by rank
  std::vector<int> place_of;  // by rank, in its node

  Nodes(std::vector<std::vector<int>> nodes, int world_size)
      : ranks(std::move(nodes)), node_of(static_cast<size_t>(world_size)), place_of(node_of) {
    for (size_t node = 0; node < ranks.size(); ++node) {
      for (size_t place = 0; place < ranks[node].size(); ++place) {
        node_of[static_cast<size_t>(ranks[node][place])] = static_cast<int>(node);
        place_of[static_cast<size_t>(ranks[node][place])] = static_cast<int>(place);
      }
    }
  }
};

// Of a message into a tensor of strides.
class CopiedWork final : public c10d::Work {
 public:
  CopiedWork(c10::intrusive_ptr<c10d::Work> work, SharedCall call) : work_(std::move(work)), call_(std::move(call)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  int sourceRank() const override { return work_->sourceRank(); }
  void abort() override { work_->abort(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool is_over = work_->wait(timeout);
    if (is_over) call_.copy_back();
    return is_over;
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  SharedCall call_;
};

class HierarchicalBackend final : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  HierarchicalBackend(const BackendSettings& settings, Nodes nodes, std::shared_ptr<Relay> relay)
      : Backend(static_cast<int>(settings.rank), static_cast<int>(settings.world_size)),
        settings_(settings),
        nodes_(std::move(nodes)),
        timeout_(settings.timeout),
        progress_(settings.progress),
        failures_(std::make_shared<FailureReporter>(getRank(), getSize(), settings.thrown_as)),
        relay_(std::move(relay)) {}
  ~HierarchicalBackend() override {
    if (settings_.life) settings_.life->end();
  }

  const std::string getBackendName() const override { return "paceline"; }
  void setTimeout(milliseconds timeout) override {
    timeout_ = timeout;
    relay_->set_timeout(timeout);
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return called_; }

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>(getBackendName(), timeout_);
  }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override {
    return split_off(settings_, store, ranks, options->timeout);
  }

  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return allocate_in(relay_->node().arena(), size, options);
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (tensors.size() == 1 && tensors.front().is_sparse()) {
      return among_all(
          c10d::OpType::ALLREDUCE, {Collective::all_reduce}, of_its_own(fingerprint_of(Kind::all_reduce, tensors)), {},
          tensors, options.timeout,
          [flat = relay_->flat(), tensors, options]() mutable { return flat->allreduce(tensors, options); });
    }
    return reduce_all(c10d::OpType::ALLREDUCE, tensors, options);
  }
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return reduce_all(c10d::OpType::ALLREDUCE_COALESCED, tensors, options);
  }

  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    at::Tensor tensor = only("reduce", tensors, options.rootTensor);
    const bool is_root = checked_rank("reduce", options.rootRank, getSize()) == getRank();
    SharedCall call = claim({tensor});
    if (!is_root) tensor = tensor.detach().clone();
    Steps steps;
    reduce_steps(steps, reducing_of("reduce", tensor, options.reduceOp, call));
    return by_nodes(c10d::OpType::REDUCE, call_of(Collective::reduce, tensors),
                    fingerprint_of(Kind::reduce, tensors, &options.reduceOp, static_cast<int>(options.rootRank)),
                    std::move(call), std::move(steps), tensors, options.timeout);
  }

  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override {
    at::Tensor& output = only("reduce_scatter", outputs);
    if (has_sizes_of_their_own(inputs)) return reduce_parts(outputs, inputs.front(), options);
    SharedCall call = claim(list_of("reduce_scatter", inputs, output, getSize()), outputs);
    Tensors joined{call.joined(list_of("reduce_scatter", inputs, output, getSize()))};
    return reduce_scatter_tensors(c10d::OpType::REDUCE_SCATTER, std::move(call), outputs, joined, options);
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    Tensors outputs{output}, inputs{input};
    return reduce_scatter_tensors(c10d::OpType::_REDUCE_SCATTER_BASE, claim(inputs, outputs), outputs, inputs, options);
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override {
    return reduce_scatter_tensors(c10d::OpType::COALESCED, claim(inputs, outputs), outputs, inputs, options);
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    at::Tensor& tensor = only("broadcast", tensors, options.rootTensor);
    const int root = checked_rank("broadcast", options.rootRank, getSize());
    SharedCall call = claim({tensor});
    Steps steps;
    broadcast_steps(steps, getRank() == root ? call.given(tensor) : call.filled(tensor), root);
    return by_nodes(c10d::OpType::BROADCAST, call_of(Collective::broadcast, tensors),
                    fingerprint_of(Kind::broadcast, tensors, nullptr, root), std::move(call), std::move(steps), tensors,
                    options.timeout);
  }

  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    at::Tensor& input = only("all_gather", inputs);
    if (has_sizes_of_their_own(outputs)) return gather_parts(outputs.front(), input, options);
    // As one tensor: a rank may ask for that, while another asks for a list.
    const Tensors results = list_of("all_gather", outputs, input, getSize());
    SharedCall call = claim(inputs, results);
    const at::Tensor whole = at::empty({getSize(), input.numel()}, input.options());
    for (int64_t rank = 0; rank < getSize(); ++rank) {
      const at::Tensor& result = results[static_cast<size_t>(rank)];
      call.results(result.detach(), whole[rank].view(result.sizes()));
    }
    return gather_into(c10d::OpType::ALLGATHER, std::move(call), {whole}, inputs, results, options);
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    Tensors outputs{output}, inputs{input};
    check_gathered(outputs, inputs, getSize());
    return gather_into(c10d::OpType::_ALLGATHER_BASE, claim(inputs, outputs), outputs, inputs, outputs, options);
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override {
    check_gathered(outputs, inputs, getSize());
    return gather_into(c10d::OpType::COALESCED, claim(inputs, outputs), outputs, inputs, outputs, options);
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    RelayStep step{.up = Request{.kind = Kind::barrier},
                   .between =
                       [](c10d::Backend& leaders, milliseconds left) {
                         c10d::BarrierOptions there;
                         there.timeout = left;
                         return leaders.barrier(there);
                       },
                   .then = {},
                   .down = Request{.kind = Kind::barrier}};
    Steps steps;
    steps.push_back(std::move(step));
    return by_nodes(c10d::OpType::BARRIER, {Collective::barrier}, {.kind = Kind::barrier}, {}, std::move(steps), {},
                    options.timeout);
  }

  // What goes between all ranks, each for itself, once they have agreed on it: nothing is gained by the leaders.
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return among_all(
        c10d::OpType::_ALLREDUCE_SPARSE, {Collective::all_reduce},
        of_its_own(fingerprint_of(Kind::all_reduce, tensors)), {}, tensors, options.timeout,
        [flat = relay_->flat(), tensors, options]() mutable { return flat->allreduce_sparse(tensors, options); });
  }
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override {
    Tensors results = all_of(outputs);
    SharedCall call = claim(inputs, results);
    TensorLists filled = filled_by(call, outputs);
    Tensors given = given_by(call, inputs);
    return among_all(c10d::OpType::ALLGATHER_COALESCED, call_of(Collective::all_gather, inputs, getSize()),
                     of_its_own(fingerprint_of(Kind::all_gather, inputs)), std::move(call), std::move(results),
                     options.timeout, [flat = relay_->flat(), filled, given, options]() mutable {
                       return flat->allgather_coalesced(filled, given, options);
                     });
  }
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    const at::Tensor& input = only("gather", inputs);
    const int root = checked_rank("gather", options.rootRank, getSize());
    check_empty_elsewhere("gather", outputs, getRank(), root);
    if (getRank() == root) list_of("gather", outputs, input, getSize());
    Tensors results = all_of(outputs);
    SharedCall call = claim(inputs, results);
    TensorLists filled = filled_by(call, outputs);
    Tensors given = given_by(call, inputs);
    return among_all(
        c10d::OpType::GATHER, call_of(Collective::gather, inputs, getSize()),
        fingerprint_of(Kind::gather, inputs, nullptr, root), std::move(call), std::move(results), options.timeout,
        [flat = relay_->flat(), filled, given, options]() mutable { return flat->gather(filled, given, options); });
  }
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override {
    const at::Tensor& output = only("scatter", outputs);
    const int root = checked_rank("scatter", options.rootRank, getSize());
    check_empty_elsewhere("scatter", inputs, getRank(), root);
    if (getRank() == root) list_of("scatter", inputs, output, getSize());
    SharedCall call = claim(outputs, all_of(inputs));
    Tensors filled{call.filled(outputs.front())};
    TensorLists given;
    for (const Tensors& list : inputs) given.push_back(given_by(call, list));
    return among_all(
        c10d::OpType::SCATTER, call_of(Collective::scatter, outputs, getSize()),
        fingerprint_of(Kind::scatter, outputs, nullptr, root), std::move(call), outputs, options.timeout,
        [flat = relay_->flat(), filled, given, options]() mutable { return flat->scatter(filled, given, options); });
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                            std::vector<int64_t>& input_rows, const c10d::AllToAllOptions& options) override {
    check_tensor("all_to_all", output);
    check_tensor("all_to_all", input);
    bytes_of_rows(input, input_rows, getSize());
    bytes_of_rows(output, output_rows, getSize());
    SharedCall call = claim({input}, {output});
    const at::Tensor filled = call.filled(output), given = call.given(input);
    return all_to_all(c10d::OpType::ALLTOALL_BASE, std::move(call), {output}, filled, given, output_rows, input_rows,
                      options);
  }
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    const auto ranks = static_cast<size_t>(getSize());
    TORCH_CHECK_VALUE(outputs.size() == ranks && inputs.size() == ranks, "all_to_all: wanted a tensor for each of ",
                      getSize(), " ranks, got ", inputs.size(), " and ", outputs.size());
    SharedCall call = claim(inputs, outputs);
    std::vector<int64_t> sends, receives;
    for (const at::Tensor& input : inputs) {
      check_tensor("all_to_all", input);
      sends.push_back(input.numel());
    }
    int64_t received = 0;
    for (const at::Tensor& output : outputs) {
      check_tensor("all_to_all", output);
      receives.push_back(output.numel());
      received += output.numel();
    }
    const at::Tensor input = call.joined(inputs), output = at::empty({received}, outputs.front().options());
    int64_t begin = 0;
    for (const at::Tensor& one : outputs) {
      call.results(one.detach(), output.narrow(0, begin, one.numel()).view(one.sizes()));
      begin += one.numel();
    }
    return all_to_all(c10d::OpType::ALLTOALL, std::move(call), outputs, output, input, receives, sends, options);
  }
  // Messages of two ranks.
  WorkPointer send(Tensors& tensors, int to, int tag) override {
    Tensors given{only("send", tensors).contiguous()};
    return relay_->flat()->send(given, to, tag);
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    return received(tensors, [&](Tensors& filled) { return relay_->flat()->recv(filled, from, tag); });
  }
  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    return received(tensors, [&](Tensors& filled) { return relay_->flat()->recvAnysource(filled, tag); });
  }

  void abort() override {
    if (!relay_->is_at_home() || !failures_->stop()) return;
    relay_->abort();
  }

 private:
  int node_of(int rank) const { return nodes_.node_of[static_cast<size_t>(rank)]; }
  int place_of(int rank) const { return nodes_.place_of[static_cast<size_t>(rank)]; }
  int node() const { return node_of(getRank()); }
  bool has_others() const { return nodes_.ranks[static_cast<size_t>(node())].size() > 1; }

  // What ends a work, once, and lets go what it has kept.
  using OnEnd = std::function<void(std::exception_ptr failure)>;
  struct Begun {
    WorkPointer work;
    uint64_t number = 0;
    std::string name;  // for errors
    OnEnd end;
  };

  Begun begin(c10d::OpType type, const CollectiveCall& counted, SharedCall call, Tensors results) {
    const std::string operation = to_string(counted.collective);
    failures_->throw_if_stopped(operation);
    relay_->refuse_forks();  // which share the progress
    uint64_t number = ++called_;
    const auto kept = std::make_shared<SharedCall>(std::move(call));
    const ToldWork told =
        make_told_work({getRank(), type, counted.collective, operation, std::move(results), failures_});
    CollectiveHandle handle;
    if (progress_ != nullptr) {
      handle = progress_->begin_collective(counted);
      number = static_cast<uint64_t>(handle.number);
    }
    return {.work = told.work,
            .number = number,
            .name = operation + " number " + std::to_string(number),
            .end = [kept, told, progress = progress_, handle](std::exception_ptr failure) {
              try {
                if (!failure) kept->copy_back();
              } catch (...) {
                failure = std::current_exception();
              }
              kept->release();
              if (progress != nullptr) progress->end_collective(handle, failure != nullptr);
              told.end(failure, -1);
            }};
  }

  milliseconds patience(milliseconds asked) const { return asked.count() > 0 ? asked : timeout_; }

  WorkPointer by_nodes(c10d::OpType type, const CollectiveCall& counted, const collective::Fingerprint& fingerprint,
                       SharedCall call, Steps steps, Tensors results, milliseconds timeout) {
    Begun begun = begin(type, counted, std::move(call), std::move(results));
    relay_->start({.fingerprint = fingerprint,
                   .name = std::move(begun.name),
                   .number = begun.number,
                   .steps = std::move(steps),
                   .timeout = patience(timeout),
                   .on_end = std::move(begun.end)});
    return begun.work;
  }

  // `start`: what each rank does for itself once all have called it. It does not wait.
  WorkPointer among_all(c10d::OpType type, const CollectiveCall& counted, const collective::Fingerprint& fingerprint,
                        SharedCall call, Tensors results, milliseconds timeout, std::function<WorkPointer()> start) {
    Begun begun = begin(type, counted, std::move(call), std::move(results));
    Steps steps(1);
    steps.front().up = Request{.kind = Kind::barrier};
    steps.front().down = Request{.kind = Kind::barrier};
    const auto end = [end = std::move(begun.end), name = begun.name,
                      relay = std::weak_ptr(relay_)](const std::exception_ptr& failure) {
      auto group = failure ? relay.lock() : nullptr;
      if (!group) return end(failure);
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& thrown) {
        end(group->fail(thrown, name));
      }
      // The user may have let go of it: the last to do so waits for its threads, of which this may be one.
      call_apart([group = std::move(group)] {});
    };
    relay_->start({.fingerprint = fingerprint,
                   .name = std::move(begun.name),
                   .number = begun.number,
                   .steps = std::move(steps),
                   .timeout = patience(timeout),
                   .on_end = [end, start = std::move(start)](const std::exception_ptr& failure) {
                     try {
                       if (failure) std::rethrow_exception(failure);
                       const WorkPointer work = start();
                       work->getFuture()->addCallback([end, work](c10::ivalue::Future& future) {
                         end(future.hasError() ? future.exception_ptr() : nullptr);
                       });
                     } catch (...) {
                       end(std::current_exception());
                     }
                   }});
    return begun.work;
  }

  SharedCall claim(const Tensors& tensors, const Tensors& others = {}) const {
    relay_->refuse_forks();  // where nobody lets go of what it waits for
    return SharedCall(in_use_->take(tensors, others));
  }

  static Tensors given_by(SharedCall& call, const Tensors& tensors) {
    Tensors given;
    for (const at::Tensor& tensor : tensors) given.push_back(call.given(tensor));
    return given;
  }

  static TensorLists filled_by(SharedCall& call, TensorLists& lists) {
    TensorLists filled;
    for (Tensors& list : lists) {
      filled.emplace_back();
      for (at::Tensor& tensor : list) filled.back().push_back(call.filled(tensor));
    }
    return filled;
  }

  static WorkPointer received(Tensors& tensors, const std::function<WorkPointer(Tensors&)>& start) {
    at::Tensor& tensor = only("recv", tensors);
    if (tensor.is_contiguous()) return start(tensors);
    SharedCall call;
    Tensors filled{call.filled(tensor)};
    return c10::make_intrusive<CopiedWork>(start(filled), std::move(call));
  }

  static Tensors all_of(const TensorLists& lists) {
    Tensors all;
    for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  }

  // Of a call that is carried out otherwise than others of its kind.
  static collective::Fingerprint of_its_own(collective::Fingerprint fingerprint) {
    fingerprint.shapes = c10::hash_combine(fingerprint.shapes, 1);
    return fingerprint;
  }

  WorkPointer all_to_all(c10d::OpType type, SharedCall call, Tensors results, at::Tensor output, at::Tensor input,
                         std::vector<int64_t> receives, std::vector<int64_t> sends,
                         const c10d::AllToAllOptions& options) {
    collective::Fingerprint fingerprint = fingerprint_of(Kind::all_to_all, {input});
    fingerprint.elements = 0;  // ranks may send as many as they like
    const CollectiveCall counted = call_of(Collective::all_to_all, {input});
    return among_all(type, counted, fingerprint, std::move(call), std::move(results), options.timeout,
                     [flat = relay_->flat(), output, input, receives, sends, options]() mutable {
                       return flat->alltoall_base(output, input, receives, sends, options);
                     });
  }

  // From the rank at `place` of this node to the others of it.
  Request broadcast_request(const at::Tensor& bytes, int place) const {
    Request request = request_of(Kind::broadcast, bytes, {});
    request.root = place;
    if (place == place_of(getRank())) {
      request.input = bytes.const_data_ptr();
    } else {
      request.outputs = {bytes.mutable_data_ptr()};
    }
    return request;
  }

  // From the leader of a node to the ranks of all others.
  RelayStep from_node(const at::Tensor& bytes, int from) const {
    RelayStep step;
    step.between = [bytes, from](c10d::Backend& leaders, milliseconds left) {
      c10d::BroadcastOptions options;
      options.rootRank = from;
      options.timeout = left;
      Tensors tensors{bytes};
      return leaders.broadcast(tensors, options);
    };
    if (from != node() && has_others()) step.down = broadcast_request(bytes, 0);
    return step;
  }

  void broadcast_steps(Steps& steps, const at::Tensor& values, int root) const {
    for (const at::Tensor& piece : pieces_of(byte_view(values))) {
      if (piece.numel() == 0) continue;
      RelayStep& step = steps.emplace_back(from_node(piece, node_of(root)));
      if (node_of(root) == node()) step.up = broadcast_request(piece, place_of(root));
    }
  }

  void reduce_steps(Steps& steps, const Reducing& how) const {
    const bool is_leader = relay_->is_leader();
    for (const at::Tensor& piece : pieces_of(how.numbers)) {
      if (piece.numel() == 0) continue;
      RelayStep& step = steps.emplace_back();
      step.up = reducing_request_of("all_reduce", Kind::reduce, piece, *how.within, {});
      step.up->root = 0;
      step.up->input = piece.const_data_ptr();
      if (is_leader) step.up->outputs = {piece.mutable_data_ptr()};
      step.between = [piece, op = how.between](c10d::Backend& leaders, milliseconds left) {
        c10d::AllreduceOptions options;
        options.reduceOp = *op;
        options.timeout = left;
        Tensors tensors{piece};
        return leaders.allreduce(tensors, options);
      };
      if (how.is_mean) {
        step.then = [piece, ranks = getSize()] {
          at::Tensor numbers = piece;
          if (numbers.is_floating_point()) {
            numbers.div_(ranks);
          } else {
            numbers.div_(ranks, "trunc");
          }
        };
      }
      if (has_others()) step.down = broadcast_request(byte_view(piece), 0);
    }
  }

  WorkPointer reduce_all(c10d::OpType type, Tensors& tensors, const c10d::AllreduceOptions& options) {
    for (const at::Tensor& tensor : tensors) check_tensor("all_reduce", tensor);
    SharedCall call = claim(tensors);
    Steps steps;
    for (const at::Tensor& tensor : tensors) {
      reduce_steps(steps, reducing_of("all_reduce", tensor, options.reduceOp, call));
    }
    return by_nodes(type, call_of(Collective::all_reduce, tensors),
                    fingerprint_of(Kind::all_reduce, tensors, &options.reduceOp), std::move(call), std::move(steps),
                    tensors, options.timeout);
  }

  // All is reduced for all, and each takes its part: between nodes everything goes everywhere anyhow.
  WorkPointer reduce_scatter_tensors(c10d::OpType type, SharedCall call, Tensors& outputs, Tensors& inputs,
                                     const c10d::ReduceScatterOptions& options) {
    check_scattered(outputs, inputs, getSize());
    Steps steps;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor whole = inputs[i].detach().clone(at::MemoryFormat::Contiguous).view({-1});
      reduce_steps(steps, reducing_of("reduce_scatter", whole, options.reduceOp, call));
      const int64_t part = outputs[i].numel();
      call.results(outputs[i].detach(), whole.narrow(0, part * getRank(), part).view(outputs[i].sizes()));
    }
    return by_nodes(type, call_of(Collective::reduce_scatter, inputs),
                    fingerprint_of(Kind::reduce_scatter, outputs, &options.reduceOp), std::move(call), std::move(steps),
                    outputs, options.timeout);
  }

  // A reduction of each part, of which one is taken.
  WorkPointer reduce_parts(Tensors& outputs, const Tensors& parts, const c10d::ReduceScatterOptions& options) {
    at::Tensor& output = outputs.front();
    check_parts_of_ranks("reduce_scatter", parts, output, getRank(), getSize());
    SharedCall call = claim(parts, outputs);
    Steps steps;
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor part = parts[static_cast<size_t>(rank)].detach().clone(at::MemoryFormat::Contiguous).view({-1});
      reduce_steps(steps, reducing_of("reduce_scatter", part, options.reduceOp, call));
      if (rank == getRank()) call.results(output.detach(), part.view(output.sizes()));
    }
    return by_nodes(c10d::OpType::REDUCE_SCATTER, call_of(Collective::reduce_scatter, parts),
                    fingerprint_of(Kind::reduce_scatter, parts, &options.reduceOp), std::move(call), std::move(steps),
                    outputs, options.timeout);
  }

  // A broadcast by each rank.
  WorkPointer gather_parts(const Tensors& parts, const at::Tensor& input, const c10d::AllgatherOptions& options) {
    check_parts_of_ranks("all_gather", parts, input, getRank(), getSize());
    SharedCall call = claim(parts, {input});
    Steps steps;
    for (int rank = 0; rank < getSize(); ++rank) {
      at::Tensor part = parts[static_cast<size_t>(rank)];
      if (rank == getRank()) {
        const at::Tensor values = call.given(input);
        call.results(part.detach(), values.view(part.sizes()));
        broadcast_steps(steps, values, rank);
      } else {
        broadcast_steps(steps, call.filled(part), rank);
      }
    }
    return by_nodes(c10d::OpType::ALLGATHER, call_of(Collective::all_gather, parts),
                    fingerprint_of(Kind::all_gather, parts), std::move(call), std::move(steps), parts, options.timeout);
  }

  // `parts`: where each rank's input goes. `from`: the same memory by the node that it comes from, in as few tensors
  // as may be.
  void gather_steps(Steps& steps, const at::Tensor& input, const Tensors& parts, const TensorLists& from) const {
    if (input.numel() == 0) return;
    Request up = request_of(Kind::all_gather, input, {});
    up.input = input.const_data_ptr();
    for (const int rank : nodes_.ranks[static_cast<size_t>(node())]) {
      up.outputs.push_back(parts[static_cast<size_t>(rank)].mutable_data_ptr());
    }
    std::vector<Tensors> pieces;
    size_t rounds = 0;
    for (const Tensors& ranges : from) {
      Tensors& all = pieces.emplace_back();
      for (const at::Tensor& range : ranges) std::ranges::copy(pieces_of(range), std::back_inserter(all));
      rounds = std::max(rounds, all.size());
    }
    const size_t first = steps.size();
    // In turns, so that all nodes send at a time.
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t node = 0; node < pieces.size(); ++node) {
        if (round < pieces[node].size()) steps.push_back(from_node(pieces[node][round], static_cast<int>(node)));
      }
    }
    steps[first].up = std::move(up);
  }

  // `wholes`: where the parts go; `results`: what the user gets.
  WorkPointer gather_into(c10d::OpType type, SharedCall call, Tensors wholes, Tensors& inputs, const Tensors& results,
                          const c10d::AllgatherOptions& options) {
    Steps steps;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor given = byte_view(call.given(inputs[i])), whole = byte_view(call.filled(wholes[i]));
      const int64_t part = given.numel();
      Tensors parts;
      for (int rank = 0; rank < getSize(); ++rank) parts.push_back(whole.narrow(0, rank * part, part));
      TensorLists from;
      for (const std::vector<int>& ranks : nodes_.ranks) {
        Tensors& ranges = from.emplace_back();
        for (size_t begin = 0; begin < ranks.size();) {  // neighbours together
          size_t end = begin + 1;
          while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
          ranges.push_back(whole.narrow(0, ranks[begin] * part, static_cast<int64_t>(end - begin) * part));
          begin = end;
        }
      }
      gather_steps(steps, given, parts, from);
    }
    return by_nodes(type, call_of(Collective::all_gather, wholes), fingerprint_of(Kind::all_gather, inputs),
                    std::move(call), std::move(steps), results, options.timeout);
  }

  const BackendSettings settings_;
  const Nodes nodes_;
  milliseconds timeout_;
  const std::shared_ptr<GroupProgress> progress_;  // null: not counted
  const std::shared_ptr<FailureReporter> failures_;
  std::atomic<uint64_t> called_ = 0;
  // What a call gives is there when all its steps have ended: none that reads or writes it may begin before.
  const std::shared_ptr<MemoryInUse> in_use_ = std::make_shared<MemoryInUse>();
  const std::shared_ptr<Relay> relay_;
};

}  // namespace

ConnectedBackend connect_hierarchical(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
                                      collective::RanksByNode found) {
  const auto prefixed = [&](const char* name) { return c10::make_intrusive<c10d::PrefixStore>(name, store); };
  collective::RanksByNode again = meet_ranks(store, "shared_memory_down", settings);
  if (again.nodes != found.nodes) {
    throw CollectiveError("the ranks that share memory were others a moment ago", CollectiveCause::other_rank);
  }
  Nodes nodes(std::move(found.nodes), static_cast<int>(settings.world_size));
  BackendSettings inside = settings;
  inside.life = nullptr;
  inside.progress = nullptr;
  std::optional<LeadersWay> between;
  const auto own_node = static_cast<size_t>(nodes.node_of[static_cast<size_t>(settings.rank)]);
  if (nodes.place_of[static_cast<size_t>(settings.rank)] == 0) {
    BackendSettings of_leaders = inside;
    of_leaders.rank = static_cast<int64_t>(own_node);
    of_leaders.world_size = std::ssize(nodes.ranks);
    of_leaders.thrown_as = ThrownAs::collective_error;
    std::vector<int64_t> ranks;
    for (const std::vector<int>& node : nodes.ranks) ranks.push_back(node.front());
    between = LeadersWay{
        .backend = gloo_backend().connect(prefixed("leaders"), of_leaders),
        .leaders = Leaders::connect(bulletin_in(prefixed("leaders_words")), own_node, std::move(ranks),
                                    listening_address(settings), Leaders::Deadline::clock::now() + settings.timeout)};
  }
  ConnectedBackend flat = gloo_backend().connect(prefixed("flat"), inside);
  auto relay = make_shared_at_home<Relay>(settings.rank, settings.world_size, std::move(found.node),
                                          std::move(again.node), std::move(between), std::move(flat));
  auto backend = c10::make_intrusive<HierarchicalBackend>(settings, std::move(nodes), std::move(relay));
  return {backend, [backend] { backend->abort(); }};
}

}  // namespace paceline::comm
