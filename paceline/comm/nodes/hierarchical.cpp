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
#include "paceline/comm/nodes/hierarchical_internal.h"
#include "paceline/comm/nodes/message_work_internal.h"
#include "paceline/comm/nodes/relay_steps_internal.h"
#include "paceline/comm/own_backend_internal.h"
#include "paceline/comm/shared_call_internal.h"
#include "paceline/comm/shared_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using collective::Kind;
using std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

class HierarchicalBackend final : public OwnBackend {
 public:
  HierarchicalBackend(const BackendSettings& settings, Nodes nodes, std::shared_ptr<Relay> relay)
      : OwnBackend(settings, relay->node().arena()), nodes_(std::move(nodes)), relay_(std::move(relay)) {}
  ~HierarchicalBackend() override {
    if (settings_.life) settings_.life->end();
  }

  void setTimeout(milliseconds timeout) override {
    OwnBackend::setTimeout(timeout);
    relay_->set_timeout(timeout);
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK_VALUE(tensors.size() == 1, "all_reduce: wanted one tensor, got ", tensors.size());
    if (tensors.front().is_sparse()) {
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
    SharedCall call = is_root ? claim({}, {tensor}) : claim({tensor}, {});
    if (!is_root) tensor = tensor.detach().clone();
    RelaySteps steps = no_steps();
    steps.all_reduce(reducing_of("reduce", tensor, options.reduceOp, call));
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
    SharedCall call = getRank() == root ? claim({tensor}, {}) : claim({}, {tensor});
    RelaySteps steps = no_steps();
    steps.broadcast(getRank() == root ? call.given(tensor) : call.filled(tensor), root);
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
    RelaySteps steps = no_steps();
    steps.barrier();
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
    check_gathered(outputs, inputs, getSize());
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
    SharedCall call = claim(all_of(inputs), outputs);
    Tensors filled{byte_view(call.filled(outputs.front()))};
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
    SharedCall call;
    Tensors given{call.given(only("send", tensors))};
    return message(c10d::OpType::SEND, "send", to, tensors, std::move(call),
                   [&] { return relay_->flat()->send(given, to, tag); });
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    SharedCall call;
    Tensors filled{call.filled(only("recv", tensors))};
    return message(c10d::OpType::RECV, "recv", from, tensors, std::move(call),
                   [&] { return relay_->flat()->recv(filled, from, tag); });
  }
  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    SharedCall call;
    Tensors filled{call.filled(only("recv", tensors))};
    return message(c10d::OpType::RECVANYSOURCE, "recv", -1, tensors, std::move(call),
                   [&] { return relay_->flat()->recvAnysource(filled, tag); });
  }

  // What was called comes to its end first, as with Gloo: others may wait for it.
  void shutdown() override {
    if (relay_->is_at_home()) relay_->leave();
  }
  void abort() override {
    if (!relay_->is_at_home() || !failures_->stop()) return;
    relay_->abort();
    split_groups_.abort();
  }

 private:
  RelaySteps no_steps() const { return {nodes_, getRank()}; }

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
    return {
        .work = told.work,
        .number = number,
        .name = operation + " number " + std::to_string(number),
        .end = [kept, told, progress = progress_, handle, failures = failures_, operation](std::exception_ptr failure) {
          if (!failure) failure = failures->failure_of([&] { kept->copy_back(); }, operation);
          kept->release();
          if (progress != nullptr) progress->end_collective(handle, failure != nullptr);
          told.end(failure, -1);
        }};
  }

  WorkPointer by_nodes(c10d::OpType type, const CollectiveCall& counted, const collective::Fingerprint& fingerprint,
                       SharedCall call, RelaySteps steps, Tensors results, milliseconds timeout) {
    Begun begun = begin(type, counted, std::move(call), std::move(results));
    relay_->start({.fingerprint = fingerprint,
                   .name = std::move(begun.name),
                   .number = begun.number,
                   .steps = steps.take(),
                   .timeout = patience(timeout),
                   .on_end = std::move(begun.end)});
    return begun.work;
  }

  // `start`: what each rank does for itself once all have called it. It does not wait.
  WorkPointer among_all(c10d::OpType type, const CollectiveCall& counted, const collective::Fingerprint& fingerprint,
                        SharedCall call, Tensors results, milliseconds timeout, std::function<WorkPointer()> start) {
    RelaySteps steps = no_steps();
    steps.alone([start = std::move(start)](const RelayStep::Done& done) { tell_when_over(start(), done); });
    return by_nodes(type, counted, fingerprint, std::move(call), std::move(steps), std::move(results), timeout);
  }

  template <class Start>
  WorkPointer message(c10d::OpType type, const char* operation, int peer, const Tensors& results, SharedCall call,
                      const Start& start) {
    failures_->throw_if_stopped(operation);
    relay_->refuse_forks();
    WorkPointer work;
    try {
      work = start();
    } catch (const std::exception& failure) {
      std::rethrow_exception(failures_->as_thrown(operation, relay_->fail(failure, operation)));
    }
    return make_message_work({.rank = getRank(),
                              .type = type,
                              .operation = operation,
                              .peer = peer,
                              .timeout = timeout_,
                              .results = results,
                              .relay = relay_,
                              .failures = failures_},
                             std::move(work), std::move(call));
  }

  // A call whose results are `written`.
  SharedCall claim(const Tensors& read, const Tensors& written) const {
    relay_->refuse_forks();  // where nobody lets go of what it waits for
    return SharedCall(in_use_->take(read, written));
  }

  // Their bytes: what ranks only send each other Gloo need not know, and it lacks some types.
  static Tensors given_by(SharedCall& call, const Tensors& tensors) {
    Tensors given;
    for (const at::Tensor& tensor : tensors) given.push_back(byte_view(call.given(tensor)));
    return given;
  }

  static TensorLists filled_by(SharedCall& call, TensorLists& lists) {
    TensorLists filled;
    for (Tensors& list : lists) {
      filled.emplace_back();
      for (at::Tensor& tensor : list) filled.back().push_back(byte_view(call.filled(tensor)));
    }
    return filled;
  }

  static Tensors all_of(const TensorLists& lists) {
    Tensors all;
    for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  }

  // Gloo ends the process of a rank to which more comes than it wants, and says nothing where less comes: ranks tell
  // each other before what they send.
  WorkPointer all_to_all(c10d::OpType type, SharedCall call, Tensors results, const at::Tensor& output,
                         const at::Tensor& input, const std::vector<int64_t>& receives,
                         const std::vector<int64_t>& sends, const c10d::AllToAllOptions& options) {
    collective::Fingerprint fingerprint = fingerprint_of(Kind::all_to_all, {input});
    fingerprint.elements = 0;  // ranks may send as many as they like
    const CollectiveCall counted = call_of(Collective::all_to_all, {input});
    const int64_t ranks = getSize();
    const at::Tensor own = at::empty({ranks}, at::kLong), all = at::empty({ranks, ranks}, at::kLong);
    const std::vector<uint64_t> sent = bytes_of_rows(input, sends, getSize());
    const std::vector<uint64_t> wanted = bytes_of_rows(output, receives, getSize());
    std::ranges::copy(sent, own.mutable_data_ptr<int64_t>());
    RelaySteps steps = no_steps();
    steps.tell_all(own, all);
    steps.alone([flat = relay_->flat(), to = byte_view(output), from = byte_view(input),
                 receives = std::vector<int64_t>(wanted.begin(), wanted.end()),
                 sends = std::vector<int64_t>(sent.begin(), sent.end()), options, own, all, rank = getRank(),
                 wanted](const RelayStep::Done& done) mutable {
      check_sent(all, wanted, rank);
      tell_when_over(flat->alltoall_base(to, from, receives, sends, options), done);
    });
    return by_nodes(type, counted, fingerprint, std::move(call), std::move(steps), std::move(results), options.timeout);
  }

  // `sent`: bytes, by who sends and to whom. CollectiveError where it is not what `rank` wants of each.
  static void check_sent(const at::Tensor& sent, const std::vector<uint64_t>& wanted, int rank) {
    for (size_t from = 0; from < wanted.size(); ++from) {
      const auto comes = sent.const_data_ptr<int64_t>()[from * wanted.size() + static_cast<size_t>(rank)];
      if (static_cast<uint64_t>(comes) == wanted[from]) continue;
      throw CollectiveError("rank " + std::to_string(from) + " sends " + std::to_string(comes) + " bytes to rank " +
                                std::to_string(rank) + ", which wants " + std::to_string(wanted[from]),
                            CollectiveCause::this_rank);
    }
  }

  static void tell_when_over(const WorkPointer& work, const RelayStep::Done& done) {
    work->getFuture()->addCallback(
        [done, work](c10::ivalue::Future& future) { done(future.hasError() ? future.exception_ptr() : nullptr); });
  }

  WorkPointer reduce_all(c10d::OpType type, Tensors& tensors, const c10d::AllreduceOptions& options) {
    for (const at::Tensor& tensor : tensors) check_tensor("all_reduce", tensor);
    SharedCall call = claim({}, tensors);
    RelaySteps steps = no_steps();
    for (const at::Tensor& tensor : without_repeats(tensors)) {
      steps.all_reduce(reducing_of("all_reduce", tensor, options.reduceOp, call));
    }
    return by_nodes(type, call_of(Collective::all_reduce, tensors),
                    fingerprint_of(Kind::all_reduce, tensors, &options.reduceOp), std::move(call), std::move(steps),
                    tensors, options.timeout);
  }

  // All is reduced for all, and each takes its part: between nodes everything goes everywhere anyhow.
  WorkPointer reduce_scatter_tensors(c10d::OpType type, SharedCall call, Tensors& outputs, Tensors& inputs,
                                     const c10d::ReduceScatterOptions& options) {
    check_scattered(outputs, inputs, getSize());
    RelaySteps steps = no_steps();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor whole = inputs[i].detach().clone(at::MemoryFormat::Contiguous).view({-1});
      steps.all_reduce(reducing_of("reduce_scatter", whole, options.reduceOp, call));
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
    RelaySteps steps = no_steps();
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor part = parts[static_cast<size_t>(rank)].detach().clone(at::MemoryFormat::Contiguous).view({-1});
      steps.all_reduce(reducing_of("reduce_scatter", part, options.reduceOp, call));
      if (rank == getRank()) call.results(output.detach(), part.view(output.sizes()));
    }
    return by_nodes(c10d::OpType::REDUCE_SCATTER, call_of(Collective::reduce_scatter, parts),
                    fingerprint_of(Kind::reduce_scatter, parts, &options.reduceOp), std::move(call), std::move(steps),
                    outputs, options.timeout);
  }

  // A broadcast by each rank.
  WorkPointer gather_parts(const Tensors& parts, const at::Tensor& input, const c10d::AllgatherOptions& options) {
    check_parts_of_ranks("all_gather", parts, input, getRank(), getSize());
    SharedCall call = claim({input}, parts);
    RelaySteps steps = no_steps();
    for (int rank = 0; rank < getSize(); ++rank) {
      at::Tensor part = parts[static_cast<size_t>(rank)];
      if (rank == getRank()) {
        const at::Tensor values = call.given(input);
        call.results(part.detach(), values.view(part.sizes()));
        steps.broadcast(values, rank);
      } else {
        steps.broadcast(call.filled(part), rank);
      }
    }
    return by_nodes(c10d::OpType::ALLGATHER, call_of(Collective::all_gather, parts),
                    fingerprint_of(Kind::all_gather, parts), std::move(call), std::move(steps), parts, options.timeout);
  }

  // `wholes`: where the parts go; `results`: what the user gets.
  WorkPointer gather_into(c10d::OpType type, SharedCall call, Tensors wholes, Tensors& inputs, const Tensors& results,
                          const c10d::AllgatherOptions& options) {
    RelaySteps steps = no_steps();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor given = call.given(inputs[i]);
      steps.all_gather(given, call.filled(wholes[i]));
    }
    return by_nodes(type, call_of(Collective::all_gather, wholes), fingerprint_of(Kind::all_gather, inputs),
                    std::move(call), std::move(steps), results, options.timeout);
  }

  const Nodes nodes_;
  // What a call gives is there when all its steps have ended: none that reads or writes it may begin before.
  const std::shared_ptr<MemoryInUse> in_use_ = std::make_shared<MemoryInUse>();
  const std::shared_ptr<Relay> relay_;
};

}  // namespace

ConnectedBackend connect_hierarchical(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
                                      collective::RanksByNode found) {
  const auto prefixed = [&](const char* name) { return c10::make_intrusive<c10d::PrefixStore>(name, store); };
  Relay::Ways ways{.up = std::move(found.node), .down = nullptr, .ends = nullptr};
  for (const auto& [name, way] : {std::pair{"shared_memory_down", &ways.down}, {"shared_memory_ends", &ways.ends}}) {
    collective::RanksByNode again = meet_ranks(store, name, settings);
    if (again.nodes != found.nodes) {
      throw CollectiveError("the ranks that share memory were others a moment ago", CollectiveCause::other_rank);
    }
    *way = std::move(again.node);
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
  auto relay = make_shared_at_home<Relay>(settings.rank, settings.world_size, std::move(ways), std::move(between),
                                          std::move(flat));
  relay->listen_to_node();
  auto backend = c10::make_intrusive<HierarchicalBackend>(settings, std::move(nodes), std::move(relay));
  return {backend, [backend] { backend->abort(); }};
}

}  // namespace paceline::comm
