// TrainContext: a worker's place in its run, under Ray Train's method names. A value: it does not change after
// get_context() has returned it.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/storage/location.h"

namespace paceline {

class TrainContext {
 public:
  struct Values {
    int64_t world_rank = 0;
    int64_t world_size = 1;
    int64_t local_rank = 0;
    int64_t local_world_size = 1;
    int64_t node_rank = 0;
    int64_t attempt = 1;
    std::string experiment_name;
    storage::Location storage;
  };

  /// Users get one from get_context().
  explicit TrainContext(Values values) : values_(std::move(values)) {}

  /// Rank in the whole worker group, from 0.
  int64_t get_world_rank() const { return values_.world_rank; }
  /// Number of workers in the group.
  int64_t get_world_size() const { return values_.world_size; }
  /// Rank among the workers of this node, from 0.
  int64_t get_local_rank() const { return values_.local_rank; }
  /// Number of workers on this node.
  int64_t get_local_world_size() const { return values_.local_world_size; }
  /// Rank of this node, from 0.
  int64_t get_node_rank() const { return values_.node_rank; }
  /// Name of the run.
  const std::string& get_experiment_name() const { return values_.experiment_name; }
  /// Which attempt of the run this is, from 1.
  int64_t get_attempt() const { return values_.attempt; }
  /// The run's folder, or its URI without the keys that it was given with; empty if nothing is stored.
  const std::string& get_storage() const { return values_.storage.text(); }

 private:
  Values values_;
};

}  // namespace paceline
