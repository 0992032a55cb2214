// What a rank of a group of several nodes does for each kind of call, as steps of the relay: up to the leader of its
// node, between the leaders, and down. What is large comes in pieces, each of which is a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "paceline/comm/nodes/reducing_internal.h"
#include "paceline/comm/nodes/relay_internal.h"

namespace paceline::comm {

/// Who is where.
struct Nodes {
  std::vector<std::vector<int>> ranks;  ///< by node; the first of each is its leader
  std::vector<int> node_of;             ///< by rank
  std::vector<int> place_of;            ///< by rank, in its node

  Nodes(std::vector<std::vector<int>> ranks_by_node, int world_size);
};

/// The values of a contiguous tensor as bytes, in one dimension.
at::Tensor byte_view(const at::Tensor& contiguous);

/// The steps of one call, to which each function adds. Tensors are contiguous, and kept by the steps.
class RelaySteps {
 public:
  /// `nodes`: outlives this.
  RelaySteps(const Nodes& nodes, int rank) : nodes_(nodes), rank_(rank) {}

  /// Waits for all.
  void barrier();
  /// What each rank does for itself, once all have come, as the leaders find. The last.
  void alone(std::function<void(RelayStep::Done)> begin);
  void broadcast(const at::Tensor& values, int root);
  /// What is reduced of all ranks, for all.
  void all_reduce(const Reducing& how);
  /// `whole`: for the input of each rank, one behind the other.
  void all_gather(const at::Tensor& input, const at::Tensor& whole);
  /// The same of a few values, which are there when what is done alone begins.
  void tell_all(const at::Tensor& input, const at::Tensor& whole);

  std::vector<RelayStep> take() { return std::move(steps_); }

 private:
  int node() const { return nodes_.node_of[static_cast<size_t>(rank_)]; }
  void meet();
  bool is_leader() const { return nodes_.place_of[static_cast<size_t>(rank_)] == 0; }
  bool has_others() const { return nodes_.ranks[static_cast<size_t>(node())].size() > 1; }
  void exchange(const at::Tensor& all, int64_t part);
  void find_extreme_between(RelayStep& step, const at::Tensor& piece, bool is_most) const;
  collective::Request gather_request(collective::Kind kind, const at::Tensor& given, const at::Tensor& all) const;
  collective::Request broadcast_request(const at::Tensor& bytes, int place) const;
  RelayStep from_node(const at::Tensor& bytes, int from) const;
  std::vector<std::vector<at::Tensor>> pieces_by_node(const at::Tensor& whole, int64_t part) const;

  const Nodes& nodes_;
  const int rank_;
  std::vector<RelayStep> steps_;
};

}  // namespace paceline::comm
