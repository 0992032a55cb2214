#include "paceline/comm/nodes/relay_steps_internal.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/shared_call_internal.h"

namespace paceline::comm {

using collective::Kind;
using collective::Request;
using std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;

namespace {

// What goes between the leaders at a time: so much that its latency does not count.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

Tensors pieces_of(const at::Tensor& flat) {
  return flat.split(std::max<int64_t>(1, kPieceBytes / static_cast<int64_t>(flat.element_size())));
}

void divide(const at::Tensor& numbers, int64_t ranks) {
  if (numbers.is_floating_point()) {
    numbers.div_(ranks);
  } else {
    numbers.div_(ranks, "trunc");
  }
}

}  // namespace

Nodes::Nodes(std::vector<std::vector<int>> ranks_by_node, int world_size)
    : ranks(std::move(ranks_by_node)), node_of(static_cast<size_t>(world_size)), place_of(node_of) {
  for (size_t node = 0; node < ranks.size(); ++node) {
    for (size_t place = 0; place < ranks[node].size(); ++place) {
      node_of[static_cast<size_t>(ranks[node][place])] = static_cast<int>(node);
      place_of[static_cast<size_t>(ranks[node][place])] = static_cast<int>(place);
    }
  }
}

at::Tensor byte_view(const at::Tensor& contiguous) {
  return contiguous.as_strided({contiguous.numel()}, {1}).view(at::kByte);
}

void RelaySteps::barrier() {
  meet();
  steps_.back().between = [](c10d::Backend& leaders, milliseconds left) {
    c10d::BarrierOptions options;
    options.timeout = left;
    return leaders.barrier(options);
  };
}

void RelaySteps::alone(std::function<void(RelayStep::Done)> begin) {
  meet();
  steps_.back().alone = std::move(begin);
}

// Of the ranks of each node.
void RelaySteps::meet() {
  RelayStep& step = steps_.emplace_back();
  step.up = Request{.kind = Kind::barrier};
  step.down = Request{.kind = Kind::barrier};
}

// From the rank at `place` of this node to the others of it.
Request RelaySteps::broadcast_request(const at::Tensor& bytes, int place) const {
  Request request = request_of(Kind::broadcast, bytes, {});
  request.root = place;
  if (place == nodes_.place_of[static_cast<size_t>(rank_)]) {
    request.input = bytes.const_data_ptr();
  } else {
    request.outputs = {bytes.mutable_data_ptr()};
  }
  return request;
}

// From the leader of a node to the ranks of all others.
RelayStep RelaySteps::from_node(const at::Tensor& bytes, int from) const {
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

void RelaySteps::broadcast(const at::Tensor& values, int root) {
  const int from = nodes_.node_of[static_cast<size_t>(root)];
  for (const at::Tensor& piece : pieces_of(byte_view(values))) {
    if (piece.numel() == 0) continue;
    RelayStep& step = steps_.emplace_back(from_node(piece, from));
    if (from == node()) step.up = broadcast_request(piece, nodes_.place_of[static_cast<size_t>(root)]);
  }
}

void RelaySteps::all_reduce(const Reducing& how) {
  for (const at::Tensor& piece : pieces_of(how.numbers)) {
    if (piece.numel() == 0) continue;
    RelayStep& step = steps_.emplace_back();
    step.up = reducing_request_of("all_reduce", Kind::reduce, piece, *how.within, {});
    step.up->root = 0;
    step.up->input = piece.const_data_ptr();
    if (is_leader()) step.up->outputs = {piece.mutable_data_ptr()};
    const bool is_least = *how.between == c10d::ReduceOp::MIN, is_most = *how.between == c10d::ReduceOp::MAX;
    if (piece.is_floating_point() && (is_least || is_most)) {
      if (is_leader()) find_extreme_between(step, piece, is_most);
    } else {
      step.between = [piece, op = how.between](c10d::Backend& leaders, milliseconds left) {
        c10d::AllreduceOptions options;
        options.reduceOp = *op;
        options.timeout = left;
        Tensors tensors{piece};
        return leaders.allreduce(tensors, options);
      };
    }
    if (how.is_mean) step.then = [piece, ranks = std::ssize(nodes_.node_of)] { divide(piece, ranks); };
    if (has_others()) step.down = broadcast_request(byte_view(piece), 0);
  }
}

// Gloo's least and largest numbers may be some where one is none.
void RelaySteps::find_extreme_between(RelayStep& step, const at::Tensor& piece, bool is_most) const {
  const int64_t nodes = std::ssize(nodes_.ranks);
  const at::Tensor all = at::empty({nodes * piece.numel()}, piece.options());
  step.between = [piece, all](c10d::Backend& leaders, milliseconds left) {
    c10d::AllgatherOptions options;
    options.timeout = left;
    at::Tensor to = all, from = piece;
    return leaders._allgather_base(to, from, options);
  };
  step.then = [piece, rows = all.view({nodes, -1}), is_most] { piece.copy_(is_most ? rows.amax(0) : rows.amin(0)); };
}

// Of each node, the parts of its ranks, neighbours together.
std::vector<Tensors> RelaySteps::pieces_by_node(const at::Tensor& whole, int64_t part) const {
  std::vector<Tensors> pieces;
  for (const std::vector<int>& ranks : nodes_.ranks) {
    Tensors& all = pieces.emplace_back();
    for (size_t begin = 0; begin < ranks.size();) {
      size_t end = begin + 1;
      while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
      std::ranges::copy(pieces_of(whole.narrow(0, ranks[begin] * part, static_cast<int64_t>(end - begin) * part)),
                        std::back_inserter(all));
      begin = end;
    }
  }
  return pieces;
}

void RelaySteps::all_gather(const at::Tensor& input, const at::Tensor& whole) {
  const at::Tensor given = byte_view(input), all = byte_view(whole);
  if (given.numel() == 0) return;
  const size_t first = steps_.size();
  exchange(all, given.numel());
  steps_[first].up = gather_request(Kind::all_gather, given, all);
}

void RelaySteps::tell_all(const at::Tensor& input, const at::Tensor& whole) {
  const at::Tensor given = byte_view(input), all = byte_view(whole);
  const size_t first = steps_.size();
  exchange(all, given.numel());
  for (RelayStep& step : std::span(steps_).subspan(first)) step.down.reset();
  steps_[first].up = gather_request(Kind::gather, given, all);
  if (has_others()) steps_.back().down = broadcast_request(all, 0);
}

// Of the ranks of this node, at their places in the whole.
Request RelaySteps::gather_request(Kind kind, const at::Tensor& given, const at::Tensor& all) const {
  Request request = request_of(kind, given, {});
  request.input = given.const_data_ptr();
  if (kind == Kind::gather) request.root = 0;
  if (kind == Kind::gather && !is_leader()) return request;
  for (const int rank : nodes_.ranks[static_cast<size_t>(node())]) {
    request.outputs.push_back(all.narrow(0, rank * given.numel(), given.numel()).mutable_data_ptr());
  }
  return request;
}

// Between the leaders, the parts of their ranks.
void RelaySteps::exchange(const at::Tensor& all, int64_t part) {
  const std::vector<Tensors> pieces = pieces_by_node(all, part);
  size_t rounds = 0;
  for (const Tensors& of_node : pieces) rounds = std::max(rounds, of_node.size());
  // In turns, so that all nodes send at a time.
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t node = 0; node < pieces.size(); ++node) {
      if (round < pieces[node].size()) steps_.push_back(from_node(pieces[node][round], static_cast<int>(node)));
    }
  }
}

}  // namespace paceline::comm
